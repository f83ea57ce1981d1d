"""Failures played through at the same time, each in a row of its own.

Only the nodes that have room for something are scored: all others change sums, no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iallocator.model.columns import COLUMNS, DISK, MEMORY
from iallocator.n1.counting.bearing import Bearing
from iallocator.scoring.candidates import DECIMALS
from iallocator.scoring.equivalent import SPREADS, merged
from iallocator.scoring.metrics import STATISTICS
from iallocator.scoring.score_delta import RESERVING, ROUNDING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from iallocator.aliases import Floats, Indices
    from iallocator.n1.counting.bearing import Outcome
    from iallocator.n1.counting.queues import Leaving, Vector


__all__ = ["Batch", "Ground", "slots_for"]

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


class Ground(NamedTuple):
    """What all rows begin with, over the nodes.

    Attributes
    ----------
    columns, values:
        Of the state; values of statistics are less their means.
    per_amount:
        Columns × statistics × nodes: what one more in a column adds to a statistic.
    counted:
        Statistics × nodes: 1 where a node counts, else 0.
    allowed:
        Which nodes take over.
    """

    columns: Floats
    values: Floats
    per_amount: Floats
    counted: Floats
    allowed: NDArray[np.bool_]


class Batch:
    """Plays the failures of the nodes at positions `own` through.

    Vector ``coming[i]`` comes to each of the positions ``at[i]``; see `Playback.lost`.  With
    `proving`, `outcome` is complete after `run`.
    """

    def __init__(
        self,
        ground: Ground,
        own: Indices,
        leaving: Sequence[Leaving],
        coming: Sequence[Vector | None],
        at: Sequence[Sequence[int]],
        proving: bool = False,
    ) -> None:
        self._ground = ground
        heads = [one.head for one in leaving]
        rows = len(heads)
        self._left = np.array([len(head) for head in heads], dtype=np.intp)
        self._vectors = np.zeros((rows, int(self._left.max(initial=0)), len(COLUMNS)))
        known = {id(head): np.array(head) for head in heads if head}
        for row, head in enumerate(heads):
            if head:
                self._vectors[row, : len(head)] = known[id(head)]
        self._need = np.array([one.need for one in leaving], dtype=np.float64)
        self._wanted = np.array([one.times for one in leaving], dtype=np.float64)
        self._own = own
        self._rows: Indices = np.arange(rows)
        self._lost = np.zeros(rows, dtype=bool)
        self._memory = np.repeat(ground.columns[None, MEMORY], rows, axis=0)
        self._disk = np.repeat(ground.columns[None, DISK], rows, axis=0)
        arrived = np.zeros((rows, len(COLUMNS)))
        for row, one in enumerate(coming):
            if one is not None:
                arrived[row] = one
        self._open_positions()
        self._start_values(arrived)
        self._arrive(arrived, at)
        self._bearing: Bearing | None = None
        if proving:
            last = np.array([path[-1] if len(path) else -1 for path in at], dtype=np.intp)
            shape = rows, self._vectors.shape[1], len(self._kept), ground.allowed.size
            column = np.where(last >= 0, self._column[last], -1)
            self._bearing = Bearing(shape, self._weights[:, :, 0], self._even, column)

    def _open_positions(self) -> None:
        """Find the nodes that have room for anything, in the best case."""
        ground = self._ground
        used = np.arange(self._vectors.shape[1]) < self._left[:, None]
        vectors = self._vectors[used]
        open_to = ground.allowed.copy()
        if len(vectors):
            open_to &= ground.columns[MEMORY] + vectors[:, MEMORY].max() > 0
            least = vectors[:, DISK].max()
            if least < 0:
                open_to &= ground.columns[DISK] + least > 0
        self._open: Indices = np.flatnonzero(open_to)
        column = np.full(open_to.size, -1, dtype=np.intp)
        column[self._open] = np.arange(self._open.size)
        self._column = column
        self._allowed = np.ones((len(self._rows), self._open.size), dtype=bool)
        mine = column[self._own]
        self._allowed[self._rows[mine >= 0], mine[mine >= 0]] = False

    def _start_values(self, arrived: Floats) -> None:
        """Take the statistics that change, those in proportion as one; less their means."""
        ground, found = self._ground, self._ground.values
        used = np.flatnonzero(self._vectors.any(axis=(0, 1)) | arrived.any(axis=0))
        linear = ground.per_amount[used]
        changing = [k for k in SPREADS if linear[:, k].any()]
        whole = np.concatenate((found, *linear), axis=1)
        kept, weights = merged(changing, whole, ground.counted)
        self._used, self._kept = used, kept
        everywhere = np.ascontiguousarray(linear[:, kept].transpose(1, 0, 2))
        self._linear = everywhere[:, :, self._open]
        self._linear_own = everywhere[:, :, self._own]
        self._everywhere = everywhere
        even = not self._open.size or not np.ptp(self._linear, axis=2).any()
        first = self._linear[:, :, :1] if self._open.size else self._linear_own[:, :, :1]
        self._even = even & (self._linear_own == first).all(axis=(0, 1))
        self._weights = np.array([weights[k] for k in kept])[:, None, None]
        self._counts = np.array([max(float(ground.counted[k].sum()), 1.0) for k in kept])[:, None]
        summed = np.array([STATISTICS[k].weight for k in SUMMED])
        self._plain = np.einsum("k,ckn->cn", summed, linear[:, SUMMED])[:, self._open]
        rows = len(self._rows)
        self._base = found[kept]
        self._x = np.repeat(self._base[:, None, self._open], rows, axis=1)
        self._x_own = self._base[:, self._own]
        self._sums = np.zeros((len(kept), rows))
        squares = np.array([float(found[k] @ found[k]) for k in kept])
        self._squares = np.repeat(squares[:, None], rows, axis=1)

    def _arrive(self, vectors: Floats, at: Sequence[Sequence[int]]) -> None:
        """Add the vector of each row at the nodes in `at`, as often as they are named."""
        nodes = self._memory.shape[1]
        keys = np.array([row * nodes + n for row, path in enumerate(at) for n in path], np.intp)
        if not keys.size:
            return
        keys, times = np.unique(keys, return_counts=True)
        row, node = np.divmod(keys, nodes)
        added = vectors[row] * times[:, None]
        self._memory[row, node] += added[:, MEMORY]
        self._disk[row, node] += added[:, DISK]
        change = np.einsum("eu,kue->ke", added[:, self._used], self._everywhere[:, :, node])
        squares = change * (2 * self._base[:, node] + change)
        for k in range(len(change)):
            self._sums[k] += np.bincount(row, change[k], self._rows.size)
            self._squares[k] += np.bincount(row, squares[k], self._rows.size)
        column = self._column[node]
        inside = column >= 0
        self._x[:, row[inside], column[inside]] += change[:, inside]
        mine = self._own[row] == node
        self._x_own[:, row[mine]] += change[:, mine]

    def run(self) -> list[bool]:
        """Move everything: per row whether somebody is left over."""
        for step in range(self._vectors.shape[1]):
            self._count_tails(step)
            if not self._rows.size:
                break
            self._move(step)
        self._count_tails(self._vectors.shape[1])
        return [bool(one) for one in self._lost]

    def outcome(self) -> Outcome:
        """All of it, after `run`."""
        assert self._bearing is not None
        return self._bearing.outcome(self._lost, self._kept)

    def _count_tails(self, step: int) -> None:
        """Decide the rows in which all that is left is equal."""
        done = self._left <= step
        if not done.any():
            return
        memory, disk, rows = self._memory[done], self._disk[done], self._rows[done]
        slots = slots_for(memory, disk, self._need[done][:, None, :]) * self._ground.allowed
        slots[np.arange(rows.size), self._own[done]] = 0
        self._lost[rows] = slots.sum(axis=1) < self._wanted[done]
        if self._bearing is not None:
            self._bearing.end(rows, memory, disk)
        self._keep(~done)

    def _keep(self, rows: NDArray[np.bool_]) -> None:
        for name in ("_left", "_vectors", "_need", "_wanted", "_own", "_allowed", "_rows",
                     "_memory", "_disk"):  # fmt: skip
            setattr(self, name, getattr(self, name)[rows])
        for name in ("_x", "_x_own", "_sums", "_squares"):
            setattr(self, name, getattr(self, name)[:, rows])
        self._linear_own = self._linear_own[:, :, rows]

    def _move(self, step: int) -> None:
        """Move number `step` of each row to the node with the best score."""
        vector = self._vectors[:, step]
        amounts = vector[:, self._used]
        self._leave(vector, amounts)
        memory, disk = vector[:, MEMORY, None], vector[:, DISK, None]
        open_to = self._allowed & (self._memory[:, self._open] + memory > 0)
        if disk.any():
            open_to &= (disk == 0) | (self._disk[:, self._open] + disk > 0)
        changes = amounts @ self._linear
        scores, spread = self._scores(amounts, changes)
        rounded = np.round(scores, DECIMALS)
        rounded[~open_to] = np.inf
        stuck: NDArray[np.bool_] = np.logical_not(open_to.any(axis=1))
        best = rounded.argmin(axis=1) if self._open.size else np.zeros(stuck.size, dtype=np.intp)
        if self._bearing is not None:
            rows = ~stuck
            which, chosen = self._rows[rows], best[rows]
            self._bearing.choose(step, which, self._open[chosen])
            self._bearing.bear(which, scores[rows], spread[:, rows], open_to[rows], chosen)
        if stuck.any():
            self._lost[self._rows[stuck]] = True
            if self._bearing is not None:
                stopped = self._memory[stuck], self._disk[stuck]
                self._bearing.end(self._rows[stuck], *stopped, stuck=True)
            vector, changes, best = vector[~stuck], changes[:, ~stuck], best[~stuck]
            self._keep(~stuck)
        self._add(best, vector, changes)

    def _scores(self, amounts: Floats, changes: Floats) -> tuple[Floats, Floats]:
        """The score with what moves on each open node, rows × nodes, and the deviations in it.

        A parabola in what is there.
        """
        total: Floats = amounts @ self._plain
        count, sums = self._counts, self._sums
        square = self._squares / count
        variance = changes * (1 / count - 1 / count**2)[:, :, None]
        variance -= (2 / count**2 * sums)[:, :, None]
        variance += self._x * (2 / count)[:, :, None]
        variance *= changes
        variance += (square - (sums / count) ** 2)[:, :, None]
        variance *= variance > ROUNDING * square[:, :, None]
        spread = np.sqrt(variance, out=variance)
        for one, weight in zip(spread, self._weights):
            total += one * weight
        return total, spread

    def _leave(self, vector: Floats, amounts: Floats) -> None:
        """Take `vector`, one per row, from the node that fails."""
        rows = np.arange(len(vector))
        self._memory[rows, self._own] -= vector[:, MEMORY]
        self._disk[rows, self._own] -= vector[:, DISK]
        taken = -np.einsum("ru,kur->kr", amounts, self._linear_own)
        before = self._x_own
        self._x_own = before + taken
        self._sums += taken
        self._squares += taken * (2 * before + taken)

    def _add(self, best: Indices, vectors: Floats, changes: Floats) -> None:
        """Add `vectors`, one per row, at the open nodes `best`; `changes`: what that does there."""
        rows = np.arange(len(best))
        nodes = self._open[best]
        self._memory[rows, nodes] += vectors[:, MEMORY]
        self._disk[rows, nodes] += vectors[:, DISK]
        added = changes[:, rows, best]
        before = self._x[:, rows, best]
        self._x[:, rows, best] = before + added
        self._sums += added
        self._squares += added * (2 * before + added)
