"""Tags of Ganeti's own tools that this program reads, where they do not say what was meant.

Tags that begin with ``htools:`` or ``ganeti:watcher:`` may be anybody's: only those are told that
are almost one of the known, that stand on the wrong object, or whose rest is none.
"""

from __future__ import annotations

from itertools import chain

from iallocator.model.constraints.tag_finding import TagFinding
from iallocator.model.tags import ALLOW_MIGRATION, KINDS
from iallocator.tags.spelling import CLUSTER, GROUP, INSTANCE, nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance

__all__ = ["misspelt_foreign", "misspelt_of_cluster", "misspelt_repairs"]

HTOOLS, WATCHER = "htools:", "ganeti:watcher:"

STANDBY, REPAIR = "standby", "autorepair"

ON_STANDBY = ("priority", "auto")
"""What follows ``htools:standby:``; anything else is as good, and names no priority."""

NAMES = tuple(kind[len(HTOOLS) : -1] for kind in KINDS)
"""What follows ``htools:`` on the cluster."""

AUTOREPAIR = f"{WATCHER}{REPAIR}:"


def misspelt_foreign(cluster: Cluster, instances: Iterable[Instance]) -> Iterator[TagFinding]:
    """All of them, of the cluster, its groups and nodes, and of `instances`."""
    yield from misspelt_of_cluster(cluster)
    for node in cluster.nodes:
        yield from _of_node(f"node {node.name}", node.tags)
    yield from misspelt_repairs(cluster, instances)


def misspelt_of_cluster(cluster: Cluster) -> Iterator[TagFinding]:
    """Those of the cluster that say what tags of nodes and instances mean."""
    for tag in cluster.tags:
        if not tag.startswith(HTOOLS):
            continue
        kind, _, rest = tag[len(HTOOLS) :].partition(":")
        if kind in NAMES and not rest:
            yield _finding("the cluster", tag, "does not count: and more is expected")
        elif tag.startswith(ALLOW_MIGRATION) and "::" not in rest:
            yield _finding(
                "the cluster", tag, f"does not count: expected {ALLOW_MIGRATION}OLD::NEW"
            )
        elif kind == STANDBY:
            yield _finding("the cluster", tag, "means nothing on the cluster, only on a node")
        elif kind not in NAMES and (meant := nearest(kind, NAMES, HTOOLS)):
            yield _finding("the cluster", tag, f"is unknown{meant}")


def _of_node(owner: str, tags: Sequence[str]) -> Iterator[TagFinding]:
    """Tags of nodes on standby, and those that belong elsewhere."""
    for tag in tags:
        if tag.startswith(AUTOREPAIR):
            yield _finding(owner, tag, "means nothing on a node")
        if not tag.startswith(HTOOLS):
            continue
        kind, _, rest = tag[len(HTOOLS) :].partition(":")
        if kind in NAMES:
            yield _finding(owner, tag, "means nothing on a node, only on the cluster")
        elif kind != STANDBY:
            if meant := nearest(kind, (STANDBY,), HTOOLS):
                yield _finding(owner, tag, f"is unknown{meant}")
        else:
            word, _, number = rest.partition(":")
            start = f"{HTOOLS}{STANDBY}:"
            if word == "priority" and not (number.isascii() and number.isdigit()):
                yield _finding(owner, tag, "names no priority: expected a whole number")
            elif not rest:
                yield _finding(owner, tag, "does not count: and more is expected")
            elif word not in ON_STANDBY and (meant := nearest(word, ON_STANDBY, start)):
                yield _finding(owner, tag, f"names no priority{meant}")


def misspelt_repairs(cluster: Cluster, instances: Iterable[Instance]) -> Iterator[TagFinding]:
    """Permissions to repair that are none, on the cluster, groups and `instances`."""
    owners = chain(
        [("the cluster", CLUSTER, cluster.tags)],
        ((f"group {group.name}", GROUP, group.tags) for group in cluster.groups),
        ((f"instance {one.name}", INSTANCE, one.tags) for one in instances),
    )
    for owner, role, tags in owners:
        for tag in tags:
            if tag.startswith(WATCHER):
                text = _repair(tag, role)
                if text:
                    yield _finding(owner, tag, text)


def _repair(tag: str, role: str) -> str:
    """What is the matter with a permission, or the record of a repair; "" if nothing."""
    kind, _, rest = tag[len(WATCHER) :].partition(":")
    if kind != REPAIR:
        meant = nearest(kind, (REPAIR,), WATCHER)
        return f"is unknown{meant}" if meant else ""
    from iallocator.tags.autorepair import TYPES, is_record  # small requests do without

    word, colon, more = rest.partition(":")
    if word in ("pending", "result"):
        return "" if role == INSTANCE and is_record(tag) else "cannot be understood"
    words = (*TYPES, "suspend")
    if word not in words:
        meant = nearest(word, words, AUTOREPAIR)
        return f"does not count{meant or ': expected one of ' + ', '.join(words)}"
    if word == "suspend" and colon and more and not (more.isascii() and more.isdigit()):
        return "does not count: expected seconds since 1970"
    return "does not count: nothing may follow it" if word in TYPES and colon else ""


def _finding(owner: str, tag: str, text: str) -> TagFinding:
    return TagFinding("unknown", owner, tag, text)
