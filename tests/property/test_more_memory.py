"""More memory on one node: nobody who had a place loses it.

With `--n1 no-new`, the default, that cannot be promised: what is lost already in a failure may be
lost further, and with more memory it is not lost, and so is protected.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from random import Random

import pytest

from tests.builders import Json, allocate, cluster, instance
from tests.command import respond

SIZES = (128, 512, 1024, 1500)


def world(rng: Random, template: str = "rbd") -> Json:
    """Two nodes that are full, three in another group with some room."""
    residents = {
        f"i{k}": instance(*homes(rng, template), memory=rng.choice(SIZES[:3]))
        for k in range(rng.randrange(3, 10))
    }
    for one in residents.values():
        one["disk_template"] = template
    return cluster({"a": 2, "b": 3}, memory=4096, disk=10**6, cpus=64, instances=residents)


def homes(rng: Random, template: str) -> list[str]:
    """One node, or two of the same group."""
    if template != "drbd":
        return [f"node{rng.randrange(1, 6)}"]
    group = rng.choice((["node1", "node2"], ["node3", "node4", "node5"]))
    return rng.sample(group, 2)


def requests(rng: Random, document: Json, template: str = "rbd") -> Iterator[Json]:
    """A batch, an evacuation, and a change of group."""
    one = allocate(document, disk_template=template)["request"]
    batch = [
        {**one, "name": f"new{k}", "memory": rng.choice(SIZES), "type": "allocate"}
        for k in range(rng.randrange(3, 9))
    ]
    yield {"type": "multi-allocate", "instances": batch}
    first = [name for name, i in document["instances"].items() if i["nodes"][0] == "node1"]
    if first:
        yield {"type": "node-evacuate", "evac_mode": "all", "instances": first}
        yield {"type": "change-group", "instances": first, "target_groups": ["uuid-b"]}


def served(document: Json, mode: str = "off") -> int:
    """How many instances have a place by the answer."""
    response = respond(document, f"--n1={mode}")
    if not response["success"]:
        return 0
    return 1 if document["request"]["type"] == "allocate" else len(response["result"][0])


@pytest.mark.parametrize("seed", range(8))
def test_more_memory_on_one_node_places_no_fewer(seed: int) -> None:
    """Whatever node has more, and however much, as many are placed or moved."""
    rng = Random(f"more/{seed}")
    document = world(rng)
    for request in requests(rng, document):
        document["request"] = request
        before = served(document)
        for name in document["nodes"]:
            larger = deepcopy(document)
            for amount in ("total_memory", "free_memory"):
                larger["nodes"][name][amount] += rng.choice((64, 512, 4096))
            assert served(larger) >= before, (request["type"], name)


@pytest.mark.parametrize("template", ["rbd", "drbd"])
@pytest.mark.parametrize("seed", range(6))
def test_more_memory_with_n1_no_worse_places_no_fewer(seed: int, template: str) -> None:
    """The same where failures count: of mirrored instances as well."""
    rng = Random(f"more/{template}/{seed}")
    document = world(rng, template)
    single = allocate(document, memory=rng.choice(SIZES), disk_template=template)["request"]
    asked = [single, *requests(rng, document, template)]
    for request in asked:
        document["request"] = request
        before = served(document, "no-worse")
        name = rng.choice(list(document["nodes"]))
        larger = deepcopy(document)
        more = rng.choice((64, 512, 4096))
        for amount in ("total_memory", "free_memory"):
            larger["nodes"][name][amount] += more
        assert served(larger, "no-worse") >= before, (request["type"], name)


def evacuation(rng: Random) -> Json | None:
    """A node that is left where there is hardly room; None if there is not even that."""
    names = [f"node{k + 1}" for k in range(rng.randint(3, 6))]
    residents = {
        f"i{k}": instance(*rng.sample(names, 2), memory=rng.choice(SIZES))
        for k in range(rng.randint(3, 12))
    }
    room = rng.choice((2048, 3072, 4096))
    document = cluster(len(names), memory=room, disk=10**6, cpus=64, instances=residents)
    mode = rng.choice(("all", "primary-only", "secondary-only"))
    roles = {"all": slice(2), "primary-only": slice(1), "secondary-only": slice(1, 2)}[mode]
    leaving = [name for name, one in residents.items() if names[0] in one["nodes"][roles]]
    if not leaving or any(node["free_memory"] < 0 for node in document["nodes"].values()):
        return None
    request = {"type": "node-evacuate", "evac_mode": mode, "instances": leaving}
    return {**document, "request": request}


@pytest.mark.parametrize("part", range(5))
def test_more_memory_with_n1_no_worse_moves_no_fewer_mirrored_off_a_node(part: int) -> None:
    """A node that lacks memory for its failovers takes nothing that makes it lack more."""
    moved = 0
    for seed in range(10 * part, 10 * part + 10):
        rng = Random(f"evacuation/{seed}")
        document = evacuation(rng)
        if document is None:
            continue
        before = served(document, "no-worse")
        moved += before
        for name in document["nodes"]:
            larger = deepcopy(document)
            for amount in ("total_memory", "free_memory"):
                larger["nodes"][name][amount] += 512
            assert served(larger, "no-worse") >= before, (seed, name)
    assert moved
