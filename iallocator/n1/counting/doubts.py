"""What failures ask for, in arrays: which of them counting leaves in doubt, and what is to spare.

All say what `GroupHeadroom.survives` says of one failure after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.n1.counting.queues import cost_of, fits_into
from iallocator.n1.counting.rooms import ANY_NUMBER

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from iallocator.model.instance import Instance
    from iallocator.n1.counting.queues import Need, Queue, Required
    from iallocator.n1.counting.rooms import Room

    Integers = NDArray[np.int64]

__all__ = ["Doubts", "Margin", "Spare"]

ABSENT = -1
"""So many slots are wanted of a size that nobody has, and so much closed before it."""


class _Demands:
    """The failures of one group, sizes × failures.

    `queues` say what leaves each node, `room_for` what the others have room for; `changed` gets
    every node that changes, and is emptied here.
    """

    def __init__(
        self, queues: Mapping[int, Queue], room_for: Callable[[Need], Room], changed: set[int]
    ) -> None:
        self._queues = queues
        self._room_for = room_for
        self._changed = changed
        self._failing = list(queues)
        self._place = {node: k for k, node in enumerate(self._failing)}
        self._sizes: dict[Need, int] = {}
        self._rooms: list[Room] = []
        shape = 0, len(self._failing)
        self._wanted: Integers = np.empty(shape, dtype=np.int64)
        self._before, self._taken, self._slots, self._closing = (
            self._wanted.copy() for _ in range(4)
        )
        self._disks = np.zeros(len(self._failing), dtype=bool)
        changed.update(queues)

    def _required(self, node: int) -> Required:
        """What the failure of `node` requires; see `Queue.required`."""
        return self._queues[node].required

    def _needs_disks(self, node: int) -> bool:
        return self._queues[node].disks

    def _renew(self) -> None:
        """Look at all that has changed."""
        known = [node for node in self._changed if node in self._place]
        self._changed.clear()
        if known:
            self._look(known)

    def _look(self, nodes: Collection[int]) -> None:
        """See what leaves `nodes`, and what room they have."""
        at = [self._place[node] for node in nodes]
        self._wanted[:, at] = self._before[:, at] = ABSENT
        for place, node in zip(at, nodes):
            self._note(place, node)
        self._look_at_room(nodes, at)

    def _note(self, place: int, node: int) -> None:
        """See what leaves `node`."""
        self._disks[place] = self._needs_disks(node)
        for need, (units, before) in self._required(node).items():
            size = self._size(need)
            self._wanted[size, place], self._before[size, place] = units, before

    def _size(self, need: Need) -> int:
        """The row of a size, which may be new."""
        if need not in self._sizes:
            room = self._room_for(need)
            self._sizes[need] = len(self._rooms)
            self._rooms.append(room)
            absent = np.full((1, len(self._failing)), ABSENT, dtype=np.int64)
            self._wanted = np.concatenate((self._wanted, absent))
            self._before = np.concatenate((self._before, absent))
            self._taken = np.concatenate((self._taken, absent))
            room.renew()
            at = [room.place(node) for node in self._failing]
            self._slots = np.concatenate((self._slots, room.slots[None, at]))
            self._closing = np.concatenate((self._closing, room.closing[None, at]))
        return self._sizes[need]

    def _look_at_room(self, nodes: Collection[int], at: Sequence[int]) -> None:
        for size, room in enumerate(self._rooms):
            room.renew()
            there = [room.place(node) for node in nodes]
            self._slots[size, at], self._closing[size, at] = room.slots[there], room.closing[there]

    def _totals(self, node: int, taken: Need) -> tuple[Integers, Integers]:
        """Slots and closing memory of all targets once `node` has given `taken`; per size."""
        found = []
        for room in self._rooms:
            whole, less = room.without(-1), room.less(node, taken)
            found.append((whole[0] - less[0], whole[1] - less[1]))
        both = np.array(found, dtype=np.int64).reshape(-1, 2)
        return both[:, :1], both[:, 1:]


class Doubts(_Demands):
    """The failures that counting leaves in doubt, or knows to be lost."""

    def after(self, taken: Need, node: int) -> dict[int, bool]:
        """Those with so much taken from `node`, and whether they are lost for certain.

        `node` itself is left out.
        """
        self._renew()
        slots, closing = self._totals(node, taken)
        slots = slots - self._slots
        enough = slots >= self._wanted
        enough |= (closing - self._closing > self._before) & ~self._disks
        sure: NDArray[np.bool_] = np.all(enough, axis=0)
        if node in self._place:
            sure[self._place[node]] = True
        lost = np.any(self._taken > slots, axis=0)
        return {self._failing[k]: bool(lost[k]) for k in np.flatnonzero(~sure).tolist()}

    def margins(self) -> dict[Need, Margin]:
        """For each size how many slots failures leave of it at most."""
        self._renew()
        slots, _ = self._totals(-1, (0, 0))
        left = np.where(self._wanted == ABSENT, ANY_NUMBER, slots - self._slots - self._taken)
        return {need: Margin(self._failing, left[size]) for need, size in self._sizes.items()}

    def _note(self, place: int, node: int) -> None:
        super()._note(place, node)
        queue = self._queues[node]
        self._taken[:, place] = ABSENT
        for need in queue.required:
            self._taken[self._sizes[need], place] = queue.taken(need)


class Margin:
    """The least of the amounts that belong to some nodes, and the least of all others."""

    __slots__ = ("_least", "_node", "_second")

    def __init__(self, nodes: Sequence[int], amounts: Integers) -> None:
        at = int(amounts.argmin())
        self._node, self._least = nodes[at], int(amounts[at])
        others = np.delete(amounts, at)
        self._second = int(others.min(initial=ANY_NUMBER))

    def but(self, node: int) -> int:
        """The least of all but that of `node`."""
        return self._second if node == self._node else self._least


class Spare(_Demands):
    """How many more like one instance may come, wherever each of them goes."""

    def __init__(
        self, queues: Mapping[int, Queue], room_for: Callable[[Need], Room], changed: set[int]
    ) -> None:
        super().__init__(queues, room_for, changed)
        self._instance: Instance | None = None
        self._positions: dict[int, int] = {}

    def count(self, instance: Instance) -> int:
        """The number for more of `instance`, which may be another one each time."""
        self._compare(instance)
        self._renew()
        own = fits_into(instance)
        slots, closing = self._totals(-1, (0, 0))
        slots, closing = slots - self._slots, closing - self._closing
        cost = np.array([[cost_of(own, need)] for need in self._sizes], dtype=np.int64)
        some = (slots - self._wanted) // np.maximum(cost, 1)
        found = np.where(cost > 0, some, ANY_NUMBER * (slots >= self._wanted))
        free = closing - self._before
        more = (free - 1) // own[0] if own[0] else np.full_like(free, ANY_NUMBER)
        found = np.where((free > 0) & ~self._disks, np.maximum(found, more), found)
        found[self._wanted == ABSENT] = ANY_NUMBER
        return max(0, int(found.min(initial=ANY_NUMBER)))

    def _compare(self, instance: Instance) -> None:
        """Find the nodes that `instance` would leave at another turn than the last one."""
        known, self._instance = self._instance, instance
        if (
            known is None
            or known.as_primary != instance.as_primary
            or known.local != instance.local
        ):
            self._changed.update(self._queues)
        for node, queue in self._queues.items():
            position = queue.position(instance)
            if self._positions.get(node) != position:
                self._positions[node] = position
                self._changed.add(node)

    def _required(self, node: int) -> Required:
        assert self._instance is not None
        return self._queues[node].required_with(self._instance)

    def _needs_disks(self, node: int) -> bool:
        assert self._instance is not None
        return self._queues[node].disks or bool(fits_into(self._instance)[1])
