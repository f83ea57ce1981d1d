"""Test that `squeeze` makes only live moves, and checks them against every limit."""

from __future__ import annotations

import json
from random import Random

import pytest

from iallocator.planners.squeeze.feasibility import Attempt, Feasibility
from tests.builders import Json, cluster, instance, rbd
from tests.command import json_of
from tests.property.limits import broken_soft
from tests.property.plain import Plain
from tests.seeds import seeds

from .failures import intolerable

OPTIONS = ("--json", "--verify-plan", "--master-node=node1", "--target-resources=0.1",
           "--minimal-resources=0")  # fmt: skip
MIGRATION = "htools:migration:os"
GENERATIONS = ("os:old", "os:new")
SEEDS = seeds(14, 40)


def _tagged(seed: int, migration: bool = False, exclusion: bool = False) -> Json:
    """Return a cluster with nodes that can be freed, and tags that prevent some moves."""
    rng = Random(f"squeeze limits/{seed}")
    count = rng.randint(3, 6)
    names = [f"node{k}" for k in range(1, count + 1)]
    instances = {
        f"i{k}": rbd(
            rng.choice(names),
            memory=rng.choice((256, 512, 1024)),
            vcpus=rng.choice((1, 2, 6)),
            tags=[f"service:{rng.choice('ab')}"] if exclusion and rng.random() < 0.5 else [],
        )
        for k in range(rng.randint(3, 9))
    }
    document = cluster(count, memory=10000, instances=instances)
    document["cluster_tags"] = [MIGRATION, "htools:iextags:service"]
    for name in names if migration else ():
        document["nodes"][name]["tags"] = [rng.choice(GENERATIONS)]
    return document


def _squeeze(document: Json, *options: str) -> Json:
    """Return the plan of squeeze, verified by the model."""
    return json_of("squeeze", *OPTIONS, *options, document=document)


@pytest.mark.parametrize("search", ["--exact-search=yes", "--exact-search=no"])
def test_squeeze_keeps_migration_tags_when_it_frees_nodes(search: str) -> None:
    """`squeeze` moves an instance only between nodes with compatible migration tags."""
    moves = 0
    for seed in SEEDS:
        document = _tagged(seed, migration=True)
        tags = {name: node["tags"] for name, node in document["nodes"].items()}
        plan = _squeeze(document, search, "--n1=off")
        for move in plan["moves"]:
            moves += 1
            assert tags[move["from"][0]] == tags[move["to"][0]], (seed, move)
    assert moves > 20


@pytest.mark.parametrize("search", ["--exact-search=yes", "--exact-search=no"])
def test_squeeze_keeps_soft_limits_when_it_frees_nodes(search: str) -> None:
    """`squeeze` makes no move that violates an exclusion tag or the cpu ratio."""
    moves = 0
    for seed in SEEDS:
        document = _tagged(seed, exclusion=True)
        plain = Plain(document)
        plan = _squeeze(document, search, "--n1=off")
        for move in plan["moves"]:
            moves += 1
            raw = document["instances"][move["instance"]]
            assert broken_soft(plain, move["instance"], raw, move["to"]) == [], (seed, move)
    assert moves > 20


def test_squeeze_ignores_soft_limits_on_request() -> None:
    """With --ignore-soft-errors, `squeeze` may violate exclusion tags."""
    held = {f"i{k}": rbd(f"node{k}", tags=["service:a"]) for k in (1, 2)}
    document = cluster(2, instances=held, tags=("htools:iextags:service",))
    plan = _squeeze(document, "--n1=off")
    assert plan["switched_nodes"] == []
    assert "i2" in plan["kept"][-1]["reason"]
    plan = _squeeze(document, "--n1=off", "--ignore-soft-errors")
    assert plan["switched_nodes"] == ["node2"]


def test_squeeze_off_a_dead_node_ignores_soft_limits() -> None:
    """`squeeze` moves instances off an offline node regardless of exclusion tags."""
    held = {f"i{k}": rbd(f"node{k}", tags=["service:a"]) for k in (1, 2)}
    document = cluster(
        3, instances=held, tags=("htools:iextags:service",), changes={"node2": {"offline": True}}
    )
    plan = _squeeze(document, "--n1=off")
    assert plan["switched_nodes"] == ["node3"]
    assert [(m["instance"], m["to"]) for m in plan["moves"]] == [("i2", ["node1"])]


def _carried_out(document: Json, plan: Json) -> Json:
    """Return the document after executing a plan."""
    after: Json = json.loads(json.dumps(document))
    for move in plan["moves"]:
        one = after["instances"][move["instance"]]
        one["nodes"] = move["to"]
        after["nodes"][move["from"][0]]["free_memory"] += one["memory"]
        after["nodes"][move["to"][0]]["free_memory"] -= one["memory"]
    for name in plan["switched_nodes"]:
        after["nodes"][name]["offline"] = True
    return after


@pytest.mark.parametrize(
    "search", [pytest.param("--exact-search=yes", marks=pytest.mark.slow), "--exact-search=no"]
)
def test_squeeze_keeps_every_tolerated_failure_tolerated(search: str) -> None:
    """`squeeze` keeps every tolerated failure tolerated; with strict, all are tolerated."""
    freed = {"no-new": 0, "strict": 0, "off": 0}
    for seed in SEEDS:
        document = _tagged(seed)
        before = intolerable(document)
        for mode in freed:
            plan = _squeeze(document, search, f"--n1={mode}")
            freed[mode] += len(plan["switched_nodes"])
            after = intolerable(_carried_out(document, plan))
            assert mode == "off" or after <= before, (seed, mode)
            assert mode != "strict" or not plan["switched_nodes"] or not after, seed
    assert freed["off"] > freed["no-new"] >= freed["strict"] > 0


def test_squeeze_names_the_failure_that_keeps_a_node_on() -> None:
    """If N+1 keeps a node on, the reason names the failing node and the lost instance."""
    held = {f"i{k}": rbd(f"node{k}") for k in (1, 2)}
    document = cluster(2, instances=held)
    plan = _squeeze(document)
    assert plan["switched_nodes"] == []
    (kept,) = (one["reason"] for one in plan["kept"] if one["node"] == "node2")
    assert "the failure of node1 would not be tolerated" in kept
    assert _squeeze(document, "--n1=off")["switched_nodes"] == ["node2"]


def test_squeeze_checks_each_group_by_its_own_tags() -> None:
    """`squeeze` ignores N+1 in a group with the tag for that, but not in the other group."""
    held = {f"i{k}": rbd(f"node{k}") for k in (1, 2, 3, 4)}
    document = cluster({"careful": 2, "careless": 2}, instances=held)
    document["nodegroups"]["uuid-careless"]["tags"] = ["iallocator:n1:off"]
    assert _squeeze(document)["switched_nodes"] == ["node3"]


def test_squeeze_with_compat_hail_ignores_n1() -> None:
    """With --compat hail, `squeeze` does not check N+1, unless --n1 is given."""
    held = {f"i{k}": rbd(f"node{k}") for k in (1, 2)}
    document = cluster(2, instances=held)
    assert _squeeze(document, "--compat=hail")["switched_nodes"] == ["node2"]
    plan = _squeeze(document, "--compat=hail", "--n1=strict")
    assert plan["switched_nodes"] == []


def test_squeeze_moves_instances_of_a_standby_node_after_it_is_powered_on() -> None:
    """`squeeze` fails an instance over from a standby node after it has powered the node on."""
    full = {f"full{k}": rbd("node1", memory=1900) for k in range(4)}
    left = {f"left{k}": rbd("node2", memory=900) for k in range(6)}
    asleep = {"node2": {"offline": True, "tags": ["htools:standby:auto"]}}
    document = cluster(2, memory=8192, instances=full | left, changes=asleep)
    plan = _squeeze(document, "--target-resources=1", "--minimal-resources=1")
    assert (plan["action"], plan["switched_nodes"]) == ("online", ["node2"])
    steps = plan["transition"]["steps"]
    (online,) = (step["number"] for step in steps if step["kind"] == "online")
    moved = [step for step in steps if step.get("from") == ["node2"]]
    assert moved
    assert all(step["kind"] == "failover" and online < step["number"] for step in moved)


def test_squeeze_respects_moves_of_other_groups() -> None:
    """`squeeze` keeps instances of two groups in different rooms, though both groups move.

    Each of the instances alone could move to the third room.
    """
    apart = ["iallocator:separate:must:web:room"]
    rooms = {"node1": "room:1", "node2": "room:3", "node3": "room:2", "node4": "room:3"}
    at = {"web1": 1, "a": 2, "b": 2, "web2": 3, "c": 4, "d": 4}
    document = cluster(
        {"east": 2, "west": 2},
        instances={
            name: rbd(f"node{number}", tags=apart * name.startswith("web"))
            for name, number in at.items()
        },
        changes={name: {"tags": [room]} for name, room in rooms.items()},
    )
    options = ("--target-resources=0.5", "--minimal-resources=0.2", "--n1=off")
    plan = json_of("squeeze", "--verify-plan", *options, document=document)
    assert plan["switched_nodes"] == ["node1", "node4"]
    homes = {move["instance"]: move["to"][0] for move in plan["moves"]}
    assert homes["web1"] == "node2"
    assert "web2" not in homes


def _mirrored(seed: int) -> Json:
    """Return drbd instances in a cluster with nodes that allow migrations in one direction only."""
    rng = Random(f"squeeze steps/{seed}")
    count = rng.randint(3, 6)
    names = [f"node{k}" for k in range(1, count + 1)]
    instances = {
        f"i{k}": instance(*rng.sample(names, 2), memory=rng.choice((256, 512, 1024)))
        for k in range(rng.randint(2, 8))
    }
    cycle = ("os:old", "os:new", "os:mid")
    ways = [f"htools:allowmigration:{a}::{b}" for a, b in zip(cycle, (*cycle[1:], cycle[0]))]
    document = cluster(count, memory=10000, instances=instances)
    document["cluster_tags"] = [MIGRATION, *rng.sample(ways, rng.randint(0, 3))]
    for name in names:
        document["nodes"][name]["tags"] = [rng.choice(cycle)]
    return document


@pytest.mark.parametrize("mode", ["off", "no-worse", "strict"])
def test_squeeze_moves_of_several_steps_keep_the_limits_at_every_step(mode: str) -> None:
    """Each step of a move of squeeze respects migration tags, also for drbd instances."""
    freed = 0
    for seed in seeds(60, 400, 500):
        plan = _squeeze(_mirrored(seed), "--drbd", f"--n1={mode}")
        freed += len(plan["switched_nodes"])
    assert freed > 40


def test_squeeze_takes_another_route_if_a_step_is_forbidden() -> None:
    """`squeeze` copies the disks first if an instance cannot migrate to its secondary."""
    tags = {"node1": "os:new", "node2": "os:new", "node3": "os:old"}
    document = cluster(
        3,
        instances={"web": instance("node2", "node3"), "here": instance("node1")},
        changes={name: {"tags": [tag]} for name, tag in tags.items()},
        tags=(MIGRATION,),
    )
    plan = _squeeze(document, "--drbd", "--n1=off")
    assert plan["switched_nodes"] == ["node2"]
    assert [move["move"] for move in plan["moves"]] == ["r:node1 f", "r:node3"]


def test_squeeze_group_with_a_wrong_plan_keeps_the_plans_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If the verifier rejects the plan of one group, `squeeze` keeps the plans of the others."""
    moves = "iallocator.planners.squeeze.emptying._Packing._allows"
    monkeypatch.setattr(moves, lambda *_: True)
    monkeypatch.setattr(Feasibility, "_ways", lambda *_: [[]])
    monkeypatch.setattr(Attempt, "follow", lambda attempt, _: setattr(attempt, "problem", "wrong"))
    monkeypatch.setattr(Feasibility, "_exactly", lambda _, near: near.outcome())
    held = {f"i{k}": rbd(f"node{k}") for k in (1, 2, 3, 4)}
    tags = {"node1": "os:old", "node2": "os:new", "node3": "os:new", "node4": "os:new"}
    document = cluster(
        {"mixed": 2, "alike": 2},
        instances=held,
        changes={name: {"tags": [tag]} for name, tag in tags.items()},
        tags=(MIGRATION,),
    )
    plan = json_of("squeeze", *OPTIONS, "--n1=off", document=document, status=1)
    assert plan["switched_nodes"] == ["node3"]
    assert [move["instance"] for move in plan["moves"]] == ["i3"]
    (kept,) = (one["reason"] for one in plan["kept"] if one["node"] == "node2")
    assert "node1 does not receive what node2 requires: os:new" in kept
