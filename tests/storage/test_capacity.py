"""Test that capacity counts only nodes with access to the storage pool of the new instances."""

from __future__ import annotations

from random import Random

import pytest

from tests.builders import Json, allocate, cluster, instance
from tests.command import json_of, respond

from .scenarios import external, internal

MEMORY, SIZE = 1000, 300
"""MiB of memory of a node, and of a new instance."""


def scenario(rng: Random, template: str, pool: Json) -> Json:
    """Return two groups of nodes, of which some have the `pool` of new instances.

    Disk parameters name the pool for rbd instances.
    """
    homes = {"a": rng.randint(2, 3), "b": rng.randint(2, 3)}
    pools = {
        f"node{k}": [pool] * (rng.random() < 0.6) + [external("other")]
        for k in range(1, sum(homes.values()) + 1)
    }
    held = {
        f"i{k}": instance(
            node, memory=100, disk_template="rbd", storage_type="external", storage_pool="other"
        )
        for k, node in enumerate(rng.choices(sorted(pools), k=3))
    }
    changes = {name: {"storage_pools": listed} for name, listed in pools.items()}
    made = cluster(homes, memory=MEMORY, disk=10**5, instances=held, changes=changes)
    if template == "rbd" and pool["name"] != "rbd":
        for group in made["nodegroups"].values():
            group["diskparams"] = {"rbd": {"pool": pool["name"]}}
    return made


def test_capacity_counts_ext_instances_on_all_nodes() -> None:
    """Capacity counts ext instances on all nodes, because only disks name their pools."""
    made = scenario(Random("ext"), "ext", external("nas"))
    words = ("--n1=off", "--disk-template=ext", f"--standard-alloc=10,{SIZE},1")
    found = json_of("capacity", *words, "--tiered-alloc=10,100000,1", document=made)
    free = [node["free_memory"] for node in made["nodes"].values()]
    assert found["standard"]["count"] == sum((memory - 1) // SIZE for memory in free)


def placed_one_by_one(document: Json, template: str, mode: str) -> int:
    """Return how many instances are placed if each of them is requested on its own."""
    for count in range(100):
        asked = allocate(
            document, f"new{count}", memory=SIZE, disk=10, disk_template=template, vcpus=1
        )
        answer = respond(asked, f"--n1={mode}")
        if not answer["success"]:
            return count
        nodes = answer["result"]
        document["instances"][f"new{count}"] = instance(
            *nodes, memory=SIZE, disk=10, disk_template=template, vcpus=1
        )
        for name in nodes if template in ("plain", "drbd") else nodes[:1]:
            document["nodes"][name]["free_disk"] -= 10
        document["nodes"][nodes[0]]["free_memory"] -= SIZE
    raise AssertionError("an endless cluster")


@pytest.mark.parametrize("mode", ["off", "no-new", "strict", "no-worse"])
@pytest.mark.parametrize(
    ("template", "pool"),
    [
        ("plain", internal("lvm")),
        ("drbd", internal("lvm")),
        ("file", internal("file")),
        ("rbd", external("rbd")),
        ("rbd", external("nas")),
    ],
    ids=["plain", "drbd", "file", "rbd", "nas"],
)
def test_capacity_equals_the_instances_that_requests_place(
    template: str, pool: Json, mode: str
) -> None:
    """Capacity counts as many instances as requests place, one after the other.

    With ``no-worse``, it searches for the most that are possible, which may be more.
    """
    counts = set()
    for seed in range(12):
        made = scenario(Random(f"capacity/{template}/{seed}"), template, pool)
        found = json_of(
            "capacity",
            f"--n1={mode}",
            f"--disk-template={template}",
            f"--standard-alloc=10,{SIZE},1",
            "--tiered-alloc=10,100000,1",
            document=made,
        )
        expected = placed_one_by_one(made, template, mode)
        count = found["standard"]["count"]
        assert count == expected or (mode == "no-worse" and count > expected), seed
        counts.add(expected)
    assert len(counts) > 2
