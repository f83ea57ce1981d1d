"""What is counted for the failures of one group; see `iallocator.n1.counting.headroom`."""

from __future__ import annotations

from math import ceil

from iallocator.model.columns import DISK, MEMORY
from iallocator.n1.counting.queues import Queue, cost_of, fits_into

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.counting.queues import Leaving, Need
    from iallocator.n1.rules import Rules

__all__ = ["ANY_NUMBER", "GroupHeadroom", "Room"]

ANY_NUMBER = 1 << 40


class GroupHeadroom:
    """The failures of one group, and what its nodes have room for.

    Attributes
    ----------
    group, targets:
        The group, and its nodes that may take over.
    queues:
        Node whose failure has to be survived -> what leaves it then.
    intricate:
        Whether counting tells nothing.
    """

    def __init__(self, state: State, rules: Rules, group: Group, watched: set[int]) -> None:
        nodes = state.cluster.nodes
        self._state = state
        self._rules = rules
        self.group = group
        self.targets = rules.targets(state.cluster, group)
        self._room: dict[Need, Room] = {}
        self.queues = {i: Queue(rules) for i in group.nodes if i in watched}
        self.intricate = (
            group.exclusive
            or state.pools is not None
            or any(nodes[index].migration for index in group.nodes)
            or not all(self._known(index) for index in self.queues)
        )
        if not self.intricate:
            for node, queue in self.queues.items():
                queue.start(state.primaries[node].values())
        self._healthy: bool | None = None
        self._judged = False
        self._watching: list[set[int]] = []
        self._spare: dict[Need, Spare] | None = None
        self._tightest = -1  # the failure that left the least room for more

    def _known(self, node: int) -> bool:
        """Whether counting can tell of all that leaves `node`."""
        return all(
            one.forthcoming or (one.template != "drbd" and self.counts(one))
            for one in self._state.primaries[node].values()
        )

    def counts(self, instance: Instance) -> bool:
        """Whether counting can tell of `instance`: by itself, and not refused anywhere."""
        if instance.name in self._rules.units or (instance.local and not instance.disk):
            return False
        if not self._rules.recreates(instance):
            return True
        return self.group.policy.refuses(instance, False) is None

    def holds(self, instance: Instance, node: int) -> bool:
        """Whether `node` has the memory and the disk for `instance`."""
        memory, disk = fits_into(instance)
        columns = self._state.columns
        return columns[MEMORY][node] > memory and (not disk or columns[DISK][node] > disk)

    def placed(self, instance: Instance, node: int) -> None:
        """`instance` has come to `node`."""
        if node in self.queues and not self.intricate:
            self.queues[node].add(instance)
        self._changes(node)

    def undo(self, node: int, queue: Queue | None) -> None:
        """The state is as before at `node`, where this left it if it failed."""
        if queue is not None:
            self.queues[node] = queue
        self._changes(node)

    def _changes(self, node: int) -> None:
        self._judged, self._spare = False, None
        for room in self._room.values():
            room.changed.add(node)
        for changed in self._watching:
            changed.add(node)

    def watch(self) -> set[int]:
        """A set that gets every node that changes from now on."""
        self._watching.append(set())
        return self._watching[-1]

    def healthy(self) -> bool | None:
        """Whether every failure is survived as things are; None: unknown."""
        if not self._judged:
            self._judged = True
            self._healthy = None if self.intricate else self._verdict(None, -1)
        return self._healthy

    def accepts(self, instance: Instance, node: int) -> bool | None:
        """The same with `instance` on `node`."""
        if self.intricate or not self.counts(instance):
            return None
        return self._verdict(instance, node)

    def hopeless(self, instance: Instance, node: int) -> bool:
        """Whether a failure is lost for certain with `instance`, or a larger one, on `node`.

        Slots are counted for sizes that are there already: those for its own may become less in
        number and in need, the larger it is.
        """
        if self.intricate or not self.counts(instance):
            return False
        taken = fits_into(instance)
        if node in self.queues and self.loses(node, taken, node):
            return True
        return any(
            self.room_for(need).less(node, taken)[0] > spare.but(node)
            for need, spare in self._spare_slots().items()
        )

    def _spare_slots(self) -> dict[Need, Spare]:
        """For each size the least that a failure leaves of its slots; until something changes."""
        if self._spare is None:
            self._spare = {}
            for failing, queue in self.queues.items():
                for need, room in zip(queue.required, self._rooms(queue, failing, -1, (0, 0))):
                    spare = self._spare.setdefault(need, Spare())
                    spare.note(failing, room - queue.taken(need))
        return self._spare

    def loses(self, failing: int, taken: Need, node: int) -> bool:
        """Whether one failure is lost for certain with an instance of size `taken` on `node`."""
        queue = self.queues[failing]
        if failing == node:
            return queue.lost(self._rooms(queue, failing, node, (0, 0)), [taken])
        return queue.lost(self._rooms(queue, failing, node, taken))

    def _verdict(self, instance: Instance | None, node: int) -> bool | None:
        certain = True
        for failing in self.queues:
            found = self.survives(failing, instance, node)
            if found is False:
                return False
            certain = certain and found is True
        return True if certain else None

    def survives(self, failing: int, instance: Instance | None, node: int) -> bool | None:
        """Whether one failure is survived with `instance` on `node`, as far as counting tells."""
        comes_here = instance is not None and failing == node
        queue = self.queue(failing, instance, node)
        if not queue.moved:
            return True
        own = (0, 0) if instance is None or comes_here else fits_into(instance)
        if all(self._suffices(queue, need, failing, node, own) for need in queue.required):
            return True
        return False if queue.lost(self._rooms(queue, failing, node, own)) else None

    def queue(self, failing: int, instance: Instance | None, node: int) -> Queue:
        """What leaves `failing`, with `instance` in it if that is on it."""
        present = self.queues[failing]
        return present.with_one(instance) if instance and failing == node else present

    def leaving(self, failing: int, instance: Instance | None, node: int) -> Leaving:
        """The same for good."""
        return self.queue(failing, instance, node).leaving()

    def _suffices(self, queue: Queue, need: Need, failing: int, node: int, taken: Need) -> bool:
        room = self.room_for(need)
        slots, closing = room.without(failing)
        if node >= 0:
            less = room.less(node, taken)
            slots, closing = slots - less[0], closing - less[1]
        units, before = queue.required[need]
        return slots >= units or (not queue.disks and closing > before)

    def _rooms(self, queue: Queue, failing: int, node: int, taken: Need) -> list[int]:
        """For each of the sizes in `queue` how many of it the targets have room for."""
        found = []
        for need in queue.required:
            room = self.room_for(need)
            less = room.less(node, taken)[0] if node >= 0 else 0
            found.append(room.without(failing)[0] - less)
        return found

    def count(self, instance: Instance) -> int:
        """How many more like `instance` the group takes, wherever; see `Headroom.count`."""
        if self.intricate or not self.counts(instance):
            return 0
        least = ANY_NUMBER
        own = fits_into(instance)
        first = [self._tightest] if self._tightest in self.queues else []
        for failing in dict.fromkeys([*first, *self.queues]):
            whole = self.queues[failing].with_one(instance)
            for need, (units, before) in whole.required.items():
                slots, closing = self.room_for(need).without(failing)
                cost = cost_of(own, need)
                found = (slots - units) // cost if cost else ANY_NUMBER * (slots >= units)
                if not whole.disks and closing > before and found < least:
                    more = (closing - before - 1) // own[0] if own[0] else ANY_NUMBER
                    found = max(found, more)
                if found < least:
                    least, self._tightest = found, failing
                if least <= 0:
                    return 0
        return int(least)

    def room_for(self, need: Need) -> Room:
        """What the targets have room for, in instances of this size."""
        room = self._room.get(need)
        if room is None:
            room = self._room[need] = Room(self._state, need, self.targets)
        return room


class Spare:
    """The two lowest amounts among those of some nodes."""

    __slots__ = ("_lowest", "_node", "_second")

    def __init__(self) -> None:
        self._node = -1
        self._lowest = self._second = ANY_NUMBER

    def note(self, node: int, amount: int) -> None:
        """The amount of `node`."""
        if amount < self._lowest:
            self._node, self._lowest, self._second = node, amount, self._lowest
        else:
            self._second = min(self._second, amount)

    def but(self, node: int) -> int:
        """The lowest of all but that of `node`."""
        return self._second if node == self._node else self._lowest


class Room:
    """How often an instance of one size fits on each target, and what it takes to close all.

    Attributes
    ----------
    changed:
        Nodes to be looked at again.
    """

    __slots__ = ("_closing", "_need", "_slots", "_state", "_sums", "changed")

    def __init__(self, state: State, need: Need, targets: Sequence[int]) -> None:
        self._state = state
        self._need = need
        self._slots = dict.fromkeys(targets, 0)
        self._closing = dict.fromkeys(targets, 0)
        self._sums = [0, 0]
        self.changed = set(targets)

    def without(self, node: int) -> tuple[int, int]:
        """Slots, and MiB of memory that close all targets, but for `node`."""
        self._renew()
        return (
            self._sums[0] - self._slots.get(node, 0),
            self._sums[1] - self._closing.get(node, 0),
        )

    def at(self, node: int) -> tuple[int, int]:
        """The same of `node` alone."""
        self._renew()
        return self._slots.get(node, 0), self._closing.get(node, 0)

    def less(self, node: int, taken: Need) -> tuple[int, int]:
        """By how much both are less once `node` has given `taken`."""
        if node not in self._slots:
            return 0, 0
        self._renew()
        slots, closing = self._count(node, taken)
        return self._slots[node] - slots, self._closing[node] - closing

    def _renew(self) -> None:
        if not self.changed:
            return
        for node in self.changed & self._slots.keys():
            slots, closing = self._count(node, (0, 0))
            self._sums[0] += slots - self._slots[node]
            self._sums[1] += closing - self._closing[node]
            self._slots[node], self._closing[node] = slots, closing
        self.changed.clear()

    def _count(self, node: int, taken: Need) -> tuple[int, int]:
        """Slots of `node`, and the MiB that close it; some memory and disk must remain."""
        memory, disk = self._need
        free = ceil(self._state.columns[MEMORY][node]) - taken[0] - 1
        slots = (free // memory if memory else ANY_NUMBER) if free >= 0 else 0
        if disk:
            slots = min(slots, (ceil(self._state.columns[DISK][node]) - taken[1] - 1) // disk)
        return max(0, slots), max(0, free - memory + 1)
