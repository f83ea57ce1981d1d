"""Limits beside the resources of nodes: networks, pools and policy of a group; migration tags."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance

__all__ = [
    "lacks_network",
    "may_not_receive",
    "missing_migration_tags",
    "out_of_reach",
    "rejected_by_policy",
]


def lacks_network(group: Group, instance: Instance) -> bool:
    """Return whether the group is not connected to a network of the instance."""
    return not group.networks.issuperset(instance.networks)


def out_of_reach(
    cluster: Cluster, nodes: Iterable[int], instance: Instance, third: bool = False
) -> str:
    """Return what no node of `nodes` does or has although `instance` requires it; else "".

    The words begin with a verb, in the third person if `third`: ``reach storage pool external/a``.
    """
    reach = cluster.reach(instance)
    if reach is None or not reach.isdisjoint(nodes):
        return ""
    return cluster.access_words(instance, third)


def rejected_by_policy(
    cluster: Cluster, group: Group, instance: Instance, reason: str = ""
) -> dict[int, str]:
    """Return node -> reason for the nodes of `group` that the policy rejects for `instance`.

    The reason is `reason`; if that is "", what the policy rejects: ``FailMem`` and the like.
    """
    rejections: dict[int, str] = {}
    reasons: dict[bool, str | None] = {}
    for index in group.nodes:
        exclusive = cluster.nodes[index].exclusive_storage
        if exclusive not in reasons:
            reasons[exclusive] = group.policy.rejects(instance, exclusive)
        found = reasons[exclusive]
        if found is not None:
            rejections[index] = reason or found
    return rejections


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
