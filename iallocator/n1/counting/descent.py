"""How far down a size that is refused stays refused: nothing is played through twice for that.

A failure that loses somebody makes the same choices for a smaller instance, as long as the
variances of the cluster change too little for another choice, and the node where it comes to has
room for the same.  What is left then is a count of slots.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.model.columns import DISK, MEMORY
from iallocator.n1.counting.ground import slots_for
from iallocator.n1.counting.queues import fits_into

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from iallocator.aliases import Floats
    from iallocator.model.instance import Instance
    from iallocator.n1.counting.bearing import Outcome
    from iallocator.n1.counting.ground import Ground
    from iallocator.n1.counting.queues import Leaving


__all__ = ["Descent"]


class Descent:
    """The failure in row `row` of `outcome`, with the first of `instances` at position `at`.

    `instances` are ever smaller in one amount.  `own` is the position of the node that fails,
    `leaving` what leaves it: with each of the instances if that is `at`, else the same for all.
    """

    def __init__(
        self,
        ground: Ground,
        outcome: Outcome,
        row: int,
        at: int,
        own: int,
        instances: Sequence[Instance],
        leaving: Sequence[Leaving],
    ) -> None:
        self._ground = ground
        self._outcome = outcome
        self._row = row
        self._at = at
        self._own = own
        self._vectors = np.array([one.as_primary for one in instances], dtype=np.float64)
        self._needs = np.array([fits_into(one) for one in instances], dtype=np.float64)
        self._leaving = leaving

    def lost(self) -> int:
        """How many of the instances, from the first on, are lost to the failure for certain."""
        outcome, row = self._outcome, self._row
        if not outcome.lost[row]:
            return 0
        sure = self._unmoved() & self._apart()
        if not outcome.stuck[row]:
            sure &= self._too_few()
        return int(sure.argmin()) if not sure.all() else sure.size

    def _unmoved(self) -> NDArray[np.bool_]:
        """Where no choice can be another one for the variances that there are."""
        ground = self._ground
        change = (self._vectors @ ground.per_amount[:, :, self._at]).T  # statistics × instances
        count = np.maximum(ground.counted.sum(axis=1), 1.0)[:, None]
        more = change - change[:, :1]
        square = change**2 - change[:, :1] ** 2
        value = ground.values[:, self._at, None]
        moved = np.abs((2 * value * more + square) / count - square / count**2)
        outcome, row = self._outcome, self._row
        head = np.array(self._leaving[0].head).reshape(-1, len(ground.per_amount))
        steps = np.abs(head @ ground.per_amount[:, :, self._at])
        there = np.ones(len(head), dtype=bool)
        if self._at != self._own:
            there = outcome.path[row, : len(head)] == self._at
            bent = 2 * steps.max(axis=0, initial=0)[:, None] * np.abs(more) / count
            bent_share = _share(outcome.bend[row], bent)
        moved += 2 * steps[there].sum(axis=0)[:, None] * np.abs(more) / count
        share = _share(outcome.strain[row], moved)
        if self._at != self._own:
            share = share + bent_share
        found: NDArray[np.bool_] = share < 1
        return found

    def _apart(self) -> NDArray[np.bool_]:
        """Where its node has room at each step for what it had room for with the first of them."""
        head = self._leaving[0].head
        if self._at == self._own:
            return np.array([one.head == head for one in self._leaving])
        path = self._outcome.path[self._row]
        steps = min(int((path >= 0).sum()) + 1, len(head))
        moved = np.array(head[:steps], dtype=np.float64).reshape(steps, len(self._ground.columns))
        came = moved * (path[:steps, None] == self._at)
        before = np.cumsum(came, axis=0) - came
        found = np.ones(len(self._vectors), dtype=bool)
        for column in (MEMORY, DISK):
            free = self._ground.columns[column, self._at] + self._vectors[:, column]
            after = free[:, None] + before[:, column] + moved[:, column]  # instances × steps
            takes = (after > 0) | (moved[:, column] == 0)
            found &= (takes == takes[:1]).all(axis=1)
        return found

    def _left(self) -> tuple[Floats, Floats]:
        """What is free at the node of the instance before the last run, for each of them."""
        less = self._vectors - self._vectors[:1]
        outcome, row = self._outcome, self._row
        return (
            outcome.memory[row, self._at] + less[:, MEMORY],
            outcome.disk[row, self._at] + less[:, DISK],
        )

    def _too_few(self) -> NDArray[np.bool_]:
        """Where there are too few slots for the last run."""
        outcome, row = self._outcome, self._row
        memory, disk = outcome.memory[row], outcome.disk[row]
        allowed = self._ground.allowed.copy()
        allowed[self._own] = False
        need = np.array([one.need for one in self._leaving], dtype=np.float64)
        wanted = np.array([one.times for one in self._leaving], dtype=np.float64)
        if self._at == self._own:
            slots = slots_for(memory[None, allowed], disk[None, allowed], need[:, None, :])
            return np.asarray(slots.sum(axis=1) < wanted)
        usable = bool(allowed[self._at])
        allowed[self._at] = False
        others = slots_for(memory[allowed], disk[allowed], need[:1]).sum()
        here = slots_for(*self._left(), need[:1]) * usable
        return np.asarray(others + here < wanted)


def _share(weights: Floats, amounts: Floats) -> Floats:
    """Sums of weighted `amounts` (statistics × instances); an infinite weight bears none at all."""
    some = weights > 0
    with np.errstate(invalid="ignore"):
        found: Floats = np.nan_to_num(
            weights[some, None] * amounts[some], nan=0.0, posinf=np.inf
        ).sum(axis=0)
    return found
