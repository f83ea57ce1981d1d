"""Test that the values that a context keeps of its state stay correct during moves."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from iallocator.model.instance import Instance
from iallocator.model.moves import Move
from iallocator.n1.tolerance import FailureTolerance
from iallocator.options.settings import Settings
from iallocator.placement.context import Context
from tests.builders import Json, cluster, instance
from tests.model.make import model_of

if TYPE_CHECKING:
    from collections.abc import Sequence

Answers = list[tuple[tuple[int, ...], float, bool]]
"""Possible placements: nodes, score, and whether N+1 is kept."""


def crowd(rng: Random) -> Json:
    """Return two nearly full groups of four nodes; every other instance has a secondary."""
    names = [f"node{k}" for k in range(1, 9)]
    made = {}
    for k in range(24):
        primary, secondary = k % 8, k % 8 // 4 * 4 + (k + rng.randrange(1, 4)) % 4
        shared = (k + k // 8) % 3 > 0
        made[f"i{k}"] = instance(
            *([names[primary]] if shared else [names[primary], names[secondary]]),
            memory=rng.choice((700, 1500, 2500)),
            disk_template="rbd" if shared else "drbd",
        )
    return cluster({"one": 4, "two": 4}, instances=made)


def answers(
    context: Context, moved: Instance, as_move: bool, forget_failures: bool = False
) -> Answers:
    """Return the possible nodes for `moved`, which is not placed, in both groups.

    With `as_move`, N+1 compares losses with the old nodes. With `forget_failures`, each node has a
    new N+1 check.
    """
    context.leaving = moved if as_move else None
    found: Answers = []
    for group in context.cluster.groups:
        for scope in (group.nodes, context.all_nodes()):
            evaluator = context.evaluator(group, scope)
            if moved.required_nodes == 2:
                places = evaluator.candidates(moved, "any pair", moved.nodes, group.nodes)
            else:
                places = evaluator.candidates(moved, "moved", moved.nodes, group.nodes)
            some = sorted((nodes, round(score, 7)) for score, nodes in places.ranked())[:8]
            if forget_failures:
                kept = [
                    new_tolerance(context, scope).allows(Move(moved, (), nodes))
                    for nodes, _ in some
                ]
            else:
                kept = [evaluator.keeps_n1(moved, nodes) for nodes, _ in some]
            found += [(nodes, score, one) for (nodes, score), one in zip(some, kept, strict=True)]
    return found


def new_tolerance(context: Context, scope: Sequence[int]) -> FailureTolerance:
    """Return an N+1 check without kept values."""
    rules = context.rules(context.settings.n1)
    found = FailureTolerance(context.state, rules, scope, context.kernels)
    found.replaced = None if context.leaving is None else (context.leaving, context.leaving.nodes)
    return found


def made_anew(context: Context) -> Context:
    """Return a new context without kept values, with the current placement."""
    fresh = Context(context.cluster, context.settings)
    for one in context.cluster.instances:
        fresh.state.remove(one, one.nodes)
    for one in context.cluster.instances:
        if one.name in context.state.where:
            fresh.state.place(one, context.state.where[one.name])
    return fresh


@pytest.mark.parametrize("mode", ["no-new", "no-worse", "strict"])
@pytest.mark.parametrize("seed", range(2))
def test_context_equals_a_new_one_while_instances_move(seed: int, mode: str) -> None:
    """While instances move, a context gives the scores, limits and N+1 of a new context."""
    rng, settings = Random(seed), Settings()
    settings.n1 = mode
    context = Context(model_of(crowd(rng)), settings)
    state = context.state
    for step in range(4):
        moved = rng.choice(context.cluster.instances)
        before = state.where[moved.name]
        with state.trial():
            state.remove(moved, before)
            expected = answers(made_anew(context), moved, step % 2 == 0, forget_failures=True)
            assert answers(context, moved, step % 2 == 0) == expected
        state.remove(moved, before)
        group = context.cluster.groups[rng.randrange(2)]
        state.place(moved, tuple(rng.sample(group.nodes, len(before))))
