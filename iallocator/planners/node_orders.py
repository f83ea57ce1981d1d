"""Pack instances greedily into a state, and order the nodes that the packing tries.

`GreedyPacking` moves one instance after the other, each to the first place that is allowed. The
orders of nodes are worst fit, best fit, and two that keep N+1.

An order is updated as instances move: each node that has changed is sorted again.  Cost: a key, a
search and two shifts of a list for each such node.

Squeeze empties nodes in the order `WorstFitBesideReserve`.  The planners between groups try several
orders. Two of them keep N+1 by construction:

* `ReserveFirst` (drbd): no instance takes the memory that a node reserves for failovers.
* `FailoverSafe` (shared storage): no instance takes memory that a failover plan needs.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from math import inf

from iallocator.model.columns import CPUS, DISK, MEMORY, MEMORY_LATER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.instance import Instance
    from iallocator.model.moves import Move
    from iallocator.model.state import State
    from iallocator.n1.unrestarted import FailoverPlan

__all__ = [
    "BestFit", "ExactFill", "FailoverSafe", "GreedyPacking", "NodeOrder", "ReserveFirst",
    "WorstFit", "WorstFitBesideReserve", "memory_used",
]  # fmt: skip

NO_AMOUNTS: Sequence[float] = (0,) * (max(CPUS, MEMORY, MEMORY_LATER) + 1)
"""Amounts that change nothing on a node."""


class NodeOrder:
    """A sorted list of nodes, by increasing `key`; nodes with equal keys keep the order given.

    `nodes` are the nodes of the list; None: all nodes of the cluster.
    """

    __slots__ = ("_entries", "_order", "_state")

    def __init__(self, state: State, nodes: Iterable[int] | None = None) -> None:
        self._state = state
        indices = range(len(state.cluster.nodes)) if nodes is None else nodes
        self._entries = {index: (self.key(index), k, index) for k, index in enumerate(indices)}
        self._order = sorted(self._entries.values())

    def key(self, index: int) -> float:
        """Return the value by which a node is sorted, in the present state."""
        raise NotImplementedError

    def renew(self, nodes: Iterable[int]) -> None:
        """Sort those of `nodes` again that are in the list, because their keys may have changed."""
        for index in self._entries.keys() & nodes:
            entry = self._entries[index]
            del self._order[bisect_left(self._order, entry)]
            entry = self._entries[index] = (self.key(index), *entry[1:])
            insort(self._order, entry)

    def in_order(self, least: float = -inf) -> Iterator[int]:
        """Return the nodes in order, from the first one with a key of at least `least`."""
        start = bisect_left(self._order, (least,))
        return (index for _, _, index in self._order[start:])

    def ranked(self, instance: Instance) -> Iterator[int]:
        """Return the nodes that `instance` tries, in this order."""
        return self.in_order()

    def came(self, instance: Instance, before: Nodes, nodes: Nodes) -> None:
        """Update the order after `instance` has moved from the nodes `before` to `nodes`."""
        self.renew((*before, *nodes))

    def _memory(self, index: int) -> float:
        """Return the free MiB of a node beyond its reserve, or all free MiB if these are fewer.

        Only a node with more free memory than its reserve has free MiB beyond the reserve.
        """
        free, reserved = self._state.columns[MEMORY][index], self._state.reserved[index]
        return free - reserved if free > reserved else free


class GreedyPacking:
    """Moves instances on `state` one after the other, each to the first place that is allowed.

    A subclass takes the places of an instance from `order`, and checks them.
    """

    __slots__ = ("order", "state")

    def __init__(self, state: State, order: NodeOrder) -> None:
        self.state = state
        self.order = order

    def first_allowed(self, instance: Instance, before: Nodes) -> Move | None:
        """Return the move from `before` to the first place that is allowed; None if there is none.

        The state is unchanged.
        """
        raise NotImplementedError

    def move(self, instance: Instance) -> Move | None:
        """Make the first move of `instance` that is allowed, and return it; None if none is."""
        before = self.state.where[instance.name]
        move = self.first_allowed(instance, before)
        if move is not None:
            move.apply(self.state)
            self.order.came(instance, before, move.after)
        return move


class WorstFitBesideReserve(NodeOrder):
    """Orders nodes by the free share of their scarcest resource without a reserve, largest first.

    The resources are memory now, memory with all instances running, and virtual cpus. `reserve` is
    an instance for which each of the `nodes` must have capacity after all moves.
    """

    __slots__ = ("_cpus", "_needed", "_sizes")

    def __init__(self, state: State, nodes: Sequence[int], reserve: Instance) -> None:
        self._needed, self._cpus = reserve.memory, reserve.vcpus
        self._sizes = [
            (node.total_memory or 1, node.vcpu_ratio * node.total_cpus)
            for node in state.cluster.nodes
        ]
        super().__init__(state, nodes)

    def key(self, index: int) -> float:
        return -self.of(index)

    def of(self, index: int, more: Sequence[float] = NO_AMOUNTS, reserved: float = 0) -> float:
        """Return the free share of the scarcest resource of node `index`, without the reserve.

        The resources are memory and virtual cpus. `more`: amounts by column that are added first,
        as if an instance left or came. `reserved`: the least MiB that the node reserves for
        failovers.
        """
        columns, kept = self._state.columns, self._state.reserved[index]
        total, size = self._sizes[index]
        memory = columns[MEMORY][index] + more[MEMORY] - (kept if kept > reserved else reserved)
        later = columns[MEMORY_LATER][index] + more[MEMORY_LATER]
        memory = min(memory, later)
        rest = (memory - self._needed - 1) / total
        cpus = (size - columns[CPUS][index] - more[CPUS] - self._cpus) / (size or 1)
        return cpus if cpus < rest else rest


class WorstFit(NodeOrder):
    """Orders nodes by the free share of their scarcest resource, largest first.

    The resources are memory and virtual cpus, each without the reserve, and disk if `local`.
    """

    __slots__ = ("_local",)

    def __init__(self, state: State, local: bool) -> None:
        self._local = local
        super().__init__(state)

    def key(self, index: int) -> float:
        state, node = self._state, self._state.cluster.nodes[index]
        columns = state.columns
        memory = self._memory(index) / (node.total_memory or 1)
        size = node.vcpu_ratio * node.total_cpus or 1
        room = min(memory, 1 - columns[CPUS][index] / size)
        return -(min(room, columns[DISK][index] / (node.total_disk or 1)) if self._local else room)


class BestFit(NodeOrder):
    """Orders nodes by free memory beyond the reserve, least first; leaves out the nodes `spare`.

    Large free capacities thus remain for large instances.
    """

    __slots__ = ("_spare",)

    def __init__(self, state: State, spare: Collection[int]) -> None:
        self._spare = spare
        super().__init__(state)

    def key(self, index: int) -> float:
        return self._memory(index)

    def ranked(self, instance: Instance) -> Iterator[int]:
        """Return, in this order, the nodes with enough free memory for `instance`."""
        return (index for index in self.in_order(instance.memory) if index not in self._spare)


class ReserveFirst(NodeOrder):
    """Orders nodes by free memory beyond the reserve for the worst failure of a peer, least first.

    A peer of a node is the primary node of an instance with its secondary there. Nodes on which the
    instance would use memory of this reserve are left out.  Failures of the nodes in `lost` are
    ignored.
    """

    __slots__ = ("lost",)

    def __init__(self, state: State, lost: Collection[int]) -> None:
        self.lost = lost
        super().__init__(state)

    def kept(self, index: int) -> float:
        """Return the MiB that the worst failure of a peer requires on node `index`."""
        if not self.lost:
            return self._state.reserved[index]
        peers = self._state.peers[index].items()
        return max((amount for peer, amount in peers if peer not in self.lost), default=0)

    def _memory(self, index: int) -> float:
        return self._state.columns[MEMORY][index] - self.kept(index)

    def key(self, index: int) -> float:
        return self._memory(index)

    def ranked(self, instance: Instance) -> Iterator[int]:
        """Return, in this order, the nodes with the memory of `instance` beyond the reserve."""
        return self.in_order(instance.memory + 1)


class ExactFill(ReserveFirst):
    """Puts the nodes of a given packing first, then the nodes in the order of `ReserveFirst`.

    `places`: MiB of an instance -> the nodes that the packing chose for instances of this size.
    """

    __slots__ = ("_places",)

    def __init__(
        self, state: State, lost: Collection[int], places: Mapping[int, deque[int]]
    ) -> None:
        self._places = places
        super().__init__(state, lost)

    def ranked(self, instance: Instance) -> Iterator[int]:
        yield from list(self._places.get(instance.memory, ()))
        yield from super().ranked(instance)

    def came(self, instance: Instance, before: Nodes, nodes: Nodes) -> None:
        super().came(instance, before, nodes)
        mine = self._places.get(instance.memory, deque())
        if nodes[0] in mine:
            mine.remove(nodes[0])


class FailoverSafe(NodeOrder):
    """Orders nodes by free memory beyond what failover plans need there, least first.

    Nodes are left out if, after the move, an instance could not be restarted after a failure.
    `plans`: index of a group -> its failover plan.
    """

    __slots__ = ("_plans",)

    def __init__(self, state: State, plans: Mapping[int, FailoverPlan]) -> None:
        self._plans = plans
        super().__init__(state, [k for own in plans.values() for k in own.nodes])

    def key(self, index: int) -> float:
        return self._state.columns[MEMORY][index] - self._of(index).kept.get(index, 0)

    def ranked(self, instance: Instance) -> Iterator[int]:
        memory, reach = memory_used(instance), self._state.cluster.reach(instance)
        return (k for k in self.in_order(memory) if self._of(k).allows(k, memory, reach))

    def came(self, instance: Instance, before: Nodes, nodes: Nodes) -> None:
        reach = self._state.cluster.reach(instance)
        moved = [
            k for node in nodes for k in self._of(node).add(node, memory_used(instance), reach)
        ]
        self.renew((*before, *nodes, *moved))

    def _of(self, index: int) -> FailoverPlan:
        return self._plans[self._state.cluster.nodes[index].group.index]


def memory_used(instance: Instance) -> int:
    """Return the MiB that `instance` uses on its primary; 0 if it uses none."""
    return instance.memory if instance.uses_memory else 0
