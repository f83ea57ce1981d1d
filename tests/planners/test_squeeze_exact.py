"""Test exact search in squeeze where moves one after the other do not free a node."""

from __future__ import annotations

import itertools
import json
import random

import pytest

from tests import builders
from tests.builders import Json
from tests.command import json_of

pytest.importorskip("highspy")


OPTIONS = ("--json", "--verify-plan", "--n1=off", "--target-resources=1",
           "--minimal-resources=0.5")  # fmt: skip
MEMORY = 8192
STANDARD = 1024
"""MiB of memory of the standard instance in `builders.policy`."""


def _cluster(seed: int) -> Json:
    """Return a random, nearly full cluster of instances on shared storage."""
    rng = random.Random(seed)
    while True:
        count = rng.randint(3, 5)
        instances = {
            f"i{n}": builders.rbd(
                f"node{rng.randint(1, count)}",
                memory=rng.choice((1024, 2048, 3072, 4096)),
            )
            for n in range(rng.randint(3, 7))
        }
        document = builders.cluster(nodes=count, memory=MEMORY, instances=instances)
        document["ipolicy"]["std"]["memory-size"] = STANDARD
        for group in document["nodegroups"].values():
            group["ipolicy"]["std"]["memory-size"] = STANDARD
        if all(node["free_memory"] > STANDARD for node in document["nodes"].values()):
            return document


def _squeeze(document: Json, *options: str) -> Json:
    """Return the plan of squeeze, verified by the model, with the fullest node as master."""
    homes = [one["nodes"][0] for one in document["instances"].values()]
    master = max(sorted(document["nodes"]), key=homes.count)
    return json_of("squeeze", *OPTIONS, f"--master-node={master}", *options, document=document)


def test_exact_search_keeps_instances_apart() -> None:
    """`squeeze` with exact search keeps separated instances apart and frees no fewer nodes."""
    more = 0
    for seed in range(65, 85):
        document = _cluster(seed)
        homes: dict[str, str] = {}
        for name, one in document["instances"].items():
            if one["nodes"][0] not in homes.values() and len(homes) < 2:
                homes[name] = one["nodes"][0]
                one["tags"] = ["iallocator:separate:must:web"]
        greedy = _squeeze(document, "--exact-search=no")
        exact = _squeeze(document)
        assert len(exact["switched_nodes"]) >= len(greedy["switched_nodes"]), seed
        more += len(exact["switched_nodes"]) > len(greedy["switched_nodes"])
        homes |= {m["instance"]: m["to"][0] for m in exact["moves"] if m["instance"] in homes}
        assert len(set(homes.values())) == len(homes), seed
    assert more > 0


def _freeable(document: Json, off: set[str]) -> bool:
    """Return whether some placement empties the nodes `off` and keeps a reserve on the others."""
    names = [name for name in document["nodes"] if name not in off]
    sizes = [one["memory"] for one in document["instances"].values()]
    room = MEMORY - STANDARD
    return any(
        all(
            sum(size for size, taken in zip(sizes, choice) if taken == name) < room
            for name in names
        )
        for choice in itertools.product(names, repeat=len(sizes))
    )


def test_exact_search_frees_all_possible_nodes_and_proves_it() -> None:
    """`squeeze` with exact search frees all nodes that brute force frees, and proves that."""
    more = proofs = 0
    for seed in (*range(30), 77, 122):
        document = _cluster(seed)
        greedy = _squeeze(document, "--exact-search=no")
        exact = _squeeze(document)
        assert len(exact["switched_nodes"]) >= len(greedy["switched_nodes"])
        more += len(exact["switched_nodes"]) > len(greedy["switched_nodes"])
        freed = set(exact["switched_nodes"])
        rest = [name for name in document["nodes"] if name not in freed]
        for name in rest if len(rest) > 1 else []:
            assert not _freeable(document, freed | {name}), (seed, name)
        proofs += "proved: no arrangement" in json.dumps(exact)
    assert more > 0
    assert proofs > 0


def _with_units(seed: int) -> Json:
    """Return four nodes; the first two instances of each node are a colocation group."""
    rng = random.Random(seed)
    instances = {
        f"i{n}": builders.rbd(
            f"node{rng.randint(1, 4)}",
            memory=rng.choice((1024, 2048, 3072)),
        )
        for n in range(rng.randint(4, 8))
    }
    homes: dict[str, list[str]] = {}
    for name, one in instances.items():
        homes.setdefault(one["nodes"][0], []).append(name)
    for home, names in homes.items():
        for name in names[:2] if len(names) > 1 else ():
            instances[name]["tags"] = [f"iallocator:colocate:must:{home}"]
    document = builders.cluster(4, memory=MEMORY, instances=instances)
    for holder in (document, *document["nodegroups"].values()):
        holder["ipolicy"]["std"]["memory-size"] = STANDARD
    return document


@pytest.mark.parametrize("seed", [244, 682])
def test_exact_search_moves_units_together(seed: int) -> None:
    """`squeeze` with exact search moves colocation groups as a whole to free one more node."""
    document = _with_units(seed)
    greedy = _squeeze(document, "--exact-search=no")
    exact = _squeeze(document)
    assert len(exact["switched_nodes"]) > len(greedy["switched_nodes"])
    assert any(len(move.get("unit", ())) > 1 for move in exact["moves"])
    homes = {name: one["nodes"][0] for name, one in document["instances"].items()}
    homes |= {move["instance"]: move["to"][0] for move in exact["moves"]}
    units: dict[str, set[str]] = {}
    for name, one in document["instances"].items():
        for tag in one["tags"]:
            units.setdefault(tag, set()).add(homes[name])
    assert all(len(nodes) == 1 for nodes in units.values())
