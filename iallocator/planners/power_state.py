"""Nodes that a planner switches off or on: what they are like, and supposing that it is done.

The same of moves: supposing that those of other groups are made.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from iallocator.model.cluster import Cluster, Node
    from iallocator.model.instance import Instance
    from iallocator.planners.plan import PlannedMove

__all__ = ["Moved", "Switched", "size_like"]


def size_like(node: Node, others: Iterable[Node]) -> Node | None:
    """Suppose that `node`, whose size nobody tells while it is off, is as the smallest of `others`.

    Returns that one; None if the size is known, or there is none to compare with.
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
    """A ``with`` block in which the nodes `off` are offline and `on` online."""

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


class Moved:
    """A ``with`` block in which instances are where `make` has put them.

    Only for what is bound to them elsewhere: what their own nodes report is as it was.
    """

    __slots__ = ("_saved",)

    def __init__(self) -> None:
        self._saved: list[tuple[Instance, tuple[int, ...]]] = []

    def make(self, moves: Iterable[PlannedMove]) -> None:
        """Suppose that `moves` are made."""
        for move in moves:
            self._saved.append((move.instance, move.instance.nodes))
            move.instance.nodes = move.after

    def __enter__(self) -> Moved:
        return self

    def __exit__(self, *_: object) -> None:
        for instance, nodes in reversed(self._saved):
            instance.nodes = nodes
