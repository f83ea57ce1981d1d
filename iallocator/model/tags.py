"""Cluster tags that give meaning to the tags of nodes and instances.

Sources: Ganeti's documentation of its allocation tools; the prefixes are theirs.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iallocator.model.cluster import Cluster, Node
    from iallocator.model.instance import Instance

__all__ = [
    "ALLOW_MIGRATION", "EXCLUSION", "KINDS", "doubtful", "exclusion_prefixes",
    "interpret_instance_tags", "interpret_tags",
]  # fmt: skip

EXCLUSION = "htools:iextags:"
LOCATION = "htools:nlocation:"
DESIRED = "htools:desiredlocation:"
MIGRATION = "htools:migration:"
ALLOW_MIGRATION = "htools:allowmigration:"

KINDS = (EXCLUSION, LOCATION, DESIRED, MIGRATION, ALLOW_MIGRATION)
"""All that htools knows of the cluster's tags."""


def doubtful(tag: str) -> bool:
    """Whether a tag of the cluster begins as htools' do, and is perhaps none of them."""
    if not tag.startswith("htools:"):
        return False
    whole = tag.startswith(KINDS) and tag not in KINDS
    return not whole or (tag.startswith(ALLOW_MIGRATION) and "::" not in tag)


def _values(cluster_tags: Sequence[str], kind: str) -> tuple[str, ...]:
    """What follows `kind` in the cluster tags that begin with it, where anything does."""
    return tuple(tag[len(kind) :] for tag in cluster_tags if tag.startswith(kind) and tag != kind)


def _below(tags: Iterable[str], prefixes: Sequence[str]) -> frozenset[str]:
    """Those of `tags` that are ``PREFIX:something`` for one of `prefixes`."""
    return frozenset(
        tag for tag in tags if any(tag.startswith(prefix + ":") for prefix in prefixes)
    )


def exclusion_prefixes(cluster_tags: Sequence[str]) -> tuple[str, ...]:
    """What tags of instances begin with that keep them apart, as the cluster says."""
    return _values(cluster_tags, EXCLUSION)


def interpret_tags(cluster: Cluster, exclusion: Sequence[str] = ()) -> None:
    """Fill in what the tags of `cluster` mean for its nodes and instances.

    `exclusion`: further prefixes of tags that keep instances apart.
    """
    locations = _values(cluster.tags, LOCATION)
    migrations = _values(cluster.tags, MIGRATION)
    allowed = [
        tuple(pair.split("::", 1))
        for pair in _values(cluster.tags, ALLOW_MIGRATION)
        if "::" in pair
    ]
    if locations or migrations:
        for node in cluster.nodes:
            _interpret_node(node, locations, migrations, allowed)
    for instance in cluster.instances:
        interpret_instance_tags(instance, cluster.tags, exclusion)


def _interpret_node(
    node: Node,
    locations: Sequence[str],
    migrations: Sequence[str],
    allowed: Sequence[tuple[str, ...]],
) -> None:
    node.locations = _below(node.tags, locations)
    node.migration = _below(node.tags, migrations)
    node.receives = node.migration | {source for source, target in allowed if target in node.tags}


def interpret_instance_tags(
    instance: Instance, cluster_tags: Sequence[str], more: Sequence[str] = ()
) -> None:
    """Fill in the exclusion tags, with `more` prefixes, and desired locations of one instance."""
    if not instance.tags or not (cluster_tags or more):
        return
    exclusion = (*exclusion_prefixes(cluster_tags), *more)
    desired = _values(cluster_tags, DESIRED)
    instance.exclusion = (
        tuple(dict.fromkeys(t for t in instance.tags if t.startswith(exclusion)))
        if exclusion
        else ()
    )
    instance.desired = (
        frozenset(t for t in instance.tags if t.startswith(desired)) if desired else frozenset()
    )
