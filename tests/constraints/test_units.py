"""Test that `balance` moves colocation groups as a unit, and repairs hard constraints."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests import builders
from tests.builders import Json
from tests.command import plan_of
from tests.constraints.scenarios import (
    held_after_units,
    homes_after,
    random_document,
    violated_hard,
)
from tests.seeds import seeds

PAIR = ["iallocator:colocate:must:web"]
APART = ["iallocator:separate:must:db"]


def shared(node: str, memory: int = 2048, **members: Any) -> Json:
    """Return an instance of `memory` MiB on shared storage on `node`."""
    return builders.rbd(node, memory=memory, **members)


def drbd(primary: str, secondary: str, memory: int = 1024, **members: Any) -> Json:
    """Return a drbd instance of `memory` MiB."""
    return builders.instance(primary, secondary, memory=memory, disk_template="drbd", **members)


def test_balance_moves_a_unit_with_consecutive_moves() -> None:
    """`balance` moves a colocation group off a full node with consecutive moves."""
    document = builders.cluster(
        nodes=2, memory=16384,
        instances={"a": shared("node1", tags=PAIR), "b": shared("node1", tags=PAIR),
                   "big": shared("node1", 6000, auto_balance=False)},
    )  # fmt: skip
    plan = plan_of("balance", document)
    assert [(m["instance"], m["to"], m["unit"]) for m in plan["moves"]] == [
        ("a", ["node2"], ["a", "b"]), ("b", ["node2"], ["a", "b"])
    ]  # fmt: skip
    assert plan["scores"]["after"] < plan["scores"]["before"]
    alone = plan_of("balance", document, "--max-length=1")
    assert alone["moves"] == []


@pytest.mark.parametrize("secondaries", [("node2", "node2"), ("node2", "node3")])
def test_balance_moves_a_drbd_group_off_a_drained_node(
    secondaries: tuple[str, str],
) -> None:
    """`balance` moves a drbd colocation group off a drained node.

    With a common secondary the group fails over; otherwise a common one is created first.
    """
    document = builders.cluster(
        nodes=3,
        instances={
            name: drbd("node1", secondary, tags=PAIR) for name, secondary in zip("ab", secondaries)
        },
    )
    document["nodes"]["node1"]["drained"] = True
    homes = homes_after(document, plan := plan_of("balance", document))
    assert homes["a"] == homes["b"] != "node1"
    assert all("node1" not in nodes for nodes in _last_nodes(plan).values())


def _last_nodes(plan: Json) -> dict[str, list[str]]:
    return {move["instance"]: move["to"] for move in plan["moves"]}


def test_balance_with_cost_counts_all_of_a_unit() -> None:
    """With a limit of traffic for one of two members, `balance` moves neither of them."""
    document = builders.cluster(
        nodes=2, memory=16384,
        instances={name: shared("node1", tags=PAIR) for name in "ab"}
        | {"big": shared("node1", 6000, auto_balance=False)},
    )  # fmt: skip
    assert plan_of("balance", document, "--cost=3")["moves"] == []
    assert len(plan_of("balance", document, "--cost=4")["moves"]) == 2


def test_balance_does_not_move_half_of_a_unit_that_is_excluded() -> None:
    """If one member of a colocation group must not move, `balance` moves none."""
    document = builders.cluster(nodes=2, instances={n: shared("node1", tags=PAIR) for n in "ab"})
    document["nodes"]["node1"]["drained"] = True
    assert plan_of("balance", document, "--exclude-instances=b")["moves"] == []
    assert len(plan_of("balance", document, "--n1=off")["moves"]) == 2


def test_balance_moves_a_pair_that_must_share_a_rack_to_another_rack() -> None:
    """`balance` moves two instances that must share a rack off a drained rack together."""
    bound = ["iallocator:colocate:must:app:rack"]
    document = builders.cluster(
        nodes=4, instances={"a": shared("node1", tags=bound), "b": shared("node2", tags=bound)}
    )
    for number, node in enumerate(document["nodes"].values()):
        node["tags"] = [f"rack:{number // 2}"]
        node["drained"] = number < 2
    plan = plan_of("balance", document)
    assert {move["instance"] for move in plan["moves"]} == {"a", "b"}
    assert set(homes_after(document, plan).values()) <= {"node3", "node4"}


def test_balance_repairs_a_violated_hard_constraint_even_if_the_score_rises() -> None:
    """`balance` repairs a violated hard constraint even if the score rises.

    With hbal's moves, constraints are ignored.
    """
    document = builders.cluster(
        nodes=2, instances={"a": shared("node1", tags=PAIR), "b": shared("node2", tags=PAIR)}
    )
    plan = plan_of("balance", document)
    assert len(set(homes_after(document, plan).values())) == 1
    assert plan["scores"]["after"] > plan["scores"]["before"]
    assert plan_of("balance", document, "--compat=hail")["moves"] == []


def test_balance_repairs_no_hard_constraint_by_violating_another() -> None:
    """`balance` does not repair a hard constraint if every repair violates another one.

    `a` violates a separation from `b`, and must be separated from an instance on every node.
    """
    document = builders.cluster(
        nodes=2,
        instances={
            "a": shared("node1", tags=APART), "b": shared("node1", tags=APART),
            "c": shared("node2", tags=APART, auto_balance=False),
        },
    )  # fmt: skip
    assert plan_of("balance", document)["moves"] == []


def test_balance_repairs_every_hard_constraint_that_it_can() -> None:
    """With free capacity, `balance` repairs all violated hard constraints and violates none."""
    chances = random.Random(23)
    mended = units = 0
    for _ in seeds(4, 25):
        document = random_document(chances, nodes=6, instances=7)
        homes = {name: one["nodes"][0] for name, one in document["instances"].items()}
        first = before = violated_hard(document, homes)
        plan = plan_of("balance", document)
        for after in held_after_units(homes, plan):
            now = violated_hard(document, after)
            assert now <= before
            before = now
        units += sum("unit" in move for move in plan["moves"])
        mended += len(first) - len(before)
    assert mended > 2
    assert units > 0


@pytest.mark.parametrize("template", ["rbd", "drbd"])
def test_balance_moves_an_instance_off_a_forbidden_node(template: str) -> None:
    """`balance` moves an instance off a forbidden node, though the score rises."""
    tags = ["iallocator:score:node1:-INFINITY"]
    nodes = ["node1", "node2"] if template == "drbd" else ["node1"]
    document = builders.cluster(
        nodes=3,
        instances={"a": builders.instance(*nodes, memory=1024, disk_template=template, tags=tags),
                   "big": shared("node2", 4096, auto_balance=False),
                   "huge": shared("node3", 4096, auto_balance=False)},
    )  # fmt: skip
    plan = plan_of("balance", document)
    assert homes_after(document, plan)["a"] != "node1"


@pytest.mark.parametrize("tag", ["iallocator:score:-INFINITY", "iallocator:maintenance"])
def test_balance_moves_nothing_to_a_forbidden_node(tag: str) -> None:
    """`balance` moves neither a primary nor a secondary to a forbidden node."""
    document = builders.cluster(
        nodes=4, instances={f"i{k}": drbd("node1", "node2") for k in range(6)}
    )
    document["nodes"]["node4"]["tags"] = [tag]
    plan = plan_of("balance", document)
    assert plan["moves"]
    assert not any("node4" in move["to"] for move in plan["moves"])


def test_balance_leaves_instances_on_a_node_in_maintenance() -> None:
    """`balance` leaves primaries on a node in maintenance; secondaries may move."""
    document = builders.cluster(
        nodes=4, instances={f"i{k}": drbd("node1", "node2") for k in range(6)}
    )
    document["nodes"]["node1"]["tags"] = ["iallocator:maintenance"]
    plan = plan_of("balance", document)
    assert plan["moves"]
    assert all(move["to"][0] == "node1" for move in plan["moves"])


def test_balance_moves_a_colocation_group_with_a_violation_that_stays() -> None:
    """`balance` moves a colocation group off a drained node, though a violation stays.

    The two instances violate a separation by rack on each node.
    """
    apart = "iallocator:separate:must:db:rack"
    document = builders.cluster(
        nodes=3,
        instances={"a": shared("node1", tags=[*PAIR, apart]), "b": shared("node1", tags=PAIR),
                   "c": shared("node2", tags=[apart], auto_balance=False)},
    )  # fmt: skip
    for node in document["nodes"].values():
        node["tags"] = ["rack:0"]
    document["nodes"]["node1"]["drained"] = True
    homes = homes_after(document, plan_of("balance", document))
    assert homes["a"] == homes["b"] == "node3"


def test_balance_exchanges_a_colocation_group_for_another_instance() -> None:
    """`balance` swaps a colocation group for another instance to lower the score."""
    document = builders.cluster(
        nodes=2, memory=16384,
        instances={name: shared("node1", 3072, tags=PAIR) for name in "ab"}
        | {"w": shared("node1", 2048, auto_balance=False), "y": shared("node2", 3072),
           "z": shared("node2", 1024, auto_balance=False)},
    )  # fmt: skip
    assert plan_of("balance", document, "--max-length=1")["moves"] == []
    plan = plan_of("balance", document)
    assert [move["instance"] for move in plan["moves"]] == ["a", "b", "y"]
    assert plan["scores"]["after"] < plan["scores"]["before"]
