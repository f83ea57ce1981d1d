"""Change a cluster on trial: nodes that are powered off or on, and moves that are assumed."""

from __future__ import annotations

import math

from iallocator.model.columns import DISK, FREE_SPINDLES, MEMORY
from iallocator.model.moves import replay
from iallocator.model.state import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from iallocator.model.cluster import Cluster, Node
    from iallocator.model.instance import Instance, Pool
    from iallocator.model.moves import Move

__all__ = ["AssumedMoves", "Switched", "size_like"]


def size_like(node: Node, others: Iterable[Node]) -> Node | None:
    """Give `node` the size of the smallest node of `others` if its own size is unknown.

    A node that is off reports no size. Return the node from which the size was taken; None if the
    size of `node` is known, or if no size in `others` is known.
    """
    if node.total_memory:
        return None
    known = [other for other in others if other.total_memory]
    if not known:
        return None
    model = min(known, key=lambda other: (other.total_memory, other.total_cpus, other.total_disk))
    for name in ("total_memory", "reserved_memory", "total_disk", "total_cpus", "reserved_cpus",
                 "total_spindles"):  # fmt: skip
        setattr(node, name, getattr(model, name))
    node.reported_memory = node.total_memory - node.reserved_memory
    node.reported_disk = node.total_disk
    node.free_spindles = node.total_spindles
    return model


class Switched:
    """A ``with`` block in which the nodes `off` are offline and the nodes `on` are online."""

    __slots__ = ("_change", "_nodes", "_saved")

    def __init__(
        self, cluster: Cluster, off: Collection[int] = (), on: Collection[int] = ()
    ) -> None:
        self._nodes = cluster.nodes
        self._change = {**dict.fromkeys(off, True), **dict.fromkeys(on, False)}
        self._saved = {
            index: (self._nodes[index].offline, self._nodes[index].online) for index in self._change
        }

    def __enter__(self) -> None:
        for index, offline in self._change.items():
            self._nodes[index].offline = offline
            self._nodes[index].online = not offline

    def __exit__(self, *_: object) -> None:
        for index, (offline, online) in self._saved.items():
            self._nodes[index].offline = offline
            self._nodes[index].online = online


class AssumedMoves:
    """A ``with`` block; moves given to `make` are part of the cluster until the block ends.

    Instances are on their new nodes. The nodes report the free memory, disk, spindles and pool
    space that the moves leave.
    """

    __slots__ = ("_cluster", "_homes", "_reports")

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._homes: list[tuple[Instance, tuple[int, ...]]] = []
        self._reports: list[tuple[Node, int, int, int, dict[Pool, float]]] = []

    def make(self, moves: Sequence[Move]) -> None:
        """Change the cluster as if `moves` had been made."""
        if not moves:
            return
        state, storage = State(self._cluster), self._cluster.storage
        touched = sorted({index for move in moves for index in (*move.before, *move.after)})
        before = {index: state.row(index) for index in touched}
        replay(state, moves)
        for index in touched:
            node, now = self._cluster.nodes[index], state.row(index)
            gained = {c: now[c] - before[index][c] for c in (MEMORY, DISK, FREE_SPINDLES)}
            pools = {} if storage is None else storage.free(index)
            self._reports.append(
                (node, node.reported_memory, node.reported_disk, node.free_spindles, pools)
            )
            node.reported_memory += math.floor(gained[MEMORY] / node.memory_ratio)
            node.reported_disk += int(gained[DISK])
            node.free_spindles += int(gained[FREE_SPINDLES])
            if storage is not None and state.access is not None:
                measured = state.access.free[index]
                storage.report(index, {pool: measured[pool] for pool in pools})
        for move in moves:
            self._homes.append((move.instance, move.instance.nodes))
            move.instance.nodes = move.after

    def __enter__(self) -> AssumedMoves:
        return self

    def __exit__(self, *_: object) -> None:
        for instance, nodes in reversed(self._homes):
            instance.nodes = nodes
        for node, memory, disk, spindles, pools in reversed(self._reports):
            node.reported_memory, node.reported_disk, node.free_spindles = memory, disk, spindles
            if self._cluster.storage is not None:
                self._cluster.storage.report(node.index, pools)
