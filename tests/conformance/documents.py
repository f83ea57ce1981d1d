"""IAllocator request documents, a pure function of a seed and a request type.

The documents are consistent enough for `hail` to accept, often to satisfy, and
varied enough to reach every reason of refusal.
"""

from __future__ import annotations

from random import Random
from typing import Any

from .instances import populate, settle
from .nodes import cluster_tags, groups, nodes, policy
from .profiles import KINDS, Profile, draw
from .requests import BUILDERS

__all__ = ["KINDS", "document"]

Json = dict[str, Any]


def document(seed: int, kind: str) -> Json:
    """Return the request document number `seed` of a kind.

    Parameters
    ----------
    seed
        Any integer; the same seed gives the same document, for ever.
    kind
        One of `KINDS`.

    Returns
    -------
    dict
        A whole request, as Ganeti would write it to a file.
    """
    rng = Random(f"{kind}/{seed}")
    while True:
        profile = draw(rng, kind)
        result = cluster(rng, profile, kind)
        request = BUILDERS[kind](rng, profile, result)
        if request is not None:
            return {**result, "request": {**request, "type": kind}}


def cluster(rng: Random, profile: Profile, kind: str) -> Json:
    """Return everything but the request: groups, nodes and settled instances."""
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
