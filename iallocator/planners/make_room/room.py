"""What a new instance needs at least, so that most moves need not be tried."""

from __future__ import annotations

from heapq import nlargest

from iallocator.model.columns import DISK, MEMORY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context
    from iallocator.planners.make_room.goal import Goal

__all__ = ["Room"]


class Room:
    """What the goal needs at least of the nodes, where it is one new instance: else nothing.

    Only limits that no setting takes away: free memory of a primary, free disk.

    Attributes
    ----------
    there_now:
        Whether some node had the room when `look` was called.
    """

    def __init__(self, context: Context, goal: Goal) -> None:
        self._state = context.state
        self._nodes = [index for index, node in enumerate(context.cluster.nodes) if node.online]
        request = goal.needs()
        self._new = None if request is None else request.instance
        self.there_now = False

    def possible(self, movers: Sequence[Instance], count: int) -> bool:
        """Whether some node could have the room after `count` of `movers` have left it."""
        if self._new is None:
            return True
        here: dict[int, list[Instance]] = {}
        for one in movers:
            for index in self._state.where[one.name]:
                here.setdefault(index, []).append(one)
        primaries = able = 0
        for index in self._nodes:
            some = here.get(index, ())
            disk = sum(nlargest(count, (one.own_disk for one in some)))
            memory = sum(nlargest(count, (one.memory for one in some)))
            if self._disk(index, disk):
                able += 1
                primaries += self._memory(index, memory)
        return primaries > 0 and able >= self._new.required_nodes

    def look(self) -> None:
        """Note whether some node has the room as things are: ask before `helped`."""
        able = [index for index in self._nodes if self._new is None or self._disk(index, 0)]
        self.there_now = self._new is None or (
            len(able) >= self._new.required_nodes and any(self._memory(i, 0) for i in able)
        )

    def helped(self, leaving: Sequence[Instance]) -> bool:
        """Whether the goal can be reached by moving `leaving`, and nobody else."""
        if self._new is None or self.there_now:
            return True
        disk: dict[int, float] = {}
        memory: dict[int, float] = {}
        for one in leaving:
            for index in self._state.where[one.name]:
                disk[index] = disk.get(index, 0) + one.own_disk
                memory[index] = memory.get(index, 0) + one.memory
        return any(self._disk(index, more) for index, more in disk.items()) and (
            self._new.required_nodes > 1
            or any(self._memory(index, more) for index, more in memory.items())
        )

    def _memory(self, index: int, more: float) -> bool:
        assert self._new is not None
        need = self._new.memory if self._new.uses_memory else 0
        return self._state.columns[MEMORY][index] + more > need

    def _disk(self, index: int, more: float) -> bool:
        assert self._new is not None
        if not (self._new.local and self._new.counts_disk):
            return True
        return self._state.columns[DISK][index] + more > self._new.own_disk
