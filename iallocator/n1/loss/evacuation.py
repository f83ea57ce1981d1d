"""What a failure loses at least: who finds no place, whatever goes where.

The simulation (`iallocator.n1.simulation`) moves one after the other and may get stuck where
another order would not.  Here everything that must leave the failing node is packed into the
others by exact search: a drbd primary into its secondary, the rest into any node that may
take it.  What is found is carried out on the state and held to its limits, so that what
counts as saved is.
"""

from __future__ import annotations

from iallocator.limits.group import refused_by_policy
from iallocator.limits.migration import may_not_receive
from iallocator.limits.node import FORCED_LIMITS, PRIMARY, checks_for
from iallocator.model.columns import DISK, MEMORY
from iallocator.n1.loss.packing import Item, Packing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.rules import Rules
    from iallocator.n1.simulation import Simulation
    from iallocator.scoring import Kernels

__all__ = ["Evacuation", "Loss"]

INFINITE = float("inf")


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


class Evacuation:
    """What leaves `node` when it fails, and where each of it may go, as `state` is now.

    `left_out`: instances that are not looked at, by name.
    """

    def __init__(
        self,
        state: State,
        kernels: Kernels,
        rules: Rules,
        simulation: Simulation,
        node: int,
        left_out: Collection[str] = (),
    ) -> None:
        self._state = state
        self._kernels = kernels
        self._rules = rules
        self._node = node
        self._group = state.cluster.nodes[node].group
        self._bins = [t for t in rules.targets(state.cluster, self._group) if t != node]
        self._position = {index: b for b, index in enumerate(self._bins)}
        barred = may_not_receive(state.cluster, node, self._bins)
        memory = state.columns[MEMORY]
        self._open = frozenset(
            b for b, t in enumerate(self._bins) if t not in barred and memory[t] > 0
        )
        self._reached: dict[frozenset[int], frozenset[int]] = {}
        self._whole = [
            item for item in simulation.items(node) if not any(i.name in left_out for i in item)
        ]
        self._items = [self._item(item) for item in self._whole]

    def _item(self, members: Sequence[Instance]) -> Item:
        memory = sum(i.memory for i in members if i.uses_memory)
        if members[0].template == "drbd":
            return Item(memory, 0, self._secondary(members[0]))
        disk = sum(i.disk for i in members if i.local)
        bins = self._open
        for one in members:
            reach = self._state.cluster.reach(one)
            if reach is not None:
                bins &= self._within(reach)
            if self._rules.recreates(one):
                refused = refused_by_policy(self._state.cluster, self._group, one)
                bins = frozenset(b for b in bins if self._bins[b] not in refused)
        return Item(memory, disk, bins)

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
        state = self._state
        free, disk = state.columns[MEMORY], state.columns[DISK]
        empty = [
            free[t] + sum(i.memory for i in state.primaries[t].values() if i.uses_memory)
            for t in self._bins
        ]
        return {
            one.name
            for members, item in zip(self._whole, self._items)
            if not any(
                empty[b] > item.memory and (disk[self._bins[b]] > item.disk or not item.disk)
                for b in item.bins
            )
            for one in members
        }

    def concerned(self, nodes: Collection[int], names: Collection[str]) -> Evacuation:
        """Only what shares a node, directly or through others, with `nodes` or with `names`."""
        reached = {self._position[t] for t in nodes if t in self._position}
        chosen = {
            k for k, members in enumerate(self._whole) if any(i.name in names for i in members)
        }
        for k in chosen:
            reached |= self._items[k].bins
        while True:
            more = {
                k
                for k, item in enumerate(self._items)
                if k not in chosen and not reached.isdisjoint(item.bins)
            }
            if not more:
                break
            chosen |= more
            for k in more:
                reached |= self._items[k].bins
        self._whole = [self._whole[k] for k in sorted(chosen)]
        self._items = [self._items[k] for k in sorted(chosen)]
        return self

    def succeeds(self) -> bool | None:
        """Whether everybody finds a place; None if the search does not tell."""
        cost, least = self._packed(by_memory=False, most=0)
        return True if cost == 0 else False if least > 0 else None

    def loss(self) -> Loss:
        """What is lost at least, as far as the search goes."""
        return Loss(*self._packed(by_memory=False), *self._packed(by_memory=True))

    def _packed(self, by_memory: bool, most: float = INFINITE) -> tuple[float, float]:
        """What is left out, and what must be."""
        columns = self._state.columns
        problem = Packing(
            self._items,
            [columns[MEMORY][t] - 1 for t in self._bins],
            [max(0, columns[DISK][t] - 1) for t in self._bins],
            by_memory,
            most,
        )
        found = problem.solve()
        self._rules.effort.spend(problem.work)
        if found.cost < INFINITE and not (self._memory_alone() or self._holds(found.places)):
            return INFINITE, found.least
        return found.cost, found.least

    def _memory_alone(self) -> bool:
        """Whether nothing but memory limits where they go: then the packing is proof."""
        return not any(
            one.restricted or (one.local and one.template != "drbd")
            for members in self._whole
            for one in members
        )

    def _holds(self, places: Sequence[int | None]) -> bool:
        """Whether everybody can be put there by the limits that count when a node fails."""
        with self._state.trial():
            for members, place in self._leaving(places):
                for one in members:
                    if not self._goes(one, self._bins[place]):
                        return False
        return True

    def _leaving(self, places: Sequence[int | None]) -> Iterator[tuple[Sequence[Instance], int]]:
        """Those that have a place; failovers come first."""
        found = [(m, place) for m, place in zip(self._whole, places) if place is not None]
        yield from sorted(found, key=lambda one: one[0][0].template != "drbd")

    def _goes(self, instance: Instance, target: int) -> bool:
        """Put `instance` on `target`; whether that holds it."""
        state = self._state
        nodes = state.where[instance.name]
        if instance.template == "drbd":
            state.remove(instance, nodes)
            state.place(instance, (target, self._node))
            return state.columns[MEMORY][target] > 0
        state.remove(instance, nodes[:1])
        checks = checks_for(PRIMARY, instance, FORCED_LIMITS)
        if self._kernels.checker(state).primary_refusal(instance, target, checks):
            return False
        state.place(instance, (target,))
        return True
