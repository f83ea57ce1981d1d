"""Counting: how many more equal instances keep N+1 for certain, and which placement breaks it.

The instances of a failed node are restarted in a known order.  Let x be the size of one of them.
A target with n slots of that size still has at least ``n - ceil(y / x)`` slots after it receives an
instance of size y.  So an instance has a placement, whatever was chosen for those before it, if all
targets together have more slots of its size than the instances before it take away.  The last
instance of each size is the worst case.  Where only memory is needed, the bound with the memory of
the instances before it decides as well (see `iallocator.n1.bounds`).

The other direction: each instance of size y takes at least ``floor(y / x)`` slots.  If any size has
fewer slots than that, or the memory is less than what is restarted, some instance is left over.

Where neither direction decides, the undecided failures, and only those, are simulated
(`iallocator.n1.batched_simulation`).

Cost: O(n) per placement and size in arrays of *n* nodes; no instance is looked at twice.
"""

from __future__ import annotations

from iallocator.deadline import check
from iallocator.limits.node import (
    DISK_SPACE,
    FREE_MEMORY,
    OWN_SPINDLES,
    POOL_SPACE,
    SPINDLES_OF_DISKS,
    other_limits,
)
from iallocator.model.columns import DISK, MEMORY
from iallocator.n1.batched_simulation import BatchedSimulation
from iallocator.n1.queues import Queue, fits_into
from iallocator.n1.slot_counts import SlotCounts, SpareSlots, UndecidedFailures

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.batched_simulation import Arrivals
    from iallocator.n1.queues import Leaving, Need
    from iallocator.n1.rules import Rules
    from iallocator.n1.slot_counts import Margin
    from iallocator.scoring import Kernels

    Doubt = tuple[int, Leaving]
    """A node that fails, and the instances that leave it then."""

__all__ = ["Doubt", "GroupHeadroom", "Trials"]


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
        self._room: dict[Need, SlotCounts] = {}
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
        self._doubts = UndecidedFailures(state, self.queues, self.targets, self._watch())
        self._spare = SpareSlots(state, self.queues, self.targets, self._watch())

    def _known(self, node: int) -> bool:
        """Whether counting can tell of all that leaves `node`."""
        return all(
            one.forthcoming or (not one.needs_secondary and self.counts(one))
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

    def certainly_lost(self, instance: Instance, node: int) -> bool:
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
            self.slots_of_size(need).less(node, taken)[0] > margin.but(node)
            for need, margin in self._margins.items()
        )

    def loses(self, failing: int, taken: Need, node: int) -> bool:
        """Whether one failure is lost for certain with an instance of size `taken` on `node`."""
        queue = self.queues[failing]
        if failing == node:
            return queue.lost(self._slot_counts(queue, failing, node, (0, 0)), [taken])
        return queue.lost(self._slot_counts(queue, failing, node, taken))

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
        return False if queue.lost(self._slot_counts(queue, failing, node, own)) else None

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
            less = self.slots_of_size(need).less(node, taken)
            slots, closing = slots - less[0], closing - less[1]
        units, before = queue.required[need]
        return slots >= units or (not queue.disks and closing > before)

    def _slot_counts(self, queue: Queue, failing: int, node: int, taken: Need) -> list[int]:
        """For each of the sizes in `queue` how many of it the targets have room for."""
        found = []
        for need in queue.required:
            less = self.slots_of_size(need).less(node, taken)[0] if node >= 0 and any(taken) else 0
            found.append(self._without(need, failing)[0] - less)
        return found

    def _without(self, need: Need, failing: int) -> tuple[int, int]:
        """Return `SlotCounts.without`, from the arrays of all failures if they have the size."""
        return self._doubts.without(need, failing) or self.slots_of_size(need).without(failing)

    def count(self, instance: Instance) -> int:
        """How many more like `instance` the group takes, wherever; see `Headroom.count`."""
        if self.intricate or not self.counts(instance):
            return 0
        return self._spare.count(instance)

    def slots_of_size(self, need: Need) -> SlotCounts:
        """What the targets have room for, in instances of this size."""
        room = self._room.get(need)
        if room is None:
            room = self._room[need] = SlotCounts(self._state, need, self.targets, self._changed)
        return room


FEW, GROWTH = 4, 4
"""So many sizes are played through at once at first, and so many times as many each time."""

TWICE = 2
"""Once an instance is rejected on so many nodes, a failure is asked for all others at once."""


class Trials:
    """Judges placements in the group of `counting` on `state`, which may go on changing.

    Attributes
    ----------
    plain:
        Whether failures can be played through in arrays.
    """

    def __init__(
        self, state: State, kernels: Kernels, rules: Rules, counting: GroupHeadroom
    ) -> None:
        self._state = state
        self._kernels = kernels
        self._rules = rules
        self._counting = counting
        self._simulations: dict[bool, BatchedSimulation] = {}
        self.plain = not counting.intricate and self._untagged()
        self._version = -1
        self._before: dict[int, bool | None] = {}  # whether failures are survived as things are
        self._instance: Instance | None = None  # the last that was judged
        self._refuted: set[int] = set()  # where it would not do, as is known already
        self._foreseen: dict[tuple[float, ...], set[int]] = {}  # vector -> where it would not do
        self._asked: set[int] = set()  # failures of which that is known for every node
        self._refuters: dict[int, int] = {}  # node -> whose failure rejected somebody there last

    def _untagged(self) -> bool:
        """Whether only amounts tell nodes apart: no tags of instances, no reserved memory."""
        state = self._state
        return not any(
            state.reserved[index]
            or any(one.exclusion or one.desired for one in state.primaries[index].values())
            for index in self._counting.group.nodes
        )

    def keeps(self, instance: Instance, node: int) -> bool | None:
        """Whether `instance` may come to `node`; see `headroom.Headroom.keeps`."""
        counting = self._counting
        if counting.intricate or not counting.counts(instance):
            return None
        self._look_at(instance)
        if node in self._refuted:
            return False
        likely = self._refuters.get(node)
        if likely is not None and counting.survives(likely, instance, node) is False:
            against = self._counts_against(likely)
            if against is not False:
                return None if against is None else False
        doubts: list[Doubt] = []
        for failing, found in counting.unsettled(instance, node).items():
            if found is False:
                against = self._counts_against(failing)
                if against is not False:
                    self._refuters[node] = failing
                    return None if against is None else False
            else:
                doubts.append((failing, counting.leaving(failing, instance, node)))
        if likely is not None:
            doubts.sort(key=lambda doubt: doubt[0] != likely)
        return self._try(doubts, instance, node) if doubts else True

    def _look_at(self, instance: Instance) -> None:
        """Forget what is not true any more, or was true of another instance."""
        self._look_again()
        if self._instance is not instance:
            self._instance = instance
            self._asked = set()
            if instance.as_primary not in self._foreseen:
                self.foresee([instance])
            self._refuted = set(self._foreseen[instance.as_primary])

    def _look_again(self) -> None:
        """Forget what was true of the state before."""
        if self._version != self._state.version:
            self._version = self._state.version
            self._before = {}
            self._foreseen = {}
            self._instance = None

    @property
    def refuters(self) -> Mapping[int, int]:
        """Nodes that somebody was rejected on last, and by whose failure."""
        return self._refuters

    def learn(self, node: int, refuter: int | None) -> None:
        """The failure of `refuter` rejects whoever comes to `node`; None: no failure does."""
        if refuter is None:
            self._refuters.pop(node, None)
        else:
            self._refuters[node] = refuter

    def foresee(self, instances: Sequence[Instance]) -> None:
        """See at once where these would not do, as they come one by one to the state as it is.

        Of each node only the failure is asked that rejected somebody there last.
        """
        self._look_again()
        fresh = [one for one in instances if one.as_primary not in self._foreseen]
        rows = [
            (one, node, failing)
            for one in fresh
            if self._counting.counts(one)
            for node, failing in self._refuters.items()
            if self._counting.holds(one, node) and self._counts_against(failing)
        ]
        leaving = self._counting.leaving
        lost = self.lost(
            [(failing, leaving(failing, one, node)) for one, node, failing in rows],
            [(one, (node,)) for one, node, _ in rows],
        )
        self._foreseen |= {one.as_primary: set() for one in fresh}
        for (one, node, _), gone in zip(rows, lost or ()):
            if gone:
                self._foreseen[one.as_primary].add(node)

    def _try(self, doubts: Sequence[Doubt], instance: Instance, node: int) -> bool | None:
        """Play the failures in doubt through."""
        lost = self.lost(doubts, [(instance, (node,))] * len(doubts))
        if lost is None:
            return None
        for (failing, _), gone in zip(doubts, lost):
            against = gone and self._counts_against(failing)
            if against is not False:
                self._refuters[node] = failing
                if against:
                    self._refuted.add(node)
                    self._ask_everywhere(failing, instance)
                return None if against is None else False
        self._refuters.pop(node, None)
        return True

    def _ask_everywhere(self, failing: int, instance: Instance) -> None:
        """`failing` rejects `instance` on a second node: see at once where else."""
        if len(self._refuted) < TWICE or failing in self._asked:
            return
        self._asked.add(failing)
        counting, nodes = self._counting, self._state.cluster.nodes
        others = [
            i
            for i in counting.group.nodes
            if i != failing and nodes[i].online and i not in self._refuted
        ]
        doubts = [(failing, counting.leaving(failing, instance, -1))] * len(others)
        lost = self.lost(doubts, [(instance, (node,)) for node in others])
        found = [node for node, gone in zip(others, lost or ()) if gone]
        self._refuted.update(found)
        self._refuters.update(dict.fromkeys(found, failing))

    def _counts_against(self, failing: int) -> bool | None:
        """Whether a placement is rejected that leaves this failure lost; None: unknown."""
        return True if self._rules.strict else self._survived_before(failing)

    def _survived_before(self, failing: int) -> bool | None:
        """Whether a failure is survived as things are; None: unknown."""
        if failing not in self._before:
            found = self._counting.survives(failing, None, -1)
            if found is None:
                lost = self.lost([(failing, self._counting.leaving(failing, None, -1))], [None])
                found = None if lost is None else not lost[0]
            self._before[failing] = found
        return self._before[failing]

    def sound(self) -> bool | None:
        """Whether every failure is survived as things are; None: unknown."""
        found = self._counting.healthy()
        if found is not None or self._counting.intricate:
            return found
        self._look_again()
        verdicts = {self._survived_before(failing) for failing in self._counting.queues}
        return False if False in verdicts else None if None in verdicts else True

    def lost(self, doubts: Sequence[Doubt], coming: Sequence[Arrivals | None]) -> list[bool] | None:
        """Which failures lose somebody; None: they cannot be played through in arrays.

        With what is `coming` beside what the state holds, see `BatchedSimulation.lost`.
        """
        simulation = self._simulation_of([leaving for _, leaving in doubts])
        if simulation is None:
            return None
        return simulation.lost([node for node, _ in doubts], [one for _, one in doubts], coming)

    def rejected_down(self, instances: Sequence[Instance], nodes: Sequence[int]) -> int:
        """How many of `instances` are rejected on all of `nodes` for certain, from the first on.

        They are ever smaller in one amount.  Only with ``strict``, and as far as one failure
        for each node tells, that which rejected somebody there last.
        """
        counting = self._counting
        known = self._rules.strict and self.plain and all(node in self._refuters for node in nodes)
        if not known or not (counting.counts(instances[0]) and counting.counts(instances[-1])):
            return 0
        found, size = 0, FEW
        while found < len(instances):
            check()
            part = instances[found : found + size]
            rejected = self._rejected_everywhere(part, nodes)
            found += rejected
            if rejected < len(part):
                break
            size *= GROWTH
        return found

    def _rejected_everywhere(self, instances: Sequence[Instance], nodes: Sequence[int]) -> int:
        """How many of these, from the first on, the failure loses that belongs to each node."""
        rows = [(one, node, self._refuters[node]) for one in instances for node in nodes]
        leaving = self._counting.leaving
        lost = self.lost(
            [(failing, leaving(failing, one, node)) for one, node, failing in rows],
            [(one, (node,)) for one, node, _ in rows],
        )
        if lost is None:
            return 0
        return lost.index(False) // len(nodes) if False in lost else len(instances)

    def _simulation_of(self, leaving: Sequence[Leaving]) -> BatchedSimulation | None:
        """What plays these through; None: arrays do not."""
        kinds = {kind for one in leaving for kind in one.recreated}
        single = len(self._state.cluster.groups) == 1
        if not self.plain or (len(kinds) > 1 and not single):
            return None
        return self._simulation(single or True in kinds)

    def _simulation(self, whole: bool) -> BatchedSimulation:
        """Over all nodes, where instances are created anew; else over those of the group."""
        if whole not in self._simulations:
            counting, state = self._counting, self._state
            scope = range(len(state.cluster.nodes)) if whole else counting.group.nodes
            self._simulations[whole] = BatchedSimulation(
                state, self._kernels.matrix(), scope, counting.targets
            )
        return self._simulations[whole]
