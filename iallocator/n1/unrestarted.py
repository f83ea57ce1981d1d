"""Restarts by packing: the instances that a failure of nodes loses, and where the others restart.

An instance is lost if it cannot be restarted. A drbd instance is lost if both of its nodes fail. If
only its primary fails, its secondary needs memory for all instances that fail over to it at once.
Instances on shared storage, and those that are created anew, need another node of their group. Sums
of free memory are tried first, because thousands of pairs of nodes are checked. If they do not
decide, and only memory and disk limit the restarts, the instances are packed by size. With other
limits, the restarts are simulated. Only online nodes take over.

Two failures interact if one changes what the other loses. A pair that does not interact loses what
each of its nodes loses alone. Most interacting pairs are proved tolerable many at a time: if a set
of nodes can fail at once, every pair of these nodes can. A set that cannot is divided into halves.

A failover plan says where the instances of each failed node restart. It covers groups on shared
storage in which only memory limits the restarts. A node keeps free the memory that the worst
failure needs on it. A new instance is added to the plan for the failure of its own node. As long as
the plan accepts every new instance, no failure loses more instances or more memory than before. A
failure that was not tolerated keeps its loss.

Cost: a few look-ups per node that takes over, if the sums decide; else a packing or a simulation.
Pairs: a few sums for each node, each interacting pair, and each set that is checked; memory: a bit
for each pair.  Plan: O(m log n) for the *m* instances of a node and *n* nodes if first fit
decreasing finds a placement for all of them, else one packing; O(n) for each new instance.

Source: the division of sets of nodes, and the proof for the plan, were developed for this program.
"""

from __future__ import annotations

from itertools import chain
from math import comb, inf
from operator import itemgetter

from iallocator.constraints.table import entry_rejection, move_rejections
from iallocator.limits.node import failover_checks, other_limits
from iallocator.model.columns import DISK, MEMORY
from iallocator.n1 import PACKED_LIMITS, PAIR_SIZE, PROVED_SAFE, SUMMED_LIMITS
from iallocator.n1.bounds import Demand, TargetCapacity, check_movers, demand_of
from iallocator.n1.exact import Evacuation
from iallocator.n1.simulation import Simulation
from iallocator.packing import MOST_BINS_TRIED, Bins, Item, Packing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from iallocator.deadline import Deadline
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1 import Failure, Rules
    from iallocator.n1.exact import Access, Leaver

__all__ = [
    "FailoverPlan",
    "InteractingNodes",
    "ToleratedPairs",
    "UnrestartedSearch",
    "failovers_of",
]


MOST_BINS = 1_000_000
"""The most bins (nodes) that all packing searches of an `UnrestartedSearch` examine; they take
about a second."""

_size = itemgetter(0, 1)
"""Sort key of items: MiB of memory, then MiB of disk."""


class UnrestartedSearch:
    """Finds instances that cannot be restarted after failures on `state`, which must not change.

    `rules` must not be strict; `min_disk`: the share of every node's disk that stays free.
    """

    def __init__(self, state: State, rules: Rules, min_disk: float = 0.0) -> None:
        self._state = state
        self._rules = rules
        self._min_disk = min_disk
        self._needs: dict[int, _Need] = {}
        self._simulations: dict[int, Simulation] = {}
        self._capacities: dict[tuple[int, Access], TargetCapacity] = {}
        self._least_disk: dict[int, float] = {}
        self._searching = True
        self._work = MOST_BINS
        self._leavers: dict[int, list[Leaver]] = {}
        self._others: dict[int, tuple[float, ...]] = {}  # see `Evacuation.others`

    def lost(self, failure: Failure) -> list[Instance]:
        """Return the instances that cannot be restarted after `failure`.

        Cost: a few look-ups for each node that takes over, if free memory is ample.

        Raises
        ------
        UndecidedError
            If the work is spent before the result is known.
        """
        needs = [self._need(node) for node in failure]
        failed = frozenset(failure)
        by_group: dict[Group, list[_Need]] = {}
        for need in needs:
            if need.items:
                by_group.setdefault(need.group, []).append(need)
        if any(other_limits(need.group, *PACKED_LIMITS) for need in needs):
            lost = self._simulated(needs, by_group.values(), failed)
            return self._packed(lost, failure)
        lost, memory_taken = self._failed_over(needs, failed)
        for group, some in by_group.items():
            lost += self._moved(group, some, failed, memory_taken)
        if by_group and (memory_taken or not all(need.sizes_alone for need in needs)):
            return self._packed(lost, failure)
        return lost

    def certainly_tolerates(self, failure: Failure) -> bool:
        """Return whether sums or a first fit prove that every instance can be restarted.

        The proof covers every subset of `failure` as well: fewer instances restart on more nodes.
        """
        if not all(self._need(node).access_alone for node in failure):
            return False
        self._searching = False
        try:
            return not self.lost(failure)
        finally:
            self._searching = True

    def moves(self, node: int) -> bool:
        """Return whether `node` has an instance that can restart on several nodes."""
        return bool(self._need(node).items)

    def failover_targets(self, node: int) -> Collection[int]:
        """Return the secondaries of the drbd primaries of `node`."""
        return self._need(node).failovers.keys()

    def cost(self, node: int) -> tuple[float, float]:
        """Return two amounts of memory, in MiB, that the group of `node` lacks if `node` fails.

        The second amount is the memory of the instances that need another node, without failovers
        to secondaries. The first amount is the second plus the free memory of `node`.
        """
        moved = sum(memory for memory, *_ in self._need(node).items)
        return moved + self._state.columns[MEMORY][node], moved

    def _need(self, node: int) -> _Need:
        if node not in self._needs:
            self._needs[node] = _Need(self._state, node, self._rules, self._simulation(node))
        return self._needs[node]

    def _simulation(self, node: int) -> Simulation:
        group = self._state.cluster.nodes[node].group
        if group.index not in self._simulations:
            made = Simulation.of_group(self._state, group, self._rules, self._min_disk)
            self._simulations[group.index] = made
        return self._simulations[group.index]

    def _failed_over(
        self, needs: Iterable[_Need], failed: Collection[int]
    ) -> tuple[list[Instance], dict[int, float]]:
        """Return the instances that cannot fail over, and the MiB that each secondary has taken.

        A secondary without the memory for all of its instances rejects as few as possible: the
        largest.
        """
        lost: list[Instance] = []
        coming: dict[int, list[Instance]] = {}
        for need in needs:
            lost += need.without_secondary
            for secondary, some in need.failovers.items():
                coming.setdefault(secondary, []).extend(some)
        memory_taken: dict[int, float] = {}
        for secondary, some in coming.items():
            if secondary in failed:
                lost += some
                continue
            free = self._state.columns[MEMORY][secondary]
            memory_taken[secondary] = sum(map(_memory, some))
            if free - memory_taken[secondary] > 0:
                continue
            for one in sorted(some, key=lambda i: (_memory(i), i.name)):
                if free - _memory(one) <= 0:
                    lost.append(one)
                    memory_taken[secondary] -= _memory(one)
                else:
                    free -= _memory(one)
        return lost, memory_taken

    def _moved(
        self,
        group: Group,
        needs: Sequence[_Need],
        failed: frozenset[int],
        memory_taken: dict[int, float],
    ) -> list[Instance]:
        """Return the instances of one group that need another node and cannot be placed."""
        columns = self._state.columns
        targets = self._rules.targets(self._state.cluster, group)
        nodes = [t for t in targets if t not in failed]
        if not all(need.access_alone for need in needs):
            if self._certain(needs, nodes, memory_taken):
                return []
            with self._state.trial():
                for secondary, amount in memory_taken.items():
                    self._state.take_memory(secondary, amount)
                leaving = sorted(
                    (one for need in needs for one in need.leaving),
                    key=lambda one: self._rules.recreates(one[1][0]),
                )
                unplaced = self._simulation(needs[0].node).unplaced(leaving, failed)
                return [one for item in unplaced for one in item]
        items = sorted(chain.from_iterable(n.items for n in needs), key=_size, reverse=True)
        disk = sum(size for _, size, _, _ in items)
        if group.index not in self._least_disk:
            self._least_disk[group.index] = min((columns[DISK][t] for t in targets), default=0)
        disk_matters = disk > 0 and disk >= self._least_disk[group.index]
        moved = sum(memory for memory, *_ in items)
        largest: dict[Access, float] = {}
        for memory, _, _, access in items:
            largest.setdefault(access, memory)
        capacities = {access: self._capacity(group, access) for access in largest}
        if not disk_matters and all(
            capacities[access].closing(memory, failed, memory_taken) > moved - memory
            for access, memory in largest.items()
        ):
            return []
        bins = {
            access: frozenset(b for b, node in enumerate(nodes) if node in capacity.members)
            for access, capacity in capacities.items()
        }
        packing = Packing(
            [
                Item(memory, size if disk_matters else 0, bins[access], len(members))
                for memory, size, members, access in items
            ],
            Bins(
                [columns[MEMORY][t] - memory_taken.get(t, 0) - 1 for t in nodes],
                [max(0, columns[DISK][t] - 1) for t in nodes],
            ),
            limit=max(0, min(MOST_BINS_TRIED, self._work)) if self._searching else 0,
        )
        packed = packing.solve()
        if self._searching and packed.cost:
            self._work -= packing.work
        left = [item for item, place in zip(items, packed.places) if place is None]
        return [one for _, _, members, _ in left for one in members]

    def _capacity(self, group: Group, access: Access) -> TargetCapacity:
        """Return the free memory of the targets in `group` that have the required access."""
        capacity = self._capacities.get((group.index, access))
        if capacity is None:
            targets = self._rules.targets(self._state.cluster, group)
            nodes = targets if access is None else [t for t in targets if t in access]
            capacity = self._capacities[group.index, access] = TargetCapacity(self._state, nodes)
        return capacity

    def _certain(
        self, needs: Sequence[_Need], targets: Sequence[int], memory_taken: dict[int, float]
    ) -> bool:
        """Return whether memory and disk alone prove that all instances can be placed."""
        whole = Demand(needs[0].group)
        for need in needs:
            if need.demand.intricate or need.demand.shares is not None:
                return False
            whole.add_demand(need.demand)
        failure = tuple(need.node for need in needs)
        return (
            check_movers(self._state, failure, whole, memory_taken, self._rules)[0] == PROVED_SAFE
        )

    def _simulated(
        self,
        needs: Iterable[_Need],
        by_group: Iterable[Sequence[_Need]],
        failed: frozenset[int],
    ) -> list[Instance]:
        """Return the instances that are lost if all are restarted one by one, the smallest
        failovers first.
        """
        state = self._state
        lost: list[Instance] = []
        with state.trial():
            for need in needs:
                lost += need.without_secondary
                checker = self._simulation(need.node).kernels.checker(state)
                for secondary, some in need.failovers.items():
                    for one in sorted(some, key=lambda one: (_memory(one), one.name)):
                        nodes = state.where[one.name]
                        state.remove(one, nodes)
                        checks = failover_checks(one)
                        if secondary in failed or checker.primary_rejection(one, secondary, checks):
                            lost.append(one)
                            state.place(one, nodes)  # its usage of the secondary stays counted
                        else:
                            state.place(one, (secondary, need.node))
            for together in by_group:
                leaving = sorted(
                    (one for need in together for one in need.leaving),
                    key=lambda one: self._rules.recreates(one[1][0]),
                )
                for item in self._simulation(together[0].node).unplaced(leaving, failed):
                    lost += item
        return lost

    def _packed(self, lost: list[Instance], failing: Sequence[int]) -> list[Instance]:
        """Return the instances that a joint packing leaves out, if they are fewer than `lost`; else
        `lost`.

        Failovers, and instances that can use some nodes only, are packed together. The packing is
        used only if the state accepts it by all limits.
        """
        if not lost or not self._searching or self._work <= 0:
            return lost
        state, rules, failed = self._state, self._rules, frozenset(failing)
        leaving: list[tuple[Leaver, Simulation]] = []
        for node in failing:
            simulation = self._simulation(node)
            if node not in self._leavers:
                evacuation = Evacuation(state, simulation.kernels, rules, simulation, (node,))
                self._leavers[node] = evacuation.leavers()
                self._others |= evacuation.others
            leaving += ((one, simulation) for one in self._leavers[node])
        if sum(len(members) for (members, _, to), _ in leaving if not to - failed) >= len(lost):
            return lost

        # Pack all items on the nodes that have not failed
        nodes = sorted({target for (_, _, to), _ in leaving for target in to} - failed)
        position = {index: b for b, index in enumerate(nodes)}
        items = [
            Item(
                item.memory,
                item.disk,
                frozenset(position[target] for target in to if target in position),
                len(members),
                item.others,
            )
            for (members, item, to), _ in leaving
        ]
        bins = Bins(
            [state.columns[MEMORY][index] - 1 for index in nodes],
            [max(0, state.columns[DISK][index] - 1) for index in nodes],
            [self._others[index] for index in nodes] if self._others else (),
        )
        packing = Packing(items, bins, limit=min(MOST_BINS_TRIED, self._work))
        places = packing.solve().places
        self._work -= packing.work
        left = [m for ((m, _, _), _), place in zip(leaving, places) if place is None]
        fewer = [one for members in left for one in members]
        if len(fewer) >= len(lost):
            return lost

        # Check the limits on the state; failovers come first
        placed = [
            (members, nodes[place], simulation)
            for ((members, _, _), simulation), place in zip(leaving, places)
            if place is not None
        ]
        placed.sort(key=lambda one: not one[0][0].needs_secondary)
        with state.trial():
            for members, target, simulation in placed:
                if members[0].needs_secondary:
                    accepted = simulation.fails_over(members[0], failed)
                else:
                    accepted = simulation.goes(members, target)
                if not accepted:
                    return lost
        return fewer


class _Need:
    """What the instances of one failed node require of the other nodes.

    Attributes
    ----------
    failovers:
        Secondary -> the drbd primaries that fail over to it.
    without_secondary:
        The drbd primaries that no node can take over.
    items:
        For each instance that needs another node: MiB of memory, MiB of disk, a list of the
        instance, and the nodes with access to its storage. A colocation group is one entry, with
        the sums of its members.
    sizes_alone, access_alone:
        Whether only memory and disk decide if a node accepts an item; whether only memory, disk,
        and access to the storage of the item decide.
    """

    __slots__ = (
        "access_alone", "demand", "failovers", "group", "items", "leaving", "node",
        "sizes_alone", "without_secondary",
    )  # fmt: skip

    def __init__(self, state: State, node: int, rules: Rules, simulation: Simulation) -> None:
        cluster = state.cluster
        self.node = node
        self.group = cluster.nodes[node].group
        self.failovers: dict[int, list[Instance]] = {}
        self.without_secondary: list[Instance] = []
        self.demand = demand_of(state, (node,), rules)
        for one in state.primaries[node].values():
            if one.forthcoming or not one.needs_secondary:
                continue
            nodes = state.where[one.name]
            secondary = nodes[1] if len(nodes) > 1 else None
            if (
                secondary is None
                or not cluster.nodes[secondary].online
                or move_rejections(cluster, node, (secondary,))
            ):
                self.without_secondary.append(one)
            else:
                self.failovers.setdefault(secondary, []).append(one)
        self.leaving = simulation.leaving((node,))
        self.items = [
            (
                sum(map(_memory, members)),
                sum(one.disk for one in members if one.local),
                members,
                cluster.reach_of_all(members),
            )
            for _, members in self.leaving
        ]
        moving = [one for _, _, members, _ in self.items for one in members]
        created = [one for one in moving if rules.recreates(one)]
        barred = (
            bool(other_limits(self.group, *SUMMED_LIMITS))
            or any(entry_rejection(self.group, one) for one in created)
            or bool(move_rejections(cluster, node, rules.targets(cluster, self.group)))
        )
        self.sizes_alone = not (barred or any(one.restricted for one in moving))
        self.access_alone = self.sizes_alone or not (barred or any(one.draws for one in moving))


def _memory(instance: Instance) -> float:
    return instance.memory if instance.uses_memory else 0


class InteractingNodes:
    """The pairs of `online` nodes that interact: one failure may change what the other loses.

    Nodes of one group interact if some of their instances can restart on several nodes, for which
    the failures compete.  If all instances fail over to their secondaries, two nodes interact if
    they share a secondary, or if one holds secondaries of the other.  Groups with an instance in
    both count as one.
    """

    def __init__(self, state: State, failures: UnrestartedSearch, online: Sequence[int]) -> None:
        nodes = state.cluster.nodes
        # Groups with an instance in both are one part; find the first group of each part
        parts = list(range(len(state.cluster.groups)))

        def root(index: int) -> int:
            while parts[index] != index:
                parts[index] = index = parts[parts[index]]
            return index

        for where in state.where.values():
            for index in where[1:]:
                first, other = sorted(
                    (root(nodes[where[0]].group.index), root(nodes[index].group.index))
                )
                parts[other] = first
        connected = [root(index) for index in range(len(parts))]
        self._part = {index: connected[nodes[index].group.index] for index in online}
        self._members: dict[int, list[int]] = {}  # part -> its nodes, if all of them interact
        for index in online:
            self._members.setdefault(self._part[index], []).append(index)
        self._near: dict[int, set[int]] = {}  # node -> the nodes it interacts with, otherwise
        for key, members in self._members.items():
            if any(map(failures.moves, members)):
                continue
            # All instances of these nodes fail over to their secondaries. Two nodes interact if
            # they have a secondary in common, or if one is a secondary of the other.
            sharing: dict[int, list[int]] = {}
            for index in members:
                self._near[index] = set()
                for secondary in failures.failover_targets(index):
                    sharing.setdefault(secondary, []).append(index)
            for secondary, some in sharing.items():
                together = {*some, secondary} if secondary in self._part else set(some)
                for index in together:
                    self._near[index] |= together - {index}
            self._members[key] = []
        self._bits = {key: _bits_of(members) for key, members in self._members.items()}

    def parts(self) -> list[list[int]]:
        """Return the sets of nodes in which every pair interacts."""
        return [members for members in self._members.values() if members]

    def __call__(self, first: int, second: int) -> bool:
        """Return whether two nodes interact."""
        near = self._near.get(first)
        if near is not None:
            return second in near
        return self._part[first] == self._part[second]

    def of(self, index: int) -> int:
        """Return the nodes that node `index` interacts with, as an integer with one bit for each
        node.

        The bit of the node itself may be set.
        """
        near = self._near.get(index)
        return self._bits[self._part[index]] if near is None else _bits_of(near)

    def count(self, nodes: Collection[int]) -> int:
        """Return the number of interacting pairs among `nodes`, all of which are online."""
        sizes: dict[int, int] = {}
        near = 0
        for index in nodes:
            if index in self._near:
                near += sum(other in nodes for other in self._near[index])
            else:
                sizes[self._part[index]] = sizes.get(self._part[index], 0) + 1
        return near // 2 + sum(comb(size, PAIR_SIZE) for size in sizes.values())


class ToleratedPairs:
    """The pairs of interacting nodes that are proved tolerated within `deadline`."""

    def __init__(
        self,
        failures: UnrestartedSearch,
        interacting: InteractingNodes,
        deadline: Deadline,
    ) -> None:
        self._failures = failures
        self._deadline = deadline
        self._bits: dict[int, int] = {}  # node -> a bit for each other node of its pairs
        for part in interacting.parts():
            moving = [index for index in part if failures.moves(index)]  # failovers cost little
            moving.sort(key=failures.cost)
            self._find(moving, moving)

    def _find(self, some: Sequence[int], others: Sequence[int]) -> None:
        """Find tolerated pairs of one of `some` and one of `others`.

        Both are sorted by the cost of their failures, the least first; they are equal or disjoint.
        If a failure of all these nodes at once is tolerated, every pair is. If not even the first
        pair is, hardly any pair is, and the search leaves all of them undecided. Otherwise it
        divides both sets into halves.
        """
        same = some is others
        nodes = some if same else [*some, *others]
        if len(nodes) <= PAIR_SIZE or self._deadline.must_end:
            return
        if not self._failures.certainly_tolerates((some[0], others[same])):
            return
        if self._failures.certainly_tolerates(tuple(nodes)):
            self._add(some, others)
            if not same:
                self._add(others, some)
            return
        halves = [some[: len(some) // 2], some[len(some) // 2 :]]
        if same:
            for first, second in ((0, 0), (0, 1), (1, 1)):
                self._find(halves[first], halves[second])
            return
        for half in halves:
            for other in (others[: len(others) // 2], others[len(others) // 2 :]):
                self._find(half, other)

    def _add(self, some: Iterable[int], others: Iterable[int]) -> None:
        """Record as tolerated every pair of a node of `some` and another node of `others`."""
        bits = _bits_of(others)
        for index in some:
            self._bits[index] = self._bits.get(index, 0) | bits & ~(1 << index)

    def left(self, first: int, others: int) -> Iterator[int]:
        """Yield the nodes above `first` in the bit set `others` that form no tolerated pair with
        `first`.
        """
        left = (others & ~self._bits.get(first, 0)) >> first + 1
        last = first
        while left:
            step = (left & -left).bit_length()
            last += step
            left >>= step
            yield last

    def count(self) -> int:
        """Return the number of tolerated pairs."""
        return sum(bits.bit_count() for bits in self._bits.values()) // 2


def _bits_of(nodes: Iterable[int]) -> int:
    """Return an integer in which the bit of each of `nodes` is set."""
    bits = 0
    for index in nodes:
        bits |= 1 << index
    return bits


Needed = dict[int, float]
"""Node -> MiB of the instances that restart on it when one other node fails."""

if TYPE_CHECKING:
    Failover = tuple[Failure, frozenset[int], Needed]
    """The nodes that fail, the nodes that may take over, and the memory that is needed on each."""


class FailoverPlan:
    """The memory that each node of a group keeps free for failures of the other nodes.

    Usually, each failure has one entry in `failovers`. A failure that is not tolerated has two: one
    for the restarts that lose the fewest instances, one for those that lose the least memory.

    Attributes
    ----------
    kept:
        Node -> MiB that it keeps free for the worst failure.
    nodes:
        The nodes that can receive instances: those that have a failure in the plan.
    """

    __slots__ = ("_failovers", "_memory", "kept", "nodes")

    def __init__(self, state: State, failovers: Sequence[Failover]) -> None:
        self._memory = state.columns[MEMORY]
        self._failovers: dict[int, list[tuple[frozenset[int], Needed]]] = {}  # by failing node
        self.kept: dict[int, float] = {}
        self.nodes = list(dict.fromkeys(node for failure, _, _ in failovers for node in failure))
        for failure, targets, needed in failovers:
            own = dict(needed)
            for node in failure:
                self._failovers.setdefault(node, []).append((targets, own))
            for index, amount in needed.items():
                self.kept[index] = max(amount, self.kept.get(index, 0))

    def allows(self, index: int, memory: float, access: Access = None) -> bool:
        """Return whether the plan permits a new instance of `memory` MiB on node `index`.

        The node must keep its memory free, and another node must have memory for the instance.
        `access`: the nodes with access to the storage of the instance; None: all.
        """
        if self._memory[index] - memory <= self.kept.get(index, 0):
            return False
        return all(
            self._target(_within(targets, access), needed, memory) is not None
            for targets, needed in self._failovers[index]
        )

    def add(self, index: int, memory: float, access: Access = None) -> list[int]:
        """Add a new instance on node `index` to the plan; return the nodes that keep memory for it.

        `memory`: MiB; `access`: the nodes with access to the storage of the instance; None: all.
        """
        chosen = []
        for targets, needed in self._failovers[index]:
            target = self._target(_within(targets, access), needed, memory)
            assert target is not None
            needed[target] = needed.get(target, 0) + memory
            self.kept[target] = max(
                needs.get(target, 0) for some in self._failovers.values() for _, needs in some
            )
            chosen.append(target)
        return chosen

    def _target(self, targets: frozenset[int], needed: Needed, memory: float) -> int | None:
        """Return the target that must reserve the least more for an instance of `memory` MiB, or
        None.

        Of several such targets, the result is the one with the least memory left. None: no target
        has enough memory.
        """
        best, least = None, (inf, inf)
        for index in targets:
            amount = needed.get(index, 0) + memory
            if amount < self._memory[index]:
                cost = (max(0, amount - self.kept.get(index, 0)), self._memory[index] - amount)
                if cost < least:
                    best, least = index, cost
        return best


def failovers_of(state: State, group: Group, rules: Rules) -> list[Failover] | None:
    """Return a `Failover` or two for each failure of `group`; None if not only memory limits
    restarts.
    """
    if other_limits(group, *PACKED_LIMITS):
        return None
    simulation = Simulation.of_group(state, group, rules)
    nodes = state.cluster.nodes
    failovers: list[Failover] = []
    for failure in rules.failing(state.cluster, group, group.nodes):
        if any(nodes[node].group is not group for node in failure):
            return None
        evacuation = Evacuation(state, simulation.kernels, rules, simulation, failure)
        leavers = evacuation.leavers()
        if any(one.draws or one.local for members, _, _ in leavers for one in members):
            return None
        for needed in _restarts(state, rules, group, leavers):
            if needed is None:
                return None
            failovers.append((failure, evacuation.open, needed))
    return failovers


def _within(targets: frozenset[int], access: Access) -> frozenset[int]:
    return targets if access is None else targets & access


def _restarts(
    state: State, rules: Rules, group: Group, leavers: Sequence[Leaver]
) -> Iterator[Needed | None]:
    """Yield the memory that each node must keep free so that all items restart.

    First fit decreasing is tried first. If it leaves items over, yield a packing with the fewest
    lost items, and one with the least lost memory. If the search does not prove one of these
    packings optimal, yield None instead of it, and end.
    """
    targets = rules.targets(state.cluster, group)
    free = [state.columns[MEMORY][index] - 1 for index in targets]
    items = [item for _, item, _ in leavers]
    largest_first = sorted(range(len(free)), key=lambda b: -free[b])
    bins = Bins(free, [0] * len(free), order=largest_first)
    packed = Packing(items, bins, limit=0, first_fit=True).solve()
    solutions = [packed] if not packed.cost else []
    for by_memory in () if solutions else (False, True):
        packed = Packing(items, bins, by_memory).solve()
        if packed.cost > packed.least:
            yield None
            return
        solutions.append(packed)
        if not packed.cost:
            break
    for packed in solutions:
        needed: Needed = {}
        for item, place in zip(items, packed.places):
            if place is not None:
                needed[targets[place]] = needed.get(targets[place], 0) + item.memory
        yield needed
