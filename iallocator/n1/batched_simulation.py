"""Batched simulation: many failures simulated at once in arrays, one failure in each row.

The same steps as in `iallocator.n1.simulation`, for instances on one node without tags, where only
memory and disk decide whether a node accepts them.  The amount that an instance adds to a statistic
is linear in its resources, so no formula is evaluated twice.  As soon as all instances left in a
row are equal, each of them takes one slot, whatever is chosen, and the slots are counted.  Only the
nodes that have capacity for an instance are scored; every other node changes only the sums.

A value counts as often as its weight says, so deviations are only added up.  The variance after one
more instance is linear in the old value: a slope and a rest.  Arrays are statistics × rows, or
steps × statistics × rows where every step is known in advance.

Cost: O(f n) per step for *f* failures and *n* nodes, in blocks of `CELLS` elements.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iallocator.model.columns import COLUMNS, DISK, MEMORY
from iallocator.model.node_view import NodeView
from iallocator.model.state import derived
from iallocator.n1 import ANY_NUMBER
from iallocator.scoring.arrays import counted_by, values_of
from iallocator.scoring.metrics import NO_CENTRES, ROUNDING, STATISTICS
from iallocator.scoring.proportional_statistics import SPREADS, SUMMED, joined, merged
from iallocator.tolerances import DECIMALS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from iallocator.aliases import Floats, Indices, Truths
    from iallocator.model.instance import Instance
    from iallocator.model.state import Kept, State
    from iallocator.n1.slots import Leaving, Vector

    Arrivals = tuple[Instance, Sequence[int]]
    """An instance, and the nodes to which equal instances come one after the other."""

__all__ = ["Arrivals", "BatchedSimulation", "SharedBatchCache"]


class VarianceChange(NamedTuple):
    """Represent how the next instance changes variances: statistics × rows × nodes.

    If all nodes are equal, the last dimension is 1.

    Attributes
    ----------
    change:
        The change of the value of the node that receives the instance.
    slope, rest:
        The new variance is the old value times `slope`, plus `rest`.
    """

    change: Floats
    slope: Floats
    rest: Floats

    def of(self, rows: Truths) -> VarianceChange:
        """Return the change of these rows only, for `VarianceSums.add`."""
        return self._replace(change=self.change[:, rows], slope=self.slope[:, rows])


class InitialSums(NamedTuple):
    """The sums of the statistics before the first restart is simulated.

    Attributes
    ----------
    sums, squares:
        Sums of values and of squares.
    taken:
        The amounts that leave the failed node in each step, steps × statistics × kinds.
    there:
        The values of the failed node.
    counts:
        The number of nodes that count for each statistic.
    kinds:
        The kind of each row.
    """

    sums: Floats
    squares: Floats
    taken: Floats
    there: Floats
    counts: Floats
    kinds: Indices


class VarianceSums:
    """The sums of the first rows, which still have an instance to restart.

    Attributes
    ----------
    rounding:
        A variance above this is not a rounding error relative to its mean square.
    """

    def __init__(self, first: InitialSums) -> None:
        share = self._share = (1 / first.counts)[:, None]
        self._squares = first.squares * share  # but for what follows from the kind and the step
        self._mean = first.sums * share
        self._there = first.there
        self._kinds = first.kinds
        self._gone = np.cumsum(first.taken, axis=0)
        self.rounding = np.inf

    def at(self, step: int, rows: int) -> VarianceChange:
        """Return what step number `step` changes in the first `rows`, once the instance left."""
        raise NotImplementedError

    def square(self, step: int, rows: int) -> Floats:
        """Return the mean square before the instance is added to another node."""
        gone = self._gone[step].take(self._kinds[:rows], axis=1)
        found: Floats = gone * (gone + 2 * self._there[:, :rows]) * self._share
        found += self._squares[:, :rows]
        return found

    def add(self, moves: VarianceChange, best: Indices, before: Floats) -> Floats:
        """Add the instances to nodes `best` with values `before`; return the new values."""
        raise NotImplementedError

    def keep(self, rows: Truths) -> None:
        """Continue with these rows only."""
        self._squares = self._squares.compress(rows, axis=1)
        self._mean = self._mean.compress(rows, axis=1)
        self._there = self._there.compress(rows, axis=1)
        self._kinds = self._kinds[rows]


class UniformVarianceSums(VarianceSums):
    """The sums if all nodes are equal: they do not depend on the choices.

    `change`: of each step, for each kind.
    """

    def __init__(self, first: InitialSums, change: Floats) -> None:
        super().__init__(first)
        share, gone, kinds = self._share, self._gone, first.kinds
        square = change * change * share
        self._came = np.cumsum(square, axis=0) - square  # to the mean square, but for choices
        mean = (gone + np.cumsum(change, axis=0) - change) * share
        slope = 2 * share * change
        rest = gone * gone * share + self._came + square * (1 - share) - (mean + slope) * mean
        self._change = change.take(kinds, axis=2)[..., None]
        self._slope = slope.take(kinds, axis=2)[..., None]
        self._rest = rest.take(kinds, axis=2)
        self._rest += (2 * share * gone).take(kinds, axis=2) * first.there
        self._rest -= (2 * mean + slope).take(kinds, axis=2) * self._mean
        self._squares -= self._mean * self._mean
        most = np.abs(first.taken).sum(axis=0).max(axis=1, initial=0)
        most += np.abs(change).sum(axis=0).max(axis=1, initial=0)
        most += np.sqrt(
            first.squares.max(axis=1, initial=0)
        )  # no norm of all values is larger ever
        self.rounding = ROUNDING * float((share[:, 0] * most * most).max(initial=0))

    def at(self, step: int, rows: int) -> VarianceChange:
        rest = self._squares[:, :rows] + self._rest[step, :, :rows]
        change, slope = self._change[step, :, :rows], self._slope[step, :, :rows]
        return VarianceChange(change, slope, rest[..., None])

    def square(self, step: int, rows: int) -> Floats:
        mean = self._mean[:, :rows]
        came = self._came[step].take(self._kinds[:rows], axis=1)
        found: Floats = super().square(step, rows) + mean * mean + came
        return found

    def add(self, moves: VarianceChange, best: Indices, before: Floats) -> Floats:
        self._squares[:, : best.size] += before * moves.slope[:, :, 0]
        return before + moves.change[:, :, 0]

    def keep(self, rows: Truths) -> None:
        super().keep(rows)
        self._change = self._change.compress(rows, axis=2)
        self._slope = self._slope.compress(rows, axis=2)
        self._rest = self._rest.compress(rows, axis=2)


class NodeVarianceSums(VarianceSums):
    """Sums of statistics if their changes depend on the chosen node.

    `amounts`: steps × kinds × columns; `linear`: statistics × columns × nodes, what one more in a
    column adds.
    """

    def __init__(self, first: InitialSums, amounts: Floats, linear: Floats) -> None:
        super().__init__(first)
        self._amounts = amounts
        self._linear = linear

    def at(self, step: int, rows: int) -> VarianceChange:
        share, kinds = self._share, self._kinds[:rows]
        change = np.matmul(self._amounts[step], self._linear).take(kinds, axis=1)
        mean = self._mean[:, :rows] + self._gone[step].take(kinds, axis=1) * share
        slope = change * (2 * share)[..., None]
        rest = change * change * (share - share * share)[..., None]
        rest -= slope * mean[..., None]
        rest += (self.square(step, rows) - mean * mean)[..., None]
        return VarianceChange(change, slope, rest)

    def add(self, moves: VarianceChange, best: Indices, before: Floats) -> Floats:
        change = moves.change[:, np.arange(best.size), best]
        self._squares[:, : best.size] += change * (2 * before + change) * self._share
        self._mean[:, : best.size] += change * self._share
        return before + change


def slots_for(memory: Floats, disk: Floats, need: Floats) -> Floats:
    """Return how many equal instances fit; some memory, and disk if they need any, must remain.

    `need` has memory and disk in its last dimension; the other dimensions are those of `memory`.
    """
    found = _slots(memory, need[..., 0])
    if not need[..., 1].any():
        return found
    return np.minimum(found, np.where(need[..., 1] > 0, _slots(disk, need[..., 1]), ANY_NUMBER))


def _slots(free: Floats, each: Floats) -> Floats:
    """Return how often `each` fits with a rest above 0; any number if `each` is 0."""
    some = np.maximum(np.ceil(free / np.maximum(each, 1.0)) - 1.0, 0.0)
    return np.where(each > 0, some, np.where(free > 0, ANY_NUMBER, 0.0))


class BatchInput(NamedTuple):
    """The values of all nodes before any failure.

    Attributes
    ----------
    columns, values:
        Those of the state; statistics are relative to their means.
    per_amount:
        Columns × statistics × nodes: what one more in a column adds to a statistic.
    counted:
        Statistics × nodes: 1 where a node counts, else 0.
    allowed:
        Whether each node takes over.
    """

    columns: Floats
    values: Floats
    per_amount: Floats
    counted: Floats
    allowed: NDArray[np.bool_]


MOST = 64
"""The number of sets of kinds that are kept."""


class SharedBatchData(NamedTuple):
    """The data that all simulations of some kinds of instances share.

    Attributes
    ----------
    used, kept:
        Positions of the columns and of the statistics that change.
    weights, counts:
        The weights of these statistics, and the number of nodes that count for each.
    everywhere:
        Nodes × columns × statistics: what one more in a column adds to a statistic.
    plain:
        Columns × nodes: what one more adds to the part of the score that is a sum.
    """

    used: list[int]
    kept: list[int]
    weights: Floats
    counts: Floats
    everywhere: Floats
    plain: Floats


class _Kinds:
    """The columns that some kinds of instances use, and what they add to the statistics."""

    __slots__ = ("linear", "used")

    def __init__(self, used: list[int], linear: Floats) -> None:
        self.used = used
        self.linear = linear


class SharedBatchCache:
    """Keeps the shared data of each set of kinds; for the parameters see `BatchInput`."""

    def __init__(self, per_amount: Floats, counted: Floats) -> None:
        self._per_amount = per_amount
        self._counted = counted
        self._known: dict[frozenset[Vector], _Kinds] = {}
        self._shared: Kept[frozenset[Vector], SharedBatchData] = {}

    def of(self, kinds: Iterable[Vector], values: Floats, version: int) -> SharedBatchData:
        """Return the shared data of instances with these vectors; `values` are of `version`."""
        key = frozenset(kinds)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MOST:
                self._known.clear()
                self._shared.clear()
            vectors = np.array(list(key), dtype=np.float64).reshape(-1, len(self._per_amount))
            known = self._known[key] = _Kinds(*joined(vectors, self._per_amount))
        return derived(self._shared, key, version, lambda: self._make(known, values))

    def _make(self, kinds: _Kinds, values: Floats) -> SharedBatchData:
        linear, counted = kinds.linear, self._counted
        changing = [k for k in SPREADS if linear[:, k].any()]
        whole = np.concatenate((values, *linear), axis=1)
        weights = merged(changing, whole, counted)
        kept = list(weights)
        summed = np.array([STATISTICS[k].weight for k in SUMMED])
        return SharedBatchData(
            kinds.used,
            kept,
            np.array([weights[k] for k in kept]),
            np.array([max(float(counted[k].sum()), 1.0) for k in kept]),
            np.ascontiguousarray(linear[:, kept].transpose(2, 0, 1)),
            np.einsum("k,ckn->cn", summed, linear[:, SUMMED]),
        )


class _Batch:
    """One batch: the failures of the nodes at positions `own`, a row for each.

    `shared` is the data shared by all these instances.  Vector ``coming[i]`` is added at each of
    the positions ``at[i]``; see `BatchedSimulation.lost`.  ``heads[i]`` has a row of amounts for
    each instance of ``leaving[i].head``.

    Rows are sorted by the lengths of their queues, the longest first.  So the rows with an instance
    left to restart are always the first ones; the other rows keep their last values.
    """

    def __init__(
        self,
        batch_input: BatchInput,
        shared: SharedBatchData,
        own: Indices,
        leaving: Sequence[Leaving],
        heads: Sequence[Floats],
        coming: Sequence[Vector | None],
        at: Sequence[Sequence[int]],
    ) -> None:
        self._input, self._shared = batch_input, shared
        lengths = np.array([len(head) for head in heads], dtype=np.intp)
        self._rows: Indices = np.argsort(-lengths, kind="stable")
        self._left = lengths[self._rows]
        self._busy = lengths.size  # so many rows, the first ones, have an instance left
        self._own = own[self._rows]
        order = self._rows.tolist()
        tails = [(*leaving[old].need, leaving[old].times) for old in order]
        self._tails = np.array(tails, dtype=np.float64).reshape(-1, 3)
        self._lost = np.zeros(lengths.size, dtype=bool)  # in the order of the arguments
        self._memory = np.repeat(batch_input.columns[None, MEMORY], lengths.size, axis=0)
        self._disk = np.repeat(batch_input.columns[None, DISK], lengths.size, axis=0)
        kinds: dict[tuple[int, int], Floats] = {}  # by their owners, in the order of rows
        keys = [(id(heads[old]), node) for old, node in zip(order, self._own.tolist())]
        kinds.update(zip(keys, (heads[old] for old in order)))
        place = {key: number for number, key in enumerate(kinds)}
        self._kinds: Indices = np.array([place[key] for key in keys], dtype=np.intp)
        moved = np.concatenate([*kinds.values(), np.empty((0, len(COLUMNS)))])
        self._open_positions(moved)
        self._start_values()
        nothing = (0.0,) * len(COLUMNS)
        vectors = np.array([coming[old] or nothing for old in order])
        self._arrive(vectors, [at[old] for old in order])
        # The free memory and disk of the open nodes; the failed node has none
        self._free = np.take(self._memory, self._open, axis=1)
        self._free_disk = np.take(self._disk, self._open, axis=1)
        mine = self._column[self._own]
        self._free[np.flatnonzero(mine >= 0), mine[mine >= 0]] = -np.inf
        self._every: Indices = np.arange(self._rows.size)
        self._first: Indices = self._every * self._open.size  # of each row, among all
        self._start_steps(moved, np.array([node for _, node in kinds], dtype=np.intp))

    def _open_positions(self, vectors: Floats) -> None:
        """Find the nodes that have capacity for any of `vectors` at the beginning."""
        batch_input = self._input
        open_to = batch_input.allowed.copy()
        self._disks = bool(vectors[:, DISK].any())
        if len(vectors):
            open_to &= batch_input.columns[MEMORY] + vectors[:, MEMORY].max() > 0
            least = vectors[:, DISK].max()
            if least < 0:
                open_to &= batch_input.columns[DISK] + least > 0
        self._open: Indices = np.flatnonzero(open_to)
        column = np.full(open_to.size, -1, dtype=np.intp)
        column[self._open] = np.arange(self._open.size)
        self._column = column

    def _start_values(self) -> None:
        """Initialise the statistics that change, less their means and times their weights."""
        shared, rows = self._shared, self._rows.size
        self._everywhere = shared.everywhere * shared.weights  # nodes × columns × statistics
        linear = self._everywhere[self._open].transpose(2, 1, 0)
        self._alike = not self._open.size or not np.ptp(linear, axis=2).any()
        if self._alike:  # one node stands for all
            one = self._open[0] if self._open.size else self._own[0]
            linear = self._everywhere[[one]].transpose(2, 1, 0)
        self._linear = np.ascontiguousarray(linear)
        plain = shared.plain[:, self._open]
        apart = self._open.size > 0 and np.ptp(plain, axis=1).any()
        self._plain = plain if apart else plain[:, :1]
        self._base = self._input.values[shared.kept] * shared.weights[:, None]
        self._x_own = self._base[:, self._own]
        self._sums = np.zeros(self._x_own.shape)
        squares = np.einsum("kn,kn->k", self._base, self._base)
        self._squares = np.repeat(squares[:, None], rows, axis=1)
        self._x = np.repeat(self._base[:, None, self._open], rows, axis=1)

    def _arrive(self, vectors: Floats, at: Sequence[Sequence[int]]) -> None:
        """Add the vector of each row at the nodes in `at`, as often as each occurs."""
        nodes = self._memory.shape[1]
        came = np.fromiter(chain.from_iterable(at), dtype=np.intp)
        if not came.size:
            return
        keys = np.repeat(np.arange(len(at)) * nodes, [len(path) for path in at]) + came
        times = np.bincount(keys)
        keys = np.flatnonzero(times)
        row, node = np.divmod(keys, nodes)
        added = vectors[row] * times[keys, None]
        self._memory[row, node] += added[:, MEMORY]
        self._disk[row, node] += added[:, DISK]
        change = np.einsum("eu,euk->ke", added[:, self._shared.used], self._everywhere[node])
        squares = change * (2 * self._base[:, node] + change)
        first = np.flatnonzero(np.diff(row, prepend=-1))
        self._sums[:, row[first]] += np.add.reduceat(change, first, axis=1)
        self._squares[:, row[first]] += np.add.reduceat(squares, first, axis=1)
        column = self._column[node]
        inside = column >= 0
        self._x[:, row[inside], column[inside]] += change[:, inside]
        mine = self._own[row] == node
        self._x_own[:, row[mine]] += change[:, mine]

    def _start_steps(self, moved: Floats, own: Indices) -> None:
        """Initialise what each step moves: the capacity it needs, its effect on statistics.

        `moved` and `own` are those of each kind of rows, which have the same head.
        """
        kinds = self._kinds
        lengths = np.zeros(own.size, dtype=np.intp)
        lengths[kinds] = self._left
        used = np.arange(lengths.max(initial=0)) < lengths[:, None]
        vectors = np.zeros((*used.shape, len(COLUMNS)))
        vectors[used] = moved
        vectors = vectors.transpose(1, 2, 0)  # steps × columns × kinds
        self._needed = -vectors[:, (MEMORY, DISK)].take(kinds, axis=2)
        amounts = np.ascontiguousarray(vectors[:, self._shared.used])
        self._rest = None
        if self._plain.any():
            self._rest = (amounts.transpose(0, 2, 1) @ self._plain).take(kinds, axis=1)
        taken = np.einsum("sur,ruk->skr", amounts, -self._everywhere[own])
        first = InitialSums(
            self._sums, self._squares, taken, self._x_own, self._shared.counts, kinds
        )
        self._variances: VarianceSums
        if self._alike:
            self._variances = UniformVarianceSums(first, np.matmul(self._linear[:, :, 0], amounts))
        else:
            self._variances = NodeVarianceSums(first, amounts.transpose(0, 2, 1), self._linear)

    def run(self) -> Truths:
        """Restart all instances; return per row whether one is left over."""
        for step in range(len(self._needed)):
            while self._busy and self._left[self._busy - 1] <= step:
                self._busy -= 1
            if self._busy and self._open.size:
                self._move(step, self._busy)
            elif self._busy:
                self._strand(np.arange(self._rows.size) < self._busy)
        if self._rows.size:  # all instances that are left in a row are equal
            memory, disk = self._memory, self._disk
            memory[:, self._open], disk[:, self._open] = self._free, self._free_disk
            slots = slots_for(memory, disk, self._tails[:, None, :2]) * self._input.allowed
            slots[self._every[: self._rows.size], self._own] = 0
            self._lost[self._rows] = slots.sum(axis=1) < self._tails[:, 2]
        return self._lost

    def _strand(self, stuck: Truths) -> None:
        """Drop the rows in which an instance cannot be restarted."""
        self._lost[self._rows[stuck]] = True
        self._busy -= int(np.count_nonzero(stuck))
        rows = ~stuck
        self._rows, self._left, self._own = self._rows[rows], self._left[rows], self._own[rows]
        self._tails = self._tails[rows]
        self._memory, self._disk = self._memory[rows], self._disk[rows]
        self._free, self._free_disk = self._free[rows], self._free_disk[rows]
        self._needed = self._needed.compress(rows, axis=2)
        self._rest = None if self._rest is None else self._rest.compress(rows, axis=1)
        self._x = self._x.compress(rows, axis=1)
        self._variances.keep(rows)

    def _move(self, step: int, active: int) -> None:
        """Move instance number `step` of each of the `active` rows to the best node."""
        needed = self._needed[step, :, :active, None]
        closed = self._free[:active] <= needed[0]
        if self._disks:
            closed |= (needed[1] != 0) & (self._free_disk[:active] <= needed[1])
        moves = self._variances.at(step, active)
        spread = self._x[:, :active] * moves.slope
        spread += moves.rest
        if not np.minimum.reduce(spread, axis=None) > self._variances.rounding:
            square = self._variances.square(step, active)
            spread *= spread > (ROUNDING * square)[:, :, None]
        scores = np.add.reduce(np.sqrt(spread, out=spread), axis=0)
        if self._rest is not None:
            scores += self._rest[step, :active]
        scores *= 10.0**DECIMALS
        np.putmask(np.rint(scores, out=scores), closed, np.inf)
        best = scores.argmin(axis=1)
        stuck = closed.take(self._first[:active] + best)
        if np.logical_or.reduce(stuck):
            self._strand(np.concatenate((stuck, np.zeros(self._rows.size - active, dtype=bool))))
            best, moves = best[~stuck], moves.of(~stuck)
        if best.size:
            rows = best.size
            places = self._first[:rows] + best
            self._free.reshape(-1)[places] -= self._needed[step, 0, :rows]
            if self._disks:
                self._free_disk.reshape(-1)[places] -= self._needed[step, 1, :rows]
            x = self._x.reshape(len(self._x), -1)
            x[:, places] = self._variances.add(moves, best, x.take(places, axis=1))


CELLS = 60_000
"""Failures × nodes that are worked on at a time: all their statistics should stay near the
processor."""


class _Head(NamedTuple):
    """The instances of a node before the last run: in order, as an array, and their kinds."""

    vectors: list[Vector]
    amounts: Floats
    kinds: frozenset[Vector]


class BatchedSimulation:
    """Simulates failures over the nodes in `scope`; `targets` of one group take over.

    `matrix`: the capacities of all nodes, see `iallocator.scoring.arrays`.
    """

    def __init__(
        self, state: State, matrix: Floats, scope: Sequence[int], targets: Sequence[int]
    ) -> None:
        self._state = state
        self._scope = np.array(scope, dtype=np.intp)
        self._position = {index: k for k, index in enumerate(scope)}
        self._every = all(index == k for index, k in self._position.items())
        self._allowed = np.zeros(len(scope), dtype=bool)
        self._allowed[[self._position[index] for index in targets]] = True
        self._fixed = list(matrix[:, self._scope])
        # Compute from zero and one what one more in a column adds, so that the values are exact
        nothing, one = np.zeros(self._scope.size), np.ones(self._scope.size)
        found = np.empty((len(COLUMNS), len(STATISTICS), self._scope.size))
        none = [nothing] * len(COLUMNS)
        start = values_of(self._view(none), NO_CENTRES, nothing.shape)
        for column in range(len(COLUMNS)):
            after = self._view([*none[:column], one, *none[column + 1 :]])
            found[column] = values_of(after, NO_CENTRES, nothing.shape) - start
        self._per_amount = found
        view = self._view([np.zeros(len(scope))] * len(COLUMNS))
        self._counted = counted_by(view, len(scope))
        self._read: Kept[None, tuple[Floats, Floats]] = {}
        self._heads: dict[int, _Head] = {}
        self._shared_cache = SharedBatchCache(self._per_amount, self._counted)
        self._columns: Floats = np.empty(0)
        self._values: Floats = np.empty(0)

    def lost(
        self,
        failing: Sequence[int],
        leaving: Sequence[Leaving],
        coming: Sequence[Arrivals | None],
    ) -> list[bool]:
        """Return for each failure whether it loses an instance.

        Number i is the failure of node ``failing[i]``, which ``leaving[i]`` leave.  The instances
        ``coming[i]`` are on their nodes in addition to the state; those on the failed node are part
        of ``leaving[i]``.
        """
        if not failing:  # there may be no node at all that could
            return []
        version = self._state.version
        self._columns, self._values = derived(self._read, None, version, self._read_state)
        size = max(1, CELLS // len(self._scope))
        found: list[bool] = []
        for start in range(0, len(failing), size):
            part = slice(start, start + size)
            found += self._batch(failing[part], leaving[part], coming[part]).run().tolist()
        return found

    @property
    def _input(self) -> BatchInput:
        return BatchInput(
            self._columns, self._values, self._per_amount, self._counted, self._allowed
        )

    def _batch(
        self,
        failing: Sequence[int],
        leaving: Sequence[Leaving],
        coming: Sequence[Arrivals | None],
    ) -> _Batch:
        heads = [self._head_of(node, one) for node, one in zip(failing, leaving)]
        vectors = [None if one is None else one[0].as_primary for one in coming]
        different = {id(head): head.kinds for head in heads}.values()
        kinds = {one for one in vectors if one is not None}.union(*different)
        return _Batch(
            self._input,
            self._shared_cache.of(kinds, self._values, self._state.version),
            np.array(self._positions(failing), dtype=np.intp),
            leaving,
            [head.amounts for head in heads],
            vectors,
            [() if one is None else self._positions(one[1]) for one in coming],
        )

    def _positions(self, nodes: Sequence[int]) -> Sequence[int]:
        """Return the positions of `nodes` in the scope."""
        return nodes if self._every else [self._position[node] for node in nodes]

    def _head_of(self, node: int, leaving: Leaving) -> _Head:
        """Return the head of the instances that leave `node`, kept while it is unchanged."""
        known = self._heads.get(node)
        if known is None or known.vectors is not leaving.head:
            amounts = np.array(leaving.head, dtype=np.float64).reshape(-1, len(COLUMNS))
            known = self._heads[node] = _Head(leaving.head, amounts, frozenset(leaving.head))
        return known

    def _read_state(self) -> tuple[Floats, Floats]:
        """Return the columns of the nodes, and their values of each statistic less the mean."""
        whole = np.array(self._state.columns, dtype=np.float64)
        columns = whole[:, self._scope]
        plain = values_of(self._view(list(columns)), NO_CENTRES, self._scope.shape)
        count = np.maximum(self._counted.sum(axis=1, keepdims=True), 1.0)
        return columns, plain - self._counted * (plain.sum(axis=1, keepdims=True) / count)

    def _view(self, columns: Sequence[Floats]) -> NodeView:
        return NodeView(columns, self._fixed, np.zeros(self._scope.size))
