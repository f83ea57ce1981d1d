"""The instances that cannot be restarted when several nodes fail at the same time.

A drbd instance is lost if both of its nodes fail.  If only its primary fails, its secondary needs
memory for all instances that fail over to it at once.  Instances on shared storage, and those that
are created anew, need another node of their group.  Sums of free memory come first, because
thousands of pairs of nodes are checked.  Where memory and disk decide alone, the instances are
packed by size; else they are simulated.  Only online nodes take over.

Cost: a few look-ups per node that takes over, if the sums decide; else a packing or a simulation.
"""

from __future__ import annotations

from itertools import chain
from operator import itemgetter

from iallocator.limits.group import may_not_receive
from iallocator.limits.node import (
    DISK_SPACE,
    FREE_MEMORY,
    OWN_SPINDLES,
    POOL_SPACE,
    SPINDLES_OF_DISKS,
    other_limits,
)
from iallocator.model.columns import DISK, MEMORY
from iallocator.n1.bounds import Demand, TargetCapacity, check_bounds, demand_of
from iallocator.n1.exact import Evacuation
from iallocator.n1.restricted_packing import RestrictedPacking
from iallocator.n1.rules import SAFE
from iallocator.n1.simulation import Simulation, failover_rejection
from iallocator.n1.uniform_packing import UniformPacking
from iallocator.packing import LIMIT, Bins, Item, Packing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.exact import Leaver
    from iallocator.n1.rules import Rules

    Sized = tuple[float, float, list[Instance]]
    """MiB of memory and of disk, and the instances that need them together."""

__all__ = ["SimultaneousFailures"]


KNOWN = (FREE_MEMORY, DISK_SPACE, POOL_SPACE)
"""The limits that sums and searches know."""

_size = itemgetter(0, 1)
"""MiB of memory and of disk of an item."""


class SimultaneousFailures:
    """Failures of several nodes at once on `state`, which must not change.

    `rules` must not be strict; `min_disk`: the share of every node's disk that stays free.
    """

    def __init__(self, state: State, rules: Rules, min_disk: float = 0.0) -> None:
        self._state = state
        self._rules = rules
        self._min_disk = min_disk
        self._needs: dict[int, _Need] = {}
        self._rooms: dict[int, TargetCapacity] = {}
        self._disks: dict[int, float] = {}
        self._simulations: dict[int, Simulation] = {}
        self._searches = (
            UniformPacking(),
            JointPacking(state, rules),
            RestrictedPacking(state, rules),
        )
        self._none = (
            UniformPacking(work=0),
            JointPacking(state, rules, work=0),
            RestrictedPacking(state, rules, 0),
        )

    def lost(self, nodes: Sequence[int]) -> list[Instance]:
        """Return the instances that cannot be restarted if all of `nodes` fail at once.

        Cost: a few look-ups for each node that takes over, if free memory is ample.

        Raises
        ------
        UndecidedError
            If the work is spent before the result is known.
        """
        needs = [self._need(node) for node in nodes]
        failed = frozenset(nodes)
        by_group: dict[Group, list[_Need]] = {}
        for need in needs:
            if need.items:
                by_group.setdefault(need.group, []).append(need)
        if any(other_limits(need.group, *KNOWN, OWN_SPINDLES, SPINDLES_OF_DISKS) for need in needs):
            lost = self._carried_out(needs, by_group.values(), failed)
            failing = [(node, self._simulation(node)) for node in nodes]
            return list(self._searches[1].fewer_than(lost, failing)) if lost else lost
        lost, taken = self._failed_over(needs, failed)
        for group, some in by_group.items():
            lost += self._moved(group, some, failed, taken)
        if lost and by_group and (taken or not all(need.sizes_alone for need in needs)):
            failing = [(node, self._simulation(node)) for node in nodes]
            return list(self._searches[1].fewer_than(lost, failing))
        return lost

    def moves(self, node: int) -> bool:
        """Return whether `node` has an instance that can restart on several nodes."""
        return bool(self._need(node).items)

    def failover_targets(self, node: int) -> Collection[int]:
        """Return the secondaries of the drbd primaries of `node`."""
        return self._need(node).failovers.keys()

    def cost(self, node: int) -> tuple[float, float]:
        """Return the MiB that a failure takes away, with and without the free memory of `node`."""
        moved = sum(memory for memory, _, _ in self._need(node).items)
        return moved + self._state.columns[MEMORY][node], moved

    def saves_all(self, nodes: Sequence[int]) -> bool:
        """Return whether sums or a first fit prove that no instance is lost if all `nodes` fail.

        Then none is lost either if only some of them fail: fewer instances go to more nodes.
        """
        if not all(self._need(node).reach_alone for node in nodes):
            return False
        searching = self._searches
        self._searches = self._none
        try:
            return not self.lost(nodes)
        finally:
            self._searches = searching

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
        """Return the instances that cannot fail over, and the MiB that each secondary has taken."""
        memory = self._state.columns[MEMORY]
        lost: list[Instance] = []
        coming: dict[int, list[Instance]] = {}
        for need in needs:
            lost += need.without_secondary
            for secondary, some in need.failovers.items():
                coming.setdefault(secondary, []).extend(some)
        taken: dict[int, float] = {}
        for secondary, some in coming.items():
            if secondary in failed:
                lost += some
                continue
            taken[secondary] = sum(_memory(one) for one in some)
            if memory[secondary] - taken[secondary] <= 0:
                rejected = _too_many(some, memory[secondary])
                taken[secondary] -= sum(_memory(one) for one in rejected)
                lost += rejected
        return lost, taken

    def _carried_out(
        self,
        needs: Iterable[_Need],
        by_group: Iterable[Sequence[_Need]],
        failed: frozenset[int],
    ) -> list[Instance]:
        """Return the instances lost if they are moved one by one, the smallest failovers first."""
        state = self._state
        lost: list[Instance] = []
        with state.trial():
            for need in needs:
                lost += need.without_secondary
                kernels = self._simulation(need.node).kernels
                for secondary, some in need.failovers.items():
                    for one in sorted(some, key=lambda one: (_memory(one), one.name)):
                        state.remove(one, state.where[one.name])
                        if secondary in failed or failover_rejection(
                            state, kernels, one, secondary
                        ):
                            lost.append(one)
                        else:
                            state.place(one, (secondary, need.node))
            for together in by_group:
                simulation = self._simulation(together[0].node)
                lost += simulation.without_place([need.node for need in together], failed)
        return lost

    def _moved(
        self, group: Group, needs: Sequence[_Need], failed: frozenset[int], taken: dict[int, float]
    ) -> list[Instance]:
        """Return the instances of one group that need another node and cannot be placed."""
        items = sorted(chain.from_iterable(n.items for n in needs), key=_size, reverse=True)
        if all(need.memory_alone and need.single for need in needs):
            found = self._by_memory(group, items, failed, taken)
        elif all(need.sizes_alone for need in needs):
            found = self._by_size(group, items, failed, taken)
        elif all(need.reach_alone for need in needs):
            return self._by_reach(group, needs, failed, taken)
        elif self._certain(group, needs, failed, taken):
            return []
        else:
            return self._played_through(needs, failed, taken)
        return [one for position in found for one in items[position][2]]

    def _by_memory(
        self,
        group: Group,
        items: Sequence[Sized],
        failed: frozenset[int],
        taken: dict[int, float],
    ) -> list[int]:
        """Return the positions of the `items` that are left over where only memory matters."""
        room = self._room(group)
        sizes = [memory for memory, _, _ in items]
        if room.closing(sizes[0], failed, taken) > sum(sizes) - sizes[0]:
            return []
        return self._searches[0].of(sizes, room.capacities(failed, taken))

    def _by_size(
        self,
        group: Group,
        items: Sequence[Sized],
        failed: frozenset[int],
        taken: dict[int, float],
    ) -> list[int]:
        """Return the positions of the `items` that are left over where memory and disk matter.

        The price of a colocation group is the number of its members.
        """
        prices = [len(members) for *_, members in items]
        if max(prices) == 1 and sum(disk for _, disk, _ in items) < self._least_disk(group):
            return self._by_memory(group, items, failed, taken)
        sizes = [(memory, disk) for memory, disk, _ in items]
        return self._searches[0].with_disk(sizes, self._capacities(group, failed, taken), prices)

    def _by_reach(
        self, group: Group, needs: Sequence[_Need], failed: frozenset[int], taken: dict[int, float]
    ) -> list[Instance]:
        """Return the instances that are left over where some have access to some nodes only."""
        items = sorted(chain.from_iterable(n.reaching for n in needs), key=_size, reverse=True)
        found = self._searches[2].left_over(group, items, failed, taken)
        return [one for position in found for one in items[position][2]]

    def _capacities(
        self, group: Group, failed: frozenset[int], taken: dict[int, float]
    ) -> list[tuple[float, float]]:
        """Return the MiB of memory and disk that the other nodes can give, ascending."""
        memory, disk = self._state.columns[MEMORY], self._state.columns[DISK]
        return sorted(
            (memory[t] - taken.get(t, 0) - 1, max(0, disk[t] - 1))
            for t in self._rules.targets(self._state.cluster, group)
            if t not in failed
        )

    def _least_disk(self, group: Group) -> float:
        """Return the MiB of disk that every target has free."""
        found = self._disks.get(group.index)
        if found is None:
            disk = self._state.columns[DISK]
            targets = self._rules.targets(self._state.cluster, group)
            found = self._disks[group.index] = min((disk[t] for t in targets), default=0)
        return found

    def _room(self, group: Group) -> TargetCapacity:
        if group.index not in self._rooms:
            targets = self._rules.targets(self._state.cluster, group)
            self._rooms[group.index] = TargetCapacity(self._state, targets)
        return self._rooms[group.index]

    def _certain(
        self, group: Group, needs: Sequence[_Need], failed: frozenset[int], taken: dict[int, float]
    ) -> bool:
        """Return whether memory and disk alone prove that all instances can be placed."""
        cluster = self._state.cluster
        whole = Demand()
        for need in needs:
            if need.demand.intricate or need.demand.shares is not None:
                return False
            whole.add_demand(need.demand)
        whole.failovers = dict(taken)
        targets = [t for t in self._rules.targets(cluster, group) if t not in failed]
        for need in needs:
            barred = may_not_receive(cluster, need.node, targets)
            targets = [t for t in targets if t not in barred]
        return check_bounds(self._state, needs[0].node, whole, self._rules, targets)[0] == SAFE

    def _played_through(
        self, needs: Sequence[_Need], failed: frozenset[int], taken: dict[int, float]
    ) -> list[Instance]:
        state = self._state
        with state.trial():
            for secondary, amount in taken.items():
                state.take_memory(secondary, amount)
            return self._simulation(needs[0].node).without_place(
                [need.node for need in needs], failed
            )


class _Need:
    """What the failure of one node requires of the other nodes.

    Attributes
    ----------
    failovers:
        Secondary -> the drbd primaries that fail over to it.
    without_secondary:
        The drbd primaries that no node can take over.
    items:
        MiB of memory, MiB of disk, and members, of what needs another node; a colocation group is
        one.
    single:
        Whether each item is one instance.
    memory_alone, sizes_alone, reach_alone:
        Whether a node accepts any item if it has the memory; the memory and the disk; these and
        access to the pools of the item.
    reaching:
        The items with the nodes that each has access to.
    """

    __slots__ = (
        "demand", "failovers", "group", "items", "memory_alone", "node", "reach_alone", "reaching",
        "single", "sizes_alone", "without_secondary",
    )  # fmt: skip

    def __init__(self, state: State, node: int, rules: Rules, simulation: Simulation) -> None:
        self.node = node
        self.group = state.cluster.nodes[node].group
        self.failovers: dict[int, list[Instance]] = {}
        self.without_secondary: list[Instance] = []
        self.demand = demand_of(state, node, rules)
        moving = [i for i in state.primaries[node].values() if not i.forthcoming]
        for one in moving:
            if one.needs_secondary:
                self._fails_over(state, one)
        leaving = simulation.leaving(node)
        self.items = [(sum(map(_memory, item)), sum(map(_disk, item)), item) for item in leaving]
        self.single = all(len(item) == 1 for item in leaving)
        members = [one for item in leaving for one in item]
        targets = rules.targets(state.cluster, self.group)
        created = [one for one in members if rules.recreates(one)]
        barred = (
            bool(other_limits(self.group, *KNOWN))
            or any(self.group.policy.rejects(one, False) for one in created)
            or bool(may_not_receive(state.cluster, node, targets))
        )
        self.sizes_alone = not (barred or any(one.restricted for one in members))
        self.memory_alone = self.sizes_alone and not created
        self.reach_alone = self.sizes_alone or (
            not barred and not any(one.draws for one in members)
        )
        self.reaching = [(*item, state.cluster.reach_of_all(item[2])) for item in self.items]

    def _fails_over(self, state: State, instance: Instance) -> None:
        nodes = state.where[instance.name]
        secondary = nodes[1] if len(nodes) > 1 else None
        if (
            secondary is None
            or not state.cluster.nodes[secondary].online
            or may_not_receive(state.cluster, self.node, (secondary,))
        ):
            self.without_secondary.append(instance)
        else:
            self.failovers.setdefault(secondary, []).append(instance)


def _too_many(coming: Sequence[Instance], memory: float) -> list[Instance]:
    """Return the fewest of `coming` that a node with `memory` MiB free cannot take: the largest."""
    lost = []
    for one in sorted(coming, key=lambda i: (_memory(i), i.name)):
        if memory - _memory(one) <= 0:
            lost.append(one)
        else:
            memory -= _memory(one)
    return lost


def _memory(instance: Instance) -> float:
    return instance.memory if instance.uses_memory else 0


def _disk(instance: Instance) -> float:
    return instance.disk if instance.local else 0


WORK = 1_000_000
"""Nodes that all searches together look at: about a second."""


class JointPacking:
    """Searches for fewer lost instances as long as there is work, on one unchanged state.

    Failovers, and instances that have access to some nodes only (storage pools, migration tags),
    are packed at once. A packing counts if the limits accept it on the state.
    """

    __slots__ = ("_leavers", "_others", "_rules", "_state", "_work")

    def __init__(self, state: State, rules: Rules, work: int = WORK) -> None:
        self._state = state
        self._rules = rules
        self._work = work
        self._leavers: dict[int, list[Leaver]] = {}
        self._others: dict[int, tuple[float, ...]] = {}  # see `Evacuation.others`

    def fewer_than(
        self, lost: Sequence[Instance], failing: Sequence[tuple[int, Simulation]]
    ) -> Sequence[Instance]:
        """Return fewer instances than `lost` if it is enough to lose those, else `lost`.

        `failing`: each node that fails, with the simulation of its group.
        """
        if self._work <= 0:
            return lost
        failed = {node for node, _ in failing}
        leaving = [(*one, sim) for node, sim in failing for one in self._leaving(node, sim)]
        if sum(len(members) for members, _, nodes, _ in leaving if not nodes - failed) >= len(lost):
            return lost
        nodes = sorted({t for *_, targets, _ in leaving for t in targets} - failed)
        places = self._packed([one[:3] for one in leaving], nodes)
        left = [m for (m, *_), place in zip(leaving, places) if place is None]
        found = [one for members in left for one in members]
        if len(found) < len(lost) and self._holds(leaving, places):
            return found
        return lost

    def _leaving(self, node: int, simulation: Simulation) -> list[Leaver]:
        if node not in self._leavers:
            evacuation = Evacuation(self._state, simulation.kernels, self._rules, simulation, node)
            self._leavers[node] = evacuation.leavers()
            self._others |= evacuation.others
        return self._leavers[node]

    def _packed(self, leaving: Sequence[Leaver], nodes: Sequence[int]) -> list[int | None]:
        """Return the node of each item; None: the item is left out."""
        position = {index: b for b, index in enumerate(nodes)}
        columns = self._state.columns
        items = [
            Item(
                item.memory,
                item.disk,
                frozenset(position[t] for t in targets if t in position),
                len(members),
                item.others,
            )
            for members, item, targets in leaving
        ]
        packing = Packing(
            items,
            Bins(
                [columns[MEMORY][index] - 1 for index in nodes],
                [max(0, columns[DISK][index] - 1) for index in nodes],
                [self._others[index] for index in nodes] if self._others else (),
            ),
            limit=min(LIMIT, self._work),
        )
        places = packing.solve().places
        self._work -= packing.work
        return [None if b is None else nodes[b] for b in places]

    def _holds(
        self,
        leaving: Collection[tuple[Sequence[Instance], Item, frozenset[int], Simulation]],
        places: Sequence[int | None],
    ) -> bool:
        """Return whether the limits accept all items there; failovers come first."""
        state = self._state
        moving = []
        with state.trial():
            for (members, _, _, simulation), target in zip(leaving, places):
                if target is None:
                    continue
                if members[0].needs_secondary:
                    if not simulation.fails_over(members[0]):
                        return False
                else:
                    moving.append((members, target, simulation))
            return all(simulation.goes(members, target) for members, target, simulation in moving)
