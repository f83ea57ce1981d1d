"""The scan that keeps no moves against the one that keeps and evaluates all of them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest

from benchmarks.clusters import Shape, document
from iallocator.model.cluster import Cluster, Group
from iallocator.model.moves import apply_steps
from iallocator.planners.balance.found_move import FoundMove
from iallocator.planners.balance.greedy import balance
from iallocator.planners.balance.problem import BalanceProblem
from iallocator.planners.balance.scan import neighbourhood
from iallocator.planners.balance.scan.move_bounds import CurrentScore
from iallocator.planners.balance.scan.neighbourhood import MoveScan
from iallocator.planners.balance.scan.stepwise.drift import Drift
from iallocator.planners.balance.scan.stepwise.factored_moves import FactoredMoves
from iallocator.planners.balance.scan.stepwise.stepping_scan import SteppingScan
from iallocator.planners.stop_criteria import StopCriteria
from iallocator.wire.document import read_cluster
from iallocator.wire.reading import Reading
from tests.seeds import seeds

from .worlds import problem_of, worlds


@pytest.fixture(autouse=True)
def _step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few moves are bounded, too."""
    monkeypatch.setattr(neighbourhood, "FEW", 0)


def clusters(every: range) -> Iterator[tuple[str, Cluster, Group]]:
    """Worlds of the planners, and clusters that are crowded, on nodes alike or not."""
    yield from worlds(every[:2])
    for seed in every:
        rng = Random(seed)
        template, fullness = rng.choice(("drbd", "drbd", "rbd", "plain")), rng.choice((0.4, 0.8))
        raw = document(Shape(5, template, per_node=4, fullness=fullness, crowding=0.5, seed=seed))
        nodes = list(raw["nodes"].values())
        for node in rng.sample(nodes, rng.choice((0, 3))):
            node["total_memory"] *= 2
            node["free_memory"] += node["total_memory"] // 2
            node["total_cpus"] *= 3
        rng.choice(nodes)["offline"] = rng.random() < 0.3
        rng.choice(nodes)["drained"] = rng.random() < 0.3
        cluster = read_cluster(raw, Reading())
        yield f"shape {seed}", cluster, cluster.groups[0]


def test_stepping_scan_after_any_moves_finds_the_best_of_all() -> None:
    """Whatever is made, barred, or may be copied, it finds what the evaluation of all finds."""
    rng, compared = Random(9), 0
    for name, cluster, group in clusters(seeds(4, 20, 1400)):
        problem = problem_of(cluster, group)
        stepping, every = problem.scan(stepwise=True), problem.scan()
        if not any(isinstance(scan, SteppingScan) for scan in stepping._scans):
            continue  # tags or bonds count
        for step in range(9):
            budget = rng.choice((np.inf, 30_000.0))
            best = every.best(budget=budget)
            assert _key(stepping.best(budget=budget)) == _key(best), (name, step)
            if best is None:
                break
            compared += 1
            if step % 3 == 1:
                every.bar(best)
                stepping.bar(best)
                continue
            move = best if step % 3 else rng.choice(every.lowest(30, 9))
            apply_steps(problem.state, move.instance, move.kind.steps(move.before, move.target))
            for scan in (every, stepping):
                scan.refresh([*move.before, move.target])
    assert compared > 25


def test_stepping_scan_bounds_after_moves_are_below_all_scores() -> None:
    """What is kept per instance, and what a look says of each move, is never above the score."""
    rng, compared = Random(11), 0
    for name, cluster, group in clusters(seeds(3, 15, 1430)):
        problem = problem_of(cluster, group)
        stepping, every = problem.scan(stepwise=True), problem.scan()
        for _ in range(4):
            stepping.best()
            moves = every.lowest(10**6, 10**6)
            compared += _bounded(name, stepping, moves, problem)
            if not moves:
                break
            move = rng.choice(moves[: 1 + len(moves) // 3])
            apply_steps(problem.state, move.instance, move.kind.steps(move.before, move.target))
            for scan in (every, stepping):
                scan.refresh([*move.before, move.target])
    assert compared > 400


def _bounded(name: str, scan: MoveScan, moves: list[FoundMove], problem: BalanceProblem) -> int:
    """How many of `moves`, which are all there are, were held against their bounds."""
    scores = {(m.instance.name, m.kind.name, m.target): m.score for m in moves}
    compared = 0
    for part, store in scan._stores():
        if not isinstance(store, FactoredMoves):
            continue
        floors = store.floors(scan._ground)
        for row, instance in enumerate(part.instances):
            bounds = store.look(np.array([row], dtype=np.intp))[0]
            for column, bound in enumerate(bounds.tolist()):
                move = part.keyed(store, row * store.shape[1] + column, 0.0)[2]
                score = scores.get((instance.name, store.kind.name, move.target))
                assert (score is None) == (bound == np.inf), (name, store.kind.name)
                if score is not None:
                    assert max(bound, floors[row]) <= score + 2e-8, (name, store.kind.name)
                    compared += 1
    return compared


def test_drift_of_any_change_is_below_what_scores_fall_by() -> None:
    """After totals have changed, each move within the ends adds at least what the floor says."""
    rng = np.random.default_rng(3)
    for _ in range(60):
        counts, weights = np.full((2, 1), 7.0), np.array([[0.5], [1.0]])
        before, after = _ground(rng, counts, weights), _ground(rng, counts, weights)
        squares, sums = rng.normal(0, 3, (2, 40)), rng.normal(0, 1, (2, 40))
        old, new = (_added(ground, squares, sums) for ground in (before, after))
        fine = np.isfinite(old).all(axis=0) & np.isfinite(new).all(axis=0)
        drift, rows = Drift(40, 2), np.arange(40)
        x = (before.squares + squares) / counts - ((before.sums + sums) / counts) ** 2
        x -= before.squares / counts - (before.sums / counts) ** 2
        floor = np.where(fine, old.sum(axis=0), 0.0)
        drift.found(rows, floor, x, x, np.abs(sums).max(axis=1))
        drift.fall(before, after)
        assert (drift.floor[fine] <= new.sum(axis=0)[fine] + 1e-9).all()
        assert fine.sum() > 3


def _ground(rng: np.random.Generator, counts: Any, weights: Any) -> CurrentScore:
    """Totals of two statistics, at random."""
    ground: CurrentScore = object.__new__(CurrentScore)
    ground.counts, ground.weights = counts, weights
    ground.sums = rng.normal(0, 2, (2, 1))
    ground.squares = ground.sums**2 / counts + rng.choice([0.0, 5.0, 30.0]) * rng.random((2, 1))
    return ground


def _added(ground: CurrentScore, squares: Any, sums: Any) -> Any:
    """What is added to both terms of the score; NaN where no cluster could change so."""
    now = ground.squares / ground.counts - (ground.sums / ground.counts) ** 2
    then = (ground.squares + squares) / ground.counts
    then = then - ((ground.sums + sums) / ground.counts) ** 2
    roots = np.sqrt(np.where(then >= 0, then, np.nan))
    return ground.weights * (roots - np.sqrt(np.maximum(now, 0.0)))


@pytest.mark.parametrize("limits", [{}, {"cost": 40_000}])
def test_balance_stepping_makes_the_plan_of_the_plain_scan(
    monkeypatch: pytest.MonkeyPatch, limits: dict[str, Any]
) -> None:
    """The same moves with the same scores, and the same reason to end."""
    found = [_plan(cluster, group, limits) for _, cluster, group in clusters(seeds(3, 40, 1460))]
    plain = BalanceProblem.scan
    monkeypatch.setattr(BalanceProblem, "scan", lambda self, stepwise=False: plain(self))
    expected = [_plan(cluster, group, limits) for _, cluster, group in clusters(seeds(3, 40, 1460))]
    assert found == expected
    assert sum(len(moves) for *_, moves in found) > 10


def _plan(cluster: Cluster, group: Group, limits: dict[str, Any]) -> tuple[float, str, list[Any]]:
    """The end, the reason and the moves of a plan for `group`."""
    plan = balance(problem_of(cluster, group), StopCriteria(**limits))
    moves = [(move.instance.name, *move.before, *move.after, move.score) for move in plan.moves]
    return plan.after, plan.reason, moves


def _key(move: FoundMove | None) -> tuple[float, str, str, int] | None:
    """What a move is told by."""
    return None if move is None else (move.score, move.instance.name, move.kind.name, move.target)
