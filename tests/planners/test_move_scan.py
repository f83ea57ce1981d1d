"""Test the scan that scores all moves of a group for `balance`, also after moves are made."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from iallocator.deadline import Deadline
from iallocator.documents.plan import changes_of_moves
from iallocator.limits.node import checks_for
from iallocator.model.cluster import Cluster, Group
from iallocator.model.moves import ElementaryMove
from iallocator.model.state import State
from iallocator.planners.balance.descent import GroupBalancer
from iallocator.planners.balance.move_kinds import MoveRules, ScoredMoves
from iallocator.planners.balance.scan import move_table
from iallocator.planners.balance.scan import scan as scans
from iallocator.planners.balance.scan.blocks import RelevantChecks
from iallocator.planners.balance.scan.move_table import Page, RemadeMoves
from iallocator.planners.plan_limits import StopCriteria
from iallocator.scoring.metrics import STATISTICS
from iallocator.scoring.scalar import ScalarKernel, terms_of
from tests.seeds import seeds

from .scenarios import problem_of, scenarios


def test_scan_scores_are_those_of_the_scalar_kernel() -> None:
    """The scan predicts for each move the score that the cluster has after it."""
    compared = 0
    for name, cluster, group in scenarios(seeds(8, 30, 300)):
        place = problem_of(cluster, group)
        for found in place.scan().lowest(40, 40):
            with place.state.trial():
                found.moves[0].apply(place.state)
                score = ScalarKernel(place.state, group.nodes, place.fixed).score()
            assert found.score == pytest.approx(score, abs=1e-9), (name, found.moves[0].letters)
            compared += 1
    assert compared > 200


@pytest.mark.parametrize(
    "rules",
    [
        MoveRules(),
        pytest.param(MoveRules(ignore_soft=True, restricted=True), marks=pytest.mark.slow),
    ],
)
def test_refreshed_scan_equals_a_new_one(rules: MoveRules) -> None:
    """After random moves, a refreshed scan ranks moves as a new scan does."""
    rng = Random(5)
    for name, cluster, group in scenarios(seeds(6, 15, 330)):
        place = problem_of(cluster, group, rules)
        scan = place.scan()
        for _ in range(4):
            moves = scan.lowest(30, 30)
            if not moves:
                break
            move = rng.choice(moves)
            move.moves[0].apply(place.state)
            scan.follow(move.nodes)
            kept, fresh = scan.lowest(30, 9), place.scan().lowest(30, 9)
            assert [m.score for m in kept] == pytest.approx([m.score for m in fresh], abs=1e-9), (
                name
            )
            best, again = scan.best(), place.scan().best()
            assert (best is None) == (again is None), name
            if best is not None and again is not None:
                assert best.score == pytest.approx(again.score, abs=1e-9), name


def test_scan_refreshed_after_several_moves_finds_what_a_new_one_finds() -> None:
    """A scan that was refreshed only after several moves ranks moves as a new scan does."""
    rng, compared = Random(6), 0
    for name, cluster, group in scenarios(seeds(6, 15, 340)):
        place = problem_of(cluster, group)
        scan = place.scan()
        for _ in range(3):
            one_each = scan.lowest(12, 1)
            if len(one_each) < 3:
                break
            several = [found.moves[0] for found in rng.sample(one_each, 3)]
            for move in several[:-1]:
                move.apply(place.state)
                scan.follow(move.nodes)
                score = ScalarKernel(place.state, group.nodes, place.fixed).score()
                assert scan.score() == pytest.approx(score, abs=1e-9), name
            several[-1].apply(place.state)
            scan.follow(several[-1].nodes)
            kept, fresh = scan.lowest(30, 9), place.scan().lowest(30, 9)
            scores = [m.score for m in kept], [m.score for m in fresh]
            assert scores[0] == pytest.approx(scores[1], abs=1e-9), name
            compared += len(scores[0])
    assert compared > 50


def test_scan_best_is_the_lowest_of_all_moves() -> None:
    """The best move of a scan is the lowest of all, though a bound skips most exact scores."""
    for name, cluster, group in scenarios(seeds(6, 20, 345)):
        scan = problem_of(cluster, group).scan()
        best = scan.best()
        every = scan.lowest(10**6, 10**6)
        assert (best is None) == (not every), name
        if best is not None:
            assert best.score == pytest.approx(min(m.score for m in every), abs=1e-9), name


def test_scan_best_after_moves_is_the_lowest_of_all_moves() -> None:
    """While instances move, kept bounds never exclude the best move of a scan."""
    rng, compared = Random(7), 0
    for name, cluster, group in scenarios(seeds(6, 20, 365)):
        problem = problem_of(cluster, group)
        scan = problem.scan()
        for step in range(8):
            best, every = scan.best(), scan.lowest(10**6, 10**6)
            assert (best is None) == (not every), name
            if best is None:
                break
            assert best.score == min(m.score for m in every), (name, step)
            compared += 1
            move = best if step % 2 else rng.choice(every)
            move.moves[0].apply(problem.state)
            scan.follow(move.nodes)
    assert compared > 30


def test_scan_trial_restores_every_number() -> None:
    """A trial of a scan restores all its values, and the moves that it excluded."""
    changed = 0
    for name, cluster, group in scenarios(seeds(4, 20, 470)):
        problem = problem_of(cluster, group)
        scan = problem.scan()
        for move in scan.lowest(5, 1):
            before = _numbers(scan)
            with problem.state.trial(), scan.trial():
                move.moves[0].apply(problem.state)
                scan.follow(move.nodes)
                if (best := scan.best()) is not None:
                    scan.bar(best.moves[0])
                changed += _numbers(scan) != before
            assert _numbers(scan) == before, name
    assert changed > 5


def test_scan_best_below_a_limit_is_the_best() -> None:
    """A scan with a limit finds the best move if its score is within the limit."""
    within = 0
    for name, cluster, group in scenarios(seeds(4, 20, 480)):
        scan = problem_of(cluster, group).scan()
        best = scan.best()
        if best is None:
            continue
        for limit in (best.score, best.score + 0.5):
            assert _key(scan.best(limit=limit)) == _key(best), name
        other = scan.best(limit=best.score - 0.01)
        assert other is None or other.score >= best.score, name
        within += 1
    assert within > 3


def test_scan_leaves_out_only_limits_that_no_move_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scan skips only limits that no move breaks: testing all limits finds the same moves."""
    found = [_moves(cluster, group) for _, cluster, group in scenarios(seeds(6, 20, 365))]
    monkeypatch.setattr(
        RelevantChecks,
        "checks",
        lambda self, role, limits, leading: checks_for(role, self._batch, limits),
    )
    tested = [_moves(cluster, group) for _, cluster, group in scenarios(seeds(6, 20, 365))]
    assert found == tested
    assert sum(len(moves) for moves in found) > 1000


@pytest.mark.parametrize(
    "limits", [{"cost": 40_000}, pytest.param({"compound": True}, marks=pytest.mark.slow)]
)
def test_balance_without_memory_for_all_moves_makes_the_same_plan(
    monkeypatch: pytest.MonkeyPatch, limits: dict[str, Any]
) -> None:
    """`balance` makes the same plan if it computes moves on demand instead of storing them."""
    found = [_plan(cluster, group, limits) for _, cluster, group in scenarios(seeds(4, 40, 400))]
    monkeypatch.setattr(scans, "MOST_KEPT_NUMBERS", 0)
    monkeypatch.setattr(move_table, "MOVES_PER_PAGE", 50)
    remade = [_plan(cluster, group, limits) for _, cluster, group in scenarios(seeds(4, 40, 400))]
    assert found == remade
    assert sum(len(moves) for _, _, moves in found) > 10


def test_scan_without_memory_for_all_moves_ranks_and_rejects_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A scan that computes moves on demand ranks and excludes moves like one that stores them."""
    rng, compared = Random(9), 0
    for name, cluster, group in scenarios(seeds(3, 20, 430)):
        problem = problem_of(cluster, group)
        monkeypatch.setattr(scans, "MOST_KEPT_NUMBERS", 10**9)
        kept = problem.scan()
        monkeypatch.setattr(scans, "MOST_KEPT_NUMBERS", 0)
        remade = problem.scan()
        for step in range(8):
            best = kept.best()
            assert _key(best) == _key(remade.best()), (name, step)
            every = [_key(move) for move in kept.lowest(40, 40)]
            assert every == [_key(move) for move in remade.lowest(40, 40)], (name, step)
            if best is None:
                break
            compared += 1
            if step % 2:
                kept.bar(best.moves[0])
                remade.bar(best.moves[0])
                continue
            move = rng.choice(kept.lowest(30, 9))
            nodes = move.nodes
            with problem.state.trial(), remade.trial():
                move.moves[0].apply(problem.state)
                remade.follow(nodes)
            assert _key(remade.best()) == _key(best), (name, step)
            move.moves[0].apply(problem.state)
            kept.follow(nodes)
            remade.follow(nodes)
    assert compared > 10


def test_scan_without_memory_for_all_moves_drops_sums_that_no_move_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A scan on demand drops stored bounds of an instance when its new moves have no gains."""
    monkeypatch.setattr(scans, "MOST_KEPT_NUMBERS", 0)
    _, cluster, group = next(iter(scenarios(seeds(1, 20, 430))))
    scan, forgot = problem_of(cluster, group).scan(), 0
    for store in (one for _, one in scan._stores() if isinstance(one, RemadeMoves)):
        rows = np.arange(store.shape[0])
        store.rows.low[1][-1:] = store.rows.high[1][-1:] = 5.0
        store.learn(rows, Page(store, rows), scan._current)
        assert not store.rows.low[1].any()
        assert not store.rows.high[1].any()
        forgot += rows.size
    assert forgot


def _key(found: ScoredMoves | None) -> tuple[float, str, tuple[ElementaryMove, ...]] | None:
    """Return the score, the instance and the steps of a single move; None for no move."""
    if found is None:
        return None
    (move,) = found.moves
    return found.score, move.instance.name, move.steps


def _numbers(scan: scans.MoveScan) -> list[bytes]:
    """Return all values of moves that the scan stores."""
    found = []
    for _, store in scan._stores():
        arrays = [store.moves, store.rows.added, store.rows.linear, store.rows._floor]
        found += [array.tobytes() for array in arrays]
    return found


def _plan(
    cluster: Cluster, group: Group, limits: dict[str, Any]
) -> tuple[float, str, list[tuple[object, ...]]]:
    """Return the final score, the reason and the moves of a plan for `group`."""
    plan = GroupBalancer(problem_of(cluster, group), StopCriteria(**limits)).run()
    moves = [
        (one.move.instance.name, *one.move.before, *one.move.after, one.score)
        for one in plan.entries
    ]
    return plan.after, plan.reason, moves


def _moves(cluster: Cluster, group: Group) -> list[object]:
    """Return all moves of a group that soft limits allow."""
    return [_key(found) for found in problem_of(cluster, group).scan().lowest(10**6, 10**6)]


# What each move of a plan changes in the score's statistics, against scores made anew.


def test_changes_by_moves_are_the_differences_of_newly_computed_terms() -> None:
    """The predicted changes of score terms by moves equal the differences of computed terms.

    The moves, good and bad, follow one another; at the end, the state is unchanged.
    """
    rng, compared = Random(3), 0
    for name, cluster, group in scenarios(seeds(8, 20, 390)):
        problem = problem_of(cluster, group)
        moves, expected = [], []
        with problem.state.trial():
            for _ in range(6):
                found = problem.scan().lowest(40, 2)
                if not found:
                    break
                (move,) = rng.choice(found).moves
                before = terms_of(problem.state, group.nodes)
                move.apply(problem.state)
                after = terms_of(problem.state, group.nodes)
                expected.append([now - then for then, now in zip(before, after)])
                moves.append(move)
        version = problem.state.version
        for reported, wanted in zip(
            changes_of_moves(problem.state, moves, Deadline(None)), expected, strict=True
        ):
            assert reported is not None
            assert [statistic for statistic, _ in reported] == [one.name for one in STATISTICS]
            assert [change for _, change in reported] == pytest.approx(wanted, abs=1e-9), name
            compared += 1
        assert problem.state.version == version
        assert changes_of_moves(problem.state, moves, Deadline(0)) == [None] * len(moves)
        assert changes_of_moves(State(cluster), (), Deadline(None)) == []
    assert compared > 30
