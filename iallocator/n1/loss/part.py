"""What leaves a failing node and shares the nodes that it may go to: whether all find a place.

Sums first, then exact search; what is found is carried out on the state and held to its limits,
so that what counts as saved is.
"""

from __future__ import annotations

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
from iallocator.n1.simulation import failover_rejection
from iallocator.packing import Bins, Packing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.rules import Rules
    from iallocator.packing import Item
    from iallocator.scoring import Kernels

__all__ = ["NO_LOSS", "Loss", "Part", "Setting", "Takers"]

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


class Takers:
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


class Setting:
    """Where a failure is looked at: the state, and the nodes (`bins`) that may take over.

    `others`: what each of them can give of what `Takers.limits` limit.
    """

    __slots__ = ("bins", "kernels", "node", "others", "rules", "state", "takers")

    def __init__(
        self,
        state: State,
        kernels: Kernels,
        rules: Rules,
        node: int,
        takers: Takers,
        others: Sequence[tuple[float, ...]],
    ) -> None:
        self.others = others
        self.state = state
        self.kernels = kernels
        self.rules = rules
        self.node = node
        self.takers = takers
        self.bins = takers.bins


class Part:
    """`items` that leave a node, and may go to bins; `whole`: the instances of each.

    Attributes
    ----------
    targets:
        The nodes to which somebody may go.
    """

    def __init__(
        self, setting: Setting, whole: Sequence[Sequence[Instance]], items: Sequence[Item]
    ) -> None:
        self._setting = setting
        self._whole = whole
        self._items = items
        kinds = {item.bins for item in items}
        self.targets = frozenset(setting.bins[b] for bins in kinds for b in bins)

    def has(self, name: str) -> bool:
        """Whether the instance of that name is in it."""
        return any(one.name == name for members in self._whole for one in members)

    @property
    def fails_over(self) -> bool:
        """Whether all have the same one place to go to, their secondary, and need only memory."""
        return (
            len(self.targets) == 1
            and not self._setting.takers.limits
            and all(m[0].template == "drbd" for m in self._whole)
        )

    def spare(self) -> float:
        """MiB that each of the targets alone could miss while all find a place.

        Negative where sums do not tell; exact, negative or not, if it `fails_over`.
        """
        if not self._memory_alone() or len({item.bins for item in self._items}) != 1:
            return -INFINITE
        memory = self._setting.state.columns[MEMORY]
        room = [max(0, memory[self._setting.bins[b]] - 1) for b in self._items[0].bins]
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
        takers = self._setting.takers
        problem = Packing(
            self._items,
            Bins(takers.memory, takers.disk, self._setting.others, takers.order),
            by_memory,
            most,
            enough=enough,
        )
        found = problem.solve()
        self._setting.rules.effort.spend(PACKING + problem.work)
        if found.cost < INFINITE and not (self._memory_alone() or self._holds(found.places)):
            return INFINITE, found.least
        return found.cost, found.least

    def _memory_alone(self) -> bool:
        """Whether nothing but memory limits where they go: then the packing is proof."""
        return not self._setting.takers.limits and not any(
            one.restricted or (one.local and one.template != "drbd")
            for members in self._whole
            for one in members
        )

    def _holds(self, places: Sequence[int | None]) -> bool:
        """Whether everybody can be put there by the limits that count when a node fails."""
        with self._setting.state.trial():
            for members, place in self._leaving(places):
                for one in members:
                    if not self._goes(one, self._setting.bins[place]):
                        return False
        return True

    def _leaving(self, places: Sequence[int | None]) -> Iterator[tuple[Sequence[Instance], int]]:
        """Those that have a place; failovers come first."""
        found = [(m, place) for m, place in zip(self._whole, places) if place is not None]
        yield from sorted(found, key=lambda one: one[0][0].template != "drbd")

    def _goes(self, instance: Instance, target: int) -> bool:
        """Put `instance` on `target`; whether that holds it."""
        state = self._setting.state
        nodes = state.where[instance.name]
        if instance.template == "drbd":
            state.remove(instance, nodes)
            if failover_rejection(state, self._setting.kernels, instance, target):
                return False
            state.place(instance, (target, self._setting.node))
            return True
        state.remove(instance, nodes[:1])
        checks = checks_for(PRIMARY, instance, FORCED_LIMITS)
        if self._setting.kernels.checker(state).primary_rejection(instance, target, checks):
            return False
        state.place(instance, (target,))
        return True
