"""Counting of slots: decides N+1 for many equal instances that have no secondary.

A failure is a set of nodes of one group; usually it is one node. The instances of the failed nodes
are restarted in a known order on the targets, which are the other nodes of the group. A slot is
free capacity of a target for one instance of a given size.

Let x be the size of an instance. A target with n slots of size x still has at least
``n - ceil(y / x)`` of them after it receives an instance of size y. So the instance can be
restarted, wherever the earlier ones restart, if all targets together have more slots of size x than
the earlier instances take away at most. Of equal instances, only the last one must be checked.
Where instances need memory only, the sums of `iallocator.n1.bounds` are a second proof.

Conversely, an instance of size y takes at least ``floor(y / x)`` slots of size x. If the targets
have fewer slots of some size than all instances take at least, some instance cannot be restarted.

Where neither direction decides, the undecided failures, and only those, are simulated in batches
(`iallocator.n1.batched_simulation`).

Several placements of equal instances, one after the other, are checked at once by speculation.  The
next nodes are predicted: each instance is expected on the best node that is not known to reject it.
All failures that counting leaves undecided are simulated together, which takes little longer than
one of them.  The first wrong prediction ends the accepted sequence, and is remembered.

Cost: O(n + f) array elements for each placement and size, with *n* nodes, and *f* nodes in all
failures together. The number of instances does not matter.
"""

from __future__ import annotations

from iallocator.constraints.table import entry_rejection
from iallocator.deadline import check
from iallocator.limits.node import other_limits
from iallocator.model.columns import DISK, MEMORY
from iallocator.model.state import derived
from iallocator.n1 import ANY_NUMBER, PACKED_LIMITS
from iallocator.n1.batched_simulation import BatchedSimulation
from iallocator.n1.slots import (
    NOTHING,
    Queue,
    Sizes,
    SpareSlots,
    UndecidedFailures,
    slots_of_node,
    slots_of_nodes,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import Kept, State
    from iallocator.n1 import Failure, Rules
    from iallocator.n1.batched_simulation import Arrivals
    from iallocator.n1.slots import Leaving, Margin, Need
    from iallocator.scoring import Kernels

    Undecided = tuple[Failure, Leaving]
    """A failure, and the instances that leave its nodes then."""

__all__ = ["CountedTolerance", "GroupCounting", "Speculation"]


FIRST_BATCH_SIZES, BATCH_GROWTH = 4, 4
"""The number of instances in the first batch of `GroupChecks.rejected_down`, and the factor by
which each later batch is larger."""

REJECTIONS_BEFORE_SIMULATION = 2
"""The number of nodes on which a failure must have rejected an instance before the failure is
simulated for all other nodes at once."""


class GroupCounting:
    """Decides whether the failures of one group are tolerated, by counting the slots of its nodes.

    Every method that returns a bool or None returns None if counting does not decide.

    Attributes
    ----------
    group, targets:
        The group, and its nodes that may take over.
    sizes:
        The sizes of the instances.
    queues:
        Failure -> the instances that must restart when its nodes fail.
    intricate:
        Whether counting never decides in this group, for example if nodes of it and of another
        group fail together.
    """

    def __init__(
        self, state: State, rules: Rules, group: Group, failing: Collection[Failure]
    ) -> None:
        nodes = state.cluster.nodes
        self._state = state
        self._rules = rules
        self.group = group
        self.targets = rules.targets(state.cluster, group)
        inside = frozenset(group.nodes)
        mine = [one for one in failing if not inside.isdisjoint(one)]
        self.sizes = Sizes(self.targets, state.cluster.reach)
        self.queues = {one: Queue(rules, self.sizes) for one in sorted(mine)}
        self._of_node: dict[int, list[Failure]] = {}
        for one in self.queues:
            for node in one:
                self._of_node.setdefault(node, []).append(one)
        self.intricate = (
            not all(inside.issuperset(one) for one in mine)
            or bool(other_limits(group, *PACKED_LIMITS))
            or any(nodes[index].migration for index in group.nodes)
            or not all(
                one.forthcoming or (not one.needs_secondary and self.counts(one))
                for index in self._of_node
                for one in state.primaries[index].values()
            )
        )
        if not self.intricate:
            for failure, queue in self.queues.items():
                queue.start(*(state.primaries[node].values() for node in failure))
        self._totals: Kept[Need, tuple[int, int]] = {}
        self._all_tolerated: Kept[None, bool | None] = {}
        self._margins: Kept[None, dict[Need, Margin]] = {}
        # The nodes that have changed since the arrays were renewed
        self._changed: list[set[int]] = [set(), set()]
        self._undecided = UndecidedFailures(state, self.queues, self.sizes, self._changed[0])
        self._spare = SpareSlots(state, self.queues, self.sizes, self._changed[1])

    def counts(self, instance: Instance) -> bool:
        """Return whether counting takes all limits of `instance` into account."""
        if instance.name in self._rules.units or (instance.local and not instance.disk):
            return False
        if instance.draws:
            return False  # the free space of a storage pool may decide
        recreated = self._rules.recreates(instance)
        if self.group.exclusive and (instance.local or instance.hides_spindles or recreated):
            return False  # spindles may decide
        return not (recreated and entry_rejection(self.group, instance))

    def holds(self, instance: Instance, node: int) -> bool:
        """Return whether `node` is open to `instance`, and has the memory and the disk for it."""
        memory, disk, _ = self.sizes.of(instance)
        reach = self._state.cluster.reach(instance) if instance.restricted else None
        if reach is not None and node not in reach:
            return False
        columns = self._state.columns
        return columns[MEMORY][node] > memory and (not disk or columns[DISK][node] > disk)

    def failures_of(self, node: int) -> Sequence[Failure]:
        """Return the failures in which `node` fails."""
        return self._of_node.get(node, ())

    # Changes of the state

    def placed(self, arrivals: Sequence[tuple[Instance, Nodes]]) -> None:
        """Update the counts after instances were placed on one node each.

        The instances must be equal except for names and orders. Counting decides nothing any more
        if it does not take all their limits into account.
        """
        self.intricate = self.intricate or not self.counts(arrivals[0][0])
        if not self.intricate:
            for instance, (node,) in arrivals:
                for failure in self.failures_of(node):
                    self.queues[failure].add(instance, failure.index(node))
        self._change([node for _, (node,) in arrivals])

    def restore(self, nodes: Collection[int], queues: Mapping[Failure, Queue]) -> None:
        """Restore the counts at the end of a trial, which undoes its changes of the state.

        `nodes`: the nodes on which the trial placed instances. `queues`: the queues that the trial
        has changed, as they were before it. They are passed in because it is too slow to build them
        again from the state: ``capacity`` with ``--n1 strict`` on 40 nodes with 2400 rbd instances
        takes 1.61 s instead of 1.46 s.
        """
        self.queues.update(queues)
        self._change(nodes)

    def _change(self, nodes: Collection[int]) -> None:
        for changed in self._changed:
            changed.update(nodes)

    # All failures

    def count(self, instance: Instance) -> int:
        """Return how many more instances equal to `instance` certainly keep N+1.

        The number holds whichever nodes of the group they are placed on.
        """
        if self.intricate or not self.counts(instance):
            return 0
        return self._spare.count(instance)

    def tolerates_all(self) -> bool | None:
        """Return whether every failure is tolerated in the present state; None: undecided."""
        if self.intricate:
            return None
        return derived(
            self._all_tolerated, None, self._state.version, lambda: self._result(None, -1)
        )

    def tolerates(self, instance: Instance, node: int) -> bool | None:
        """Return whether every failure is tolerated with `instance` on `node`; None: undecided."""
        if self.intricate or not self.counts(instance):
            return None
        return self._result(instance, node)

    def _result(self, instance: Instance | None, node: int) -> bool | None:
        results = self.not_tolerated(instance, node).values()
        return False if False in results else None if None in results else True

    def certainly_lost(self, instance: Instance, node: int) -> bool:
        """Return whether a failure is certainly intolerable with `instance` on `node`.

        If the result is True, it is True for a larger instance as well, because the counted slots
        are those for sizes of instances that are already placed.
        """
        if self.intricate or not self.counts(instance):
            return False
        taken = self.sizes.of(instance)
        if any(self.loses(failure, taken, node) for failure in self.failures_of(node)):
            return True
        margins = derived(self._margins, None, self._state.version, self._undecided.margins)
        return any(
            self._taken_slots(need, node, taken)[0] > margin.but(node)
            for need, margin in margins.items()
        )

    def not_tolerated(self, instance: Instance | None, node: int) -> dict[Failure, bool | None]:
        """Return the failures that are not tolerated (False), or undecided (None).

        `instance` is counted on `node`; with None, the result is that of the present state.
        """
        return self.not_tolerated_with(instance, node, [])[0]

    def not_tolerated_with(
        self, instance: Instance | None, node: int, others: Sequence[tuple[Failure, int]]
    ) -> tuple[dict[Failure, bool | None], list[bool | None]]:
        """Return the failures not proved tolerated, and for each of `others` whether it is
        tolerated.

        `instance` is counted on `node` for the first result. `others`: a failure, and the node on
        which `instance` is counted instead.
        """
        need = self.sizes.of(instance) if instance else NOTHING
        apart = [(failure, other) for failure, other in others if other not in failure]
        lost, known = self._undecided.after(need, node, apart)
        results = {failure: False if sure else None for failure, sure in lost.items()}
        for failure in self.failures_of(node):
            own = self.tolerates_failure(failure, instance, node)
            results = results if own else dict(sorted({**results, failure: own}.items()))
        rest = iter(known)
        return results, [
            self.tolerates_failure(failure, instance, other) if other in failure else next(rest)
            for failure, other in others
        ]

    # One failure

    def loses(self, failure: Failure, need: Need, node: int) -> bool:
        """Return whether `failure` certainly loses an instance if one of size `need` is placed on
        `node`.
        """
        queue = self.queues[failure]
        if node in failure:
            return queue.lost(self._slots(queue, failure, node, NOTHING), [need])
        return queue.lost(self._slots(queue, failure, node, need))

    def tolerates_failure(
        self, failure: Failure, instance: Instance | None, node: int
    ) -> bool | None:
        """Return whether `failure` is tolerated with `instance` on `node`; None: undecided."""
        comes_here = instance is not None and node in failure
        queue = self._queue(failure, instance, node)
        if not queue.moved:
            return True
        own_need = NOTHING if instance is None or comes_here else self.sizes.of(instance)
        for need, (units, before) in queue.required.items():
            slots, closing = self._without(need, failure)
            if node >= 0 and any(own_need[:2]):
                less = self._taken_slots(need, node, own_need)
                slots, closing = slots - less[0], closing - less[1]
            if slots < units and (queue.disks or closing <= before):
                return False if queue.lost(self._slots(queue, failure, node, own_need)) else None
        return True

    def leaving(self, failure: Failure, instance: Instance | None, node: int) -> Leaving:
        """Return the instances that must restart after `failure`.

        `instance` is among them if `node` is one of the failed nodes.
        """
        return self._queue(failure, instance, node).leaving()

    def _queue(self, failure: Failure, instance: Instance | None, node: int) -> Queue:
        present = self.queues[failure]
        if instance is None or node not in failure:
            return present
        return present.with_one(instance, failure.index(node))

    def _slots(self, queue: Queue, failure: Failure, node: int, taken: Need) -> list[int]:
        """Return for each size in `queue` how many instances fit on all targets outside `failure`.

        An instance of size `taken` is placed on `node` before; -1: on no node.
        """
        counts = []
        for need in queue.required:
            less = self._taken_slots(need, node, taken)[0] if node >= 0 and any(taken[:2]) else 0
            counts.append(self._without(need, failure)[0] - less)
        return counts

    def _taken_slots(self, need: Need, node: int, taken: Need) -> tuple[int, int]:
        """Return by how much an instance of size `taken` lowers both results of `slots_of_node` for
        `node`.
        """
        if node not in self.sizes.sets[need[2]]:
            return 0, 0
        slots, closing = slots_of_node(self._state, need, node, NOTHING)
        left, left_closing = slots_of_node(self._state, need, node, taken)
        return slots - left, closing - left_closing

    def _without(self, need: Need, failure: Failure) -> tuple[int, int]:
        """Return how many instances of size `need` fit on all targets outside `failure` together.

        The second number is how many MiB must be used on these targets until no instance fits on
        any.
        """
        known = self._undecided.without(need, failure)
        if known is not None:
            return known
        targets = self.sizes.sets[need[2]]
        slots, closing = derived(
            self._totals,
            need,
            self._state.version,
            lambda: slots_of_nodes(self._state, need, sorted(targets)),
        )
        for node in targets.intersection(failure):
            own, own_closing = slots_of_node(self._state, need, node, NOTHING)
            slots, closing = slots - own, closing - own_closing
        return slots, closing


class _Results:
    """The results of the simulations in one state.

    Attributes
    ----------
    before:
        Failure -> whether it is tolerated without a new instance.
    prepared:
        Vector of an instance, and where it may restart -> the nodes that reject the instance.
    instance, rejected, simulated:
        The last instance that was checked, the nodes known to reject it, and the failures that were
        simulated for it on every node.
    """

    __slots__ = ("before", "instance", "prepared", "rejected", "simulated")

    def __init__(self) -> None:
        self.before: dict[Failure, bool | None] = {}
        self.prepared: dict[tuple[tuple[float, ...], int], set[int]] = {}
        self.instance: Instance | None = None
        self.rejected: set[int] = set()
        self.simulated: set[Failure] = set()


class GroupChecks:
    """Checks of placements in the group of `counting`; undecided failures are simulated.

    A method that returns a bool or None returns None if neither counting nor a simulation in
    arrays decides.

    Attributes
    ----------
    refuters:
        Node -> the failure that rejected an instance there last.
    """

    def __init__(
        self, state: State, kernels: Kernels, rules: Rules, counting: GroupCounting
    ) -> None:
        self._state = state
        self._kernels = kernels
        self._rules = rules
        self._counting = counting
        self._simulations: dict[bool, BatchedSimulation] = {}
        self._plain = BatchedSimulation.suits(counting.queues) and not any(
            state.reserved[index]
            or any(one.exclusion or one.desired for one in state.primaries[index].values())
            for index in counting.group.nodes
        )
        self.refuters: dict[int, Failure] = {}
        self._results: Kept[None, _Results] = {}

    @property
    def plain(self) -> bool:
        """Return whether failures can be simulated in arrays.

        Each node must fail alone, and only memory, disk and access constraints may decide which
        nodes accept an instance.
        """
        return self._plain and not self._counting.intricate

    def allows(self, instance: Instance, node: int) -> bool | None:
        """Return whether global N+1 permits a new `instance` on `node`; None if undecided.

        None means that counting slots does not decide, and that another check is necessary.
        """
        counting = self._counting
        if counting.intricate or not counting.counts(instance):
            return None
        known = self._known()
        if known.instance is not instance:
            known.instance = instance
            known.simulated = set()
            if self._kind(instance) not in known.prepared:
                self.prepare([instance])
            known.rejected = set(known.prepared[self._kind(instance)])
        if node in known.rejected:
            return False
        likely = self.refuters.get(node)
        if likely is not None and counting.tolerates_failure(likely, instance, node) is False:
            against = self._counts_against(likely)
            if against is not False:
                return None if against is None else False
        undecided: list[Undecided] = []
        for failure, result in counting.not_tolerated(instance, node).items():
            if result is False:
                against = self._counts_against(failure)
                if against is not False:
                    self.refuters[node] = failure
                    return None if against is None else False
            else:
                undecided.append((failure, counting.leaving(failure, instance, node)))
        if likely is not None:
            undecided.sort(key=lambda one: one[0] != likely)
        if not undecided:
            return True
        lost = self.lost(undecided, [(instance, (node,))] * len(undecided))
        if lost is None:
            return None
        for (failure, _), is_lost in zip(undecided, lost):
            against = is_lost and self._counts_against(failure)
            if against is not False:
                self.refuters[node] = failure
                if against:
                    self._known().rejected.add(node)
                    self._simulate_everywhere(failure, instance)
                return None if against is None else False
        self.refuters.pop(node, None)
        return True

    def _kind(self, instance: Instance) -> tuple[tuple[float, ...], int]:
        """Return all that counting and simulation know of `instance`."""
        return instance.as_primary, self._counting.sizes.of(instance)[2]

    def _simulate_everywhere(self, failure: Failure, instance: Instance) -> None:
        """Simulate `failure` with `instance` on every other node if two nodes have rejected it."""
        known = self._known()
        if len(known.rejected) < REJECTIONS_BEFORE_SIMULATION or failure in known.simulated:
            return
        known.simulated.add(failure)
        counting, nodes = self._counting, self._state.cluster.nodes
        others = [
            i
            for i in counting.group.nodes
            if i not in failure and nodes[i].online and i not in known.rejected
        ]
        undecided = [(failure, counting.leaving(failure, instance, -1))] * len(others)
        lost = self.lost(undecided, [(instance, (node,)) for node in others])
        rejected = [node for node, is_lost in zip(others, lost or ()) if is_lost]
        known.rejected.update(rejected)
        self.refuters.update(dict.fromkeys(rejected, failure))

    def _known(self) -> _Results:
        """Return the results of the simulations in the present state."""
        return derived(self._results, None, self._state.version, _Results)

    def learn(self, node: int, refuter: Failure | None) -> None:
        """Remember the failure that rejects every instance on `node`; None: no failure does."""
        if refuter is None:
            self.refuters.pop(node, None)
        else:
            self.refuters[node] = refuter

    def prepare(self, instances: Sequence[Instance]) -> None:
        """Simulate in one batch which nodes reject each of `instances` in the present state.

        For each node, only the failure that rejected an instance there last is simulated.
        """
        known = self._known()
        fresh = [one for one in instances if self._kind(one) not in known.prepared]
        rows = [
            (one, node, failure)
            for one in fresh
            if self._counting.counts(one)
            for node, failure in self.refuters.items()
            if self._counting.holds(one, node) and self._counts_against(failure)
        ]
        leaving = self._counting.leaving
        lost = self.lost(
            [(failure, leaving(failure, one, node)) for one, node, failure in rows],
            [(one, (node,)) for one, node, _ in rows],
        )
        known.prepared |= {self._kind(one): set() for one in fresh}
        for (one, node, _), is_lost in zip(rows, lost or ()):
            if is_lost:
                known.prepared[self._kind(one)].add(node)

    def rejected_down(self, instances: Sequence[Instance], nodes: Sequence[int]) -> int:
        """Return how many instances at the start of `instances` are certainly rejected by all of
        `nodes`.

        The instances are equal except in one amount, which decreases from each to the next. For
        each node, only the failure that rejected an instance there last is simulated. The result is
        0 in other modes than ``strict``.
        """
        counting = self._counting
        known = self._rules.strict and self.plain and all(node in self.refuters for node in nodes)
        if not known or not (counting.counts(instances[0]) and counting.counts(instances[-1])):
            return 0
        count, size = 0, FIRST_BATCH_SIZES
        while count < len(instances):
            check()
            batch = instances[count : count + size]
            rows = [(one, node, self.refuters[node]) for one in batch for node in nodes]
            lost = self.lost(
                [(failure, counting.leaving(failure, one, node)) for one, node, failure in rows],
                [(one, (node,)) for one, node, _ in rows],
            )
            if lost is None:
                break
            if False in lost:
                return count + lost.index(False) // len(nodes)
            count += len(batch)
            size *= BATCH_GROWTH
        return count

    def tolerates_all(self) -> bool | None:
        """Return whether every failure is tolerated in the present state; None: undecided."""
        result = self._counting.tolerates_all()
        if result is not None or self._counting.intricate:
            return result
        results = {self._tolerated_before(failure) for failure in self._counting.queues}
        return False if False in results else None if None in results else True

    def _counts_against(self, failure: Failure) -> bool | None:
        """Return whether `failure` must be tolerated after a placement; None: undecided."""
        return True if self._rules.strict else self._tolerated_before(failure)

    def _tolerated_before(self, failure: Failure) -> bool | None:
        """Return whether `failure` is tolerated in the present state; None: undecided."""
        known = self._known()
        if failure not in known.before:
            result = self._counting.tolerates_failure(failure, None, -1)
            if result is None:
                lost = self.lost([(failure, self._counting.leaving(failure, None, -1))], [None])
                result = None if lost is None else not lost[0]
            known.before[failure] = result
        return known.before[failure]

    def lost(
        self, undecided: Sequence[Undecided], coming: Sequence[Arrivals | None]
    ) -> list[bool] | None:
        """Simulate the failures of `undecided`; return for each whether it loses an instance.

        `coming`: for each failure, an instance and the nodes where equal ones are placed in
        addition to the state. The result is None if arrays cannot simulate the failures.
        """
        recreated = {kind for _, leaving in undecided for kind in leaving.recreated}
        single = len(self._state.cluster.groups) == 1
        if not self.plain or (len(recreated) > 1 and not single):
            return None
        whole = single or True in recreated  # instances are created anew on any node
        if whole not in self._simulations:
            counting, state = self._counting, self._state
            scope = range(len(state.cluster.nodes)) if whole else counting.group.nodes
            self._simulations[whole] = BatchedSimulation(
                state, self._kernels.matrix(), scope, counting.sizes.sets
            )
        failing, leaving = [one for one, _ in undecided], [one for _, one in undecided]
        return self._simulations[whole].lost(failing, leaving, coming)


class CountedTolerance:
    """Checks N+1 of all groups by counting slots, for instances without a secondary.

    `failing` are the failures that must be tolerated. The caller must report each placement to
    `placed`. Undecided failures are simulated with `kernels`. Without `kernels`, they stay
    undecided.
    """

    def __init__(
        self,
        state: State,
        rules: Rules,
        failing: Collection[Failure],
        kernels: Kernels | None = None,
    ) -> None:
        self._state = state
        self._rules = rules
        self._groups = {
            group.index: GroupCounting(state, rules, group, failing)
            for group in state.cluster.groups
        }
        self._checks: dict[int, GroupChecks] = {}
        self._speculations: dict[int, Speculation] = {}
        if kernels is not None:
            self._checks = {
                index: GroupChecks(state, kernels, rules, group)
                for index, group in self._groups.items()
            }

    def count(self, instance: Instance, groups: Sequence[int]) -> int:
        """Return how many more instances equal to `instance` certainly keep N+1.

        The number holds whichever nodes of `groups` they are placed on.
        """
        counts = [
            group.count(instance)
            if index in groups
            else ANY_NUMBER * (group.tolerates_all() is True)
            for index, group in self._groups.items()
        ]
        return min(counts, default=ANY_NUMBER)

    def tolerates(self, instance: Instance, node: int) -> bool | None:
        """Return whether all failures are tolerated with `instance` on `node`; None: undecided."""
        own = self._state.cluster.nodes[node].group.index
        results = [
            group.tolerates(instance, node) if index == own else group.tolerates_all()
            for index, group in self._groups.items()
        ]
        return False if False in results else None if None in results else True

    def allows(self, instance: Instance, node: int) -> bool | None:
        """Return whether global N+1 permits a new `instance` on `node`; None if undecided.

        Without ``strict``, only failures of the group that were tolerated before must be tolerated.
        """
        own = self._state.cluster.nodes[node].group.index
        result = self._checks[own].allows(instance, node)
        if self._rules.strict and result is not False:
            others = {one.tolerates_all() for index, one in self._checks.items() if index != own}
            result = False if False in others else None if None in others else result
        return result

    def certainly_lost(self, instance: Instance, node: int) -> bool:
        """Return whether a failure is certainly intolerable with `instance` on `node`.

        If the result is True, it is True for a larger instance as well.
        """
        own = self._state.cluster.nodes[node].group.index
        return any(
            one.certainly_lost(instance, node) if index == own else one.tolerates_all() is False
            for index, one in self._groups.items()
        )

    def rejected_down(self, instances: Sequence[Instance], nodes: Sequence[int]) -> int:
        """Return how many instances at the start of `instances` are certainly rejected by all of
        `nodes`.

        `instances` are equal except in one amount, which decreases from each to the next.
        """
        cluster = self._state.cluster
        if all(self.certainly_lost(instances[-1], node) for node in nodes):
            return len(instances)
        count = len(instances)
        for index, checks in self._checks.items():
            mine = [node for node in nodes if cluster.nodes[node].group.index == index]
            if mine and count:
                count = checks.rejected_down(instances[:count], mine)
        return count

    def prepare(self, instances: Sequence[Instance]) -> None:
        """Simulate in one batch which nodes reject each of `instances`, for later calls of
        `allows`.
        """
        for checks in self._checks.values():
            checks.prepare(instances)

    def speculation(self, group: int) -> Speculation | None:
        """Return the object that checks several placements in `group` at once; None if impossible.

        The object is available with ``strict``, if all other groups certainly keep N+1.
        """
        others = [one for index, one in self._groups.items() if index != group]
        if not self._rules.strict or not all(other.tolerates_all() for other in others):
            return None
        if group not in self._speculations:
            checks, counting = self._checks[group], self._groups[group]
            self._speculations[group] = Speculation(checks, counting)
        return self._speculations[group]

    def placed(self, arrivals: Sequence[tuple[Instance, Nodes]]) -> None:
        """Update the counts after instances were placed on one node each.

        The instances must be equal except for names and orders.
        """
        nodes = self._state.cluster.nodes
        for index, group in self._groups.items():
            mine = [one for one in arrivals if nodes[one[1][0]].group.index == index]
            if mine:
                group.placed(mine)


RECENT_FAILURES = 16
"""The number of failures that rejected an instance and are simulated first."""


FAILURES_AT_ONCE = 160
"""The number of failures that take at most twice as long to simulate together as a few failures."""


class _Prediction:
    """A failure that must be simulated, and the expected result.

    Attributes
    ----------
    undecided:
        The failure, and the instances that leave its nodes.
    coming:
        An instance, and the nodes of the equal instances that are expected to be placed when the
        failure occurs, in order. The prediction concerns the last of them.
    node:
        The node of the last instance of `coming`.
    rejected:
        Whether the failure is expected to reject this last instance.
    """

    __slots__ = ("coming", "node", "rejected", "undecided")

    def __init__(self, undecided: Undecided, coming: Arrivals, rejected: bool) -> None:
        self.undecided = undecided
        self.coming = coming
        self.node = coming[1][-1]
        self.rejected = rejected


class Speculation:
    """Checks several placements of equal instances in one group at once, with ``--n1 strict``.

    Call `start`, then `expect` and `placed` for each instance in a trial of the state, then `end`.
    After that, `confirmed` returns how many of the expected placements are right.
    """

    def __init__(self, checks: GroupChecks, counting: GroupCounting) -> None:
        self._checks = checks
        self._counting = counting
        self._predictions: list[list[_Prediction]] = []
        self._path: tuple[int, ...] = ()
        self._queues: dict[Failure, Queue] = {}
        # The last failures that showed a prediction to be wrong
        self._recent: list[Failure] = []
        self._wrong: _Prediction | None = None  # the last wrong prediction

    def suits(self, instance: Instance) -> bool:
        """Return whether several placements of `instance` can be checked at once."""
        counting = self._counting
        return not counting.intricate and self._checks.plain and counting.counts(instance)

    def rejected(self) -> Collection[int]:
        """Return the nodes that are known to reject every instance."""
        return self._checks.refuters.keys()

    def assumptions(self) -> object:
        """Return the failures that are assumed to reject instances; equal if they are the same."""
        return frozenset(self._checks.refuters.items())

    def start(self) -> None:
        """Forget all predictions."""
        self._predictions = []
        self._path = ()
        self._queues = {}

    def expect(self, instance: Instance, node: int, rejected: Sequence[int]) -> bool:
        """Predict that the next instance is placed on `node`, because the nodes `rejected` reject
        it.

        Return False if the prediction is known to be wrong; the failure that disproves it is
        remembered.
        """
        predictions: list[_Prediction] = []
        refuters = [(self._checks.refuters[other], other) for other in rejected]
        uncertain, results = self._counting.not_tolerated_with(instance, node, refuters)
        for (failure, other), tolerated in zip(refuters, results):
            if tolerated:
                self._checks.learn(other, None)
            elif tolerated is None:
                predictions.append(self._predict(failure, instance, other, True))
        if True in results:
            return False
        for failure, tolerated in uncertain.items():
            if tolerated is False:
                self._checks.learn(node, failure)
                return False
            predictions.append(self._predict(failure, instance, node, False))
        self._predictions.append(predictions)
        return True

    def _predict(
        self, failure: Failure, instance: Instance, node: int, rejected: bool
    ) -> _Prediction:
        undecided = failure, self._counting.leaving(failure, instance, node)
        return _Prediction(undecided, (instance, (*self._path, node)), rejected)

    def placed(self, instance: Instance, node: int) -> None:
        """Record that `instance` was placed on `node` in the trial."""
        queues = self._counting.queues
        for failure in self._counting.failures_of(node):
            if failure not in self._queues:
                self._queues[failure] = queues[failure]
                queues[failure] = queues[failure].copy()
        self._path = *self._path, node
        self._counting.placed([(instance, (node,))])

    def end(self) -> None:
        """End the trial: restore the counts and queues from before its placements."""
        self._counting.restore(self._path, self._queues)

    def confirmed(self) -> int | None:
        """Return the number of placements before the first wrong prediction; None if the failures
        cannot be simulated in arrays.

        If there are many predictions, the failures that have rejected an instance are simulated
        first. Usually one of them disproves a prediction, and the others need no simulation.
        """
        if sum(map(len, self._predictions)) <= FAILURES_AT_ONCE:
            return self._confirmed_among(len(self._predictions), lambda one: True)
        likely = {*self._checks.refuters.values(), *self._recent}
        known = self._confirmed_among(
            len(self._predictions), lambda one: one.rejected or one.undecided[0] in likely
        )
        if not known:
            return known
        return self._confirmed_among(
            known, lambda one: not (one.rejected or one.undecided[0] in likely)
        )

    def refute_on_other_nodes(self, nodes: Collection[int]) -> None:
        """Find other nodes that reject instances for the failure of the last wrong prediction.

        A failure that rejects an instance on one node mostly rejects it on many nodes.
        """
        wrong, self._wrong = self._wrong, None
        if wrong is None or wrong.node in wrong.undecided[0]:
            return
        failure, leaving = wrong.undecided
        others = [node for node in nodes if node not in (*failure, wrong.node)]
        instance, path = wrong.coming
        coming = [(instance, (*path[:-1], node)) for node in others]
        lost = self._checks.lost([(failure, leaving)] * len(others), coming)
        for node, is_lost in zip(others, lost or ()):
            if is_lost:
                self._checks.learn(node, failure)
            elif self._checks.refuters.get(node) == failure:
                self._checks.learn(node, None)

    def _confirmed_among(self, count: int, condition: Callable[[_Prediction], bool]) -> int | None:
        """Return how many of the first `count` placements have only right predictions.

        Only predictions that meet `condition` are simulated. None: arrays cannot simulate them.
        """
        chosen = [
            [one for one in predictions if condition(one)]
            for predictions in self._predictions[:count]
        ]
        every = [one for predictions in chosen for one in predictions]
        lost = self._checks.lost([one.undecided for one in every], [one.coming for one in every])
        if lost is None:
            return None
        results = iter(lost)
        for number, predictions in enumerate(chosen):
            wrong = [
                one for one, is_lost in zip(predictions, results) if is_lost is not one.rejected
            ]
            for prediction in wrong:
                self._wrong = prediction
                self._checks.learn(
                    prediction.node, None if prediction.rejected else prediction.undecided[0]
                )
                if not prediction.rejected:
                    self._recent = [*self._recent, prediction.undecided[0]][-RECENT_FAILURES:]
            if wrong:
                return number
        return count
