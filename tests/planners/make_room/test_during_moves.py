"""Test that `make-room` keeps N+1 between the steps of one move, such as ``f r:X f``."""

from __future__ import annotations

import json
from random import Random

import pytest

from iallocator.model.moves import (
    DRBD_FAILOVER,
    REPLACE_SECONDARY,
    ElementaryMove,
    Move,
    places_after,
)
from iallocator.model.state import State
from iallocator.options.settings import Settings
from iallocator.planners.plan_limits import PlanLimits
from iallocator.planners.verify import lost_between
from tests.builders import Json, allocate, as_bytes, cluster, instance
from tests.command import run
from tests.model.make import model_of

NAMES = ("node1", "node2", "node3", "node4")

EXPOSED = "would not be tolerated during the move"


def nearly_full(seed: int) -> Json:
    """Return four nodes with drbd instances, and a request that fits only after moves of others."""
    rng = Random(seed)
    instances = {
        f"i{k}": instance(*rng.sample(NAMES, 2), memory=rng.choice([700, 1300, 2100]))
        for k in range(rng.randint(6, 10))
    }
    document = cluster(4, memory=6500, instances=instances)
    memory, template = rng.choice([2600, 3400, 4200]), rng.choice(["drbd", "rbd"])
    return allocate(document, memory=memory, disk_template=template)


def planned(document: Json) -> Json:
    """Return the plan of make-room with at most two moves."""
    words = ("make-room", "--json", "--n1=no-worse", "--make-room=2")
    plan: Json = json.loads(run(*words, stdin=as_bytes(document)).stdout)
    return plan


def broken_during(document: Json, plan: Json) -> list[str]:
    """Return the failures that stop being tolerated between the steps of a move of the plan."""
    model = model_of(document)
    known = {one.name: one for one in model.instances}
    position = {node.name: node.index for node in model.nodes}
    moves = []
    for move in plan["moves"]:
        before, after = (tuple(position[n] for n in move[end]) for end in ("from", "to"))
        present = before
        steps: list[ElementaryMove] = []
        for word in move["move"].split():
            step = DRBD_FAILOVER, present[1]
            if word != "f":
                step = REPLACE_SECONDARY, position[word.partition(":")[2]]
            steps.append(step)
            present = places_after(present, [step])
        assert present == after
        moves.append(Move.by_steps(known[move["instance"]], before, steps))
    settings = Settings()
    settings.n1 = "no-worse"
    return [str(one) for one in lost_between(State(model), moves, PlanLimits(settings))]


@pytest.mark.parametrize("seed", [48, 226, 279, 349])
def test_plan_that_keeps_n1_during_all_moves_is_preferred(seed: int) -> None:
    """`make-room` prefers a plan that keeps N+1 between all steps to one that violates it."""
    document = nearly_full(seed)
    plan = planned(document)
    assert plan["moves"]
    assert EXPOSED not in plan["reason"]
    assert broken_during(document, plan) == []


@pytest.mark.parametrize("seed", [157, 361])
def test_violation_during_a_move_is_reported(seed: int) -> None:
    """If every shortest plan violates N+1 during a move, the reason names the failure."""
    document = nearly_full(seed)
    plan = planned(document)
    assert EXPOSED in plan["reason"]
    assert broken_during(document, plan)[0] in plan["reason"]
