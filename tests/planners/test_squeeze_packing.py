"""Test the packing of squeeze, which empties nodes without comparing every move with all others."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from benchmarks.clusters import Shape, document, first_nodes_offline
from iallocator.deadline import SIGNALLED, Stopped
from iallocator.model.state import State
from iallocator.planners.balance.descent import Descent
from iallocator.planners.node_orders import WorstFitBesideReserve
from iallocator.planners.squeeze import feasibility
from iallocator.planners.squeeze.feasibility import Attempt
from iallocator.planners.squeeze.headroom import Headroom
from tests.builders import Json
from tests.command import json_of
from tests.model.make import model_of


def _squeeze(shape: Shape, *options: str, status: int = 0) -> Json:
    """Return the plan of squeeze for a generated cluster; the model has verified it."""
    words = ("squeeze", "--verify-plan", *options)
    return json_of(*words, document=document(shape), status=status)


@pytest.mark.parametrize(("template", "option"), [("rbd", "--all"), ("drbd", "--drbd")])
def test_packed_plan_without_balancing_is_valid(
    template: str, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The packed plan of squeeze is valid and has correct scores before any balancing."""
    shape = Shape(8, template, per_node=6, crowding=0.3)
    whole = _squeeze(shape, option, "--exact-search=no")

    def stop(self: Descent) -> None:
        raise Stopped(SIGNALLED)

    monkeypatch.setattr(Descent, "run", stop)
    packed = _squeeze(shape, option, "--exact-search=no", status=130)
    assert packed["switched_nodes"]
    assert len(packed["switched_nodes"]) <= len(whole["switched_nodes"])
    assert packed["groups"][0]["reason"] == "interrupted"
    assert packed["scores"]["after"] == packed["moves"][-1]["score"] > 0


def test_squeeze_balances_only_the_last_packed_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """`squeeze` packs many sets of nodes and balances only the last one."""
    runs: list[object] = []
    follow = Attempt.follow

    def counted(self: Attempt, way: Sequence[Any]) -> None:
        runs.append(self)
        follow(self, way)

    monkeypatch.setattr(Attempt, "follow", counted)
    shape = Shape(10, "rbd")
    homes = [one["nodes"][0] for one in document(shape)["instances"].values()]
    plan = _squeeze(shape, f"--master-node={max(sorted(homes), key=homes.count)}")
    assert len(plan["switched_nodes"]) > 2
    assert len(runs) == 1


@pytest.mark.parametrize(
    "tag",
    [
        "iallocator:stickiness:0.01",
        "iallocator:separate:should:web:0.01",
        "iallocator:separate:must:web:group",
        "iallocator:score:node00-0001.example.com:-INFINITY",
    ],
)
def test_squeeze_packs_instances_with_constraints(
    tag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With tags of instances, `squeeze` balances as few sets of nodes as without tags."""
    runs: list[object] = []
    follow = Attempt.follow

    def counted(self: Attempt, way: Sequence[Any]) -> None:
        runs.append(self)
        follow(self, way)

    monkeypatch.setattr(Attempt, "follow", counted)
    whole = document(Shape(6, "drbd", per_node=6, crowding=0.6))
    counts = []
    for tags in ([], [tag]):
        for raw in list(whole["instances"].values())[:3]:
            raw["tags"] = tags
        runs.clear()
        plan = json_of("squeeze", "--drbd", "--verify-plan", document=whole)
        assert len(plan["switched_nodes"]) == 2
        counts.append(len(runs))
    assert counts[0] == counts[1]


def test_last_set_is_balanced_beside_the_reserve() -> None:
    """If balancing takes the reserve of a node, it is repeated as if the reserves were in use."""
    plan = _squeeze(Shape(6, "drbd", per_node=6, crowding=0.3), "--drbd")
    assert len(plan["switched_nodes"]) == 2
    assert plan["scores"]["after"] < 1


@pytest.mark.parametrize(("template", "option"), [("rbd", "--all"), ("drbd", "--drbd")])
def test_packing_moves_instances_off_an_offline_node(
    template: str, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`squeeze` also packs a group with an offline node, and moves instances off that node."""
    monkeypatch.setattr(feasibility, "BALANCING_BUDGET", 0)
    broken = first_nodes_offline(Shape(8, template, per_node=6), 1)
    words = ("squeeze", "--verify-plan", option, "--exact-search=no")
    plan = json_of(*words, document=broken)
    assert len(plan["switched_nodes"]) > 1


def test_capacities_and_order_of_bins_equal_plain_sums() -> None:
    """While instances move, the free capacity and the order of nodes equal plain sums."""
    rng = random.Random(5)
    cluster = model_of(document(Shape(6, "drbd", per_node=4, crowding=0.3)))
    state, nodes = State(cluster), [node.index for node in cluster.nodes][1:]
    reserve = Headroom(cluster.groups[0].policy.standard, 2.0, local=True)
    rooms = WorstFitBesideReserve(state, nodes, reserve.instance)

    def plain(index: int) -> float:
        node = cluster.nodes[index]
        memory, later, cpus = reserve.slack(state, index)
        memory = min(memory - state.reserved[index], later)
        return min(memory / node.total_memory, cpus / (node.vcpu_ratio * node.total_cpus))

    for _ in range(40):
        instance = rng.choice(cluster.instances)
        before, after = state.where[instance.name], tuple(rng.sample(range(6), 2))
        state.remove(instance, before)
        peers = state.peers[after[1]].get(after[0], 0)
        foreseen = (
            rooms.of(after[0], instance.as_primary),
            rooms.of(after[1], instance.as_secondary, peers + instance.memory),
        )
        state.place(instance, after)
        rooms.renew([*before, *after])
        assert foreseen == pytest.approx([plain(index) for index in after])
        assert list(rooms.in_order()) == sorted(nodes, key=lambda index: -plain(index))
        assert next(rooms.in_order()) == max(nodes, key=plain)


def test_packing_tries_nodes_in_the_order_of_their_free_capacity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Packing tries the nodes in the order of their free capacity, which each move changes."""
    in_order, asked = WorstFitBesideReserve.in_order, 0

    def checked(self: WorstFitBesideReserve, least: float = float("-inf")) -> Iterator[int]:
        nonlocal asked
        asked += 1
        found = list(in_order(self, least))
        rooms = [self.of(index) for index in found]
        assert rooms == sorted(rooms, reverse=True)
        return iter(found)

    monkeypatch.setattr(WorstFitBesideReserve, "in_order", checked)
    assert _squeeze(Shape(6, "rbd"))["switched_nodes"]
    assert asked > 9


def test_packing_counts_the_reserve_of_a_secondary_that_stays() -> None:
    """Packing includes what a new primary adds to the reserve of a secondary that stays."""
    shape = Shape(4, "drbd", per_node=6, fullness=0.6, seed=6)
    plan = _squeeze(shape, "--all", "--exact-search=no")
    assert (plan["switched_nodes"], plan["moves"]) == ([], [])


def test_packed_plan_without_time_for_scores_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If time ends before balancing or scoring, `squeeze` keeps the packed plan."""

    def stop(*_: object) -> float:
        raise Stopped(SIGNALLED)

    whole = _squeeze(Shape(8, "rbd", per_node=6), "--exact-search=no")
    monkeypatch.setattr(Descent, "run", stop)
    monkeypatch.setattr(feasibility, "rescore", stop)
    plan = _squeeze(Shape(8, "rbd", per_node=6), "--exact-search=no", status=130)
    assert plan["switched_nodes"] == whole["switched_nodes"] != []
    assert {move["score"] for move in plan["moves"]} == {plan["scores"]["after"]}
