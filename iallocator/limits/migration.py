"""The rule for migration tags: which nodes may receive running instances from which."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from iallocator.model.cluster import Cluster

__all__ = ["may_not_receive", "missing_migration_tags"]


def missing_migration_tags(cluster: Cluster, source: int, target: int) -> frozenset[str]:
    """Return the migration tags of node `source` that node `target` does not accept.

    A running instance may migrate from `source` to `target` only if there are none.
    """
    return cluster.nodes[source].migration - cluster.nodes[target].receives


def may_not_receive(cluster: Cluster, source: int, targets: Iterable[int]) -> dict[int, str]:
    """Return the nodes of `targets` that lack a migration tag of `source`, each with its reason."""
    if not cluster.nodes[source].migration:
        return {}
    return {t: "FailMig" for t in targets if missing_migration_tags(cluster, source, t)}
