"""Build documents about storage pools, fixed and random."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from tests.builders import Json, cluster, instance

__all__ = ["external", "internal", "of_instance", "reaching", "super_cluster"]

POOLS = ("nas", "san", "ceph")


def external(name: str) -> Json:
    """Return an external storage pool as a node lists it."""
    return {"type": "external", "name": name}


def internal(name: str, total: int | None = None, free: int | None = None) -> Json:
    """Return an internal storage pool as a node lists it; sizes are in MiB."""
    return {"type": "internal", "name": name, "total": total, "free": free}


def super_cluster(rng: Random, groups: int = 3, memory: int = 8192) -> Json:
    """Return groups of nodes with access to a few pools, and instances in these pools.

    Every node lists its pools; most nodes of a group have equal lists.
    """
    sizes = {f"g{k}": rng.randint(2, 4) for k in range(groups)}
    homes = [name for name, count in sizes.items() for _ in range(count)]
    usual = {name: rng.sample(POOLS, rng.randint(1, 2)) for name in sizes}
    reach: dict[str, list[str]] = {}
    for number, home in enumerate(homes, start=1):
        odd = rng.random() < 0.25
        reach[f"node{number}"] = rng.sample(POOLS, rng.randint(0, 3)) if odd else usual[home]
    document = cluster(sizes, memory=memory, instances=dict(_residents(rng, reach, memory)))
    for name, pools in reach.items():
        listed = [external(pool) for pool in pools]
        if rng.random() < 0.8:
            listed.append(internal("lvm"))
        document["nodes"][name]["storage_pools"] = listed
    return document


def _residents(rng: Random, reach: dict[str, list[str]], memory: int) -> Iterator[tuple[str, Json]]:
    for home, pools in reach.items():
        for k in range(rng.randint(0, 3) if pools else 0):
            template = rng.choice(("rbd", "ext", "sharedfile"))
            yield (
                f"{home}-{k}",
                instance(
                    home,
                    disk_template=template,
                    memory=rng.randint(1, memory // 5),
                    storage_type="external",
                    storage_pool=rng.choice(pools),
                ),
            )


def of_instance(raw: Json) -> tuple[str, str]:
    """Return the storage pool in the fields of an instance."""
    return raw["storage_type"], raw["storage_pool"]


def reaching(document: Json, pool: tuple[str, str]) -> set[str]:
    """Return the nodes that list the storage pool `pool`."""
    nodes: dict[str, Any] = document["nodes"]
    return {
        name
        for name, node in nodes.items()
        if pool in {(one["type"], one["name"]) for one in node["storage_pools"]}
    }
