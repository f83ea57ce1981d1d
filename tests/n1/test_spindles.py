"""Test what failures lose where own spindles of exclusive storage are short, by brute force."""

from __future__ import annotations

from itertools import product
from random import Random

from iallocator.n1 import Rules
from iallocator.n1.tolerance import FailureTolerance
from tests.builders import Json, allocate, cluster, instance
from tests.command import json_of

from .tight import Case, context_of

MEMORY = 1000
"""MiB of memory of each node."""


def scenario(rng: Random) -> Json:
    """Return four nodes, most with exclusive storage, with few free spindles and some memory."""
    names = [f"node{k}" for k in range(1, 5)]
    held: dict[str, Json] = {}
    for home in names:
        for _ in range(rng.randint(0, 2)):
            disks = [{"size": 10, "spindles": rng.randint(1, 3)}]
            held[f"i{len(held)}"] = instance(
                home, memory=rng.choice((100, 300, 500)), disk_template="plain", disks=disks
            )
    made = cluster(4, memory=MEMORY, disk=10**6, cpus=64, instances=held)
    for node in made["nodes"].values():
        exclusive = rng.random() < 0.8
        node["ndparams"] = {"exclusive_storage": exclusive, "spindle_count": 1}
        node["total_spindles"] = 20
        node["free_spindles"] = rng.randint(0, 3)
    return made


def least_loss(case: Case, made: Json, failed: str) -> tuple[int, int]:
    """Return the least number of instances, and of MiB, that cannot be restarted."""
    leaving = [
        (one["memory"], one["disks"][0]["spindles"])
        for one in made["instances"].values()
        if one["nodes"] == [failed]
    ]
    others = {name: node for name, node in made["nodes"].items() if name != failed}
    fewest, least = len(leaving), sum(memory for memory, _ in leaving)
    for places in product([*others, None], repeat=len(leaving)):
        memory = {name: node["free_memory"] - 1 for name, node in others.items()}
        spindles = {
            name: node["free_spindles"] if node["ndparams"]["exclusive_storage"] else 99
            for name, node in others.items()
        }
        for (size, wanted), place in zip(leaving, places):
            if place is not None:
                memory[place] -= size
                spindles[place] -= wanted
        used = {place for place in places if place is not None}
        if all(memory[place] >= 0 and spindles[place] >= 0 for place in used):
            fewest = min(fewest, places.count(None))
            left = sum(size for (size, _), place in zip(leaving, places) if place is None)
            least = min(least, left)
    return fewest, least


def test_loss_with_few_spindles_equals_brute_force() -> None:
    """The least loss after each failure is known exactly, and is that of brute force."""
    seen = set()
    for seed in range(60):
        made = scenario(Random(f"spindles/{seed}"))
        case = context_of(allocate(made, memory=10, disk=10, disk_template="plain"), "off")
        tolerance = FailureTolerance(
            case.state, Rules("no-worse", plan=True), group=case.cluster.groups[0]
        )
        for index, name in enumerate(made["nodes"]):
            fewest, memory = least_loss(case, made, name)
            found = tolerance.losses([(index,)])[index,]
            assert (found.instances, found.memory) == (fewest, memory), (seed, name)
            assert (found.instances_least, found.memory_least) == (fewest, memory), (seed, name)
            seen.add(fewest)
    assert seen >= {0, 1, 2}


def test_node_is_rebooted_although_plain_instances_cannot_be_restarted() -> None:
    """A plan that loses no more than before is accepted where no spindle is free."""
    disks = [{"size": 10, "spindles": 1}]
    held = {
        "d": instance("node1", "node2", memory=100, disk_template="drbd", disks=disks),
        **{
            f"p{k}": instance(f"node{k}", memory=100, disk_template="plain", disks=disks)
            for k in (2, 3)
        },
    }
    made = cluster(3, memory=MEMORY, disk=10**6, cpus=64, instances=held)
    for node in made["nodes"].values():
        node["ndparams"] = {"exclusive_storage": True, "spindle_count": 1}
        node["total_spindles"], node["free_spindles"] = 9, 0
    plan = json_of("reboot", "--force", document=made, status=1)
    assert [one["nodes"] for one in plan["reboots"]] == [["node1"]]
