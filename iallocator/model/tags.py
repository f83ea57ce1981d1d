"""Cluster tags that define the meaning of the tags of nodes and instances; types of repairs.

Source: Ganeti's documentation of its allocation tools; the prefixes are Ganeti's.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance

__all__ = [
    "ALLOW_MIGRATION", "EXCLUSION", "REPAIR_FAILOVER", "REPAIR_MIGRATE", "REPAIR_REINSTALL",
    "REPAIR_STORAGE", "REPAIR_TYPES", "TAG_KINDS", "InstanceTags", "doubtful", "exclusion_prefixes",
    "interpret_tags", "new_conflict",
]  # fmt: skip

EXCLUSION = "htools:iextags:"
NODE_LOCATION = "htools:nlocation:"
DESIRED = "htools:desiredlocation:"
MIGRATION = "htools:migration:"
ALLOW_MIGRATION = "htools:allowmigration:"

TAG_KINDS = (EXCLUSION, NODE_LOCATION, DESIRED, MIGRATION, ALLOW_MIGRATION)
"""The kinds of cluster tags that htools evaluates."""

REPAIR_STORAGE, REPAIR_MIGRATE, REPAIR_FAILOVER, REPAIR_REINSTALL = REPAIR_TYPES = (
    "fix-storage", "migrate", "failover", "reinstall",
)  # fmt: skip
"""The types of repairs that tags allow and record, the least destructive first."""


def doubtful(tag: str) -> bool:
    """Return whether a cluster tag begins with ``htools:`` but is no complete tag of htools."""
    if not tag.startswith("htools:"):
        return False
    whole = tag.startswith(TAG_KINDS) and tag not in TAG_KINDS
    return not whole or (tag.startswith(ALLOW_MIGRATION) and "::" not in tag)


def _values(cluster_tags: Sequence[str], kind: str) -> tuple[str, ...]:
    """Return the rest of each cluster tag that begins with `kind`, unless the rest is empty."""
    return tuple(tag[len(kind) :] for tag in cluster_tags if tag.startswith(kind) and tag != kind)


class _Prefixes:
    """A set of prefixes; a test costs one look-up for each length of prefix."""

    __slots__ = ("_lengths", "_prefixes")

    def __init__(self, prefixes: Iterable[str]) -> None:
        self._prefixes = frozenset(prefixes)
        self._lengths = sorted({len(prefix) for prefix in self._prefixes})

    def begin(self, tag: str) -> bool:
        """Return whether `tag` begins with one of the prefixes."""
        return any(tag[:length] in self._prefixes for length in self._lengths)


class InstanceTags:
    """Reads the exclusion tags and desired locations of instances from their tags.

    The cluster tags name the prefixes of these tags; `more` are further exclusion prefixes.
    """

    __slots__ = ("_desired", "_exclusion", "_means_nothing", "cluster_tags")

    def __init__(self, cluster_tags: Sequence[str], more: Sequence[str] = ()) -> None:
        self.cluster_tags = cluster_tags
        self._exclusion = _Prefixes((*exclusion_prefixes(cluster_tags), *more))
        self._desired = _Prefixes(_values(cluster_tags, DESIRED))
        self._means_nothing = not (cluster_tags or more)

    def interpret(self, instance: Instance) -> None:
        """Set the exclusion tags and desired locations of `instance`."""
        if not instance.tags or self._means_nothing:
            return
        exclusion, desired = self._exclusion.begin, self._desired.begin
        instance.exclusion = tuple(dict.fromkeys(tag for tag in instance.tags if exclusion(tag)))
        instance.desired = frozenset(tag for tag in instance.tags if desired(tag))


def exclusion_prefixes(cluster_tags: Sequence[str]) -> tuple[str, ...]:
    """Return the prefixes of exclusion tags of instances that the cluster tags name."""
    return _values(cluster_tags, EXCLUSION)


def interpret_tags(cluster: Cluster, exclusion: Sequence[str] = ()) -> None:
    """Set the meaning of tags for the nodes and instances of `cluster`.

    Migration tags, locations, exclusion tags and desired locations are set. `exclusion`: further
    prefixes of exclusion tags.
    """
    locations = _values(cluster.tags, NODE_LOCATION)
    migrations = _values(cluster.tags, MIGRATION)
    if locations or migrations:
        below = [_Prefixes(prefix + ":" for prefix in some) for some in (locations, migrations)]
        sources: dict[str, list[str]] = {}  # tag of a node -> tags of its migration sources
        for pair in _values(cluster.tags, ALLOW_MIGRATION):
            source, allowed, target = pair.partition("::")
            if allowed:
                sources.setdefault(target, []).append(source)
        same: dict[frozenset[str], frozenset[str]] = {}  # equal sets are stored, and compared, once
        for node in cluster.nodes:
            node_tags = [frozenset(tag for tag in node.tags if some.begin(tag)) for some in below]
            node.locations, node.migration = (same.setdefault(tags, tags) for tags in node_tags)
            node.receives = node.migration.union(*(sources.get(tag, ()) for tag in node.tags))
    meaning = InstanceTags(cluster.tags, exclusion)
    for instance in cluster.instances:
        meaning.interpret(instance)


def new_conflict(instance: Instance, others: Iterable[Instance]) -> str:
    """Return the name of one of `others` that has an exclusion tag of `instance`, or "".

    Two instances that share their primary node in the initial state are not in a new conflict,
    wherever both move; they are ignored.
    """
    tags = set(instance.exclusion)
    if not tags:
        return ""
    home = instance.nodes[:1]
    return next(
        (
            other.name
            for other in others
            if other.nodes[:1] != home
            and other.name != instance.name
            and tags.intersection(other.exclusion)
        ),
        "",
    )
