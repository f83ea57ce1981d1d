"""How often equal instances fit on the nodes that take over, counted in slots."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from iallocator.model.columns import DISK, MEMORY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from iallocator.model.state import State
    from iallocator.n1.counting.queues import Need

    Integers = NDArray[np.int64]

__all__ = ["ANY_NUMBER", "Room", "room_left"]

ANY_NUMBER = 1 << 40

FEW = 8
"""So many nodes that changed are looked at one by one."""


def room_left(
    state: State, needs: Integers, nodes: Sequence[int], taken: Need
) -> tuple[Integers, Integers]:
    """Sizes × nodes: slots for each of `needs`, and the MiB of memory that close a node to it.

    Of what is left once each of `nodes` has given `taken`; some memory and disk must remain.
    """
    free = _left(state.columns[MEMORY], nodes) - taken[0]
    memory, disk = needs[:, :1], needs[:, 1:]
    slots = free // np.maximum(memory, 1)
    if not memory.all():
        slots = np.where(memory > 0, slots, np.where(free >= 0, ANY_NUMBER, 0))
    if disk.any():
        free_disk = _left(state.columns[DISK], nodes) - taken[1]
        some = np.minimum(slots, free_disk // np.maximum(disk, 1))
        slots = np.where(disk > 0, some, slots)
    return np.maximum(slots, 0), np.maximum(free - memory + 1, 0)


def _left(column: Sequence[float], nodes: Sequence[int]) -> Integers:
    """What can be taken of each node; -1 where there is nothing at all."""
    found = np.ceil(np.array([column[node] for node in nodes], dtype=np.float64))
    return found.astype(np.int64) - 1


class Room:
    """How often an instance of one size fits on each target, and what it takes to close all.

    `changes` gets every node that changes, one after the other.

    Attributes
    ----------
    slots, closing:
        Per target, at `place`, as of the last `renew`; the last number is 0, for all other nodes.
    """

    def __init__(
        self, state: State, need: Need, targets: Sequence[int], changes: Sequence[int]
    ) -> None:
        self._state = state
        self._need = need
        self._place = {node: k for k, node in enumerate(targets)}
        self.slots: Integers = np.zeros(len(targets) + 1, dtype=np.int64)
        self.closing: Integers = self.slots.copy()
        self._sums = (0, 0)
        self._changes = changes
        self._seen = len(changes)
        self._look(list(targets))

    def place(self, node: int) -> int:
        """Where the numbers of `node` are."""
        return self._place.get(node, len(self._place))

    def without(self, node: int) -> tuple[int, int]:
        """Slots, and MiB of memory that close all targets, but for `node`."""
        self.renew()
        at = self.place(node)
        return self._sums[0] - int(self.slots[at]), self._sums[1] - int(self.closing[at])

    def less(self, node: int, taken: Need) -> tuple[int, int]:
        """By how much both are less once `node` has given `taken`."""
        if node not in self._place:
            return 0, 0
        self.renew()
        slots, closing = self._count(node, taken)
        at = self._place[node]
        return int(self.slots[at]) - slots, int(self.closing[at]) - closing

    def renew(self) -> None:
        """Look again at what has changed."""
        if self._seen < len(self._changes):
            nodes = {node for node in self._changes[self._seen :] if node in self._place}
            self._seen = len(self._changes)
            self._look(sorted(nodes))

    def _look(self, nodes: Sequence[int]) -> None:
        at = [self._place[node] for node in nodes]
        if len(nodes) > FEW:
            needs = np.array([self._need], dtype=np.int64)
            slots, closing = room_left(self._state, needs, nodes, (0, 0))
            self.slots[at], self.closing[at] = slots[0], closing[0]
        else:
            for place, node in zip(at, nodes):
                self.slots[place], self.closing[place] = self._count(node, (0, 0))
        self._sums = int(self.slots.sum()), int(self.closing.sum())

    def _count(self, node: int, taken: Need) -> tuple[int, int]:
        """Slots of `node`, and the MiB that close it; some memory and disk must remain."""
        memory, disk = self._need
        free = ceil(self._state.columns[MEMORY][node]) - taken[0] - 1
        slots = (free // memory if memory else ANY_NUMBER) if free >= 0 else 0
        if disk:
            slots = min(slots, (ceil(self._state.columns[DISK][node]) - taken[1] - 1) // disk)
        return max(0, slots), max(0, free - memory + 1)
