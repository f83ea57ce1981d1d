"""Make the affinity constraints of a cluster; their modules load only if there are any."""

from __future__ import annotations

from iallocator.model.tags import doubtful

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from typing import Any

    from iallocator.constraints.locations import Locations
    from iallocator.constraints.relations import Relations
    from iallocator.model.cluster import Cluster
    from iallocator.model.constraints import TagFinding
    from iallocator.model.instance import Instance

__all__ = ["findings_for", "relations_of"]


def relations_of(
    cluster: Cluster, new: Iterable[Instance] = (), prefix: str = "iallocator:"
) -> Relations | None:
    """What binds the cluster's instances, and `new` ones, by tags; None if nothing does."""
    new = list(new)
    locations = _locations(cluster, new, prefix)
    tagged = [
        instance
        for source in (cluster.instances, new)
        for instance in source
        if instance.tags and any(tag.startswith(prefix) for tag in instance.tags)
    ]
    if not tagged and locations is None:
        return None
    from iallocator.constraints.relations import Relations
    from iallocator.tags.affinity import parse

    parsed = parse(tagged, prefix)
    if not (parsed.constraints or parsed.rules or parsed.unusable or parsed.lonely or locations):
        return None
    return Relations(cluster, parsed, locations)


def findings_for(
    cluster: Cluster,
    instances: Sequence[Instance],
    prefix: str,
    relations: Relations | None,
    settings: Collection[str],
    *,
    shared: bool = True,
    keys: bool = True,
) -> Sequence[TagFinding]:
    """Return what is wrong with tags, see `iallocator.constraints.tag_findings`.

    That is loaded only if some tag of the cluster, of groups, nodes or `instances` has our prefix,
    or one of the cluster is nearly one of htools'.
    """
    found: Sequence[TagFinding] = ()
    owners: Iterable[Any] = (*cluster.groups, *cluster.nodes, *instances)
    some = (cluster.tags, *(owner.tags for owner in owners))
    if any(tag.startswith(prefix) for tags in some if tags for tag in tags):
        from iallocator.constraints.tag_findings import tag_findings

        found = tag_findings(cluster, instances, prefix, relations, settings, shared, keys)
    if shared and any(map(doubtful, cluster.tags)):
        from iallocator.tags.foreign import misspelt_of_cluster

        return [*found, *misspelt_of_cluster(cluster)]
    return found


def _locations(cluster: Cluster, new: Sequence[Instance], prefix: str) -> Locations | None:
    """Where instances must not be; that is loaded only if some tag has our prefix."""
    owned = (one.tags for some in (cluster.nodes, cluster.instances, new) for one in some)
    if not any(tag.startswith(prefix) for tags in owned if tags for tag in tags):
        return None
    from iallocator.constraints.locations import locations_of

    return locations_of(cluster, new, prefix)
