"""Exact search for N+1: find the least loss of a failure over all orders of the restarts.

The simulation (`iallocator.n1.simulation`) restarts one instance after the other and can get stuck
where another order would not. Here a drbd primary goes to its secondary, and every other instance
to any node that may take it. Instances that share no node, not even through others, are packed
separately (`iallocator.packing`). A packing is used only if the state accepts it by all limits.

Cost: bounded by the packing's limit of work, about 20 ms for a failure.
"""

from __future__ import annotations

from itertools import accumulate
from math import floor, gcd, inf

from iallocator.constraints.checks import OWN_SPINDLES, SPINDLES_OF_DISKS
from iallocator.constraints.table import entry_rejections, move_rejections
from iallocator.limits.node import FORCED_LIMITS, PRIMARY, checks_for, failover_checks, other_limits
from iallocator.model.columns import DISK, MEMORY
from iallocator.model.node_view import NodeView
from iallocator.model.state import derived
from iallocator.n1 import PACKED_LIMITS, SUMMED_LIMITS, disk_rejection
from iallocator.packing import Bins, Item, Packing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from typing import Protocol

    from iallocator.aliases import Nodes
    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance, Pool
    from iallocator.model.state import Kept, State
    from iallocator.n1 import Failure, Rules
    from iallocator.scoring import Kernels

    class Simulation(Protocol):
        """A simulation that restarts instances one by one, as far as exact search needs it."""

        def items(self, failure: Failure) -> list[tuple[int, list[Instance]]]:
            """Return (failed node, instances) for each item that must restart after `failure`.

            An item is one instance, or several that must restart on one node.
            """

        def lost(self, failing: Sequence[Failure]) -> Collection[Failure]:
            """Return the failures of `failing` after which some instance cannot be restarted."""

    Access = frozenset[int] | None
    """The nodes with access to the storage of an instance; None: all."""

    Leaver = tuple[Sequence[Instance], Item, frozenset[int]]
    """Instances that restart on one node together, what they need, and the nodes they can use."""

__all__ = ["NO_LOSS", "Evacuation", "ExactSearch", "Loss", "OfflineInstances"]


PACKING_WORK = 100
"""The units of work of starting a packing search; one unit is one node that a search examines."""


class Loss:
    """What a failure loses: the least loss that a search found, and lower bounds.

    Attributes
    ----------
    instances, memory:
        The number of instances, and their MiB of memory, that the best restarts found leave out.
    instances_least, memory_least:
        Lower bounds: no way of restarting leaves out fewer instances, or less memory.
    """

    __slots__ = ("instances", "instances_least", "memory", "memory_least")

    def __init__(
        self, instances: float, instances_least: float, memory: float, memory_least: float
    ) -> None:
        self.instances = instances
        self.instances_least = instances_least
        self.memory = memory
        self.memory_least = memory_least

    def with_more(self, instances: float, memory: float) -> Loss:
        """Return this loss increased by a number of `instances`, and by `memory` MiB."""
        return Loss(
            self.instances + instances,
            self.instances_least + instances,
            self.memory + memory,
            self.memory_least + memory,
        )


NO_LOSS = Loss(0, 0, 0, 0)


class OfflineInstances:
    """The instances of `group` that were on one of its nodes `offline` in the initial state.

    Every failure of the initial state loses them as well, because they do not run. So moving them
    to an online node increases no loss, even if they could not be restarted after a further
    failure.
    """

    __slots__ = ("_group", "_instances", "_rules")

    def __init__(
        self, cluster: Cluster, group: Group, rules: Rules, offline: Collection[int]
    ) -> None:
        self._group = group
        self._rules = rules
        instances = cluster.instances if offline else ()
        self._instances = [one for one in instances if one.nodes and one.nodes[0] in offline]

    def back(self, state: State, coming: Instance | None = None) -> tuple[int, float]:
        """Return the number of instances from offline nodes that run in the group again.

        The primary of each of these instances was offline in the initial state. `coming` is counted
        as running again. A colocation group is counted as one instance. The second value is their
        memory in MiB.
        """
        nodes, units = state.cluster.nodes, self._rules.units
        back = []
        for one in self._instances:
            now = state.where.get(one.name, ())
            runs = bool(now) and nodes[now[0]].online and nodes[now[0]].group is self._group
            if runs or one is coming:
                back.append(one)
        items = {
            one.name if one.needs_secondary else min(units.get(one.name) or (one.name,))
            for one in back
        }
        return len(items), sum(one.memory for one in back if one.uses_memory)


class FailoverTargets:
    """The nodes of `groups` that may take over, in the present state. Failed nodes are included.

    Attributes
    ----------
    nodes:
        Their indices; a bin is a position in this list.
    position:
        Node -> its bin.
    open:
        Index of a group -> the bins that have free memory.
    memory, disk:
        What each bin can give, MiB.
    order:
        The bins, those with most memory first.
    limits:
        The limits that reject instances, other than memory, disk, pools and an unknown number of
        spindles.
    """

    __slots__ = ("disk", "limits", "memory", "nodes", "open", "order", "position")

    def __init__(self, state: State, rules: Rules, groups: Sequence[Group]) -> None:
        memory, disk = state.columns[MEMORY], state.columns[DISK]
        self.nodes = [t for group in groups for t in rules.targets(state.cluster, group)]
        self.position = {index: b for b, index in enumerate(self.nodes)}
        self.memory = [memory[t] - 1 for t in self.nodes]
        self.disk = [max(0, disk[t] - 1) for t in self.nodes]
        self.open = {
            group.index: frozenset(
                self.position[t] for t in rules.targets(state.cluster, group) if memory[t] > 0
            )
            for group in groups
        }
        self.order = sorted(range(len(self.nodes)), key=lambda b: -self.memory[b])
        self.limits = list(
            dict.fromkeys(
                one
                for group in groups
                for one in other_limits(group, *SUMMED_LIMITS, SPINDLES_OF_DISKS)
            )
        )


class Evacuation:
    """The instances that must leave the nodes of `failure`, and the nodes that each can use.

    Attributes
    ----------
    targets:
        The nodes that may take over.
    pools:
        The storage pools in which nodes report free space beside their free disk.
    others:
        Node -> its free amounts of the resources of `FailoverTargets.limits`, and then of `pools`;
        empty if there are none.
    """

    def __init__(
        self,
        state: State,
        kernels: Kernels,
        rules: Rules,
        simulation: Simulation,
        failure: Failure,
        targets: FailoverTargets | None = None,
    ) -> None:
        self.state, self.kernels, self.rules, self.failure = state, kernels, rules, failure
        nodes = state.cluster.nodes
        if targets is None:
            groups = list(dict.fromkeys(nodes[node].group for node in failure))
            targets = FailoverTargets(state, rules, groups)
        self.targets = targets
        storage = state.cluster.storage
        self.pools: Sequence[Pool] = () if storage is None else sorted(storage.measured)
        # Failed node -> the bins for its instances, and those of secondaries that may take over
        self._open: dict[int, frozenset[int]] = {}
        self._failover_bins: dict[int, frozenset[int]] = {}
        for node in failure:
            barred = {*failure, *move_rejections(state.cluster, node, targets.nodes)}
            closed = frozenset(targets.position[t] for t in barred if t in targets.position)
            self._open[node] = targets.open[nodes[node].group.index] - closed
            self._failover_bins[node] = frozenset().union(*targets.open.values()) - closed
        self._with_access: dict[frozenset[int], frozenset[int]] = {}
        leaving = simulation.items(failure)
        self._members = [members for _, members in leaving]
        self._items = [self.item(node, members) for node, members in leaving]
        self.others: dict[int, tuple[float, ...]] = {}
        for index in targets.nodes if (targets.limits or self.pools) and self._members else ():
            view = NodeView.of(state, index, kernels.fixed[index])
            one = self._members[0][0]
            left = [
                -limit.lacks.amount(view, view, one)
                if view.exclusive or limit.lacks.unit != OWN_SPINDLES
                else inf
                for limit in targets.limits
            ]
            if state.access is not None:
                free = state.access.free[index]
                # A full pool rejects only instances that need space in it
                left += [max(0, free.get(pool, inf) - 1) for pool in self.pools]
            self.others[index] = tuple(left)

    def item(self, node: int, members: Sequence[Instance]) -> Item:
        """Return the amounts that `members` of the failed `node` need together, and their bins.

        The result is an item of a packing problem, in which the bins are nodes.
        """
        memory = sum(i.memory for i in members if i.uses_memory)
        position = self.targets.position
        if members[0].needs_secondary:
            nodes = self.state.where[members[0].name]
            secondary = position.get(nodes[1]) if len(nodes) > 1 else None
            bins = (
                self._failover_bins[node] & {secondary}
                if secondary is not None
                else frozenset[int]()
            )
            return Item(memory, 0, bins, others=self.needs(members))
        disk = sum(i.own_disk for i in members)
        bins = self._open[node]
        for one in members:
            access = self.state.cluster.reach(one)
            if access is not None:
                if access not in self._with_access:
                    some = frozenset(b for t, b in position.items() if t in access)
                    self._with_access[access] = some
                bins &= self._with_access[access]
            if self.rules.recreates(one):
                group = self.state.cluster.nodes[node].group
                rejected = entry_rejections(self.state.cluster, group, one)
                bins = frozenset(b for b in bins if self.targets.nodes[b] not in rejected)
        return Item(memory, disk, bins, others=self.needs(members))

    def needs(self, members: Sequence[Instance]) -> tuple[float, ...]:
        """Return how much of each resource in `others` the `members` use on a new node."""
        limits = self.targets.limits
        needs = [0.0] * len(limits)
        for one in members if limits and self.targets.nodes else ():
            first = self.targets.nodes[0]
            before = NodeView.of(self.state, first, self.kernels.fixed[first])
            added = one.as_primary
            if one.needs_secondary:
                added = tuple(a - b for a, b in zip(one.as_primary, one.as_secondary))
            after = before.plus(added, before.reserved)
            for k, limit in enumerate(limits):
                lack = limit.lacks.amount
                needs[k] += lack(before, after, one) - lack(before, before, one)
        return (*needs, *self.space([one for one in members if not one.needs_secondary]))

    def space(self, members: Iterable[Instance]) -> list[float]:
        """Return the MiB that the disks of `members` take of each of `pools`."""
        if not self.pools:
            return []
        taken = dict.fromkeys(self.pools, 0.0)
        for one in members:
            for pool, amount in one.draws:
                taken[pool] += amount
        return list(taken.values())

    def unrestartable(self) -> set[str]:
        """Return the names of the instances that no node could restart even without other
        instances.

        On every possible node, the instance needs more memory than the node has without its
        primaries, or more disk, or space in a pool, than is free.
        """
        limits = len(self.targets.limits)
        memory, disk = self.state.columns[MEMORY], self.state.columns[DISK]
        empty: dict[int, float] = {}  # bin -> MiB of memory without the primaries of its node

        def holds(b: int, item: Item) -> bool:
            node = self.targets.nodes[b]
            if b not in empty:
                primaries = self.state.primaries[node].values()
                empty[b] = memory[node] + sum(i.memory for i in primaries if i.uses_memory)
            if empty[b] <= item.memory or (item.disk and disk[node] <= item.disk):
                return False
            pairs = zip(item.others[limits:], self.others.get(node, ())[limits:])
            return all(need <= free for need, free in pairs if need)

        return {
            one.name
            for members, item in zip(self._members, self._items)
            if not any(holds(b, item) for b in item.bins)
            for one in members
        }

    def leavers(self) -> list[Leaver]:
        """Return all instances that leave, what they need, and the nodes that they can use."""
        return [
            (members, item, frozenset(self.targets.nodes[b] for b in item.bins))
            for members, item in zip(self._members, self._items)
        ]

    @property
    def open(self) -> frozenset[int]:
        """Return the nodes that can receive an instance of a failed node."""
        return frozenset(self.targets.nodes[b] for bins in self._open.values() for b in bins)

    def can_fail_over(self, node: int, secondary: int) -> bool:
        """Return whether `secondary` can receive an instance of a failed `node`."""
        return self.targets.position.get(secondary) in self._failover_bins[node]

    @property
    def whole(self) -> EvacuationPart:
        """Return all instances that need a new node, as one part."""
        return EvacuationPart(self, self._members, self._items)

    def parts(self, left_out: Collection[str] = ()) -> list[EvacuationPart]:
        """Return all instances except `left_out` (names), in parts that share no node.

        Instances with a common possible node, directly or through other instances, are in one
        part, and so are instances that must restart on the same node. An instance without a
        possible node is a part of its own.
        """
        parts: list[tuple[frozenset[int], list[int]]] = []
        for k, item in enumerate(self._items):
            if any(one.name in left_out for one in self._members[k]):
                continue
            bins, mine = item.bins, [k]
            apart = []
            for other in parts:
                if bins.isdisjoint(other[0]):
                    apart.append(other)
                else:
                    bins, mine = bins | other[0], other[1] + mine
            parts = [*apart, (bins, mine)]
        chosen = [sorted(mine) for _, mine in parts]
        return [
            EvacuationPart(self, [self._members[k] for k in mine], [self._items[k] for k in mine])
            for mine in chosen
        ]


class EvacuationPart:
    """A part of an evacuation that shares no node with other parts, as a packing problem.

    `members`: for each item, its instances, which restart on one node together.

    Attributes
    ----------
    nodes:
        The nodes that the items can use.
    fails_over:
        Whether all items can only go to one secondary, and need only memory there. A failover with
        ``strict`` needs disk, too.
    """

    def __init__(
        self,
        evacuation: Evacuation,
        members: Sequence[Sequence[Instance]],
        items: Sequence[Item],
    ) -> None:
        self._evacuation = evacuation
        self._members = members
        self._items = items
        targets = evacuation.targets
        self.nodes = frozenset(targets.nodes[b] for bins in {i.bins for i in items} for b in bins)
        self.fails_over = (
            len(self.nodes) == 1
            and not targets.limits
            and not evacuation.rules.strict
            and all(some[0].needs_secondary for some in members)
        )
        self._spare: float | None = None
        self._lost: bool | None = None

    def has(self, name: str) -> bool:
        """Return whether this part of the evacuation has the instance called `name`."""
        return any(one.name == name for some in self._members for one in some)

    # The search

    def succeeds(self) -> bool | None:
        """Return whether all instances can be placed; None if the search does not decide."""
        cost, least = self._pack(by_memory=False, most=0)
        return True if cost == 0 else False if least > 0 else None

    def loss(self) -> Loss:
        """Return the loss of this part: the best packing that the search finds, and a bound."""
        instances = self._pack(by_memory=False)
        return Loss(*instances, *self._pack(by_memory=True)) if instances[0] else NO_LOSS

    def loses_more_than(self, before: Loss) -> bool:
        """Return whether no packing was found that loses as little as `before`.

        The search ends at the first packing that does.
        """
        return (
            self._pack(by_memory=False, enough=before.instances_least)[0] > before.instances_least
            or self._pack(by_memory=True, enough=before.memory_least)[0] > before.memory_least
        )

    def _pack(self, by_memory: bool, most: float = inf, enough: float = 0) -> tuple[float, float]:
        """Return the cost of the best packing found, and the least possible cost.

        The cost is the number of items left out; with `by_memory`, their MiB. It is infinite if the
        limits reject the packing. The search looks for packings of cost up to `most`, and ends at
        cost `enough`.
        """
        targets, others = self._evacuation.targets, list(self._evacuation.others.values())
        bins = Bins(targets.memory, targets.disk, others, targets.order)
        packing = Packing(self._items, bins, by_memory, most, enough=enough)
        packed = packing.solve()
        self._evacuation.rules.spend(PACKING_WORK + packing.work)
        if packed.cost < inf and not (self._memory_alone() or self._holds(packed.places)):
            return inf, packed.least
        return packed.cost, packed.least

    def _memory_alone(self) -> bool:
        """Return whether only memory limits the placements, so that a packing is a proof."""
        strict = self._evacuation.rules.strict
        return not self._evacuation.targets.limits and not any(
            one.local and strict if one.needs_secondary else one.local or one.restricted
            for some in self._members
            for one in some
        )

    def _holds(self, places: Sequence[int | None]) -> bool:
        """Return whether all limits accept the items on their bins; failovers come first."""
        state, kernels = self._evacuation.state, self._evacuation.kernels
        strict = self._evacuation.rules.strict
        placed = [(some, b) for some, b in zip(self._members, places) if b is not None]
        placed.sort(key=lambda one: not one[0][0].needs_secondary)
        checker = kernels.checker(state)
        with state.trial():
            for some, b in placed:
                target = self._evacuation.targets.nodes[b]
                for one in some:
                    nodes = state.where[one.name]
                    if one.needs_secondary:
                        state.remove(one, nodes)
                        checks = failover_checks(one)
                        if checker.primary_rejection(one, target, checks):
                            return False
                        if strict and disk_rejection(checker, state, one, nodes[0], target):
                            return False
                        state.place(one, (target, nodes[0]))
                        continue
                    state.remove(one, nodes[:1])
                    checks = checks_for(PRIMARY, one, FORCED_LIMITS)
                    if checker.primary_rejection(one, target, checks):
                        return False
                    state.place(one, (target,))
        return True

    # Slack, by sums

    @property
    def spare(self) -> float:
        """Return the MiB that any one node can lose while all instances can be placed.

        The result is negative if sums do not decide. If `fails_over` is True, the result is exact,
        even if it is negative.
        """
        if self._spare is None:
            items = self._items
            if not self._memory_alone() or len({item.bins for item in items}) != 1:
                self._spare = -inf
                return self._spare
            memory, nodes = self._evacuation.state.columns[MEMORY], self._evacuation.targets.nodes
            free = [max(0, memory[nodes[b]] - 1) for b in items[0].bins]
            need = max(item.memory for item in items)
            others = sum(item.memory for item in items) - need
            if len(free) == 1:
                self._spare = free[0] - need - others
            else:
                self._spare = sum(f - need + 1 for f in free if f >= need) - others - 1
        return self._spare

    @property
    def lost(self) -> bool:
        """Return whether an instance certainly cannot be placed."""
        if self._lost is None:
            self._lost = self.spare < 0 and (self.fails_over or self.succeeds() is False)
        return self._lost

    def misses(self, memory: float) -> bool | None:
        """Return whether this part loses an instance if one node loses `memory` MiB; None:
        undecided.
        """
        if self.spare >= memory:
            return False
        return True if self.fails_over or self.lost else None


def _largest_sum(sizes: Sequence[int], most: int) -> int:
    """Return the largest sum of some of `sizes` that is at most `most`."""
    unit = gcd(*sizes) or 1
    sums, mask = 1, (1 << most // unit + 1) - 1  # bit k: k units are a sum
    for size in sizes:
        sums |= sums << size // unit & mask
    return unit * (sums.bit_length() - 1)


class FailureSlack:
    """The memory that a new instance can use before a failure loses more, in the present state.

    The memory is computed once for all candidates, in parts that share no node. Instances of a part
    that are already lost stay lost with any candidate on its nodes. A part with spare memory can
    give some of it to a candidate.

    Attributes
    ----------
    unrestartable:
        The names of the instances that cannot be restarted in any case; no part has them.
    """

    __slots__ = ("_by_node", "_evacuation", "_memory", "_parts", "unrestartable")

    def __init__(self, evacuation: Evacuation, memory: list[float]) -> None:
        self._memory = memory
        self._evacuation = evacuation
        self.unrestartable = evacuation.unrestartable()
        self._parts = evacuation.parts(self.unrestartable)
        self._by_node = {node: part for part in self._parts for node in part.nodes}

    def is_worse_with(self, instance: Instance, nodes: Nodes, colocated: bool) -> bool | None:
        """Return whether the failure loses more instances because `instance` is placed on `nodes`.

        `colocated`: `instance` belongs to a colocation group. None: sums do not decide.
        """
        memory = instance.memory if instance.uses_memory else 0
        if nodes[0] not in self._evacuation.failure:
            part = self._by_node.get(nodes[0])
            return False if part is None else part.misses(memory)
        if instance.needs_secondary:
            secondary = nodes[1:]
            if not secondary or not self._evacuation.can_fail_over(*nodes):
                return True
            part = self._by_node.get(secondary[0])
            if part is not None:
                return part.misses(memory) if part.fails_over else None
            if self._evacuation.targets.limits or self._evacuation.rules.strict:
                return None
            return memory > max(0, self._memory[secondary[0]] - 1)
        if not (colocated or instance.restricted) and any(part.lost for part in self._parts):
            return True
        return None


class ExactSearch:
    """The losses of failures with ``no-worse``, and whether a placement increases one.

    A new instance must not increase any loss. If a failure loses instances already, a new instance
    must not use memory that could restart these instances either. Otherwise more memory on a node
    could turn an accepted placement into a rejected one. Lost instances are ignored if they cannot
    be restarted in any case, or if the new instance does not affect them. A move also frees memory,
    so the losses before and after the move are compared.

    Parameters
    ----------
    leaving:
        An instance that moves, which is not on `state`, and its nodes before the move.
    losses:
        Failure -> its loss before the placement; None: the losses in `state`.
    """

    def __init__(
        self,
        state: State,
        kernels: Kernels,
        rules: Rules,
        simulation: Simulation,
        leaving: tuple[Instance, Nodes] | None = None,
        losses: dict[Failure, Loss] | None = None,
    ) -> None:
        self._state = state
        self._kernels = kernels
        self._rules = rules
        self._simulation = simulation
        self._leaving = leaving
        self._compares = losses is not None
        self._losses: dict[Failure, Loss] = {} if losses is None else losses
        self._slacks: dict[Failure, FailureSlack] = {}
        self._targets: Kept[tuple[int, ...], FailoverTargets] = {}

    def tolerates(self, failure: Failure) -> bool:
        """Return whether `failure` is tolerated in the present state."""
        return self._succeeds(self.evacuation(failure).whole, failure)

    def _succeeds(self, part: EvacuationPart, failure: Failure) -> bool:
        """Return whether all instances of a part restart; the simulation decides if the search does
        not.
        """
        result = part.succeeds()
        return not self._simulation.lost([failure]) if result is None else result

    def loss(self, failure: Failure) -> Loss:
        """Return what `failure` loses in the present state; `NO_LOSS` if it is tolerated."""
        loss = self._failover_loss(failure)
        if loss is not None:
            return loss
        loss = self.evacuation(failure).whole.loss()
        if loss.instances and not loss.instances_least and not self._simulation.lost([failure]):
            return NO_LOSS
        return loss

    def _failover_loss(self, failure: Failure) -> Loss | None:
        """Return the loss if only the memory of secondaries limits the restarts; None in other
        cases.

        Each secondary keeps the most instances if the smallest restart first. The least memory that
        is lost follows from all sums of sizes up to the free memory of the secondary.

        Cost: sizes of instances × MiB / 64 for each secondary that has too little memory.
        """
        state, rules = self._state, self._rules
        if len(failure) > 1 or rules.strict or rules.namesake is not None:
            return None
        node = failure[0]
        group = state.cluster.nodes[node].group
        if other_limits(group, *PACKED_LIMITS):
            return None
        sizes: dict[int, list[int]] = {}
        where = state.where
        for one in state.primaries[node].values():
            nodes = where[one.name]
            if one.forthcoming or nodes[0] != node:
                continue
            if not one.needs_secondary or len(nodes) != 2:
                return None
            sizes.setdefault(nodes[1], []).append(one.memory if one.uses_memory else 0)
        targets = frozenset(rules.targets(state.cluster, group))
        barred = move_rejections(state.cluster, node, sizes)
        count = memory = 0
        for secondary, some in sizes.items():
            free = floor(state.columns[MEMORY][secondary]) - 1
            if secondary not in targets or secondary in barred or free < 0:
                kept, used = 0, 0
            elif sum(some) <= free:
                continue
            else:
                kept = sum(size <= free for size in accumulate(sorted(some)))
                used = _largest_sum(some, free)
            count += len(some) - kept
            memory += sum(some) - used
            rules.spend(len(some))
        return Loss(count, count, memory, memory) if count else NO_LOSS

    def compares(self, nodes: Nodes) -> bool:
        """Return whether N+1 for an instance on `nodes` compares the losses before and after its
        move.
        """
        if self._compares or self._leaving is None:
            return self._compares
        all_nodes = self._state.cluster.nodes
        return all_nodes[self._leaving[1][0]].group is all_nodes[nodes[0]].group

    def known_by_bound(self, failure: Failure, instance: Instance, nodes: Nodes) -> bool | None:
        """Return whether sums prove that `failure` loses more with a new `instance` on `nodes`.

        False: they prove that it does not; None: they do not decide.
        """
        takes = instance.local or (instance.uses_memory and instance.memory > 0)
        if not (takes or nodes[0] in failure or self.evacuation(failure).targets.limits):
            return False
        slack = self._slacks.get(failure)
        if slack is None:
            memory = self._state.columns[MEMORY]
            slack = self._slacks[failure] = FailureSlack(self.evacuation(failure), memory)
        return slack.is_worse_with(instance, nodes, instance.name in self._rules.units)

    def first_worse(
        self, failing: Sequence[Failure], instance: Instance, nodes: Nodes
    ) -> Failure | None:
        """Return the first of `failing` that loses more with `instance` on `nodes`, or None."""
        if not self.compares(nodes):
            worse = self._takes_capacity_of_lost
            return next((one for one in failing if worse(one, instance, nodes)), None)
        with self._state.trial():
            self._state.place(instance, nodes)
            return next((n for n in failing if self._loses_more(n, instance, nodes)), None)

    def evacuation(self, failure: Failure) -> Evacuation:
        """Return the instances that leave after `failure`, in the present state."""
        state, rules = self._state, self._rules
        all_nodes = state.cluster.nodes
        groups = list(dict.fromkeys(all_nodes[node].group for node in failure))
        targets = derived(
            self._targets,
            tuple(group.index for group in groups),
            state.version,
            lambda: FailoverTargets(state, rules, groups),
        )
        return Evacuation(state, self._kernels, rules, self._simulation, failure, targets)

    def _loses_more(self, failure: Failure, instance: Instance, nodes: Nodes) -> bool:
        """Return whether `failure` loses more because `instance` is on `nodes`, where it is placed
        now.
        """
        try:
            before = self._losses[failure]  # some mappings compute missing losses
        except KeyError:
            with self._state.trial():
                self._state.remove(instance, nodes)
                if self._leaving is not None:
                    self._state.place(*self._leaving)
                before = self._losses[failure] = self.loss(failure)
        if before.instances_least:
            more = self.evacuation(failure).whole.loses_more_than(before)
            return more and not self.tolerates(failure)
        return not self.tolerates(failure)

    def _takes_capacity_of_lost(self, failure: Failure, instance: Instance, nodes: Nodes) -> bool:
        """Return whether the new instance takes capacity that would restart a lost instance."""
        known = self.known_by_bound(failure, instance, nodes)
        if known is not None:
            return known
        left_out = self._slacks[failure].unrestartable - {instance.name}
        with self._state.trial():
            self._state.place(instance, nodes)
            for part in self.evacuation(failure).parts(left_out):
                if part.has(instance.name) if nodes[0] in failure else nodes[0] in part.nodes:
                    return not self._succeeds(part, failure)
        return False
