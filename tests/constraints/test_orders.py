"""Test orders of starts between instances in transitions."""

from __future__ import annotations

from typing import Any

import pytest

from tests import builders
from tests.builders import Json
from tests.command import dependencies, json_of, respond
from tests.model.make import model_of


def _shared(node: str, *tags: str, memory: int = 2048, **members: Any) -> Json:
    return builders.rbd(node, memory=memory, tags=list(tags), **members)


def _evacuated(instances: dict[str, Json], *names: str, nodes: int = 3) -> Json:
    """Return the answer to an evacuation of the instances `names`."""
    document = builders.cluster(nodes=nodes, memory=16384, instances=instances)
    request = {"type": "node-evacuate", "evac_mode": "all", "instances": list(names)}
    return respond(document | {"request": request}, "--n1=off")


def _waits(transition: Json) -> dict[str, set[str]]:
    """Return for each instance the instances that its steps depend on."""
    steps = {step["number"]: step for step in transition["steps"]}
    waits: dict[str, set[str]] = {}
    for step in steps.values():
        before = dependencies(step)
        names = {steps[number].get("instance", "") for number in before}
        waits.setdefault(step.get("instance", ""), set()).update(names)
    return waits


@pytest.mark.parametrize("kind", ["after", "should-after"])
def test_evacuation_lets_the_follower_wait(kind: str) -> None:
    """In an evacuation, the steps of an instance depend on those of its predecessor."""
    instances = {
        "app": _shared("node1", f"iallocator:order:{kind}:db"),
        "db": _shared("node1"),
        "free": _shared("node1"),
    }
    response = _evacuated(instances, "app", "db", "free")
    waits = _waits(response["transition"])
    assert waits == {"app": {"db"}, "db": set(), "free": set()}
    moved, _, jobs = response["result"]
    names = [entry[0] for entry in moved]
    depends = jobs[names.index("app")][0]["depends"]
    assert names[names.index("app") + depends[0][0]] == "db"
    strength = "must" if kind == "after" else "should"
    step = next(s for s in response["transition"]["steps"] if s["instance"] == "app")
    assert step["because"] == [f"app {strength} start after db"]


def test_evacuation_reports_the_soft_order_that_it_drops() -> None:
    """If soft orders form a cycle, an evacuation drops the last one and reports it."""
    instances = {
        "a": _shared("node1", "iallocator:order:should-after:b"),
        "b": _shared("node1", "iallocator:order:should-after:a"),
    }
    transition = _evacuated(instances, "a", "b")["transition"]
    assert sum(map(len, _waits(transition).values())) == 1
    assert any("does not wait for" in remark for remark in transition["remarks"])


def test_instance_that_cannot_be_stopped_stays_or_its_node_is_fenced() -> None:
    """An instance that cannot be stopped stays, or its node is fenced for a running follower."""
    stuck = ("iallocator:cannot-stop", "iallocator:no-force-stop")
    instances = {"db": _shared("node1", *stuck), "other": _shared("node1")}
    response = _evacuated(instances, "db", "other")
    ((name, why),) = response["result"][1]
    assert name == "db"
    assert "cannot be stopped" in why
    assert [entry[0] for entry in response["result"][0]] == ["other"]
    assert len(response["result"][2]) == 1
    instances["app"] = _shared("node2", "iallocator:order:after:db", "iallocator:keep-running")
    response = _evacuated(instances, "db", "other")
    assert response["result"][1] == []
    kinds = [step["kind"] for step in response["transition"]["steps"]]
    assert kinds.count("fence") == 1
    fence = next(s for s in response["transition"]["steps"] if s["kind"] == "fence")
    steps = {step["number"]: step for step in response["transition"]["steps"]}
    assert [steps[number]["instance"] for number in fence["after"]] == ["other"]


def test_one_of_the_two_tags_alone_changes_nothing() -> None:
    """An instance may be evacuated if only one of cannot-stop and no-force-stop is set."""
    for tag in ("iallocator:cannot-stop", "iallocator:no-force-stop"):
        response = _evacuated({"db": _shared("node1", tag)}, "db")
        assert response["result"][1] == []


def _plan(document: Json, *arguments: str) -> Json:
    return json_of(*arguments, document=document)


def test_balance_rearranges_its_moves_for_an_order() -> None:
    """The moves of balance are reordered so that an instance moves after its predecessor."""
    for first, second in (("a", "b"), ("b", "a")):
        instances = {
            first: _shared("node1", f"iallocator:order:after:{second}"),
            second: _shared("node1"),
            "stays": _shared("node1", auto_balance=False),
        }
        document = builders.cluster(nodes=3, memory=16384, instances=instances)
        plan = _plan(document, "balance", "--verify-plan")
        assert {move["instance"] for move in plan["moves"]} == {"a", "b"}
        assert _waits(plan["transition"])[first] == {second}


def test_place_passes_the_orders_to_its_transition() -> None:
    """The steps of place depend on each other in the order of starts."""
    instances = {
        "a": _shared("node1", "iallocator:order:after:b", "iallocator:score:node2:9"),
        "b": _shared("node1", "iallocator:score:node3:9"),
    }
    document = builders.cluster(nodes=3, memory=16384, instances=instances)
    plan = _plan(document, "place", "--strategy=pacemaker-default")
    assert _waits(plan["transition"]) == {"a": {"b"}, "b": set()}


def test_order_that_capacity_prevents_is_dropped_and_reported() -> None:
    """An order of starts that free capacity makes impossible is dropped and reported."""
    from iallocator.model.moves import FAILOVER_TO, Move
    from iallocator.model.state import State
    from iallocator.transition.assemble import transition_of_moves
    from iallocator.transition.resources import room

    instances = {"a": _shared("node1", memory=12000), "b": _shared("node2", memory=12000)}
    cluster = model_of(builders.cluster(nodes=3, memory=16384, instances=instances))
    a, b = cluster.instances
    moves = [Move(b, (1,), (2,), [(FAILOVER_TO, 2)]), Move(a, (0,), (1,), [(FAILOVER_TO, 1)])]
    left = room(State(cluster))
    kept = transition_of_moves(cluster, left, moves, orders=[("b", "a", "must")])
    assert kept.remarks == []
    dropped = transition_of_moves(cluster, left, moves, orders=[("a", "b", "must")])
    assert dropped.remarks == ["b does not wait for a: no room in that order"]
    assert [step.after for step in dropped.steps] == [[], [1]]


OFF = {"node1": {"offline": True}, "node3": {"offline": True}}
"""Nodes that are offline: all on which instances of `_after_dead` run."""


def _after_dead() -> Json:
    """Return instances on offline nodes; one must start after a stopped instance.

    Another one must start after an instance that moves.
    """
    instances = {
        "app": _shared("node1", "iallocator:order:after:db"),
        "base": _shared("node3"),
        "db": _shared("node2") | {"admin_state": "down"},
        "web": _shared("node1", "iallocator:order:after:base"),
    }
    return builders.cluster(4, instances=instances, changes=OFF)


@pytest.mark.parametrize(
    ("request_", "reported"),
    [
        (
            {"type": "node-evacuate", "instances": ["app", "web"], "evac_mode": "primary-only"},
            [
                "; app starts after db (tag iallocator:order:after:db), which does not run",
                "; web starts after base (tag iallocator:order:after:base), which is on node3, ",
            ],
        ),
        (
            {"type": "node-evacuate", "instances": ["base", "web"], "evac_mode": "all"},
            [],
        ),
        (
            {"type": "relocate", "name": "app", "required_nodes": 1, "relocate_from": ["node1"],
             "disk_space_total": 0},
            ["; app starts after db (tag iallocator:order:after:db), which does not run"],
        ),
    ],
    ids=["evacuate", "base starts too", "relocate"],
)  # fmt: skip
def test_move_off_a_dead_node_names_the_instance_that_never_starts(
    request_: Json, reported: list[str]
) -> None:
    """A move off an offline node reports a predecessor that is stopped, or offline too."""
    info = respond(_after_dead() | {"request": request_})["info"]
    assert all(text in info for text in reported)
    assert info.count("starts after") == len(reported)


def test_place_starts_instances_that_must_start_after_one_that_it_starts() -> None:
    """`place` starts an instance that must start after another one, unless that one is stopped."""
    options = ("--strategy=minimal", "--exact-search=no")
    placement = json_of("place", "--verify-plan", *options, document=_after_dead())["placement"]
    assert {placement["web"], placement["base"]} <= {"node2", "node4"}
    assert placement["app"] is None
