"""What is counted for the failures of one group; see `iallocator.n1.counting.headroom`."""

from __future__ import annotations

from iallocator.limits.node import (
    DISK_SPACE,
    FREE_MEMORY,
    OWN_SPINDLES,
    POOL_SPACE,
    SPINDLES_OF_DISKS,
    other_limits,
)
from iallocator.model.columns import DISK, MEMORY
from iallocator.n1.counting.doubts import Doubts, Spare
from iallocator.n1.counting.queues import Queue, fits_into
from iallocator.n1.counting.rooms import Room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.counting.doubts import Margin
    from iallocator.n1.counting.queues import Leaving, Need
    from iallocator.n1.rules import Rules

__all__ = ["GroupHeadroom"]

COUNTED = (FREE_MEMORY, DISK_SPACE, POOL_SPACE, OWN_SPINDLES, SPINDLES_OF_DISKS)
"""The limits that counting takes into account; where pools or spindles matter it says nothing."""


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
            state.pools is not None
            or bool(other_limits(group, *COUNTED))
            or any(nodes[index].migration for index in group.nodes)
            or not all(self._known(index) for index in self.queues)
        )
        if not self.intricate:
            for node, queue in self.queues.items():
                queue.start(state.primaries[node].values())
        self._healthy: bool | None = None
        self._judged = False
        self._changed: list[int] = []  # every node that changes, one after the other
        self._watching: list[set[int]] = []
        self._margins: dict[Need, Margin] | None = None  # until something changes
        self._doubts = Doubts(state, self.queues, self.targets, self._watch())
        self._spare = Spare(state, self.queues, self.targets, self._watch())

    def _known(self, node: int) -> bool:
        """Whether counting can tell of all that leaves `node`."""
        return all(
            one.forthcoming or (one.template != "drbd" and self.counts(one))
            for one in self._state.primaries[node].values()
        )

    def counts(self, instance: Instance) -> bool:
        """Whether counting can tell of `instance`: by itself, and not rejected anywhere."""
        if instance.name in self._rules.units or (instance.local and not instance.disk):
            return False
        recreated = self._rules.recreates(instance)
        if self.group.exclusive and (instance.local or instance.spindles_anywhere or recreated):
            return False  # spindles may tell
        return not recreated or self.group.policy.rejects(instance, False) is None

    def holds(self, instance: Instance, node: int) -> bool:
        """Whether `node` has the memory and the disk for `instance`."""
        memory, disk = fits_into(instance)
        columns = self._state.columns
        return columns[MEMORY][node] > memory and (not disk or columns[DISK][node] > disk)

    def placed(self, instance: Instance, node: int) -> None:
        """`instance` has come to `node`."""
        self.placed_alike([(instance, (node,))])

    def placed_alike(self, arrivals: Sequence[tuple[Instance, Nodes]]) -> None:
        """Each instance has come to its node; they differ in name and order only."""
        if not self.intricate:
            for instance, (node,) in arrivals:
                if node in self.queues:
                    self.queues[node].add(instance)
        self._change([node for _, (node,) in arrivals])

    def undo(self, node: int, queue: Queue | None) -> None:
        """The state is as before at `node`, where this left it if it failed."""
        if queue is not None:
            self.queues[node] = queue
        self._change([node])

    def _change(self, nodes: Sequence[int]) -> None:
        self._judged, self._margins = False, None
        self._changed += nodes
        for changed in self._watching:
            changed.update(nodes)

    def _watch(self) -> set[int]:
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
        if self._margins is None:
            self._margins = self._doubts.margins()
        return any(
            self.room_for(need).less(node, taken)[0] > margin.but(node)
            for need, margin in self._margins.items()
        )

    def loses(self, failing: int, taken: Need, node: int) -> bool:
        """Whether one failure is lost for certain with an instance of size `taken` on `node`."""
        queue = self.queues[failing]
        if failing == node:
            return queue.lost(self._rooms(queue, failing, node, (0, 0)), [taken])
        return queue.lost(self._rooms(queue, failing, node, taken))

    def _verdict(self, instance: Instance | None, node: int) -> bool | None:
        found = self.unsettled(instance, node).values()
        return False if False in found else None if None in found else True

    def unsettled(self, instance: Instance | None, node: int) -> dict[int, bool | None]:
        """What `survives` says of all failures with `instance` on `node`, where it is not yes."""
        return self.unsettled_and(instance, node, [])[0]

    def unsettled_and(
        self, instance: Instance | None, node: int, others: Sequence[tuple[int, int]]
    ) -> tuple[dict[int, bool | None], list[bool | None]]:
        """The same, and what it says of `others`: of a failure with `instance` on a node each."""
        taken = fits_into(instance) if instance else (0, 0)
        apart = [(failing, other) for failing, other in others if failing != other]
        lost, told = self._doubts.after(taken, node, apart)
        found = {failing: False if sure else None for failing, sure in lost.items()}
        if node in self.queues:
            own = self.survives(node, instance, node)
            found = found if own else dict(sorted({**found, node: own}.items()))
        rest = iter(told)
        return found, [
            self.survives(failing, instance, other) if failing == other else next(rest)
            for failing, other in others
        ]

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
        slots, closing = self._without(need, failing)
        if node >= 0 and any(taken):
            less = self.room_for(need).less(node, taken)
            slots, closing = slots - less[0], closing - less[1]
        units, before = queue.required[need]
        return slots >= units or (not queue.disks and closing > before)

    def _rooms(self, queue: Queue, failing: int, node: int, taken: Need) -> list[int]:
        """For each of the sizes in `queue` how many of it the targets have room for."""
        found = []
        for need in queue.required:
            less = self.room_for(need).less(node, taken)[0] if node >= 0 and any(taken) else 0
            found.append(self._without(need, failing)[0] - less)
        return found

    def _without(self, need: Need, failing: int) -> tuple[int, int]:
        """See `Room.without`: from what is counted for all failures, if that knows the size."""
        return self._doubts.without(need, failing) or self.room_for(need).without(failing)

    def count(self, instance: Instance) -> int:
        """How many more like `instance` the group takes, wherever; see `Headroom.count`."""
        if self.intricate or not self.counts(instance):
            return 0
        return self._spare.count(instance)

    def room_for(self, need: Need) -> Room:
        """What the targets have room for, in instances of this size."""
        room = self._room.get(need)
        if room is None:
            room = self._room[need] = Room(self._state, need, self.targets, self._changed)
        return room
