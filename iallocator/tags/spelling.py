"""Tags with our prefix that mean nothing: unknown or misspelt ones, and what was meant perhaps."""

from __future__ import annotations

from iallocator.model.constraints.tag_finding import TagFinding
from iallocator.tags.affinity import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance

__all__ = ["CLUSTER", "GROUP", "INSTANCE", "NODE", "misspelt", "nearest"]

CLUSTER, GROUP, NODE, INSTANCE = "cluster", "group", "node", "instance"

KEYS = ("key", "syskey", "specialkey")
OF_NODES = ("key", "stickykey", "ram-contention", "cpu-contention")

POOLS = ("internal", "external")

KINDS: dict[str, dict[str, Sequence[str]]] = {
    CLUSTER: dict.fromkeys(KEYS, ()),
    GROUP: {**dict.fromkeys(OF_NODES, ()), "pool": POOLS},
    NODE: {
        **dict.fromkeys((*OF_NODES, "utilization", "score", "maintenance"), ()),
        "pool": POOLS,
    },
    INSTANCE: {
        **dict.fromkeys((*KEYS, "utilization", "score", "stickiness", "priority"), ()),
        **dict.fromkeys(("keep-running", "cannot-stop", "no-force-stop"), ()),
        "colocate": ("must", "should"),
        "separate": ("must", "should"),
        "order": ("after", "should-after"),
        "pool": POOLS,
    },
}
"""Who may have it -> what follows the prefix -> the words that may follow that; () for any."""

ALONE = ("keep-running", "cannot-stop", "no-force-stop", "maintenance")
"""Kinds that nothing may follow."""

ALIKE = 0.6
"""How alike two words have to be for one to be meant by the other, from 0 to 1."""


def misspelt(
    cluster: Cluster, instances: Iterable[Instance], prefix: str, settings: Collection[str]
) -> Iterator[TagFinding]:
    """Tags of the cluster, its groups and nodes, and of `instances`, that mean nothing.

    `settings` are the names of options that tags of the cluster and of groups may set.  Cost:
    a look-up for each tag with our prefix, where nothing is wrong.
    """
    shared = dict.fromkeys(settings, ())
    yield from _of("the cluster", CLUSTER, cluster.tags, prefix, KINDS[CLUSTER] | shared)
    for group in cluster.groups:
        kinds = KINDS[GROUP] | shared
        yield from _of(f"group {group.name}", GROUP, group.tags, prefix, kinds)
    for node in cluster.nodes:
        yield from _of(f"node {node.name}", NODE, node.tags, prefix, KINDS[NODE])
    for instance in instances:
        owner = f"instance {instance.name}"
        found = list(_of(owner, INSTANCE, instance.tags, prefix, KINDS[INSTANCE]))
        yield from found
        yield from _unusable(owner, instance, prefix, {one.tag for one in found})


def _of(
    owner: str, role: str, tags: Iterable[str], prefix: str, kinds: dict[str, Sequence[str]]
) -> Iterator[TagFinding]:
    """Those of one owner whose kind, or the word after it, is none."""
    for tag in tags:
        if not tag.startswith(prefix):
            continue
        kind, colon, rest = tag[len(prefix) :].partition(":")
        words = kinds.get(kind)
        if words is None:
            yield TagFinding("unknown", owner, tag, _unknown(kind, role, kinds, prefix))
        elif (kind in ALONE) == bool(colon):
            how = "nothing may follow it" if colon else f"{prefix}{kind}: and more is expected"
            yield TagFinding("unknown", owner, tag, f"does not count: {how}")
        elif words and (word := rest.partition(":")[0]) not in words:
            meant = nearest(word, words, f"{prefix}{kind}:")
            text = meant or f": expected {prefix}{kind}:{' or '.join(words)}"
            yield TagFinding("unknown", owner, tag, f"does not count{text}")


def _unknown(kind: str, role: str, kinds: Collection[str], prefix: str) -> str:
    meant = nearest(kind, kinds, prefix)
    others = [other for other, known in KINDS.items() if kind in known and other != role]
    if others:
        return f"means nothing on {_owners([role])}, only on {_owners(others)}"
    return f"is unknown{meant}"


def _owners(roles: Iterable[str]) -> str:
    return " or ".join(
        {CLUSTER: "the cluster", INSTANCE: "an instance"}.get(r, f"a {r}") for r in roles
    )


def nearest(word: str, words: Collection[str], before: str) -> str:
    """The one of `words` that is meant perhaps, in words; "" if none is alike."""
    from difflib import get_close_matches  # nobody pays for it who makes no mistakes

    found = get_close_matches(word, words, 1, ALIKE)
    return f": {before}{found[0]} is meant, perhaps" if found else ""


def _unusable(
    owner: str, instance: Instance, prefix: str, told: Collection[str]
) -> Iterator[TagFinding]:
    """Bonds of an instance that are not written as they have to be."""
    start = f"{instance.name}: "
    for text in parse([instance], prefix).unusable if instance.tags else ():
        tag = text.removeprefix(start)
        if tag not in told:
            yield TagFinding("unknown", owner, tag, "does not count: it cannot be understood")
