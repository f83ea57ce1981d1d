"""Test the swaps of balance: the best pair is chosen, and kept swaps equal new ones."""

from __future__ import annotations

from functools import partial
from itertools import combinations
from random import Random

import pytest

from benchmarks import clusters, gap
from iallocator.model.moves import replay
from iallocator.model.node_view import Capacities
from iallocator.model.state import State
from iallocator.planners.balance import compound_moves
from iallocator.planners.balance.descent import GroupBalancer
from iallocator.planners.balance.move_kinds import MoveRules
from iallocator.planners.balance.plan_builder import BalanceProblem, PlanBuilder
from iallocator.planners.balance.scan import swaps
from iallocator.planners.balance.scan.swaps import SwapTable
from iallocator.planners.plan_limits import StopCriteria
from iallocator.scoring.scalar import score_of
from tests.builders import as_bytes, cluster, instance, rbd
from tests.command import json_of, run
from tests.model.make import model_of
from tests.seeds import seeds


def problem_of(
    template: str, seed: int, nodes: int = 6, per_node: int = 5, fullness: float = 0.7
) -> BalanceProblem:
    """Return a generated cluster with some instances moved to other nodes."""
    shape = clusters.Shape(nodes, template, per_node=per_node, fullness=fullness, seed=seed)
    read = model_of(clusters.document(shape))
    state, rng = State(read), Random(seed)
    for one in read.instances:
        if rng.random() < 0.4:
            at = rng.sample(range(nodes), len(one.nodes))
            if all(state.row(index)[0] > 2 * one.memory for index in at):
                state.remove(one, state.where[one.name])
                state.place(one, tuple(at))
    fixed = Capacities(read.nodes)
    return BalanceProblem(state, range(nodes), fixed, read.instances, MoveRules())


def table_of(problem: BalanceProblem) -> SwapTable:
    """Return the table of swaps for the present state of a problem."""
    return problem.scan().swaps(problem.instances, lambda moved, role: True)


@pytest.mark.parametrize("seed", seeds(4, 40))
def test_the_best_swap_is_that_of_all_pairs(seed: int) -> None:
    """The table of swaps returns the swap with the lowest score of all pairs of instances."""
    problem = problem_of("rbd", seed)
    state, scope = problem.state, problem.scope
    present, best = score_of(state, scope), 0.0
    for one, other in combinations(problem.instances, 2):
        here, there = state.where[one.name], state.where[other.name]
        if here == there:
            continue
        with state.trial():
            for moved, at, to in ((one, here, there), (other, there, here)):
                state.remove(moved, at)
                state.place(moved, to)
            if all(state.row(index)[0] > 0 for index in scope):
                best = max(best, present - score_of(state, scope))
    found = table_of(problem).lowest()
    assert (0.0 if found is None else found.gain) == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("seed", seeds(4, 40))
def test_the_best_swap_of_drbd_instances_includes_the_reserved_memory(seed: int) -> None:
    """The table returns the swap with the lowest score, which includes memory for failovers."""
    problem = problem_of("drbd", seed, fullness=0.3)
    state, scope = problem.state, problem.scope
    present, best = score_of(state, scope), 0.0
    roles = [(one, role) for one in problem.instances for role in (0, 1)]
    for (one, role), (other, another) in combinations(roles, 2):
        here, there = list(state.where[one.name]), list(state.where[other.name])
        here[role], there[another] = there[another], here[role]
        if one is other or len({*here}) < 2 or len({*there}) < 2 or here == there:
            continue
        with state.trial():
            for moved, to in ((one, here), (other, there)):
                state.remove(moved, state.where[moved.name])
                state.place(moved, tuple(to))
            best = max(best, present - score_of(state, scope))
    found = table_of(problem).lowest()
    assert found is not None
    assert found.gain == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("template", ["rbd", "drbd"])
@pytest.mark.parametrize("seed", seeds(3, 30))
def test_estimates_lead_to_the_best_swap(
    seed: int, template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large table, which evaluates the swaps with the best estimates, has the best swap."""
    problem = problem_of(template, seed, fullness=0.3)
    best = table_of(problem).lowest()
    monkeypatch.setattr(swaps, "MOST_EXACT_ROLES", 0)
    large = table_of(problem)
    at_first = large.lowest()
    large.permit_all()
    found = large.lowest()
    assert best is not None
    assert at_first is not None
    assert found is not None
    assert at_first.gain > 0.95 * best.gain
    assert found.gain == pytest.approx(best.gain, abs=1e-9)


@pytest.mark.parametrize("template", ["rbd", "drbd"])
@pytest.mark.parametrize("seed", seeds(3, 30))
def test_kept_swaps_are_those_of_a_new_table(seed: int, template: str) -> None:
    """After changes of some nodes, the kept table of swaps has the swaps of a new table."""
    problem, rng = problem_of(template, seed), Random(seed)
    state, scan = problem.state, problem.scan()
    kept = scan.swaps(problem.instances, lambda moved, role: True)
    for _ in range(5):
        moves = scan.lowest(20, 4)
        if not moves:
            break
        (move,) = rng.choice(moves).moves
        move.apply(state)
        scan.follow(move.nodes)
        kept.refresh(scan.table.position[index] for index in move.nodes)
        kept.permit_all()
        found, new = kept.lowest(), table_of(problem).lowest()
        assert (found is None) == (new is None)
        if found is not None and new is not None:
            assert found.gain == pytest.approx(new.gain, abs=1e-9)


@pytest.mark.parametrize("movable", [True, False])
def test_there_is_no_swap_of_equal_or_fixed_instances(movable: bool) -> None:
    """The table of swaps is empty if all instances are alike, and if none can move."""
    sizes = [512] * 4 if movable else [512, 1024, 1536, 2048]
    held = {f"i{k}": rbd(f"node{k % 2 + 1}", memory=size) for k, size in enumerate(sizes)}
    read = model_of(cluster(2, instances=held))
    fixed = Capacities(read.nodes)
    problem = BalanceProblem(State(read), range(2), fixed, read.instances, MoveRules())
    table = problem.scan().swaps(problem.instances, lambda moved, role: movable)
    assert table.lowest() is None
    assert table.rotations(5) == []


def test_a_barred_swap_gives_way_to_the_next_best() -> None:
    """The table of swaps returns every swap once, the best first, if it lowers the score."""
    table, gains, pairs = table_of(problem_of("rbd", 5)), [], set()
    while (swap := table.lowest()) is not None:
        pair = frozenset((swap.first.name, swap.second.name))
        assert pair not in pairs
        pairs.add(pair)
        gains.append(swap.gain)
        table.bar(swap)
    assert len(gains) > 5
    assert gains == sorted(gains, reverse=True)


def test_a_swap_between_full_nodes_parks_an_instance() -> None:
    """`balance` swaps two instances of full nodes with a temporary move to a third node.

    Each node has two instances, so that a single move raises the score.
    """
    held = {"a": (1, 6000, 8), "c": (1, 1000, 8), "b": (2, 6000, 1), "d": (2, 1000, 1)}
    held |= {"e": (3, 500, 4), "f": (3, 500, 4)}
    instances = {
        name: rbd(f"node{node}", memory=memory, vcpus=vcpus)
        for name, (node, memory, vcpus) in held.items()
    }
    document = cluster(3, memory=8000, instances=instances)
    plan = json_of("balance", "--n1=off", document=document)
    names = [one["instance"] for one in plan["moves"]]
    assert len(names) == 3
    assert names[0] == names[2] != names[1]
    assert plan["moves"][0]["to"] == ["node3"]
    assert plan["scores"]["after"] < plan["scores"]["before"]
    short = json_of("balance", "--n1=off", "--max-length=2", document=document)
    assert len(short["moves"]) <= 2
    assert short["scores"]["after"] > plan["scores"]["after"]


@pytest.mark.parametrize("seed", seeds(4, 40))
def test_every_rotation_lowers_the_score(seed: int) -> None:
    """The table returns rotations of three instances that fit, and that lower the score."""
    problem = problem_of("rbd", seed)
    state, scope, counted = problem.state, problem.scope, 0
    present = score_of(state, scope)
    for rotation in table_of(problem).rotations(10):
        assert {at for _, at, _ in rotation} == {to for _, _, to in rotation}
        assert len({at for _, at, _ in rotation}) == 3
        with state.trial():
            for moved, at, _ in rotation:
                state.remove(moved, (at,))
            for moved, _, to in rotation:
                state.place(moved, (to,))
            assert score_of(state, scope) < present
            assert all(state.row(index)[0] > 0 for index in scope)
        counted += 1
    assert counted == 10


def test_rotations_lower_the_score_where_no_swap_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """`balance` ends with a lower score because it rotates three instances."""
    text = gap.as_text(*gap.large(3))
    plan, _ = gap.planned(text, compound=True)
    monkeypatch.setattr(swaps, "MOST_ROTATIONS", 0)
    without, _ = gap.planned(text, compound=True)
    assert plan.after < without.after - 0.01
    moves = [move.instance.name for move in plan.moves]
    assert moves[: len(without.entries)] == [move.instance.name for move in without.moves]


@pytest.mark.parametrize("template", ["rbd", "drbd"])
@pytest.mark.parametrize("seed", seeds(4, 40, 2))
def test_no_single_move_helps_after_swaps(
    monkeypatch: pytest.MonkeyPatch, seed: int, template: str
) -> None:
    """`balance` makes single moves that become useful while it makes swaps.

    There are no chains of moves, as on large clusters.
    """
    monkeypatch.setattr(compound_moves, "VISITED_CELLS", 0)
    monkeypatch.setattr(compound_moves, "MOVES_OF_FEW_STATES", 0)
    problem = problem_of(template, seed, nodes=8, per_node=8, fullness=0.9)
    limits = StopCriteria(min_gain=0.0, min_gain_limit=0.0, compound=True)
    plan = GroupBalancer(problem, limits).run()
    replay(problem.state, plan.moves)
    best = problem.scan().best()
    assert best is None or best.score > plan.after - 1e-6


@pytest.mark.parametrize("template", ["rbd", "drbd"])
@pytest.mark.parametrize("seed", seeds(3, 30, 80))
def test_independent_moves_have_exact_scores_after_one_another(seed: int, template: str) -> None:
    """Moves of one search on different nodes have exact scores, after any number of them."""
    problem = problem_of(template, seed, nodes=20)
    state, scope, scan, compared = problem.state, problem.scope, problem.scan(), 0
    best = scan.best()
    assert best is not None
    used, chosen = set(best.nodes), scan.independent(best, scan.score())
    best.moves[0].apply(state)
    scan.follow(best.nodes)
    for placed in chosen:
        scored = scan.scored_now(placed)
        assert used.isdisjoint(scored.nodes)
        used |= scored.nodes
        scored.moves[0].apply(state)
        scan.follow(scored.nodes)
        assert scored.score == pytest.approx(score_of(state, scope), abs=1e-8)
        compared += 1
    assert compared


@pytest.mark.parametrize("seed", seeds(2, 12, 60))
def test_swaps_lower_the_score_by_a_share_that_grows_with_the_nodes(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A swap lowers the score by 0.001 % for each node of the group."""
    monkeypatch.setattr(compound_moves, "VISITED_CELLS", 0)  # no longer steps
    monkeypatch.setattr(compound_moves, "MOVES_OF_FEW_STATES", 0)
    nodes, compared = 24, 0
    problem = problem_of("drbd", seed, nodes=nodes)
    limits = StopCriteria(min_gain=0.0, min_gain_limit=0.0, compound=True)
    plan = GroupBalancer(problem, limits).run()
    scores = [plan.before, *(entry.score for entry in plan.entries)]
    for before, first, second in zip(scores, scores[1:], scores[2:]):
        if first > before > second:  # the two moves of a swap
            assert before - second > before * 1e-5 * nodes * 0.999
            compared += 1
    assert compared > 5


def test_lookahead_has_no_effect_and_warns() -> None:
    """`--lookahead` has no effect on the plan of balance, and prints a warning."""
    raw = as_bytes(clusters.document(clusters.Shape(4, "rbd", crowding=0.6)))
    plain = run("balance", "--json", stdin=raw)
    ahead = run("balance", "--lookahead", "--json", stdin=raw)
    assert plain.stdout == ahead.stdout
    assert b"Warning: --lookahead has no effect" in ahead.stderr
    assert b"lookahead" not in plain.stderr


@pytest.mark.parametrize("offline", [True, False])
def test_no_move_of_a_rearrangement_leads_to_an_offline_node(offline: bool) -> None:
    """An instance that costs nothing on an offline node does not move to it."""
    held = {"coming": instance("node3", "node2", forthcoming=True)}
    changes = {"node1": {"offline": offline}}
    read = model_of(cluster(3, instances=held, changes=changes))
    fixed = Capacities(read.nodes)
    problem = BalanceProblem(State(read), range(3), fixed, read.instances, MoveRules())
    builder = PlanBuilder(problem, StopCriteria(), lambda plan: None, None)
    (moved,) = problem.instances
    found = compound_moves.move_to(
        moved, (2, 1), (0, 2), partial(compound_moves.allowed_move, builder)
    )
    assert (found is None) == offline
