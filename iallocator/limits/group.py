"""Why a whole group cannot take an instance, whatever its nodes have left."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance

__all__ = ["lacks_network", "out_of_reach", "rejected_by_policy"]


def lacks_network(group: Group, instance: Instance) -> bool:
    """Whether some network of the instance's nics is not connected to the group."""
    return not group.networks.issuperset(instance.networks)


def out_of_reach(cluster: Cluster, nodes: Iterable[int], instance: Instance) -> str:
    """The storage pools of `instance`, if none of `nodes` reaches them all; else ""."""
    reach = cluster.reach(instance)
    if reach is None or not reach.isdisjoint(nodes):
        return ""
    from iallocator.model.storage import pool_name, pools_of

    pools = pools_of(instance)
    return f"storage pool{'s' * (len(pools) > 1)} {' and '.join(map(pool_name, pools))}"


def rejected_by_policy(
    cluster: Cluster, group: Group, instance: Instance, reason: str = ""
) -> dict[int, str]:
    """Return node -> reason for the nodes of `group` whose policy rejects `instance`.

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
