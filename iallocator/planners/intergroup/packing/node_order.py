"""Orders of nodes in which instances look for room: where most of it is, or where least will do."""

from __future__ import annotations

from collections import deque

from iallocator.model.columns import CPUS, DISK, MEMORY
from iallocator.planners.kept_order import KeptOrder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from iallocator.aliases import Nodes
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.planners.intergroup.packing.refuges import Refuges

__all__ = ["Fullest", "Guarded", "NodeOrder", "Planned", "Roomiest", "Solvent"]


class NodeOrder(KeptOrder):
    """All nodes of `state` in the order of their room."""

    __slots__ = ("_state",)

    def __init__(self, state: State, nodes: Iterable[int] | None = None) -> None:
        self._state = state
        super().__init__(range(len(state.cluster.nodes)) if nodes is None else nodes)

    def _memory(self, index: int) -> float:
        """MiB beside what is reserved; who has less than that keeps it for nobody."""
        free, reserved = self._state.columns[MEMORY][index], self._state.reserved[index]
        return free - reserved if free > reserved else free

    def ranked(self, instance: Instance) -> Iterator[int]:
        """The nodes that `instance` asks, in this order."""
        return self.in_order()

    def came(self, instance: Instance, before: Nodes, nodes: Nodes) -> None:
        """`instance` has come to `nodes` from those `before`."""
        self.renew((*before, *nodes))


class Roomiest(NodeOrder):
    """Those first with most room, as a share of what is scarcest there.

    That is memory beside what the node reserves, cpus, and if `local` disk.
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


class Fullest(NodeOrder):
    """Those first with least memory beside what they reserve; none of `spare`.

    So rooms that are large stay so.
    """

    __slots__ = ("_spare",)

    def __init__(self, state: State, spare: Collection[int]) -> None:
        self._spare = spare
        super().__init__(state)

    def key(self, index: int) -> float:
        return self._memory(index)

    def ranked(self, instance: Instance) -> Iterator[int]:
        """Those that have the memory."""
        return (index for index in self.in_order(instance.memory) if index not in self._spare)


class Solvent(NodeOrder):
    """Those first with least memory beside what the worst of their peers asks of them.

    None that would not keep it with the instance as well.  `lost`: peers that count for nothing.
    """

    __slots__ = ("lost",)

    def __init__(self, state: State, lost: Collection[int]) -> None:
        self.lost = lost
        super().__init__(state)

    def kept(self, index: int) -> float:
        """MiB that the worst of the peers of a node asks of it."""
        if not self.lost:
            return self._state.reserved[index]
        peers = self._state.peers[index].items()
        return max((amount for peer, amount in peers if peer not in self.lost), default=0)

    def _memory(self, index: int) -> float:
        return self._state.columns[MEMORY][index] - self.kept(index)

    def key(self, index: int) -> float:
        return self._memory(index)

    def ranked(self, instance: Instance) -> Iterator[int]:
        """Those that have the memory."""
        return self.in_order(instance.memory + 1)


class Planned(Solvent):
    """The same, but for those first that `places` has for pieces of a size, each once."""

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


class Guarded(NodeOrder):
    """Those first with least memory beside what failures ask of them (`refuges`, by group).

    None where somebody would be lost if a node failed, with the instance there.
    """

    __slots__ = ("_refuges",)

    def __init__(self, state: State, refuges: Mapping[int, Refuges]) -> None:
        self._refuges = refuges
        super().__init__(state, [k for own in refuges.values() for k in own.nodes])

    def key(self, index: int) -> float:
        return self._state.columns[MEMORY][index] - self._of(index).kept.get(index, 0)

    def ranked(self, instance: Instance) -> Iterator[int]:
        memory, reach = _used(instance), self._state.cluster.reach(instance)
        return (k for k in self.in_order(memory) if self._of(k).takes(k, memory, reach))

    def came(self, instance: Instance, before: Nodes, nodes: Nodes) -> None:
        reach = self._state.cluster.reach(instance)
        moved = [k for node in nodes for k in self._of(node).came(node, _used(instance), reach)]
        self.renew((*before, *nodes, *moved))

    def _of(self, index: int) -> Refuges:
        return self._refuges[self._state.cluster.nodes[index].group.index]


def _used(instance: Instance) -> int:
    return instance.memory if instance.uses_memory else 0
