"""Test that balance moves several instances together, and keeps N+1 after each move."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from benchmarks import gap
from iallocator.deadline import Deadline
from iallocator.model.moves import replay
from iallocator.model.node_view import Capacities
from iallocator.model.state import State
from iallocator.n1 import plan_rules
from iallocator.n1.tolerance import FailureTolerance
from iallocator.planners.balance.move_kinds import MoveRules
from iallocator.planners.balance.plan_builder import BalanceProblem, PlanBuilder
from iallocator.planners.balance.rearrangement import PlacementScores
from iallocator.planners.plan_limits import StopCriteria
from iallocator.scoring.scalar import score_of
from tests.seeds import seeds

EQUAL = 1e-6

KINDS = tuple(gap.STORAGE)


@pytest.mark.parametrize("kind", KINDS)
def test_scores_of_placements_are_those_of_the_state(kind: str) -> None:
    """The scores that arrays give for placements equal those that the state gives."""
    compared = 0
    for seed in seeds(4, 40):
        machines, homes, down = gap.fails(seed, kind)
        state = State(gap.read(gap.as_text(machines, homes, down if seed % 2 else None)))
        nodes = state.cluster.nodes
        problem = BalanceProblem(
            state, range(len(nodes)), Capacities(nodes), state.cluster.instances, MoveRules()
        )
        builder = PlanBuilder(
            problem, StopCriteria(deadline=Deadline(None)), lambda plan: None, None
        )
        some = Random(seed).sample(state.cluster.instances, min(2, len(state.cluster.instances)))
        open_ = [node.index for node in nodes if node.online]
        choices = [
            [one.nodes, *((k,) for k in open_ if (k,) != one.nodes)]
            if len(one.nodes) == 1
            else [one.nodes, *((a, b) for a in open_ for b in open_ if a != b)]
            for one in some
        ]
        for score, places in PlacementScores(builder).below(1e9, some, choices, 50):
            with state.trial():
                for one in some:
                    state.remove(one, state.where[one.name])
                for one, at in zip(some, places):
                    state.place(one, at)
                assert score == pytest.approx(score_of(state, problem.scope), abs=1e-9)
            compared += 1
    assert compared > 20


@pytest.mark.parametrize("kind", KINDS)
def test_plans_of_small_clusters_are_never_below_the_optimum_and_mostly_reach_it(
    kind: str,
) -> None:
    """Plans of balance are never below the optimum, and mostly reach it in small clusters.

    The optimum is found by trying every placement.
    """
    reached = known = 0
    for seed in seeds(6, 60, start=2000):
        small = gap.small(seed, kind)
        best = gap.optimum(*small)
        if best is None:
            continue
        plan, _ = gap.planned(gap.as_text(*small), compound=True, min_gain=0.0)
        assert plan.after > best - EQUAL
        known += 1
        reached += plan.after < best + EQUAL
    assert reached >= 0.75 * known > 0


@pytest.mark.parametrize("mode", ["no-worse", "no-new", "strict"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_state_of_a_plan_loses_more_instances_and_the_end_keeps_the_mode_of_n1(
    kind: str, mode: str
) -> None:
    """After each move of balance, no failure loses more; at the end, the N+1 mode is met.

    One node is offline. An exact search counts the instances that each failure loses.
    """
    moved = 0
    for seed in seeds(3, 60, start=500):
        text = gap.as_text(*gap.fails(seed, kind))
        plan, _ = gap.planned(text, mode, compound=True, min_gain=0.0)
        state = State(gap.read(text))
        group = state.cluster.groups[0]
        losses, wanted = (
            FailureTolerance(state, plan_rules(one), group=group) for one in ("no-worse", mode)
        )
        losses.measure()
        wanted.measure()
        for move in plan.moves:
            replay(state, [move])
            assert not losses.comparison.growth()[0], (seed, move)
        assert not plan.moves or not wanted.comparison.broken(rescues=True), seed
        moved += len(plan.moves)
    assert moved


@pytest.mark.parametrize("kind", KINDS)
def test_with_an_offline_node_no_plan_is_worse_than_single_moves(kind: str) -> None:
    """With an offline node, no plan of balance ends worse than the single moves of hbal.

    The single moves are those of --compat hail, without copies from an offline node.
    """
    compared = 0
    for seed in seeds(4, 80, start=300):
        machines, homes, down = gap.fails(seed, kind)
        text = gap.as_text(machines, homes, down)
        hbal, _ = gap.planned(text, rules=gap.HBAL, min_gain=0.0)
        if any(one.before[0] == down and one.letters[0] == "r" for one in hbal.moves):
            continue
        plan, _ = gap.planned(text, compound=True, min_gain=0.0)
        assert plan.after < hbal.after + EQUAL, seed
        compared += 1
    assert compared


@pytest.mark.parametrize("kind", KINDS)
def test_plans_with_an_offline_node_mostly_reach_the_best_placement_that_a_mode_allows(
    kind: str,
) -> None:
    """With an offline node, most plans of balance reach the best placement that N+1 allows.

    Brute force tries placements in the order of their scores.
    """
    reached = known = 0
    for seed in seeds(3, 40, start=900):
        failing = gap.fails(seed, kind)
        for mode, best in (gap.allowed(*failing, ("no-worse", "strict")) or {}).items():
            plan, _ = gap.planned(gap.as_text(*failing), mode, compound=True, min_gain=0.0)
            known += 1
            reached += plan.after < best + EQUAL
    assert reached >= 0.5 * known > 0


@pytest.mark.parametrize("option", ["--max-length=2", "--cost=1", "--no-disk-moves"])
@pytest.mark.parametrize("kind", ["drbd", "mixed"])
def test_options_limit_rearrangements(kind: str, option: str) -> None:
    """Limits of moves, of traffic and of copies also apply to moves of several instances."""
    for seed in seeds(2, 30, start=700):
        small = gap.small(seed, kind)
        limits: dict[str, Any] = {
            "--max-length=2": {"max_length": 2}, "--cost=1": {"cost": 1024}
        }.get(option, {})  # fmt: skip
        rules = MoveRules(disk_moves=option != "--no-disk-moves")
        plan, _ = gap.planned(
            gap.as_text(*small), rules=rules, compound=True, min_gain=0.0, **limits
        )
        assert len(plan.moves) <= limits.get("max_length", len(plan.moves))
        assert plan.copied <= limits.get("cost", plan.copied)
        assert rules.disk_moves or not any("r" in move.letters for move in plan.moves)


@pytest.mark.parametrize(
    ("seed", "kind", "reachable"), [(5, "drbd", 1.657579), (70, "mixed", 1.444404)]
)
def test_single_moves_into_a_dead_end_do_not_end_the_search(
    seed: int, kind: str, reachable: float
) -> None:
    """`balance` finds the lowest score although the best single moves lead away from it.

    Brute force tried all moves from all placements.
    """
    text = gap.as_text(*gap.small(seed, kind))
    single, _ = gap.planned(text, compound=False, min_gain=0.0)
    plan, _ = gap.planned(text, compound=True, min_gain=0.0)
    assert plan.after == pytest.approx(reachable, abs=1e-5)
    assert single.after > reachable + 1


@pytest.mark.parametrize(
    ("kind", "seed", "mode"), [("drbd", 46, "no-worse"), ("mixed", 80, "no-new")]
)
def test_a_plan_that_n1_cuts_is_made_again_even_if_another_one_is_whole(
    kind: str, seed: int, mode: str
) -> None:
    """If N+1 cuts the plan that places all instances anew, it is made again with checks of N+1.

    Single moves lead to a plan that N+1 allows as a whole, but that ends with a higher score.
    """
    machines, homes, down = gap.fails(seed, kind)
    best = gap.reachable(machines, homes, down, mode)
    plan, _ = gap.planned(gap.as_text(machines, homes, down), mode, compound=True, min_gain=0.0)
    assert best is not None
    assert plan.after < best + EQUAL
