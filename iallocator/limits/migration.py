"""Which nodes may receive running instances from which, by migration tags."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from iallocator.model.cluster import Cluster

__all__ = ["may_not_receive"]


def may_not_receive(cluster: Cluster, source: int, targets: Iterable[int]) -> dict[int, str]:
    """Those of `targets` that lack a migration tag of `source`, each with its reason."""
    needed = cluster.nodes[source].migration
    if not needed:
        return {}
    return {t: "FailMig" for t in targets if not needed <= cluster.nodes[t].receives}
