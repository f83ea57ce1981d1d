"""Test that with more memory on one node, no fewer instances are placed.

This does not hold with `--n1 no-new`. A failure that is not tolerated already does not protect its
instances. With more memory it is tolerated, and so its instances are protected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from random import Random

import pytest

from tests.builders import Json, allocate, cluster, instance
from tests.command import respond
from tests.seeds import seeds

SIZES = (128, 512, 1024, 1500)


def scenario(rng: Random, templates: Sequence[str] = ("rbd",)) -> Json:
    """Return a group of two full nodes, and one of three nodes with some free capacity."""
    residents = {}
    for k in range(rng.randrange(3, 10)):
        template = rng.choice(templates)
        one = instance(*homes(rng, template), memory=rng.choice(SIZES[:3]))
        residents[f"i{k}"] = one | {"disk_template": template}
    return cluster({"a": 2, "b": 3}, memory=4096, disk=10**6, cpus=64, instances=residents)


def homes(rng: Random, template: str) -> list[str]:
    """Return the random nodes of an instance: one node, or two of one group for drbd."""
    if template != "drbd":
        return [f"node{rng.randrange(1, 6)}"]
    group = rng.choice((["node1", "node2"], ["node3", "node4", "node5"]))
    return rng.sample(group, 2)


def requests(rng: Random, document: Json, templates: Sequence[str] = ("rbd",)) -> Iterator[Json]:
    """Yield a batch, an evacuation, a change of group, and a relocation on the cluster."""
    batch = [
        {**allocate(document, disk_template=rng.choice(templates))["request"], "name": f"new{k}",
         "memory": rng.choice(SIZES)}
        for k in range(rng.randrange(3, 9))
    ]  # fmt: skip
    yield {"type": "multi-allocate", "instances": batch}
    here = {n: i for n, i in document["instances"].items() if i["nodes"][0] == "node1"}
    first = [name for name, one in here.items() if one["disk_template"] != "plain"]
    if first:
        yield {"type": "node-evacuate", "evac_mode": "all", "instances": first}
        yield {"type": "change-group", "instances": first, "target_groups": ["uuid-b"]}
        leaving = here[first[0]]["nodes"][-1:]
        yield {"type": "relocate", "name": first[0], "relocate_from": leaving,
               "required_nodes": 1, "disk_space_total": 1024}  # fmt: skip


def served(document: Json, *options: str) -> int:
    """Return how many instances the answer to `document` places or moves."""
    response = respond(document, *options)
    if not response["success"]:
        return 0
    many = document["request"]["type"] not in ("allocate", "relocate")
    return len(response["result"][0]) if many else 1


@pytest.mark.parametrize("seed", range(8))
def test_more_memory_on_one_node_places_no_fewer_without_n1(seed: int) -> None:
    """Without N+1, more memory on any node lets no fewer instances be placed."""
    rng = Random(f"more/{seed}")
    document = scenario(rng)
    for request in requests(rng, document):
        document["request"] = request
        before = served(document, "--n1=off")
        for name in document["nodes"]:
            larger = with_more(document, name, rng.choice((64, 512, 4096)))
            assert served(larger, "--n1=off") >= before, (request["type"], name)


def with_more(document: Json, name: str, amount: int) -> Json:
    """Return the cluster with `amount` MiB more on a node."""
    larger = deepcopy(document)
    for figure in ("total_memory", "free_memory"):
        larger["nodes"][name][figure] += amount
    return larger


@pytest.mark.parametrize("templates", [("rbd",), ("drbd",), ("plain",), ("rbd", "drbd", "plain")])
def test_more_memory_on_one_node_places_no_fewer_by_default(templates: tuple[str, ...]) -> None:
    """With the default N+1, more memory on any node lets no fewer instances be placed."""
    asked = 0
    for seed in seeds(5, 120):
        rng = Random(f"more/{'/'.join(templates)}/{seed}")
        document = scenario(rng, templates)
        size, template = rng.choice(SIZES), rng.choice(templates)
        single = allocate(document, memory=size, disk_template=template)["request"]
        for request in [single, *requests(rng, document, templates)]:
            document["request"] = request
            before = served(document)
            asked += before > 0
            larger = with_more(
                document, rng.choice(list(document["nodes"])), rng.choice((64, 512, 4096))
            )
            assert served(larger) >= before, (seed, request["type"])
    assert asked > 5


def evacuation(rng: Random) -> Json | None:
    """Return an evacuation with little free capacity; None if there is no capacity at all."""
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
def test_more_memory_moves_no_fewer_drbd_instances_off_a_node(part: int) -> None:
    """With more memory on a node, no fewer drbd instances can be evacuated.

    A node that lacks memory for its failovers accepts no instance that increases the lack.
    """
    moved = 0
    for seed in range(10 * part, 10 * part + 10):
        rng = Random(f"evacuation/{seed}")
        document = evacuation(rng)
        if document is None:
            continue
        before = served(document)
        moved += before
        for name in document["nodes"]:
            assert served(with_more(document, name, 512)) >= before, (seed, name)
    assert moved
