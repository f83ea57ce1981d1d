"""Which failures counting leaves in doubt, asked of all at once: what `Room` says, in arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.n1.counting.queues import fits_into

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iallocator.model.instance import Instance
    from iallocator.n1.counting.group_headroom import GroupHeadroom
    from iallocator.n1.counting.queues import Need

    Integers = NDArray[np.int64]

__all__ = ["Doubts"]

ABSENT = -1
"""So many slots are wanted of a size that nobody has, and so much closed before it."""


class Doubts:
    """The failures of one group, sizes × failures; see `iallocator.n1.counting.headroom`."""

    def __init__(self, counting: GroupHeadroom) -> None:
        self._counting = counting
        self._failing = list(counting.queues)
        self._place = {node: k for k, node in enumerate(self._failing)}
        self._sizes: dict[Need, int] = {}
        self._changed = counting.watch()
        self._start()

    def _start(self) -> None:
        """Look at all failures, and at all the sizes that there are."""
        needs = dict.fromkeys(
            need for queue in self._counting.queues.values() for need in queue.required
        )
        self._sizes = {need: k for k, need in enumerate(needs)}
        shape = len(needs), len(self._failing)
        self._wanted: Integers = np.full(shape, ABSENT, dtype=np.int64)
        self._before: Integers = np.full(shape, ABSENT, dtype=np.int64)
        self._disks = np.zeros(len(self._failing), dtype=bool)
        self._slots: Integers = np.zeros(shape, dtype=np.int64)
        self._closing: Integers = np.zeros(shape, dtype=np.int64)
        self._changed.clear()
        for node in self._failing:
            self._look(node)

    def _look(self, node: int) -> None:
        """See what leaves `node`, and what room it has."""
        at = self._place[node]
        queue = self._counting.queues[node]
        self._disks[at] = queue.disks
        self._wanted[:, at] = self._before[:, at] = ABSENT
        for need, (units, before) in queue.required.items():
            self._wanted[self._sizes[need], at] = units
            self._before[self._sizes[need], at] = before
        for need, size in self._sizes.items():
            room = self._counting.room_for(need)
            self._slots[size, at], self._closing[size, at] = room.at(node)

    def _renew(self) -> None:
        queues = self._counting.queues
        known = self._changed & queues.keys()
        if any(need not in self._sizes for node in known for need in queues[node].required):
            self._start()
            return
        for node in known:
            self._look(node)
        self._changed.clear()

    def after(self, instance: Instance, node: int) -> list[int]:
        """The failures that may be lost with `instance` on `node`; `node` itself is left out."""
        self._renew()
        own = fits_into(instance)
        slots, closing = self._totals(node, own)
        enough = slots - self._slots >= self._wanted
        enough |= (closing - self._closing > self._before) & ~self._disks
        sure: NDArray[np.bool_] = np.all(enough, axis=0)
        if node in self._place:
            sure[self._place[node]] = True
        return [self._failing[k] for k in np.flatnonzero(~sure).tolist()]

    def _totals(self, node: int, taken: Need) -> tuple[Integers, Integers]:
        """Slots and closing memory of all targets once `node` has given `taken`; per size."""
        found = []
        for need in self._sizes:
            room = self._counting.room_for(need)
            whole, less = room.without(-1), room.less(node, taken)
            found.append((whole[0] - less[0], whole[1] - less[1]))
        both = np.array(found, dtype=np.int64).reshape(-1, 2)
        return both[:, :1], both[:, 1:]
