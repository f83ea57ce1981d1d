"""Squeezing makes no detour that is not needed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest

from benchmarks.clusters import Shape, document
from iallocator.model.cluster import Cluster
from iallocator.model.moves import FAILOVER, FAILOVER_TO, REPLACE_SECONDARY
from iallocator.model.node_view import capacities
from iallocator.model.state import State
from iallocator.planners.balance.move_kinds import MoveRules
from iallocator.planners.plan import PlannedMove, replay
from iallocator.planners.squeeze.straight import straightened
from iallocator.wire.document import read_cluster
from iallocator.wire.reading import Reading
from tests.builders import Json, as_bytes
from tests.command import run


def _cluster(template: str, seed: int, fullness: float = 0.3) -> Cluster:
    return read_cluster(
        document(Shape(5, template, per_node=3, fullness=fullness, seed=seed)), Reading()
    )


def _wandering(cluster: Cluster, rng: random.Random, count: int) -> tuple[State, list[PlannedMove]]:
    """Return moves at random, some of which go on or back."""
    state, moves = State(cluster), []
    for _ in range(count):
        instance = rng.choice(cluster.instances[:6])
        here = state.where[instance.name]
        other = rng.choice([index for index in range(5) if index not in here])
        steps = [(FAILOVER_TO, other)]
        if len(here) > 1:
            steps = rng.choice([[(REPLACE_SECONDARY, other)], [(FAILOVER, here[1])]])
        notation = "f" if steps[0][0] == FAILOVER else f"r:{other}"
        move = PlannedMove(instance, here, steps, notation, 0.0, 0)
        replay(state, [move])
        moves.append(move)
    return State(cluster), moves


@pytest.mark.parametrize("template", ["rbd", "drbd"])
def test_wandering_instances_go_to_their_last_place_directly(template: str) -> None:
    """With room everywhere each is moved once, or twice where both of its nodes are new; or not."""
    for seed in range(12):
        cluster = _cluster(template, seed)
        state, moves = _wandering(cluster, random.Random(seed), 14)
        fixed = [capacities(node) for node in cluster.nodes]
        plan = straightened(state, moves, fixed, MoveRules())
        ends = [State(cluster), State(cluster)]
        replay(ends[0], moves)
        replay(ends[1], plan)
        assert ends[0].where == ends[1].where
        for instance in cluster.instances:
            made = [move for move in plan if move.instance is instance]
            new = set(ends[0].where[instance.name]).difference(instance.nodes)
            needed = len(new) or int(ends[0].where[instance.name] != instance.nodes)
            assert len(made) == needed, (seed, instance.name)


def test_detour_that_makes_room_is_kept() -> None:
    """Two exchange their nodes, which have no room for both: one steps aside, and that stays so."""
    cluster = _cluster("rbd", 1, fullness=0.95)
    first, second = cluster.instances[0], cluster.instances[1]
    (a,), (b,) = first.nodes, second.nodes
    stops = [(first, a, 4), (second, b, a), (first, 4, b)]
    for node in (a, b):
        cluster.nodes[node].reported_memory = 100
    moves = [
        PlannedMove(one, (before,), [(FAILOVER_TO, after)], f"fa:{after}", 0.0, 0)
        for one, before, after in stops
    ]
    fixed = [capacities(node) for node in cluster.nodes]
    cluster.nodes[4].reported_memory = 100_000
    assert straightened(State(cluster), moves, fixed, MoveRules()) == moves


def _plans() -> Iterator[tuple[Json, Json]]:
    """Yield documents of crowded clusters, and how they are squeezed."""
    for seed in range(8):
        whole = document(Shape(7, "drbd", per_node=6, fullness=0.5, crowding=0.5, seed=seed))
        options = ("--drbd", "--json", "--verify-plan", "--exact-search=no")
        done = run("squeeze", *options, stdin=as_bytes(whole))
        if done.returncode == 0:
            yield whole, json.loads(done.stdout)


def test_squeeze_plans_have_no_needless_detour() -> None:
    """No instance is copied more often than it has new nodes."""
    again, moved = 0, 0
    for whole, plan in _plans():
        copies: dict[str, int] = {}
        ends: dict[str, list[str]] = {}
        for move in plan["moves"]:
            name = move["instance"]
            copies[name] = copies.get(name, 0) + move["move"].count("r:")
            ends[name] = move["to"]
        for name, end in ends.items():
            before = whole["instances"][name]["nodes"]
            again += copies[name] > len(set(end).difference(before)) or end == before
            moved += 1
    assert moved > 100
    assert again == 0, (again, moved)
