"""A part of what the failure of a node asks of storage pools."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.model.instance import Instance, Pool

__all__ = ["Share"]


class Share:
    """Instances that need a new node, may go to the same nodes, and need room in the same pool.

    Attributes
    ----------
    reach:
        The nodes that they may go to; None: all.
    pool:
        Where they need disk space; `LVM` for the nodes' free disk, None: nowhere.
    moved, largest:
        MiB of memory of them all, and of the largest.
    space, largest_space:
        MiB that they need in the pool, and the largest of them.
    """

    __slots__ = ("largest", "largest_space", "moved", "pool", "reach", "space")

    def __init__(self, reach: frozenset[int] | None, pool: Pool | None) -> None:
        self.reach = reach
        self.pool = pool
        self.moved = 0
        self.largest = 0
        self.space = 0
        self.largest_space = 0

    def add(self, instance: Instance, space: int) -> None:
        """Count one more instance."""
        memory = instance.memory if instance.uses_memory else 0
        self.moved += memory
        self.largest = max(self.largest, memory)
        self.space += space
        self.largest_space = max(self.largest_space, space)
