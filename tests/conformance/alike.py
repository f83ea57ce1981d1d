"""Build clusters of equal nodes and few sizes, so that scores differ by rounding only."""

from __future__ import annotations

from random import Random
from typing import Any

from tests import builders
from tests.builders import Json

__all__ = ["alike"]


SIZES = ((1024, 1, 10240), (2048, 2, 20480), (4096, 1, 5000), (3000, 3, 7777))
"""Sizes of instances: memory in MiB, virtual cpus, and disk in MiB."""

MEMORY = (65536, 98304, 130972)
DISK = (1000000, 1048576)
CPUS = (8, 12, 16)
TEMPLATES = ("drbd", "drbd", "rbd")


def alike(rng: Random, kind: str) -> Json | None:
    """Return a request document of `kind`, or None if the cluster allows no such request."""
    names = [f"node{number}" for number in range(1, rng.randint(4, 16) + 1)]
    sizes = SIZES[: rng.randint(1, len(SIZES))]
    halves = [names[: len(names) // 2], names[len(names) // 2 :]]
    groups = halves if kind == "change-group" else [names]
    instances = _instances(rng, groups, sizes)
    document = builders.cluster(
        {f"group{number}": len(members) for number, members in enumerate(groups)},
        memory=rng.choice(MEMORY), disk=rng.choice(DISK), cpus=rng.choice(CPUS),
        instances=instances,
    )  # fmt: skip
    request = _request(rng, kind, document, sizes)
    return None if request is None else {**document, "request": request}


def _instances(rng: Random, groups: list[list[str]], sizes: tuple[Any, ...]) -> Json:
    found: Json = {}
    for members in groups:
        for _ in range(rng.choice((0, 1, rng.randint(1, 3 * len(members))))):
            template = rng.choice(TEMPLATES)
            nodes = rng.sample(members, 2 if template == "drbd" else 1)
            found[f"web{len(found)}"] = builders.instance(
                *nodes, disk_template=template, **_size(rng, sizes)
            )
    return found


def _size(rng: Random, sizes: tuple[Any, ...]) -> Json:
    return dict(zip(("memory", "vcpus", "disk"), rng.choice(sizes)))


def _request(rng: Random, kind: str, document: Json, sizes: tuple[Any, ...]) -> Json | None:
    if kind in ("allocate", "multi-allocate"):
        requests = [_new_instance(rng, document, name, sizes) for name in ("new1", "new2", "new3")]
        return requests[0] if kind == "allocate" else {"type": kind, "instances": requests}
    if not document["instances"]:
        return None
    name, one = rng.choice(list(document["instances"].items()))
    if kind == "relocate":
        space = one["disk_space_total"]
        return {"type": kind, "name": name, "required_nodes": 1, "disk_space_total": space,
                "relocate_from": one["nodes"][-1:]}  # fmt: skip
    there = [n for n, other in document["instances"].items() if one["nodes"][0] in other["nodes"]]
    if kind == "change-group":
        return {"type": kind, "instances": there, "target_groups": []}
    mode = rng.choice(("all", "primary-only", "secondary-only"))
    return {"type": kind, "instances": there, "evac_mode": mode}


def _new_instance(rng: Random, document: Json, name: str, sizes: tuple[Any, ...]) -> Json:
    template = rng.choice((*TEMPLATES, "plain"))
    made = builders.allocate(document, name, disk_template=template, **_size(rng, sizes))
    request: Json = made["request"]
    return request
