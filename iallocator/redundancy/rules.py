"""Which failures must be survivable, and what may be assumed when one happens."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.model.cluster import Cluster, Group

__all__ = ["MODES", "Rules"]

MODES = ("strict", "no-new", "off")
"""Values of ``--n1``."""


class Rules:
    """How strictly N+1 is judged.

    ``strict``: every node of the document could fail and be survived; nodes that
    are offline or drained may be moved to as long as they have the memory, and a
    failover needs disk to be left.  ``no-new``: no online node of the group becomes
    unsurvivable that was survivable before; only online nodes are moved to, and
    a failover needs no new disk.  ``off``: nothing is required.
    """

    __slots__ = ("mode", "strict")

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.strict = mode == "strict"

    def targets(self, cluster: Cluster, group: Group) -> list[int]:
        """The nodes of `group` that may take over."""
        return [i for i in group.nodes if self.strict or cluster.nodes[i].online]

    def failing(self, cluster: Cluster, group: Group) -> list[int]:
        """The nodes whose failure has to be survived when `group` is used."""
        if self.strict:
            return list(range(len(cluster.nodes)))
        return [i for i in group.nodes if cluster.nodes[i].online]
