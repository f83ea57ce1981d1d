"""Orders of nodes in which instances look for room: where most of it is, or where least will do."""

from __future__ import annotations

from iallocator.model.columns import CPUS, DISK, MEMORY
from iallocator.planners.kept_order import KeptOrder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from iallocator.model.instance import Instance
    from iallocator.model.state import State

__all__ = ["Fullest", "NodeOrder", "Roomiest", "Solvent"]


class NodeOrder(KeptOrder):
    """All nodes of `state` in the order of their room."""

    __slots__ = ("_state",)

    def __init__(self, state: State) -> None:
        self._state = state
        super().__init__(range(len(state.cluster.nodes)))

    def _memory(self, index: int) -> float:
        """MiB beside what is reserved; who has less than that keeps it for nobody."""
        free, reserved = self._state.columns[MEMORY][index], self._state.reserved[index]
        return free - reserved if free > reserved else free

    def ranked(self, instance: Instance) -> Iterator[int]:
        """The nodes that `instance` asks, in this order."""
        return self.in_order()


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
