"""Failures played through at the same time, each in a row of its own.

Only the nodes that have room for something are scored: all others change sums, no more.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from iallocator.model.columns import COLUMNS, DISK, MEMORY
from iallocator.n1.counting.ground import slots_for
from iallocator.n1.counting.moments import Alike, Apart, Beginning
from iallocator.scoring.candidates import DECIMALS
from iallocator.scoring.score_delta import ROUNDING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Floats, Indices, Truths
    from iallocator.n1.counting.forms import Form
    from iallocator.n1.counting.ground import Ground
    from iallocator.n1.counting.moments import Moments, Parabola
    from iallocator.n1.counting.queues import Leaving, Vector

__all__ = ["Batch"]


class Batch:
    """Plays the failures of the nodes at positions `own` through.

    `form` is that of all instances there are.  Vector ``coming[i]`` comes to each of the positions
    ``at[i]``; see `Playback.lost`.  Amounts of ``leaving[i].head`` are in ``heads[i]``, a row each.

    Inside, rows stand in the order of the lengths of their queues, the longest first, so that
    those that still move somebody are always the first ones; the others stay as they were left.
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
        self._busy = lengths.size  # so many rows, the first ones, still move somebody
        self._own = own[self._rows]
        order = self._rows.tolist()
        tails = [(*leaving[old].need, leaving[old].times) for old in order]
        self._tails = np.array(tails, dtype=np.float64).reshape(-1, 3)
        self._lost = np.zeros(lengths.size, dtype=bool)  # in the order of the arguments
        self._memory = np.repeat(ground.columns[None, MEMORY], lengths.size, axis=0)
        self._disk = np.repeat(ground.columns[None, DISK], lengths.size, axis=0)
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
        self._start_room()
        self._start_steps(moved, np.array([node for _, node in kinds], dtype=np.intp))

    def _open_positions(self, vectors: Floats) -> None:
        """Find the nodes that have room for any of `vectors`, in the best case."""
        ground = self._ground
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
        """Take the statistics that change, less their means and times their weights."""
        form, rows = self._form, self._rows.size
        self._everywhere = form.everywhere * form.weights  # nodes × columns × statistics
        linear = self._everywhere[self._open].transpose(2, 1, 0)
        self._alike = not self._open.size or not np.ptp(linear, axis=2).any()
        if self._alike:  # one node stands for all
            one = self._open[0] if self._open.size else self._own[0]
            linear = self._everywhere[[one]].transpose(2, 1, 0)
        self._linear = np.ascontiguousarray(linear)
        plain = form.plain[:, self._open]
        apart = self._open.size > 0 and np.ptp(plain, axis=1).any()
        self._plain = plain if apart else plain[:, :1]
        self._base = self._ground.values[form.kept] * form.weights[:, None]
        self._x_own = self._base[:, self._own]
        self._sums = np.zeros(self._x_own.shape)
        squares = np.einsum("kn,kn->k", self._base, self._base)
        self._squares = np.repeat(squares[:, None], rows, axis=1)
        self._x = np.repeat(self._base[:, None, self._open], rows, axis=1)

    def _arrive(self, vectors: Floats, at: Sequence[Sequence[int]]) -> None:
        """Add the vector of each row at the nodes in `at`, as often as they are named."""
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
        change = np.einsum("eu,euk->ke", added[:, self._form.used], self._everywhere[node])
        squares = change * (2 * self._base[:, node] + change)
        first = np.flatnonzero(np.diff(row, prepend=-1))
        self._sums[:, row[first]] += np.add.reduceat(change, first, axis=1)
        self._squares[:, row[first]] += np.add.reduceat(squares, first, axis=1)
        column = self._column[node]
        inside = column >= 0
        self._x[:, row[inside], column[inside]] += change[:, inside]
        mine = self._own[row] == node
        self._x_own[:, row[mine]] += change[:, mine]

    def _start_room(self) -> None:
        """Memory and disk of the open nodes; none on the node that fails."""
        self._free = np.take(self._memory, self._open, axis=1)
        self._free_disk = np.take(self._disk, self._open, axis=1)
        mine = self._column[self._own]
        self._free[np.flatnonzero(mine >= 0), mine[mine >= 0]] = -np.inf
        self._every: Indices = np.arange(self._rows.size)
        self._first: Indices = self._every * self._open.size  # of each row, among all

    def _start_steps(self, moved: Floats, own: Indices) -> None:
        """What each step moves: the room that it needs, and what it does to statistics.

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
        amounts = np.ascontiguousarray(vectors[:, self._form.used])
        self._rest = None
        if self._plain.any():
            self._rest = (amounts.transpose(0, 2, 1) @ self._plain).take(kinds, axis=1)
        taken = np.einsum("sur,ruk->skr", amounts, -self._everywhere[own])
        first = Beginning(self._sums, self._squares, taken, self._x_own, self._form.counts, kinds)
        self._moments: Moments
        if self._alike:
            self._moments = Alike(first, np.matmul(self._linear[:, :, 0], amounts))
        else:
            self._moments = Apart(first, amounts.transpose(0, 2, 1), self._linear)

    def run(self) -> Truths:
        """Move everything: per row whether somebody is left over."""
        for step in range(len(self._needed)):
            while self._busy and self._left[self._busy - 1] <= step:
                self._busy -= 1
            if self._busy and self._open.size:
                self._move(step, self._busy)
            elif self._busy:
                self._strand(np.arange(self._rows.size) < self._busy)
        self._count_tails()
        return self._lost

    def _count_tails(self) -> None:
        """Decide the rows in which all that is left is equal."""
        if not self._rows.size:
            return
        memory, disk = self._memory, self._disk
        memory[:, self._open], disk[:, self._open] = self._free, self._free_disk
        slots = slots_for(memory, disk, self._tails[:, None, :2]) * self._ground.allowed
        slots[self._every[: self._rows.size], self._own] = 0
        self._lost[self._rows] = slots.sum(axis=1) < self._tails[:, 2]

    def _keep(self, rows: Truths) -> None:
        """Go on with these rows only."""
        self._rows, self._left, self._own = self._rows[rows], self._left[rows], self._own[rows]
        self._tails = self._tails[rows]
        self._memory, self._disk = self._memory[rows], self._disk[rows]
        self._free, self._free_disk = self._free[rows], self._free_disk[rows]
        self._needed = self._needed.compress(rows, axis=2)
        self._rest = None if self._rest is None else self._rest.compress(rows, axis=1)
        self._x = self._x.compress(rows, axis=1)
        self._moments.keep(rows)

    def _strand(self, stuck: Truths) -> None:
        """In these rows somebody finds no place."""
        self._lost[self._rows[stuck]] = True
        self._busy -= int(np.count_nonzero(stuck))
        self._keep(~stuck)

    def _move(self, step: int, active: int) -> None:
        """Move number `step` of each of the `active` rows to the node with the best score."""
        needed = self._needed[step, :, :active, None]
        closed = self._free[:active] <= needed[0]
        if self._disks:
            closed |= (needed[1] != 0) & (self._free_disk[:active] <= needed[1])
        moves = self._moments.at(step, active)
        spread = self._x[:, :active] * moves.slope
        spread += moves.rest
        if not np.minimum.reduce(spread, axis=None) > self._moments.rounding:
            square = self._moments.square(step, active)
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
            self._add(step, moves, best)

    def _add(self, step: int, moves: Parabola, best: Indices) -> None:
        """What is moved arrives at the open nodes `best`, of the first rows."""
        rows = best.size
        places = self._first[:rows] + best
        self._free.reshape(-1)[places] -= self._needed[step, 0, :rows]
        if self._disks:
            self._free_disk.reshape(-1)[places] -= self._needed[step, 1, :rows]
        x = self._x.reshape(len(self._x), -1)
        x[:, places] = self._moments.add(moves, best, x.take(places, axis=1))
