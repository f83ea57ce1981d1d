"""Test Pacemaker's strategies in Ganeti's requests against a simple implementation."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from iallocator.cli import answer
from tests.builders import (
    Json,
    allocate,
    allocate_rbd,
    as_bytes,
    cluster,
    group,
    instance,
    node,
    rbd,
)

from .pacemaker import KINDS
from .plain_rules import best_node

SEEDS = range(12)
every_kind = pytest.mark.parametrize("kind", KINDS)


def ask(document: Json, kind: str, *options: str) -> Json:
    """Return the answer to `document` with the Pacemaker strategy `kind`."""
    arguments = [f"--strategy=pacemaker-{kind}", "--exact-search=no", *options]
    found: Json = json.loads(answer(as_bytes(document), arguments))
    return found


def scored(document: Json) -> Json:
    """Return the answer by score, with all possible placements of the instance."""
    found: Json = json.loads(answer(as_bytes(document), ["--top=1000"]))
    return found


def scenario(seed: int, tagged: bool, nodes: Any = 6) -> Json:
    """Return a cluster with instances; with `tagged`, all objects have tags of every kind."""
    random = Random(seed)
    names = [f"node{n}" for n in range(1, 7)]
    instances = {}
    for number in range(random.randint(3, 12)):
        group = names[:3] if nodes != 6 and random.random() < 0.5 else names[3:]
        where = random.sample(group if nodes != 6 else names, 2)
        template = random.choice(["drbd", "rbd", "plain"])
        instances[f"old{number}"] = instance(
            *where[: 2 if template == "drbd" else 1], disk_template=template,
            memory=random.choice([512, 1024, 2048]), vcpus=random.choice([1, 2]),
            disk=random.choice([1024, 4096]), tags=_needs(random) if tagged else [],
        )  # fmt: skip
    document = cluster(nodes, memory=20480, instances=instances)
    if tagged:
        for node in document["nodes"].values():
            node["tags"] = [
                f"iallocator:utilization:{name}:{random.randint(4, 20)}" for name in ("a", "b")
            ]
            if random.random() < 0.3:
                node["tags"].append(f"iallocator:score:{random.choice([-1, 4])}")
    return document


def _needs(random: Random) -> list[str]:
    return [f"iallocator:utilization:{name}:{random.randint(0, 3)}" for name in ("a", "b")]


def described(seed: int, tagged: bool) -> Json:
    """Return random tags for a new instance: scores of nodes, and needs with `tagged`."""
    random = Random(f"new{seed}")
    tags = _needs(random) if tagged else []
    if random.random() < 0.5:
        tags.append(f"iallocator:score:node{random.randint(1, 6)}:{random.choice([-3, 2])}")
    return {"tags": tags}


@every_kind
@pytest.mark.parametrize("tagged", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_new_instance_goes_to_the_node_that_the_rules_choose(
    kind: str, tagged: bool, seed: int
) -> None:
    """A new instance gets the node that Pacemaker's rules choose of the possible nodes."""
    document = allocate_rbd(scenario(seed, tagged), **described(seed, tagged))
    possible = [p["nodes"][0] for p in scored(document)["solutions"][0].get("placements", [])]
    best = best_node(document, document["request"], possible, kind)
    found = ask(document, kind)
    assert found["result"] == ([best] if best else [])
    if best is None and possible:
        assert found["solutions"][0]["failures"]["FailStrategy"] == len(possible)


@every_kind
@pytest.mark.parametrize("seed", SEEDS)
def test_pair_is_the_best_primary_and_then_the_best_secondary(kind: str, seed: int) -> None:
    """A drbd instance gets the best primary by the rules, then the best secondary for it."""
    tagged = seed % 2 == 0
    document = allocate(scenario(seed, tagged), memory=4096, **described(seed, tagged))
    pairs = [p["nodes"] for p in scored(document)["solutions"][0].get("placements", [])]
    one, expected = document["request"], []
    seconds = {s for _, s in pairs if best_node(document, one, [s], kind)}
    firsts = sorted({p for p, s in pairs if s in seconds})
    first = best_node(document, one, firsts, kind)
    if first is not None:
        second = best_node(document, one, [s for p, s in pairs if p == first], kind)
        assert second is not None
        expected = [first, second]
    assert ask(document, kind)["result"] == expected


@every_kind
@pytest.mark.parametrize("seed", SEEDS)
def test_moves_go_to_the_node_that_the_rules_choose(kind: str, seed: int) -> None:
    """`relocate` and `node-evacuate` choose the best node by Pacemaker's rules."""
    document = scenario(seed, seed % 2 == 0)
    mobile = [n for n, i in document["instances"].items() if i["disk_template"] == "rbd"]
    for name in mobile[:3]:
        source = document["instances"][name]["nodes"][0]
        for request in (
            {"type": "relocate", "name": name, "required_nodes": 1, "relocate_from": [source]},
            {"type": "node-evacuate", "instances": [name], "evac_mode": "primary-only"},
        ):
            asked = {**document, "request": request}
            ways = scored(asked)["solutions"][0].get("alternatives", [])
            possible = [way["nodes"][0] for way in ways]
            best = best_node(document, document["instances"][name], possible, kind)
            entry = ask(asked, kind)["solutions"][0]
            assert entry["nodes"] == ([best] if best else [])


@every_kind
@pytest.mark.parametrize("seed", SEEDS)
def test_new_secondary_is_the_best_by_the_rules(kind: str, seed: int) -> None:
    """A new secondary is the best node by Pacemaker's rules; the primary stays."""
    document = scenario(seed, seed % 2 == 0)
    mirrored = [n for n, i in document["instances"].items() if i["disk_template"] == "drbd"]
    for name in mirrored[:2]:
        first, second = document["instances"][name]["nodes"]
        request = {
            "type": "relocate", "name": name, "required_nodes": 1, "relocate_from": [second],
        }  # fmt: skip
        asked = {**document, "request": request}
        ways = scored(asked)["solutions"][0].get("alternatives", [])
        possible = [way["nodes"][1] for way in ways]
        best = best_node(document, document["instances"][name], possible, kind)
        assert ask(asked, kind)["solutions"][0]["nodes"] == ([first, best] if best else [])


@every_kind
@pytest.mark.parametrize("seed", SEEDS)
def test_group_is_that_of_the_best_node(kind: str, seed: int) -> None:
    """`change-group` and `allocate` choose the group that has the best node by the rules."""
    document = scenario(seed, seed % 2 == 0, {"default": 3, "annex": 3})
    asked = allocate_rbd(document, **described(seed, seed % 2 == 0))
    possible = [
        placed["nodes"][0]
        for group in scored(asked)["solutions"]
        for placed in group.get("placements", [])
    ]
    best = best_node(document, asked["request"], possible, kind)
    assert ask(asked, kind)["result"] == ([best] if best else [])
    for name, one in document["instances"].items():
        if one["disk_template"] != "rbd":
            continue
        home = document["nodes"][one["nodes"][0]]["group"]
        others = [n for n, node in document["nodes"].items() if node["group"] != home]
        request = {"type": "change-group", "instances": [name], "target_groups": []}
        entry = ask({**document, "request": request}, kind)["solutions"][0]
        expected = best_node(document, one, others, kind)
        assert entry["nodes"] == ([expected] if expected else [])


def test_batch_chooses_by_priority_and_is_reported_in_the_order_of_the_request() -> None:
    """A batch is placed by priority, and reported in the order of the request."""
    document = cluster(nodes=2, memory=65536)
    for name, amount in (("node1", 2), ("node2", 3)):
        document["nodes"][name]["tags"] = [f"iallocator:utilization:x:{amount}"]
    wanted = []
    for name, need in (("small", 1), ("large", 3)):
        one = allocate_rbd({}, name=name)["request"]
        del one["type"]
        one["tags"] = [f"iallocator:utilization:x:{need}", f"iallocator:priority:{need}"]
        wanted.append(one)
    document["request"] = {"type": "multi-allocate", "instances": wanted}
    assert ask(document, "balanced")["result"] == [
        [["small", ["node1"]], ["large", ["node2"]]], [],
    ]  # fmt: skip
    for one in wanted:
        one["tags"].pop()
    assert ask(document, "balanced")["result"] == [[["small", ["node2"]]], ["large"]]


def test_colocation_group_goes_to_a_node_with_capacity_for_all() -> None:
    """A colocation group gets a node with capacity for all of its members."""
    document = cluster(nodes=2, memory=65536)
    for name, amount in (("node1", 2), ("node2", 4)):
        document["nodes"][name]["tags"] = [f"iallocator:utilization:x:{amount}"]
    wanted = []
    for name in ("web1", "web2"):
        one = allocate_rbd({}, name=name)["request"]
        del one["type"]
        one["tags"] = ["iallocator:utilization:x:2", "iallocator:colocate:must:web"]
        wanted.append(one)
    document["request"] = {"type": "multi-allocate", "instances": wanted}
    assert ask(document, "minimal")["result"] == [
        [["web1", ["node2"]], ["web2", ["node2"]]], [],
    ]  # fmt: skip


def test_order_of_moves_does_not_depend_on_another_group() -> None:
    """A drained node of another group does not change the order of moves."""
    together = {"tags": ["iallocator:colocate:must:web"]}
    document = cluster(
        3,
        memory=16384,
        instances={
            "web1": rbd("node1", **together),
            "web2": rbd("node1", **together),
            "free": rbd("node1"),
        },
    )
    document["request"] = {
        "type": "node-evacuate", "instances": ["web1", "web2", "free"], "evac_mode": "all",
    }  # fmt: skip
    alone = ask(document, "utilization")["result"]
    document["nodegroups"]["uuid-other"] = group("other", alloc_policy="unallocable")
    document["nodes"]["zzz"] = node("other", offline=True)
    assert [move[0] for move in alone[0]] == ["web1", "web2", "free"]
    assert ask(document, "utilization")["result"] == alone
