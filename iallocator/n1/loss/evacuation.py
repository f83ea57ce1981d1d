"""Who leaves a failing node, and where each may go, whatever goes where.

The simulation (`iallocator.n1.simulation`) moves one after the other and may get stuck where
another order would not.  Here a drbd primary goes to its secondary, the rest to any node that
may take it; what falls into parts that share no node is looked at in those
(`iallocator.n1.loss.part`).
"""

from __future__ import annotations

from iallocator.limits.group import rejected_by_policy
from iallocator.limits.migration import may_not_receive
from iallocator.model.columns import DISK, MEMORY
from iallocator.model.node_view import NodeView
from iallocator.n1.loss.part import Part, Setting, Takers
from iallocator.packing import Item

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.rules import Rules
    from iallocator.n1.simulation import Simulation
    from iallocator.scoring import Kernels

    Leaver = tuple[Sequence[Instance], Item, frozenset[int]]
    """Those who go to one node as a whole, what they need there, and the nodes that may be it."""

__all__ = ["Evacuation"]


class Evacuation:
    """What leaves `node` when it fails, and where each of it may go, as `state` is now.

    Attributes
    ----------
    others:
        Node -> what it can give of what `Takers.limits` limit; empty if there are none.
    """

    def __init__(
        self,
        state: State,
        kernels: Kernels,
        rules: Rules,
        simulation: Simulation,
        node: int,
        takers: Takers | None = None,
    ) -> None:
        self._state = state
        self._rules = rules
        self._group = state.cluster.nodes[node].group
        takers = takers or Takers(state, rules, self._group)
        self._bins, self._position = takers.bins, takers.position
        self._limits, self._kernels = takers.limits, kernels
        barred = {node, *may_not_receive(state.cluster, node, self._bins)}
        self._open = takers.open.difference(
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
        self._setting = Setting(state, kernels, rules, node, takers, list(self.others.values()))

    def _item(self, members: Sequence[Instance]) -> Item:
        memory = sum(i.memory for i in members if i.uses_memory)
        if members[0].template == "drbd":
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
        """What `members` take on their new node of what `Takers.limits` limit."""
        needs = [0.0] * len(self._limits)
        for one in members if self._bins else ():
            before = self._view(self._bins[0])
            added = one.as_primary
            if one.template == "drbd":
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
    def everybody(self) -> Part:
        """All that leaves."""
        return Part(self._setting, self._whole, self._items)

    def parts(self, left_out: Collection[str] = ()) -> list[Part]:
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

    def _part(self, chosen: Sequence[int]) -> Part:
        return Part(
            self._setting, [self._whole[k] for k in chosen], [self._items[k] for k in chosen]
        )
