"""The constraints on placements that a document, its tags and the options express.

`table` has a class for each constraint; `listing` lists what each of them requires. The tags of
this program make affinity rules and orders (`relations`), and forbid nodes (`locations`). The
functions here load these modules only for a cluster with such tags.
"""

from __future__ import annotations

from iallocator.model.tags import doubtful

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from typing import Any

    from iallocator.constraints.locations import Locations, ScoreSettings
    from iallocator.constraints.relations import Relations
    from iallocator.model.cluster import Cluster
    from iallocator.model.constraints import TagFinding
    from iallocator.model.instance import Instance

__all__ = ["findings_for", "relations_of"]


def relations_of(
    cluster: Cluster,
    new: Iterable[Instance] = (),
    prefix: str = "iallocator:",
    settings: ScoreSettings | None = None,
    optional: bool = False,
) -> Relations | None:
    """Return the affinity rules, orders and forbidden nodes of a cluster and of `new` instances.

    The result is None if there are none. The tags of this program begin with `prefix`. `settings`
    define how much scores of nodes count; without settings, finite scores have no effect.
    `optional`: whether the moves are optional, as in planners; only then the stickiness of
    instances has effect.
    """
    new = list(new)
    owned = (one.tags for some in (cluster.nodes, cluster.instances, new) for one in some)
    every = (settings, *settings.by_group.values()) if optional and settings is not None else ()
    sticky = any(one.stickiness > 0 for one in every)
    ours = {tag for tags in owned if tags for tag in tags if tag.startswith(prefix)}
    if not (sticky or ours):
        return None
    from iallocator.tags.affinity import parse
    from iallocator.tags.pacemaker_scores import is_infinite

    def locates(tag: str) -> bool:
        kind, _, score = tag[len(prefix) :].partition(":")
        if kind == "stickiness" and not optional:
            return is_infinite(score)  # a finite stickiness has no effect
        return kind in ("score", "stickiness", "maintenance")

    locations: Locations | None = None
    if sticky or any(map(locates, ours)):
        from iallocator.constraints.locations import locations_of

        locations = locations_of(cluster, new, prefix, settings, optional, sticky)
    parsed = parse([*cluster.instances, *new], prefix)
    if not (parsed.constraints or parsed.rules or parsed.unusable or parsed.lonely or locations):
        return None
    from iallocator.constraints.relations import Relations

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
    """Return the findings for unknown and contradictory tags of the cluster and of `instances`.

    The module `iallocator.constraints.tag_findings` is loaded only if a tag of the cluster, a
    group, a node or one of `instances` begins with `prefix`. Tags of the cluster that look like
    misspelt tags of htools are reported, too. `settings`: the names of the settings that tags can
    change. `shared`: check the tags of the cluster, groups and nodes; `keys`: check placement keys.
    """
    findings: Sequence[TagFinding] = ()
    owners: Iterable[Any] = (*cluster.groups, *cluster.nodes, *instances)
    some = (cluster.tags, *(owner.tags for owner in owners))
    if any(tag.startswith(prefix) for tags in some if tags for tag in tags):
        from iallocator.constraints.tag_findings import tag_findings

        findings = tag_findings(cluster, instances, prefix, relations, settings, shared, keys)
    if shared and any(map(doubtful, cluster.tags)):
        from iallocator.tags.foreign import misspelt_of_cluster

        return [*findings, *misspelt_of_cluster(cluster)]
    return findings
