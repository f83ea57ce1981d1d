"""Exact search of N+1: the least that a failure loses, whatever order instances are restarted in.

The simulation (`iallocator.n1.simulation`) restarts one instance after the other and can get stuck
where another order would not.  Here a drbd primary goes to its secondary, and every other instance
to any node that may take it.  Instances that share no node, not even through others, are packed
separately (`iallocator.packing`).  A packing counts only if all limits accept it on the state.

Cost: bounded by the packing's limit of work, about 20 ms for a failure.
"""

from __future__ import annotations

from iallocator.limits.group import may_not_receive, rejected_by_policy
from iallocator.limits.node import (
    DISK_SPACE,
    FORCED_LIMITS,
    FREE_MEMORY,
    OWN_SPINDLES,
    POOL_SPACE,
    PRIMARY,
    SPINDLES_OF_DISKS,
    checks_for,
    other_limits,
)
from iallocator.model.columns import DISK, MEMORY
from iallocator.model.node_view import NodeView
from iallocator.n1.simulation import failover_rejection
from iallocator.packing import Bins, Item, Packing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.rules import Rules
    from iallocator.n1.simulation import Simulation
    from iallocator.scoring import Kernels

    Leaver = tuple[Sequence[Instance], Item, frozenset[int]]
    """Instances that restart on one node together, what they need, and the nodes they may use."""

__all__ = ["NO_LOSS", "Evacuation", "ExactSearch", "Loss"]


INFINITE = float("inf")

PACKING = 100
"""What it costs to begin a search, in what it costs to look at a node."""


class Loss:
    """What a failure loses: what is known to be enough, and what is needed in any case.

    Attributes
    ----------
    instances, memory:
        How many items, and how many MiB, need not find a place for the rest to find one.
    instances_least, memory_least:
        Less is impossible.
    """

    __slots__ = ("instances", "instances_least", "memory", "memory_least")

    def __init__(
        self, instances: float, instances_least: float, memory: float, memory_least: float
    ) -> None:
        self.instances = instances
        self.instances_least = instances_least
        self.memory = memory
        self.memory_least = memory_least

    def exceeds(self, before: Loss) -> bool:
        """Whether this may be more than was lost before."""
        return self.instances > before.instances_least or self.memory > before.memory_least

    def with_more(self, instances: float, memory: float) -> Loss:
        """The same and so much more, which is lost in any case."""
        return Loss(
            self.instances + instances,
            self.instances_least + instances,
            self.memory + memory,
            self.memory_least + memory,
        )


NO_LOSS = Loss(0, 0, 0, 0)


class FailoverTargets:
    """The nodes of `group` that may take over, as `state` is now; the same whichever fails.

    Attributes
    ----------
    bins:
        Their indices.
    position:
        Node -> its place among them.
    open:
        The places of those that have memory.
    memory, disk:
        What each can give, MiB.
    order:
        Their places, those with most memory first.
    limits:
        The limits that keep instances off nodes beside memory, disk, pools and spindles.
    """

    __slots__ = ("bins", "disk", "limits", "memory", "open", "order", "position")

    def __init__(self, state: State, rules: Rules, group: Group) -> None:
        memory, disk = state.columns[MEMORY], state.columns[DISK]
        self.bins = rules.targets(state.cluster, group)
        self.position = {index: b for b, index in enumerate(self.bins)}
        self.memory = [memory[t] - 1 for t in self.bins]
        self.disk = [max(0, disk[t] - 1) for t in self.bins]
        self.open = frozenset(b for b, t in enumerate(self.bins) if memory[t] > 0)
        self.order = sorted(range(len(self.bins)), key=lambda b: -self.memory[b])
        self.limits = other_limits(
            group, FREE_MEMORY, DISK_SPACE, POOL_SPACE, OWN_SPINDLES, SPINDLES_OF_DISKS
        )


class FailureContext:
    """Where a failure is looked at: the state, and the nodes (`bins`) that may take over.

    `others`: what each of them can give of what `FailoverTargets.limits` limit.
    """

    __slots__ = ("bins", "kernels", "node", "others", "rules", "state", "targets_of_group")

    def __init__(
        self,
        state: State,
        kernels: Kernels,
        rules: Rules,
        node: int,
        targets_of_group: FailoverTargets,
        others: Sequence[tuple[float, ...]],
    ) -> None:
        self.others = others
        self.state = state
        self.kernels = kernels
        self.rules = rules
        self.node = node
        self.targets_of_group = targets_of_group
        self.bins = targets_of_group.bins


class EvacuationPart:
    """`items` that leave a node, and may go to bins; `whole`: the instances of each.

    Attributes
    ----------
    targets:
        The nodes to which somebody may go.
    """

    def __init__(
        self, context: FailureContext, whole: Sequence[Sequence[Instance]], items: Sequence[Item]
    ) -> None:
        self._context = context
        self._whole = whole
        self._items = items
        kinds = {item.bins for item in items}
        self.targets = frozenset(context.bins[b] for bins in kinds for b in bins)

    def has(self, name: str) -> bool:
        """Whether the instance of that name is in it."""
        return any(one.name == name for members in self._whole for one in members)

    @property
    def fails_over(self) -> bool:
        """Whether all have the same one place to go to, their secondary, and need only memory."""
        return (
            len(self.targets) == 1
            and not self._context.targets_of_group.limits
            and all(m[0].needs_secondary for m in self._whole)
        )

    def spare(self) -> float:
        """MiB that each of the targets alone could miss while all find a place.

        Negative where sums do not tell; exact, negative or not, if it `fails_over`.
        """
        if not self._memory_alone() or len({item.bins for item in self._items}) != 1:
            return -INFINITE
        memory = self._context.state.columns[MEMORY]
        room = [max(0, memory[self._context.bins[b]] - 1) for b in self._items[0].bins]
        need = max(item.memory for item in self._items)
        others = sum(item.memory for item in self._items) - need
        if len(room) == 1:
            return room[0] - need - others
        return sum(r - need + 1 for r in room if r >= need) - others - 1

    def succeeds(self) -> bool | None:
        """Whether everybody finds a place; None if the search does not tell."""
        cost, least = self._packed(by_memory=False, most=0)
        return True if cost == 0 else False if least > 0 else None

    def loss(self) -> Loss:
        """What is lost at least, as far as the search goes."""
        instances = self._packed(by_memory=False)
        return Loss(*instances, *self._packed(by_memory=True)) if instances[0] else NO_LOSS

    def loses_more_than(self, before: Loss) -> bool:
        """Whether this may lose more than `before`; what loses no more is not searched further."""
        return (
            self._packed(by_memory=False, enough=before.instances_least)[0] > before.instances_least
            or self._packed(by_memory=True, enough=before.memory_least)[0] > before.memory_least
        )

    def _packed(
        self, by_memory: bool, most: float = INFINITE, enough: float = 0
    ) -> tuple[float, float]:
        """What is left out, and what must be."""
        targets_of_group = self._context.targets_of_group
        problem = Packing(
            self._items,
            Bins(
                targets_of_group.memory,
                targets_of_group.disk,
                self._context.others,
                targets_of_group.order,
            ),
            by_memory,
            most,
            enough=enough,
        )
        found = problem.solve()
        self._context.rules.effort.spend(PACKING + problem.work)
        if found.cost < INFINITE and not (self._memory_alone() or self._holds(found.places)):
            return INFINITE, found.least
        return found.cost, found.least

    def _memory_alone(self) -> bool:
        """Whether nothing but memory limits where they go: then the packing is proof."""
        return not self._context.targets_of_group.limits and not any(
            one.restricted or (one.local and not one.needs_secondary)
            for members in self._whole
            for one in members
        )

    def _holds(self, places: Sequence[int | None]) -> bool:
        """Whether everybody can be put there by the limits that count when a node fails."""
        with self._context.state.trial():
            for members, place in self._leaving(places):
                for one in members:
                    if not self._goes(one, self._context.bins[place]):
                        return False
        return True

    def _leaving(self, places: Sequence[int | None]) -> Iterator[tuple[Sequence[Instance], int]]:
        """Those that have a place; failovers come first."""
        found = [(m, place) for m, place in zip(self._whole, places) if place is not None]
        yield from sorted(found, key=lambda one: not one[0][0].needs_secondary)

    def _goes(self, instance: Instance, target: int) -> bool:
        """Put `instance` on `target`; whether that holds it."""
        state = self._context.state
        nodes = state.where[instance.name]
        if instance.needs_secondary:
            state.remove(instance, nodes)
            if failover_rejection(state, self._context.kernels, instance, target):
                return False
            state.place(instance, (target, self._context.node))
            return True
        state.remove(instance, nodes[:1])
        checks = checks_for(PRIMARY, instance, FORCED_LIMITS)
        if self._context.kernels.checker(state).primary_rejection(instance, target, checks):
            return False
        state.place(instance, (target,))
        return True


class Evacuation:
    """What leaves `node` when it fails, and where each of it may go, as `state` is now.

    Attributes
    ----------
    others:
        Node -> what it can give of what `FailoverTargets.limits` limit; empty if there are none.
    """

    def __init__(
        self,
        state: State,
        kernels: Kernels,
        rules: Rules,
        simulation: Simulation,
        node: int,
        targets_of_group: FailoverTargets | None = None,
    ) -> None:
        self._state = state
        self._rules = rules
        self._group = state.cluster.nodes[node].group
        targets_of_group = targets_of_group or FailoverTargets(state, rules, self._group)
        self._bins, self._position = targets_of_group.bins, targets_of_group.position
        self._limits, self._kernels = targets_of_group.limits, kernels
        barred = {node, *may_not_receive(state.cluster, node, self._bins)}
        self._open = targets_of_group.open.difference(
            self._position[t] for t in barred if t in self._position
        )
        self._reached: dict[frozenset[int], frozenset[int]] = {}
        self._whole = simulation.items(node)
        self._items = [self._item(item) for item in self._whole]
        self.others: dict[int, tuple[float, ...]] = {}
        for index in self._bins if self._limits and self._whole else ():
            view, one = self._view(index), self._whole[0][0]
            left = (-limit.lacks.amount(view, view, one) for limit in self._limits)
            self.others[index] = tuple(left)
        self._context = FailureContext(
            state, kernels, rules, node, targets_of_group, list(self.others.values())
        )

    def _item(self, members: Sequence[Instance]) -> Item:
        memory = sum(i.memory for i in members if i.uses_memory)
        if members[0].needs_secondary:
            return Item(memory, 0, self._secondary(members[0]), others=self._needs(members))
        disk = sum(i.disk for i in members if i.local)
        bins = self._open
        for one in members:
            reach = self._state.cluster.reach(one)
            if reach is not None:
                bins &= self._within(reach)
            if self._rules.recreates(one):
                rejected = rejected_by_policy(self._state.cluster, self._group, one)
                bins = frozenset(b for b in bins if self._bins[b] not in rejected)
        return Item(memory, disk, bins, others=self._needs(members))

    def _needs(self, members: Sequence[Instance]) -> tuple[float, ...]:
        """What `members` take on their new node of what `FailoverTargets.limits` limit."""
        needs = [0.0] * len(self._limits)
        for one in members if self._bins else ():
            before = self._view(self._bins[0])
            added = one.as_primary
            if one.needs_secondary:
                added = tuple(a - b for a, b in zip(one.as_primary, one.as_secondary))
            after = before.plus(added, before.reserved)
            for k, limit in enumerate(self._limits):
                lack = limit.lacks.amount
                needs[k] += lack(before, after, one) - lack(before, before, one)
        return tuple(needs)

    def _view(self, index: int) -> NodeView:
        return NodeView.of(self._state, index, self._kernels.fixed[index])

    def _secondary(self, instance: Instance) -> frozenset[int]:
        nodes = self._state.where[instance.name]
        place = self._position.get(nodes[1]) if len(nodes) > 1 else None
        return self._open & {place} if place is not None else frozenset()

    def _within(self, reach: frozenset[int]) -> frozenset[int]:
        found = self._reached.get(reach)
        if found is None:
            found = frozenset(b for t, b in self._position.items() if t in reach)
            self._reached[reach] = found
        return found

    def hopeless(self) -> set[str]:
        """Whom nothing that could come or go saves: too large for all nodes if those were empty.

        Or for their free disk as it is, which more memory would not change.
        """
        disk = self._state.columns[DISK]
        empty: dict[int, float] = {}

        def holds(b: int, item: Item) -> bool:
            if b not in empty:
                empty[b] = self._if_empty(self._bins[b])
            return empty[b] > item.memory and (not item.disk or disk[self._bins[b]] > item.disk)

        return {
            one.name
            for members, item in zip(self._whole, self._items)
            if not any(holds(b, item) for b in item.bins)
            for one in members
        }

    def _if_empty(self, node: int) -> float:
        """MiB of memory that a node would have free without its primaries."""
        here = self._state.primaries[node].values()
        return self._state.columns[MEMORY][node] + sum(i.memory for i in here if i.uses_memory)

    def leavers(self) -> list[Leaver]:
        """All that leaves, with the size of each and the nodes that it may go to."""
        return [
            (members, item, frozenset(self._bins[b] for b in item.bins))
            for members, item in zip(self._whole, self._items)
        ]

    @property
    def limited_otherwise(self) -> bool:
        """Whether more than memory, disk, pools and spindles limits who may go where."""
        return bool(self._limits)

    @property
    def open(self) -> frozenset[int]:
        """The nodes that could take something."""
        return frozenset(self._bins[b] for b in self._open)

    @property
    def everybody(self) -> EvacuationPart:
        """All that leaves."""
        return EvacuationPart(self._context, self._whole, self._items)

    def parts(self, left_out: Collection[str] = ()) -> list[EvacuationPart]:
        """All but `left_out` (names), those apart who share no node, not even through others.

        Whoever may go nowhere is a part alone.
        """
        found: list[tuple[frozenset[int], list[int]]] = []
        for k, item in enumerate(self._items):
            if any(one.name in left_out for one in self._whole[k]):
                continue
            bins, mine = item.bins, [k]
            apart = []
            for other in found:
                if bins.isdisjoint(other[0]):
                    apart.append(other)
                else:
                    bins, mine = bins | other[0], other[1] + mine
            found = [*apart, (bins, mine)]
        return [self._part(sorted(mine)) for _, mine in found]

    def _part(self, chosen: Sequence[int]) -> EvacuationPart:
        return EvacuationPart(
            self._context, [self._whole[k] for k in chosen], [self._items[k] for k in chosen]
        )


class FailureSlack:
    """The failure of `node` as things are; `memory`: MiB that each node has free.

    Attributes
    ----------
    hopeless:
        Names of those whom nothing can save; they are in no part.
    """

    __slots__ = (
        "_by_target",
        "_limited_otherwise",
        "_memory",
        "_node",
        "_open",
        "_parts",
        "hopeless",
    )

    def __init__(self, evacuation: Evacuation, node: int, memory: list[float]) -> None:
        self._node = node
        self._memory = memory
        self._open = evacuation.open
        self._limited_otherwise = evacuation.limited_otherwise
        self.hopeless = evacuation.hopeless()
        self._parts = [_PartSlack(part) for part in evacuation.parts(self.hopeless)]
        self._by_target = {t: one for one in self._parts for t in one.part.targets}

    def is_worse_with(self, instance: Instance, nodes: tuple[int, ...], tied: bool) -> bool | None:
        """Return whether `instance` on `nodes` makes an instance unrestartable; None: undecided.

        `tied`: `instance` belongs to a colocation group.
        """
        taken = instance.memory if instance.uses_memory else 0
        if self._node != nodes[0]:
            part = self._by_target.get(nodes[0])
            return False if part is None else part.misses(taken)
        if instance.needs_secondary:
            return self._fails_over(taken, nodes[1:])
        if not (tied or instance.restricted) and any(part.lost for part in self._parts):
            return True
        return None

    def _fails_over(self, taken: float, secondary: tuple[int, ...]) -> bool | None:
        """The same where the new instance is on the node that fails, and has that secondary."""
        if not self._open.issuperset(secondary) or not secondary:
            return True
        part = self._by_target.get(secondary[0])
        if part is None and self._limited_otherwise:
            return None
        if part is None:
            return taken > max(0, self._memory[secondary[0]] - 1)
        return part.misses(taken) if part.exact else None


class _PartSlack:
    """A part, and what is known of it."""

    __slots__ = ("_lost", "_spare", "exact", "part")

    def __init__(self, part: EvacuationPart) -> None:
        self.part = part
        self.exact = part.fails_over
        self._spare = part.spare()
        self._lost: bool | None = None

    @property
    def lost(self) -> bool:
        """Whether somebody finds no place for certain."""
        if self._lost is None:
            self._lost = self._spare < 0 and (self.exact or self.part.succeeds() is False)
        return self._lost

    def misses(self, memory: float) -> bool | None:
        """Return whether `memory` MiB less on a target loses an instance; None: undecided."""
        if self._spare >= memory:
            return False
        return True if self.exact or self.lost else None


class ExactSearch:
    """Says of failures what they lose, and whether a placement makes it more.

    `leaving`: an instance that is off `state`, and where it was.
    `losses`: node -> what its failure lost before, where that is not to be taken from `state`.
    """

    def __init__(
        self,
        state: State,
        kernels: Kernels,
        rules: Rules,
        simulation: Simulation,
        leaving: tuple[Instance, Nodes] | None = None,
        losses: dict[int, Loss] | None = None,
    ) -> None:
        self._state = state
        self._kernels = kernels
        self._rules = rules
        self._simulation = simulation
        self._leaving = leaving
        self._compares = losses is not None
        self._losses: dict[int, Loss] = {} if losses is None else losses
        self._slacks: dict[int, FailureSlack] = {}
        self._failover_targets: tuple[int, Group | None, FailoverTargets | None] = -1, None, None

    def saves(self, node: int) -> bool:
        """Whether the failure of `node` is survived as the state is now."""
        return self._succeeds(self._evacuation(node).everybody, node)

    def _succeeds(self, part: EvacuationPart, node: int) -> bool:
        """Whether the search finds room for all, or one after the other does where it gives up."""
        found = part.succeeds()
        return not self._simulation.lost([node]) if found is None else found

    def loss(self, node: int) -> Loss:
        """What the failure of `node` loses as the state is now; nothing where `saves` says so."""
        found = self._evacuation(node).everybody.loss()
        if found.instances and not found.instances_least and not self._simulation.lost([node]):
            return NO_LOSS
        return found

    def compares(self, nodes: Nodes) -> bool:
        """Whether what is lost before and after is compared, with the instance on `nodes`."""
        if self._compares or self._leaving is None:
            return self._compares
        all_nodes = self._state.cluster.nodes
        return all_nodes[self._leaving[1][0]].group is all_nodes[nodes[0]].group

    def known_by_bound(self, node: int, instance: Instance, nodes: Nodes) -> bool | None:
        """Whether a new `instance` on `nodes` takes what saves somebody, as far as sums tell."""
        if not self._concerns(node, instance, nodes):
            return False
        slack = self._slacks.get(node)
        if slack is None:
            memory = self._state.columns[MEMORY]
            slack = self._slacks[node] = FailureSlack(self._evacuation(node), node, memory)
        return slack.is_worse_with(instance, nodes, instance.name in self._rules.units)

    def first_worse(self, failing: Sequence[int], instance: Instance, nodes: Nodes) -> int | None:
        """The first of `failing`, which are in doubt, where `instance` on `nodes` loses more."""
        if not self.compares(nodes):
            worse = self._takes_what_saves
            return next((node for node in failing if worse(node, instance, nodes)), None)
        with self._state.trial():
            self._state.place(instance, nodes)
            return next((n for n in failing if self._loses_more(n, instance, nodes)), None)

    def _concerns(self, node: int, instance: Instance, nodes: Nodes) -> bool:
        takes = instance.local or (instance.uses_memory and instance.memory > 0)
        return takes or node == nodes[0] or self._evacuation(node).limited_otherwise

    def _evacuation(self, node: int) -> Evacuation:
        group = self._state.cluster.nodes[node].group
        if self._failover_targets[:2] != (self._state.version, group):
            targets_of_group = FailoverTargets(self._state, self._rules, group)
            self._failover_targets = self._state.version, group, targets_of_group
        return Evacuation(
            self._state,
            self._kernels,
            self._rules,
            self._simulation,
            node,
            self._failover_targets[2],
        )

    def _loses_more(self, node: int, instance: Instance, nodes: Nodes) -> bool:
        """Whether more is lost than before, with `instance` on `nodes`, where it is now."""
        before = self._loss_before(node, instance, nodes)
        if before.instances_least:
            return self._evacuation(node).everybody.loses_more_than(before) and not self.saves(node)
        return not self.saves(node)

    def _loss_before(self, node: int, instance: Instance, nodes: Nodes) -> Loss:
        try:
            return self._losses[node]
        except KeyError:
            pass
        with self._state.trial():
            self._state.remove(instance, nodes)
            if self._leaving is not None:
                self._state.place(*self._leaving)
            found = self._losses[node] = self.loss(node)
        return found

    def _takes_what_saves(self, node: int, instance: Instance, nodes: Nodes) -> bool:
        """Whether somebody whom `instance` concerns is lost, and need not be."""
        known_by_bound = self.known_by_bound(node, instance, nodes)
        if known_by_bound is not None:
            return known_by_bound
        left_out = self._slacks[node].hopeless - {instance.name}
        with self._state.trial():
            self._state.place(instance, nodes)
            for part in self._evacuation(node).parts(left_out):
                if part.has(instance.name) if node == nodes[0] else nodes[0] in part.targets:
                    return not self._succeeds(part, node)
        return False
