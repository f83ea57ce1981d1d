"""Failures played through in arrays, from what counting keeps: rows of nodes and queues.

The same moves as `iallocator.n1.simulation` makes, for instances on one node without tags,
where only memory and disk decide whether a node takes them.  What an instance adds to a
statistic is linear in its amounts, so that no formula is evaluated twice; as soon as all that
is left to move is equal, each of them takes one slot, whatever is chosen, and slots are counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.model.columns import COLUMNS, DISK, MEMORY
from iallocator.model.node_view import NodeView
from iallocator.scoring.candidates import DECIMALS
from iallocator.scoring.equivalent import SPREADS, merged
from iallocator.scoring.metrics import STATISTICS
from iallocator.scoring.score_delta import NO_CENTRES, RESERVING, ROUNDING, counting, values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.counting.queues import Leaving, Vector

    Floats = NDArray[np.float64]
    Indices = NDArray[np.intp]
    Coming = tuple[Instance, Sequence[int]]
    """The nodes to which equal instances come one after the other, and one of these."""

__all__ = ["Playback", "slots_for"]

CELLS = 20_000
"""Failures × nodes that are worked on at a time: all their statistics should stay near the
processor."""

ANY_NUMBER = float(1 << 40)

SUMMED = [k for k, one in enumerate(STATISTICS) if not one.spread and k not in RESERVING]


def slots_for(memory: Floats, disk: Floats, need: Floats) -> Floats:
    """How many equal instances fit; some memory, and disk where they need any, must remain.

    `need` has memory and disk in its last dimension; all others are those of `memory` and `disk`.
    """
    found = _slots(memory, need[..., 0])
    return np.minimum(found, np.where(need[..., 1] > 0, _slots(disk, need[..., 1]), ANY_NUMBER))


def _slots(free: Floats, each: Floats) -> Floats:
    """How often `each` can be taken so that something is left; of nothing any number."""
    some = np.maximum(np.ceil(free / np.maximum(each, 1.0)) - 1.0, 0.0)
    return np.where(each > 0, some, np.where(free > 0, ANY_NUMBER, 0.0))


class Playback:
    """Plays failures through over the nodes in `scope`; one group's `targets` take over.

    `matrix` holds the capacities of all nodes, see `iallocator.scoring.arrays`.
    """

    def __init__(
        self, state: State, matrix: Floats, scope: Sequence[int], targets: Sequence[int]
    ) -> None:
        self._state = state
        self._scope = np.array(scope, dtype=np.intp)
        self._position = {index: k for k, index in enumerate(scope)}
        self._allowed = np.zeros(len(scope), dtype=bool)
        self._allowed[[self._position[index] for index in targets]] = True
        self._fixed = list(matrix[:, self._scope])
        self._per_amount = self._coefficients()
        view = self._view([np.zeros(len(scope))] * len(COLUMNS))
        self._counted = np.stack(
            [np.broadcast_to(counting(k, view), (len(scope),)) for k in range(len(STATISTICS))]
        ).astype(np.float64)
        self._version = -1
        self._columns: Floats = np.empty(0)
        self._values: Floats = np.empty(0)

    def lost(
        self,
        failing: Sequence[int],
        leaving: Sequence[Leaving],
        coming: Sequence[Coming | None],
    ) -> list[bool]:
        """Whether each of the failures loses somebody.

        Number i is the failure of node ``failing[i]``, from which ``leaving[i]`` has to be moved,
        with the instances ``coming[i]`` on their nodes beside what `state` holds; those on the
        node that fails are among what leaves already.
        """
        if not failing:  # there may be no node at all that could
            return []
        self._renew()
        size = max(1, CELLS // len(self._scope))
        found: list[bool] = []
        for start in range(0, len(failing), size):
            part = slice(start, start + size)
            found += self._lost(failing[part], leaving[part], coming[part])
        return found

    def _lost(
        self,
        failing: Sequence[int],
        leaving: Sequence[Leaving],
        coming: Sequence[Coming | None],
    ) -> list[bool]:
        at = [() if one is None else [self._position[node] for node in one[1]] for one in coming]
        return _Batch(
            self._columns,
            self._values,
            self._per_amount,
            self._counted,
            np.repeat(self._allowed[None, :], len(failing), axis=0),
            np.array([self._position[node] for node in failing], dtype=np.intp),
            leaving,
            [None if one is None else one[0].as_primary for one in coming],
            at,
        ).run()

    def _renew(self) -> None:
        """Look at the state again if it has changed."""
        if self._version == self._state.version:
            return
        whole = np.array(self._state.columns, dtype=np.float64)
        self._columns = whole[:, self._scope]
        found = values(self._view(list(self._columns)), NO_CENTRES)
        stacked = np.stack(np.broadcast_arrays(*found, self._columns[0])[:-1])
        count = np.maximum(self._counted.sum(axis=1, keepdims=True), 1.0)
        self._values = stacked - self._counted * (stacked.sum(axis=1, keepdims=True) / count)
        self._version = self._state.version

    def _view(self, columns: Sequence[Floats]) -> NodeView:
        return NodeView(columns, self._fixed, np.zeros(self._scope.size))

    def _coefficients(self) -> Floats:
        """Columns × statistics × nodes: what one more in a column adds to a statistic there.

        Made of nothing and one, so that they are exact.
        """
        nothing, one = np.zeros(self._scope.size), np.ones(self._scope.size)
        found = np.empty((len(COLUMNS), len(STATISTICS), self._scope.size))
        none = [nothing] * len(COLUMNS)
        start = values(self._view(none), NO_CENTRES)
        for column in range(len(COLUMNS)):
            after = values(self._view([*none[:column], one, *none[column + 1 :]]), NO_CENTRES)
            for k, (new, old) in enumerate(zip(after, start)):
                found[column, k] = new - old
        return found


class _Batch:
    """Failures played through at the same time, each in a row of its own.

    `columns` and `values` (over the nodes) are those of the state, `own` the positions of the
    nodes that fail; vector ``coming[i]`` comes to each of the positions ``at[i]``; for the rest
    see `Playback`.
    """

    def __init__(
        self,
        columns: Floats,
        values: Floats,
        per_amount: Floats,
        counted: Floats,
        allowed: NDArray[np.bool_],
        own: Indices,
        leaving: Sequence[Leaving],
        coming: Sequence[Vector | None],
        at: Sequence[Sequence[int]],
    ) -> None:
        heads = [one.head for one in leaving]
        self._left = np.array([len(head) for head in heads], dtype=np.intp)
        self._vectors = np.zeros((len(heads), int(self._left.max(initial=0)), len(COLUMNS)))
        known = {id(head): np.array(head) for head in heads if head}
        for row, head in enumerate(heads):
            if head:
                self._vectors[row, : len(head)] = known[id(head)]
        self._need = np.array([one.need for one in leaving], dtype=np.float64)
        self._wanted = np.array([one.times for one in leaving], dtype=np.float64)
        self._own, self._allowed = own, allowed
        self._rows: Indices = np.arange(len(heads))
        self._allowed[self._rows, own] = False
        self._lost = np.zeros(len(heads), dtype=bool)
        self._memory = np.repeat(columns[None, MEMORY], len(heads), axis=0)
        self._disk = np.repeat(columns[None, DISK], len(heads), axis=0)
        arrived = np.zeros((len(heads), len(COLUMNS)))
        for row, one in enumerate(coming):
            if one is not None:
                arrived[row] = one
        self._start_values(values, per_amount, counted, arrived)
        self._arrive(arrived, at)

    def _start_values(
        self, found: Floats, per_amount: Floats, counted: Floats, arrived: Floats
    ) -> None:
        """Take the statistics that change, those in proportion as one; less their means."""
        used = np.flatnonzero(self._vectors.any(axis=(0, 1)) | arrived.any(axis=0))
        linear = per_amount[used]
        changing = [k for k in SPREADS if linear[:, k].any()]
        whole = np.concatenate((found, *linear), axis=1)
        kept, weights = merged(changing, whole, counted)
        self._used = used
        self._linear = np.ascontiguousarray(linear[:, kept].transpose(1, 0, 2))
        self._weights = np.array([weights[k] for k in kept])[:, None, None]
        self._counts = np.array([max(float(counted[k].sum()), 1.0) for k in kept])[:, None]
        summed = np.array([STATISTICS[k].weight for k in SUMMED])
        self._plain = np.einsum("k,ckn->cn", summed, linear[:, SUMMED])
        rows = len(self._rows)
        self._x = np.repeat(found[kept][:, None, :], rows, axis=1)
        self._sums = np.zeros((len(kept), rows))
        squares = np.array([float(found[k] @ found[k]) for k in kept])
        self._squares = np.repeat(squares[:, None], rows, axis=1)

    def _arrive(self, vectors: Floats, at: Sequence[Sequence[int]]) -> None:
        """Add the vector of each row at the nodes in `at`, one after the other."""
        for number in range(max(map(len, at), default=0)):
            here = np.array([len(nodes) > number for nodes in at])
            node = np.array([nodes[number] if len(nodes) > number else 0 for nodes in at])
            added = vectors * here[:, None]
            self._add(node, added, added[:, self._used] @ self._linear)

    def run(self) -> list[bool]:
        """Move everything: per row whether somebody is left over."""
        for step in range(self._vectors.shape[1]):
            self._count_tails(step)
            if not self._rows.size:
                break
            self._move(step)
        self._count_tails(self._vectors.shape[1])
        return [bool(one) for one in self._lost]

    def _count_tails(self, step: int) -> None:
        """Decide the rows in which all that is left is equal."""
        done = self._left <= step
        if not done.any():
            return
        need = self._need[done][:, None, :]
        slots = slots_for(self._memory[done], self._disk[done], need) * self._allowed[done]
        self._lost[self._rows[done]] = slots.sum(axis=1) < self._wanted[done]
        self._keep(~done)

    def _keep(self, rows: NDArray[np.bool_]) -> None:
        for name in ("_left", "_vectors", "_need", "_wanted", "_own", "_allowed", "_rows",
                     "_memory", "_disk"):  # fmt: skip
            setattr(self, name, getattr(self, name)[rows])
        for name in ("_x", "_sums", "_squares"):
            setattr(self, name, getattr(self, name)[:, rows])

    def _move(self, step: int) -> None:
        """Move number `step` of each row to the node with the best score."""
        vector = self._vectors[:, step]
        amounts = vector[:, self._used]
        changes = amounts @ self._linear
        self._add(self._own, vector, changes, -1.0)
        memory, disk = vector[:, MEMORY, None], vector[:, DISK, None]
        open_to = self._allowed & (self._memory + memory > 0)
        if disk.any():
            open_to &= (disk == 0) | (self._disk + disk > 0)
        scores = np.round(self._scores(amounts, changes), DECIMALS)
        scores[~open_to] = np.inf
        best = scores.argmin(axis=1)
        stuck = ~open_to[np.arange(best.size), best]
        self._add(best, vector, changes)
        if stuck.any():
            self._lost[self._rows[stuck]] = True
            self._keep(~stuck)

    def _scores(self, amounts: Floats, changes: Floats) -> Floats:
        """The score with what moves on each node, rows × nodes; a parabola in what is there."""
        total: Floats = amounts @ self._plain
        count, sums = self._counts, self._sums
        square = self._squares / count
        variance = changes * (1 / count - 1 / count**2)[:, :, None]
        variance -= (2 / count**2 * sums)[:, :, None]
        variance += self._x * (2 / count)[:, :, None]
        variance *= changes
        variance += (square - (sums / count) ** 2)[:, :, None]
        variance *= variance > ROUNDING * square[:, :, None]
        np.sqrt(variance, out=variance)
        variance *= self._weights
        for one in variance:
            total += one
        return total

    def _add(self, nodes: Indices, vectors: Floats, changes: Floats, sign: float = 1.0) -> None:
        """Add `vectors`, one per row, at `nodes`, one per row; `changes`: what that does there.

        Changes are statistics × rows × nodes.  With `sign` -1 they are taken away.
        """
        rows = np.arange(len(nodes))
        self._memory[rows, nodes] += sign * vectors[:, MEMORY]
        self._disk[rows, nodes] += sign * vectors[:, DISK]
        added = sign * changes[:, rows, nodes]
        before = self._x[:, rows, nodes]
        self._x[:, rows, nodes] = before + added
        self._sums += added
        self._squares += added * (2 * before + added)
