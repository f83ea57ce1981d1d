"""Incremental scores of many states at once: one row for each state, which changes step by step.

In each step, an instance of every row moves from one node to another node. The amount that an
instance adds to a statistic is linear in its resources, so no formula is evaluated twice.  Only the
nodes that may receive an instance are scored; every other node changes only the sums.

Values are multiplied by the weight of their statistic at the beginning, so that deviations are only
added. The variance after one more instance is linear in the old value of its node: a slope and a
rest. Arrays are statistics × rows, or steps × statistics × rows where every step is known in
advance.

`iallocator.n1.batched_simulation` simulates failures by these scores.  Cost: O(f n) per step for
*f* rows and *n* nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iallocator.model.columns import COLUMNS, DISK
from iallocator.model.node_view import NodeView
from iallocator.model.state import derived
from iallocator.scoring.arrays import counted_by, values_of
from iallocator.scoring.metrics import NO_CENTRES, STATISTICS, VARIANCE_ROUNDING
from iallocator.scoring.proportional_statistics import SPREADS, SUMMED, joined, merged
from iallocator.tolerances import SCORE_DECIMALS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iallocator.aliases import Floats, Indices, Truths
    from iallocator.model.state import Kept, State

    Vector = Sequence[float]
    """The amount that an instance adds to each of `COLUMNS`."""

__all__ = ["BatchBasis", "BatchScores", "SharedBatchCache", "SharedBatchData"]


class VarianceChange(NamedTuple):
    """How the next instance changes variances, in arrays of statistics × rows × nodes.

    If all nodes are equal, the last dimension is 1.

    Attributes
    ----------
    change:
        The change of the value of the node that receives the instance.
    slope, rest:
        The new variance is the old value of the node times `slope`, plus `rest`.
    """

    change: Floats
    slope: Floats
    rest: Floats

    def of(self, rows: Truths) -> VarianceChange:
        """Return the changes of those rows for which `rows` has True."""
        return self._replace(change=self.change[:, rows], slope=self.slope[:, rows])


class InitialSums(NamedTuple):
    """The sums of the statistics before the first restart is simulated.

    Attributes
    ----------
    sums, squares:
        Sums of values and of squares.
    taken:
        The amounts that leave the failed node in each step: steps × statistics × kinds of rows.
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
    """The sums of the statistics in each simulated failure, which is a row of the arrays.

    The rows with most steps come first. The methods of a step use only the first rows, in which an
    instance is left to restart.

    Attributes
    ----------
    rounding:
        The share of the mean square up to which a variance is a rounding error.
    """

    def __init__(self, first: InitialSums) -> None:
        share = self._share = (1 / first.counts)[:, None]
        self._squares = first.squares * share  # without changes by steps
        self._mean = first.sums * share
        self._there = first.there
        self._kinds = first.kinds
        self._gone = np.cumsum(first.taken, axis=0)
        self.rounding = np.inf

    def at(self, step: int, rows: int) -> VarianceChange:
        """Return the changes by step number `step` in the first `rows`, after the instance left its
        node.
        """
        raise NotImplementedError

    def square(self, step: int, rows: int) -> Floats:
        """Return the mean square before the instance is added to another node."""
        leaving = self._gone[step].take(self._kinds[:rows], axis=1)
        squares: Floats = leaving * (leaving + 2 * self._there[:, :rows]) * self._share
        squares += self._squares[:, :rows]
        return squares

    def add(self, moves: VarianceChange, best: Indices, before: Floats) -> Floats:
        """Add the instances to the nodes `best`, which have the values `before`; return the new
        values.
        """
        raise NotImplementedError

    def keep(self, rows: Truths) -> None:
        """Keep only the rows for which `rows` has True."""
        self._squares = self._squares.compress(rows, axis=1)
        self._mean = self._mean.compress(rows, axis=1)
        self._there = self._there.compress(rows, axis=1)
        self._kinds = self._kinds[rows]


class UniformVarianceSums(VarianceSums):
    """The sums of the statistics if all nodes are equal: the sums do not depend on the chosen
    nodes.

    `change`: the change by each step, for each kind of row.
    """

    def __init__(self, first: InitialSums, change: Floats) -> None:
        super().__init__(first)
        share, gone, kinds = self._share, self._gone, first.kinds
        square = change * change * share
        self._came = np.cumsum(square, axis=0) - square  # part that depends on no chosen node
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
        most += np.sqrt(first.squares.max(axis=1, initial=0))  # the norm of values never exceeds it
        self.rounding = VARIANCE_ROUNDING * float((share[:, 0] * most * most).max(initial=0))

    def at(self, step: int, rows: int) -> VarianceChange:
        rest = self._squares[:, :rows] + self._rest[step, :, :rows]
        change, slope = self._change[step, :, :rows], self._slope[step, :, :rows]
        return VarianceChange(change, slope, rest[..., None])

    def square(self, step: int, rows: int) -> Floats:
        mean = self._mean[:, :rows]
        came = self._came[step].take(self._kinds[:rows], axis=1)
        squares: Floats = super().square(step, rows) + mean * mean + came
        return squares

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

    `amounts`: the amounts of each instance, steps × kinds × columns. `linear`: what one unit of a
    column adds to a statistic, statistics × columns × nodes.
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


MOST_KIND_SETS = 64
"""The most sets of kinds for which shared data are cached."""


class SharedBatchData(NamedTuple):
    """The data that all simulations of some kinds of instances share.

    Attributes
    ----------
    used, kept:
        Positions of the columns, and of the statistics, that change.
    weights, counts:
        The weights of these statistics, and the number of nodes that each includes.
    everywhere:
        Nodes × columns × statistics: what one unit of a column adds to a statistic.
    plain:
        Columns × nodes: what one unit of a column adds to the part of the score that is a sum.
    """

    used: list[int]
    kept: list[int]
    weights: Floats
    counts: Floats
    everywhere: Floats
    plain: Floats


class _Kinds:
    """The columns that some kinds of instances use, and what each adds to the statistics."""

    __slots__ = ("linear", "used")

    def __init__(self, used: list[int], linear: Floats) -> None:
        self.used = used
        self.linear = linear


class SharedBatchCache:
    """A cache of the shared data of each set of kinds of instances.

    `per_amount`: columns × statistics × nodes, what one unit of a column adds to a statistic.
    `counted`: statistics × nodes, 1 where a statistic includes a node, else 0.
    """

    def __init__(self, per_amount: Floats, counted: Floats) -> None:
        self._per_amount = per_amount
        self._counted = counted
        self._known: dict[frozenset[Vector], _Kinds] = {}
        self._shared: Kept[frozenset[Vector], SharedBatchData] = {}

    def of(self, kinds: Iterable[Vector], values: Floats, version: int) -> SharedBatchData:
        """Return the shared data of instances with the vectors `kinds`.

        `values`: the values of the nodes in the state of this `version`.
        """
        key = frozenset(kinds)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MOST_KIND_SETS:
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


class BatchBasis:
    """The state before any step: columns and values of the nodes in `scope`.

    `matrix`: the capacities of all nodes, capacities × nodes.
    """

    def __init__(self, state: State, matrix: Floats, scope: Sequence[int]) -> None:
        self._state = state
        self._scope = np.array(scope, dtype=np.intp)
        self._fixed = list(matrix[:, self._scope])
        # Compute from zero and one what one more in a column adds, so that the values are exact
        size = self._scope.size
        nothing, one = np.zeros(size), np.ones(size)
        coefficients = np.empty((len(COLUMNS), len(STATISTICS), size))
        none = [nothing] * len(COLUMNS)
        start = values_of(self._view(none), NO_CENTRES, nothing.shape)
        for column in range(len(COLUMNS)):
            after = self._view([*none[:column], one, *none[column + 1 :]])
            coefficients[column] = values_of(after, NO_CENTRES, nothing.shape) - start
        self._counted = counted_by(self._view(none), size)
        self._read: Kept[None, tuple[Floats, Floats]] = {}
        self._shared = SharedBatchCache(coefficients, self._counted)

    def present(self) -> tuple[Floats, Floats]:
        """Return the columns of the nodes, and their values of each statistic less the mean."""
        return derived(self._read, None, self._state.version, self._read_state)

    def shared(self, kinds: Iterable[Vector]) -> SharedBatchData:
        """Return the data that all rows with instances of the vectors `kinds` share."""
        return self._shared.of(kinds, self.present()[1], self._state.version)

    def _read_state(self) -> tuple[Floats, Floats]:
        whole = np.array(self._state.columns, dtype=np.float64)
        columns = whole[:, self._scope]
        plain = values_of(self._view(list(columns)), NO_CENTRES, self._scope.shape)
        count = np.maximum(self._counted.sum(axis=1, keepdims=True), 1.0)
        return columns, plain - self._counted * (plain.sum(axis=1, keepdims=True) / count)

    def _view(self, columns: Sequence[Floats]) -> NodeView:
        return NodeView(columns, self._fixed, np.zeros(self._scope.size))


class BatchScores:
    """Computes the scores of many states at once; each state is a row of the arrays.

    Call `arrive`, then `start`, then for each step `scores` and `place`.

    Parameters
    ----------
    shared, values:
        The data that all rows share, and the values of all nodes less the mean.
    own:
        For each row, the position of the node that instances leave.
    kinds:
        The kind of each row: rows of one kind have equal steps.
    open_to:
        The positions of the nodes that may receive an instance; only these nodes are scored.
    """

    def __init__(
        self,
        shared: SharedBatchData,
        values: Floats,
        own: Indices,
        kinds: Indices,
        open_to: Indices,
    ) -> None:
        rows = own.size
        self._shared, self._own, self._kinds = shared, own, kinds
        self._everywhere = shared.everywhere * shared.weights  # nodes × columns × statistics
        linear = self._everywhere[open_to].transpose(2, 1, 0)
        self._alike = not open_to.size or not np.ptp(linear, axis=2).any()
        if self._alike:  # one node stands for all
            one = open_to[0] if open_to.size else own[0]
            linear = self._everywhere[[one]].transpose(2, 1, 0)
        self._linear = np.ascontiguousarray(linear)
        plain = shared.plain[:, open_to]
        apart = open_to.size > 0 and np.ptp(plain, axis=1).any()
        self._plain = plain if apart else plain[:, :1]
        self._base = values[shared.kept] * shared.weights[:, None]
        self._x_own = self._base[:, own]
        self._sums = np.zeros(self._x_own.shape)
        squares = np.einsum("kn,kn->k", self._base, self._base)
        self._squares = np.repeat(squares[:, None], rows, axis=1)
        self._x = np.repeat(self._base[:, None, open_to], rows, axis=1)
        self._column = np.full(values.shape[1], -1, dtype=np.intp)
        self._column[open_to] = np.arange(open_to.size)
        self._rest: Floats | None = None
        self._variances: VarianceSums
        self._next: VarianceChange | None = None

    def arrive(self, row: Indices, node: Indices, added: Floats) -> None:
        """Add the amounts ``added[i]``, one for each of `COLUMNS`, to ``node[i]`` of ``row[i]``.

        The rows ascend.
        """
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

    def start(self, vectors: Floats, own: Indices) -> None:
        """Compute the amounts that each step adds to the statistics.

        `vectors`: the amounts of the instances, steps × `COLUMNS` × kinds. `own`: for each kind,
        the node that instances leave. Instances with a local disk count there until the end.
        """
        kinds = self._kinds
        amounts = np.ascontiguousarray(vectors[:, self._shared.used])
        if self._plain.any():
            self._rest = (amounts.transpose(0, 2, 1) @ self._plain).take(kinds, axis=1)
        leaving = amounts * (vectors[:, DISK, None] == 0)  # those with a local disk are recreated
        products = np.einsum("sur,ruk->skr", leaving, -self._everywhere[own])
        first = InitialSums(
            self._sums, self._squares, products, self._x_own, self._shared.counts, kinds
        )
        if self._alike:
            self._variances = UniformVarianceSums(first, np.matmul(self._linear[:, :, 0], amounts))
        else:
            self._variances = NodeVarianceSums(first, amounts.transpose(0, 2, 1), self._linear)

    def scores(self, step: int, rows: int) -> Floats:
        """Return rows × open nodes: the scores if each node receives the instance of step `step`.

        Only the first `rows` are computed. Scores are rounded, in units of the last decimal, and
        relative to a number of each row.
        """
        moves = self._next = self._variances.at(step, rows)
        spread = self._x[:, :rows] * moves.slope
        spread += moves.rest
        if not np.minimum.reduce(spread, axis=None) > self._variances.rounding:
            square = self._variances.square(step, rows)
            spread *= spread > (VARIANCE_ROUNDING * square)[:, :, None]
        scores: Floats = np.add.reduce(np.sqrt(spread, out=spread), axis=0)
        if self._rest is not None:
            scores += self._rest[step, :rows]
        scores *= 10.0**SCORE_DECIMALS
        return np.rint(scores, out=scores)

    def place(self, best: Indices, places: Indices) -> None:
        """Place the instance of the last scored step, in each row, on the node `best`.

        `places`: the positions of these nodes in the flattened table rows × open nodes.
        """
        assert self._next is not None
        x = self._x.reshape(len(self._x), -1)
        x[:, places] = self._variances.add(self._next, best, x.take(places, axis=1))

    def keep(self, rows: Truths) -> None:
        """Keep only the rows for which `rows` has True."""
        self._rest = None if self._rest is None else self._rest.compress(rows, axis=1)
        self._x = self._x.compress(rows, axis=1)
        self._variances.keep(rows)
        if self._next is not None:
            self._next = self._next.of(rows[: self._next.slope.shape[1]])
