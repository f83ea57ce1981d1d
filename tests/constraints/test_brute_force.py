"""Test constraints in answers on tiny clusters against all placements.

The instances have random affinity tags.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Mapping

import pytest

from iallocator.cli import answer
from tests import builders
from tests.builders import Json
from tests.command import respond
from tests.constraints.scenarios import random_tags, violated_hard
from tests.seeds import seeds

pytest.importorskip("highspy")

Homes = dict[str, str]

CASES = len(seeds(60, 520))


def _cluster(chances: random.Random, instances: Mapping[str, Json]) -> Json:
    """Return three or four nodes in two racks, with `instances` and little free memory."""
    document = builders.cluster(
        nodes=chances.choice([3, 4]), memory=16384, cpus=32, instances=instances
    )
    for k, node in enumerate(document["nodes"].values()):
        node["tags"] = [f"rack:{k // 2}"]
        node["free_memory"] = min(node["free_memory"], chances.choice([1100, 2100, 3100, 5100]))
    return document


def _batch(chances: random.Random) -> Json:
    """Return a request for two to four new instances, with one or two existing instances."""
    there = {
        f"old{k}": builders.rbd("node1", memory=512, tags=random_tags(chances))
        for k in range(chances.randint(0, 2))
    }
    document = _cluster(chances, there)
    wanted = []
    for k in range(chances.randint(2, 4)):
        one = builders.allocate_rbd(document, memory=chances.choice([1000, 2000]))["request"]
        del one["type"]
        wanted.append(one | {"name": f"new{k}", "tags": random_tags(chances)})
    return document | {"request": {"type": "multi-allocate", "instances": wanted}}


def _evacuation(chances: random.Random) -> Json:
    """Return a request to evacuate node1; some instances are on other nodes."""
    there = {
        f"inst{k}": builders.rbd(
            chances.choice(["node1", "node1", "node2"]),
            memory=chances.choice([1000, 2000]),
            tags=random_tags(chances),
        )
        for k in range(chances.randint(2, 4))
    }  # fmt: skip
    there["first"] = builders.rbd("node1", memory=1000)
    document = _cluster(chances, there)
    names = [name for name, one in there.items() if one["nodes"] == ["node1"]]
    request = {"type": "node-evacuate", "evac_mode": "all", "instances": names}
    return document | {"request": request}


def _all_ways(document: Json, sizes: Mapping[str, int], targets: list[str]) -> Iterator[Homes]:
    """Yield each placement of all `sizes` on `targets` that fits the memory."""
    for chosen in itertools.product(targets, repeat=len(sizes)):
        used = dict.fromkeys(targets, 0)
        for node, size in zip(chosen, sizes.values()):
            used[node] += size
        room = {name: document["nodes"][name]["free_memory"] for name in targets}
        if all(room[name] > amount for name, amount in used.items() if amount):
            yield dict(zip(sizes, chosen))


def _staying(document: Json, moved: Mapping[str, int]) -> Homes:
    return {n: i["nodes"][0] for n, i in document["instances"].items() if n not in moved}


def _check(document: Json, sizes: Mapping[str, int], targets: list[str], places: Homes) -> bool:
    """Check that `places` violates no hard constraint; return whether all can be placed."""
    staying = _staying(document, sizes)
    before = violated_hard(document, staying)
    homes = staying | {n: i["nodes"][0] for n, i in document["instances"].items() if n in sizes}
    held = violated_hard(document, homes)
    assert violated_hard(document, homes | places) <= held, places
    possible = any(
        violated_hard(document, staying | way) <= before
        for way in _all_ways(document, sizes, targets)
    )
    assert possible == (set(places) == set(sizes)), (possible, places)
    return possible


@pytest.mark.parametrize("seed", range(3))
def test_batch_is_placed_if_and_only_if_all_can_be(seed: int) -> None:
    """A batch is placed completely if and only if some placement satisfies all constraints."""
    chances = random.Random(seed)
    outcomes = set()
    for _ in range(CASES):
        document = _batch(chances)
        response = respond(document, "--n1=off")
        placed = response["result"][0] if response["result"] else []
        sizes = {one["name"]: one["memory"] for one in document["request"]["instances"]}
        places = {name: nodes[0] for name, nodes in placed}
        outcomes.add(_check(document, sizes, list(document["nodes"]), places))
    assert outcomes == {True, False}


@pytest.mark.parametrize("seed", range(3))
def test_evacuation_moves_all_if_and_only_if_all_can_move(seed: int) -> None:
    """An evacuation moves all instances if and only if some plan satisfies all constraints."""
    chances = random.Random(100 + seed)
    outcomes = set()
    for _ in range(CASES):
        document = _evacuation(chances)
        response = respond(document, "--n1=off")
        names = document["request"]["instances"]
        sizes = {name: document["instances"][name]["memory"] for name in names}
        places = {name: nodes[0] for name, _, nodes in response["result"][0]}
        targets = [name for name in document["nodes"] if name != "node1"]
        outcomes.add(_check(document, sizes, targets, places))
    assert outcomes == {True, False}


def test_order_of_keys_changes_no_answer() -> None:
    """The answer is byte-equal for any order of nodes, instances and tags in the document."""
    chances = random.Random(7)
    for make in (_batch, _evacuation):
        for _ in range(10):
            document = make(chances)
            first = answer(json.dumps(document).encode(), ["--n1=off"])
            for part in ("nodes", "instances"):
                names = list(document[part])
                chances.shuffle(names)
                document[part] = {name: document[part][name] for name in names}
            assert answer(json.dumps(document).encode(), ["--n1=off"]) == first
