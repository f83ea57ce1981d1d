"""Failures played through at the same time, each in a row of its own.

Only the nodes that have room for something are scored: all others change sums, no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.model.columns import COLUMNS, DISK, MEMORY
from iallocator.n1.counting.ground import slots_for
from iallocator.scoring.candidates import DECIMALS
from iallocator.scoring.score_delta import ROUNDING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Floats, Indices, Truths
    from iallocator.n1.counting.forms import Form
    from iallocator.n1.counting.ground import Ground
    from iallocator.n1.counting.queues import Leaving, Vector

__all__ = ["Batch"]


class Batch:
    """Plays the failures of the nodes at positions `own` through.

    `form` is that of all instances there are.  Vector ``coming[i]`` comes to each of the positions
    ``at[i]``; see `Playback.lost`.  Amounts of ``leaving[i].head`` are in ``heads[i]``, a row each.

    Inside, rows stand in the order of the lengths of their queues, the longest first, so that
    those that still move somebody are always the first ones.
    """

    def __init__(
        self,
        ground: Ground,
        form: Form,
        own: Indices,
        leaving: Sequence[Leaving],
        heads: Sequence[Floats],
        coming: Sequence[Vector | None],
        at: Sequence[Sequence[int]],
    ) -> None:
        self._ground, self._form = ground, form
        lengths = np.array([len(head) for head in heads], dtype=np.intp)
        self._rows: Indices = np.argsort(-lengths, kind="stable")
        self._left = lengths[self._rows]
        order = self._rows.tolist()
        rows, steps = lengths.size, int(lengths.max(initial=0))
        self._vectors = np.zeros((rows, steps, len(COLUMNS)))
        for row, old in enumerate(order):
            self._vectors[row, : lengths[old]] = heads[old]
        self._need = np.array([leaving[old].need for old in order], dtype=np.float64)
        self._wanted = np.array([leaving[old].times for old in order], dtype=np.float64)
        self._own = own[self._rows]
        self._lost = np.zeros(rows, dtype=bool)  # in the order of the arguments
        self._place: Indices = np.arange(rows)  # of the rows that are still at work
        arrived = np.zeros((rows, len(COLUMNS)))
        for row, old in enumerate(order):
            vector = coming[old]
            if vector is not None:
                arrived[row] = vector
        path = [at[old] for old in order]
        self._memory = np.repeat(ground.columns[None, MEMORY], rows, axis=0)
        self._disk = np.repeat(ground.columns[None, DISK], rows, axis=0)
        self._open_positions()
        self._start_values()
        self._arrive(arrived, path)
        self._start_room()
        self._start_leaving()

    def _open_positions(self) -> None:
        """Find the nodes that have room for anything, in the best case."""
        ground = self._ground
        used = np.arange(self._vectors.shape[1]) < self._left[:, None]
        vectors = self._vectors[used]
        open_to = ground.allowed.copy()
        self._disks = bool(vectors[:, DISK].any())
        if len(vectors):
            open_to &= ground.columns[MEMORY] + vectors[:, MEMORY].max() > 0
            least = vectors[:, DISK].max()
            if least < 0:
                open_to &= ground.columns[DISK] + least > 0
        self._open: Indices = np.flatnonzero(open_to)
        column = np.full(open_to.size, -1, dtype=np.intp)
        column[self._open] = np.arange(self._open.size)
        self._column = column

    def _start_values(self) -> None:
        """Take the statistics that change, less their means."""
        form, found = self._form, self._ground.values
        used, kept, everywhere = form.used, form.kept, form.everywhere
        self._linear = np.ascontiguousarray(everywhere[self._open].transpose(2, 1, 0))
        alike = not self._open.size or not np.ptp(self._linear, axis=2).any()
        if alike:  # one node stands for all
            self._linear = self._linear[:, :, :1]
        self._amounts = self._vectors[:, :, used]
        self._weights, self._counts = form.weights, form.counts
        plain = form.plain[:, self._open]
        self._plain = plain[:, :1] if not np.ptp(plain, axis=1).any() else plain
        rows = self._rows.size
        self._base = found[kept]
        self._x_own = self._base[:, self._own].T.copy()
        self._sums = np.zeros((rows, len(kept)))
        squares = np.array([float(found[k] @ found[k]) for k in kept])
        self._squares = np.repeat(squares[None], rows, axis=0)
        self._x = np.repeat(self._base[None, :, self._open], rows, axis=0)

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
        change = np.einsum("eu,euk->ek", added[:, self._form.used], self._form.everywhere[node])
        squares = change * (2 * self._base[:, node].T + change)
        np.add.at(self._sums, row, change)
        np.add.at(self._squares, row, squares)
        column = self._column[node]
        inside = column >= 0
        self._x[row[inside], :, column[inside]] += change[inside]
        mine = self._own[row] == node
        self._x_own[row[mine]] += change[mine]

    def _start_room(self) -> None:
        """Memory and disk of the open nodes; none on the node that fails."""
        self._free, self._free_disk = self._memory[:, self._open], self._disk[:, self._open]
        mine = self._column[self._own]
        self._free[np.flatnonzero(mine >= 0), mine[mine >= 0]] = -np.inf

    def _start_leaving(self) -> None:
        """By how much sums and squares change as each instance leaves its node."""
        taken = -np.einsum("rsu,ruk->rsk", self._amounts, self._form.everywhere[self._own])
        before = self._x_own[:, None] + np.cumsum(taken, axis=1) - taken
        self._taken = taken
        self._taken_squares = taken * (2 * before + taken)

    def run(self) -> Truths:
        """Move everything: per row whether somebody is left over."""
        for step in range(self._vectors.shape[1] + 1):
            self._count_tails(step)
            if self._place.size and self._open.size:
                self._move(step)
            elif self._place.size:
                self._strand(np.ones(self._place.size, dtype=bool))
        return self._lost

    def _count_tails(self, step: int) -> None:
        """Decide the rows in which all that is left is equal; they are the last ones."""
        active = int(np.count_nonzero(self._left[self._place] > step))
        done = self._place[active:]
        if not done.size:
            return
        memory, disk = self._free_everywhere(slice(active, None))
        slots = slots_for(memory, disk, self._need[done][:, None, :]) * self._ground.allowed
        slots[np.arange(done.size), self._own[done]] = 0
        self._lost[self._rows[done]] = slots.sum(axis=1) < self._wanted[done]
        self._keep(slice(active))

    def _free_everywhere(self, rows: slice | Truths) -> tuple[Floats, Floats]:
        """Memory and disk of all nodes in these rows; some number on the node that fails."""
        place = self._place[rows]
        memory, disk = self._memory[place], self._disk[place]
        memory[:, self._open], disk[:, self._open] = self._free[rows], self._free_disk[rows]
        memory[np.arange(place.size), self._own[place]] = 0.0
        return memory, disk

    def _keep(self, rows: slice | Truths) -> None:
        """Go on with these rows only."""
        self._place = self._place[rows]
        self._free, self._free_disk = self._free[rows], self._free_disk[rows]
        self._x, self._sums, self._squares = self._x[rows], self._sums[rows], self._squares[rows]

    def _move(self, step: int) -> None:
        """Move number `step` of each row to the node with the best score."""
        place = self._place
        vector, amounts = self._vectors[place, step], self._amounts[place, step]
        self._sums += self._taken[place, step]
        self._squares += self._taken_squares[place, step]
        open_to = self._free > -vector[:, MEMORY, None]
        if self._disks:
            disk = vector[:, DISK, None]
            open_to &= (disk == 0) | (self._free_disk > -disk)
        # rows × statistics × nodes, or × 1 where it is the same everywhere
        changes = np.matmul(amounts[:, None, None, :], self._linear)[:, :, 0]
        rounded = np.rint(self._scores(amounts, changes) * 10.0**DECIMALS)
        rounded[~open_to] = np.inf
        every = np.arange(place.size)
        best = rounded.argmin(axis=1)
        fits = open_to[every, best]
        if not fits.all():
            vector, changes, best = vector[fits], changes[fits], best[fits]
            self._strand(~fits)
        self._add(best, vector, changes)

    def _strand(self, stuck: Truths) -> None:
        """In these rows somebody finds no place."""
        self._lost[self._rows[self._place[stuck]]] = True
        self._keep(~stuck)

    def _scores(self, amounts: Floats, changes: Floats) -> Floats:
        """The score with what moves on each open node, rows × nodes.

        A parabola in what is there.
        """
        count, mean = self._counts, self._sums / self._counts
        square = self._squares / count
        rest = (square - mean * mean)[:, :, None] - changes * (2 * mean / count)[:, :, None]
        rest += changes * changes * (1 / count - 1 / count**2)[:, None]
        variance = self._x * (changes * (2 / count)[:, None])
        variance += rest
        variance *= variance > ROUNDING * square[:, :, None]
        total: Floats = self._weights @ np.sqrt(variance, out=variance)
        total += amounts @ self._plain
        return total

    def _add(self, best: Indices, vectors: Floats, changes: Floats) -> None:
        """Add `vectors`, one per row, at the open nodes `best`; `changes`: what that does there."""
        every = np.arange(best.size)
        self._free[every, best] += vectors[:, MEMORY]
        if self._disks:
            self._free_disk[every, best] += vectors[:, DISK]
        added = changes[every, :, best if changes.shape[2] > 1 else 0]
        before = self._x[every, :, best]
        self._x[every, :, best] = before + added
        self._sums += added
        self._squares += added * (2 * before + added)
