"""Sums that tell of a set of nodes that it cannot be away, before anything is tried.

What leaves a node stays in its group of nodes.  So the nodes of a set, with what they have
free and what leaves them, may together have no more memory than the whole group has free.
"""

from __future__ import annotations

from math import ceil

from iallocator.model.columns import MEMORY
from iallocator.tolerances import AMOUNT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context

__all__ = ["Room"]


class Room:
    """The memory of `context`'s nodes; `leaves` says whether an instance leaves a node's group.

    No limit but memory is looked at, and no failure: what is refused here is impossible.
    """

    def __init__(self, context: Context, leaves: Callable[[Instance, int], bool]) -> None:
        state = context.state
        self._group = [node.group.index for node in context.cluster.nodes]
        self._free: dict[int, float] = {}
        self._need = [0.0] * len(self._group)
        for node in context.cluster.nodes:
            free = max(0.0, state.columns[MEMORY][node.index]) if node.online else 0.0
            self._free[node.group.index] = self._free.get(node.group.index, 0.0) + free
            leaving = [one for one in state.instances_on(node.index) if leaves(one, node.index)]
            self._need[node.index] = free + sum(one.memory for one in leaving)

    def lacks(self, gone: Collection[int]) -> bool:
        """Whether the others cannot hold what leaves the nodes `gone`."""
        return any(need > self._free[group] for group, need in self._needs(gone).items())

    def fewest(self, nodes: Collection[int]) -> int:
        """No fewer sets than this have all of `nodes` in one of them that can be away."""
        needs = self._needs(nodes)
        parts = [need / self._free[group] for group, need in needs.items() if self._free[group]]
        return max((ceil(part - AMOUNT) for part in parts), default=0)

    def _needs(self, nodes: Collection[int]) -> dict[int, float]:
        """Group -> what those of `nodes` in it have free, and what leaves them."""
        found: dict[int, float] = {}
        for index in nodes:
            found[self._group[index]] = found.get(self._group[index], 0.0) + self._need[index]
        return found
