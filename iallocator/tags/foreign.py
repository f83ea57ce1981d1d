"""Find tags that are probably misspelt, of this program and of Ganeti's own tools.

A tag with this program's prefix is reported if it has no meaning, with the tag that was probably
meant.  Tags that begin with ``htools:`` or ``ganeti:watcher:`` can belong to any tool: such a tag
is reported only if it nearly equals a known tag, is on the wrong object, or has an invalid value.
"""

from __future__ import annotations

from itertools import chain

from iallocator.model.constraints import TagFinding
from iallocator.model.tags import ALLOW_MIGRATION, REPAIR_TYPES, TAG_KINDS
from iallocator.tags.affinity import parse
from iallocator.tolerances import SPELLING_SIMILARITY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance

__all__ = [
    "ON_CLUSTER",
    "ON_GROUP",
    "ON_INSTANCE",
    "ON_NODE",
    "misspelt",
    "misspelt_foreign",
    "misspelt_of_cluster",
    "misspelt_repairs",
    "nearest",
]

ON_CLUSTER, ON_GROUP, ON_NODE, ON_INSTANCE = "cluster", "group", "node", "instance"

KEY_KINDS = ("key", "syskey", "specialkey")
NODE_KEY_KINDS = ("key", "stickykey", "ram-contention", "cpu-contention")

POOLS = ("internal", "external")

OUR_TAGS: dict[str, dict[str, Sequence[str]]] = {
    ON_CLUSTER: dict.fromkeys(KEY_KINDS, ()),
    ON_GROUP: {**dict.fromkeys(NODE_KEY_KINDS, ()), "pool": POOLS, "rescue": ("auto",)},
    ON_NODE: {
        **dict.fromkeys(
            (*NODE_KEY_KINDS, "utilization", "score", "maintenance", "disk-reserve"), ()
        ),
        "pool": POOLS,
    },
    ON_INSTANCE: {
        **dict.fromkeys((*KEY_KINDS, "utilization", "score", "stickiness", "priority"), ()),
        **dict.fromkeys(("keep-running", "cannot-stop", "no-force-stop"), ()),
        "colocate": ("must", "should"),
        "separate": ("must", "should"),
        "order": ("after", "should-after"),
        "nodes": ("must", "never", "should"),
        "pool": POOLS,
    },
}
"""Type of object -> kind of tag after the prefix -> the words that can follow; () for any word."""

ALONE = ("keep-running", "cannot-stop", "no-force-stop", "maintenance")
"""Kinds of tags of this program that have no value."""


def misspelt(
    cluster: Cluster, instances: Iterable[Instance], prefix: str, settings: Collection[str]
) -> Iterator[TagFinding]:
    """Yield tags with this program's prefix that have no meaning.

    These are tags of the cluster, its groups and nodes, and of `instances`. `settings` are the
    names of options that tags of the cluster and of groups may set. Cost: one look-up for each tag
    with the prefix, if no tag is misspelt.
    """
    shared = dict.fromkeys(settings, ())
    yield from _of("the cluster", ON_CLUSTER, cluster.tags, prefix, OUR_TAGS[ON_CLUSTER] | shared)
    for group in cluster.groups:
        kinds = OUR_TAGS[ON_GROUP] | shared
        yield from _of(f"group {group.name}", ON_GROUP, group.tags, prefix, kinds)
    for node in cluster.nodes:
        yield from _of(f"node {node.name}", ON_NODE, node.tags, prefix, OUR_TAGS[ON_NODE])
    for instance in instances:
        owner = f"instance {instance.name}"
        findings = list(_of(owner, ON_INSTANCE, instance.tags, prefix, OUR_TAGS[ON_INSTANCE]))
        yield from findings
        reported = {one.tag for one in findings}
        start = f"{instance.name}: "
        for text in parse([instance], prefix).unusable if instance.tags else ():
            tag = text.removeprefix(start)
            if tag not in reported:
                yield TagFinding("unknown", owner, tag, "does not count: it cannot be understood")


def _of(
    owner: str, role: str, tags: Iterable[str], prefix: str, kinds: dict[str, Sequence[str]]
) -> Iterator[TagFinding]:
    """Yield findings on tags of `owner` with an unknown kind, or an unknown word after the kind."""
    for tag in tags:
        if not tag.startswith(prefix):
            continue
        kind, colon, rest = tag[len(prefix) :].partition(":")
        words = kinds.get(kind)
        if words is None:
            text = f"is unknown{nearest(kind, kinds, prefix)}"
            others = [other for other, known in OUR_TAGS.items() if kind in known and other != role]
            if others:
                text = f"means nothing on {_owners([role])}, only on {_owners(others)}"
            yield TagFinding("unknown", owner, tag, text)
        elif (kind in ALONE) == bool(colon):
            how = "nothing may follow it" if colon else f"{prefix}{kind}: and more is expected"
            yield TagFinding("unknown", owner, tag, f"does not count: {how}")
        elif words and (word := rest.partition(":")[0]) not in words:
            meant = nearest(word, words, f"{prefix}{kind}:")
            text = meant or f": expected {prefix}{kind}:{' or '.join(words)}"
            yield TagFinding("unknown", owner, tag, f"does not count{text}")


def _owners(roles: Iterable[str]) -> str:
    return " or ".join(
        {ON_CLUSTER: "the cluster", ON_INSTANCE: "an instance"}.get(r, f"a {r}") for r in roles
    )


def nearest(word: str, words: Collection[str], before: str) -> str:
    """Return a spelling suggestion from `words`, as text; "" if no word is similar."""
    from difflib import get_close_matches  # loaded only for a misspelt tag

    matches = get_close_matches(word, words, 1, SPELLING_SIMILARITY)
    return f": {before}{matches[0]} is meant, perhaps" if matches else ""


HTOOLS_PREFIX, WATCHER_PREFIX = "htools:", "ganeti:watcher:"

STANDBY, REPAIR = "standby", "autorepair"

ON_STANDBY = ("priority", "auto")
"""Words after ``htools:standby:``; any other word is valid, too, but sets no priority."""

HTOOLS_TAG_NAMES = tuple(kind[len(HTOOLS_PREFIX) : -1] for kind in TAG_KINDS)
"""The words after ``htools:`` in tags of the cluster that htools know."""

AUTOREPAIR = f"{WATCHER_PREFIX}{REPAIR}:"


def misspelt_foreign(cluster: Cluster, instances: Iterable[Instance]) -> Iterator[TagFinding]:
    """Yield misspelt tags for Ganeti's tools on the cluster, groups, nodes and `instances`."""
    yield from misspelt_of_cluster(cluster)
    for node in cluster.nodes:
        yield from _of_node(f"node {node.name}", node.tags)
    yield from misspelt_repairs(cluster, instances)


def misspelt_of_cluster(cluster: Cluster) -> Iterator[TagFinding]:
    """Yield misspelt cluster tags that define the meaning of tags of nodes and instances."""
    for tag in cluster.tags:
        if not tag.startswith(HTOOLS_PREFIX):
            continue
        kind, _, rest = tag[len(HTOOLS_PREFIX) :].partition(":")
        if kind in HTOOLS_TAG_NAMES and not rest:
            yield _finding("the cluster", tag, "does not count: and more is expected")
        elif tag.startswith(ALLOW_MIGRATION) and "::" not in rest:
            yield _finding(
                "the cluster", tag, f"does not count: expected {ALLOW_MIGRATION}OLD::NEW"
            )
        elif kind == STANDBY:
            yield _finding("the cluster", tag, "means nothing on the cluster, only on a node")
        elif kind not in HTOOLS_TAG_NAMES and (
            meant := nearest(kind, HTOOLS_TAG_NAMES, HTOOLS_PREFIX)
        ):
            yield _finding("the cluster", tag, f"is unknown{meant}")


def _of_node(owner: str, tags: Sequence[str]) -> Iterator[TagFinding]:
    """Yield misspelt standby tags of a node, and tags that belong on another type of object."""
    for tag in tags:
        if tag.startswith(AUTOREPAIR):
            yield _finding(owner, tag, "means nothing on a node")
        if not tag.startswith(HTOOLS_PREFIX):
            continue
        kind, _, rest = tag[len(HTOOLS_PREFIX) :].partition(":")
        if kind in HTOOLS_TAG_NAMES:
            yield _finding(owner, tag, "means nothing on a node, only on the cluster")
        elif kind != STANDBY:
            if meant := nearest(kind, (STANDBY,), HTOOLS_PREFIX):
                yield _finding(owner, tag, f"is unknown{meant}")
        else:
            word, _, number = rest.partition(":")
            start = f"{HTOOLS_PREFIX}{STANDBY}:"
            if word == "priority" and not (number.isascii() and number.isdigit()):
                yield _finding(owner, tag, "names no priority: expected a whole number")
            elif not rest:
                yield _finding(owner, tag, "does not count: and more is expected")
            elif word not in ON_STANDBY and (meant := nearest(word, ON_STANDBY, start)):
                yield _finding(owner, tag, f"names no priority{meant}")


def misspelt_repairs(cluster: Cluster, instances: Iterable[Instance]) -> Iterator[TagFinding]:
    """Yield invalid permissions to repair, on the cluster, groups and `instances`."""
    owners = chain(
        [("the cluster", ON_CLUSTER, cluster.tags)],
        ((f"group {group.name}", ON_GROUP, group.tags) for group in cluster.groups),
        ((f"instance {one.name}", ON_INSTANCE, one.tags) for one in instances),
    )
    for owner, role, tags in owners:
        for tag in tags:
            if tag.startswith(WATCHER_PREFIX):
                text = _repair(tag, role)
                if text:
                    yield _finding(owner, tag, text)


def _repair(tag: str, role: str) -> str:
    """Return the problem of a permission or of a repair record; "" if it is valid."""
    kind, _, rest = tag[len(WATCHER_PREFIX) :].partition(":")
    if kind != REPAIR:
        meant = nearest(kind, (REPAIR,), WATCHER_PREFIX)
        return f"is unknown{meant}" if meant else ""
    from iallocator.tags.autorepair import is_record  # not loaded for small requests

    word, colon, more = rest.partition(":")
    if word in ("pending", "result"):
        return "" if role == ON_INSTANCE and is_record(tag) else "cannot be understood"
    words = (*REPAIR_TYPES, "suspend")
    if word not in words:
        meant = nearest(word, words, AUTOREPAIR)
        return f"does not count{meant or ': expected one of ' + ', '.join(words)}"
    if word == "suspend" and colon and more and not (more.isascii() and more.isdigit()):
        return "does not count: expected seconds since 1970"
    return "does not count: nothing may follow it" if word in REPAIR_TYPES and colon else ""


def _finding(owner: str, tag: str, text: str) -> TagFinding:
    return TagFinding("unknown", owner, tag, text)
