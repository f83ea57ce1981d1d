"""Generate IAllocator request documents from a seed and a request type.

Equal arguments give equal documents. The documents are consistent enough for `hail` to accept,
often can be satisfied, and reach every reason of rejection.
"""

from __future__ import annotations

from random import Random

from tests.builders import Json

from .alike import alike
from .crowded import crowded
from .instances import populate, settle
from .nodes import cluster_tags, groups, nodes, policy
from .profiles import KINDS, Profile, draw, odd
from .requests import BUILDERS

__all__ = ["ALIKE", "CROWDED", "EXHAUSTED", "KINDS", "ODD", "document"]


SUFFIX = "-exhausted"
EXHAUSTED = tuple(kind + SUFFIX for kind in ("relocate", "node-evacuate", "change-group"))
"""Kinds of documents on a cluster with hardly any free memory."""

SAME = "-alike"
ALIKE = tuple(kind + SAME for kind in KINDS if kind != "allocate-secondary")
"""Kinds of documents on equal nodes."""

FULL = "-crowded"
CROWDED = tuple(kind + FULL for kind in KINDS if kind != "allocate-secondary")
"""Kinds of documents on small clusters that are nearly full."""

RARE = "-odd"
ODD = tuple(kind + RARE for kind in KINDS)
"""Kinds of documents with many rare properties."""


def document(seed: int, kind: str) -> Json:
    """Return the request document number `seed` of a kind.

    Parameters
    ----------
    seed
        Any integer; the same seed gives the same document, for ever.
    kind
        One of `KINDS`, `EXHAUSTED`, `ALIKE`, `CROWDED` or `ODD`.

    Returns
    -------
    dict
        A whole request, as Ganeti would write it to a file.
    """
    if kind in EXHAUSTED:
        made = document(seed, kind.removesuffix(SUFFIX))
        _exhaust(Random(f"{kind}/{seed}"), made)
        return made
    rng = Random(f"{kind}/{seed}")
    if kind in ALIKE:
        return next(made for made in iter(lambda: alike(rng, kind.removesuffix(SAME)), 0) if made)
    if kind in CROWDED:
        return next(made for made in iter(lambda: crowded(rng, kind.removesuffix(FULL)), 0) if made)
    plain = kind.removesuffix(RARE)
    while True:
        profile = draw(rng, plain)
        if kind in ODD:
            profile = odd(rng, profile)
        result = cluster(rng, profile, plain)
        request = BUILDERS[plain](rng, profile, result)
        if request is not None:
            return {**result, "request": {**request, "type": plain}}


def _exhaust(rng: Random, made: Json) -> None:
    """Set drbd instances offline, and let nodes report nearly no free memory."""
    for one in made["instances"].values():
        if one["disk_template"] == "drbd" and rng.random() < 0.6:
            one["admin_state"] = "offline"
    for node in made["nodes"].values():
        if "free_memory" in node and rng.random() < 0.6:
            node["free_memory"] = rng.choice((0, 100, 500, 1000, 2000, 3000))


def cluster(rng: Random, profile: Profile, kind: str) -> Json:
    """Return a random document without a request: groups, nodes and their instances."""
    nodegroups = groups(rng, profile, kind)
    members = nodes(rng, profile, list(nodegroups))
    instances = populate(rng, profile, members, nodegroups)
    settle(rng, profile, members, instances)
    hypervisors = ["kvm", "xen-pvm"] if profile.kvm else ["xen-pvm", "kvm"]
    return {
        "version": 2,
        "cluster_name": "cluster.example.com",
        "cluster_tags": cluster_tags(rng, profile),
        "enabled_hypervisors": hypervisors,
        "ipolicy": policy(rng, profile),
        "nodegroups": nodegroups,
        "nodes": members,
        "instances": instances,
    }
