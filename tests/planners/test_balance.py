"""Test properties that every plan of balance has."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from iallocator.cli import main
from iallocator.deadline import SIGNALLED, Stopped
from iallocator.model.moves import replay
from iallocator.model.state import State
from iallocator.options.settings import Settings
from iallocator.planners.balance.descent import GroupBalancer
from iallocator.planners.plan import Plan
from iallocator.planners.plan_limits import PlanLimits, StopCriteria
from iallocator.planners.verify import verify_moves
from iallocator.scoring.scalar import ScalarKernel
from tests.builders import cluster as build
from tests.builders import instance
from tests.command import json_of, printed
from tests.schemas import conforms
from tests.seeds import seeds

from .scenarios import problem_of, scenarios

LIMITS = PlanLimits(Settings())


def snapshot(state: State) -> tuple[object, ...]:
    """Return all values of a state that moves can change, to be compared later."""
    rows = [state.row(index) for index in range(len(state.reserved))]
    return rows, list(state.reserved), dict(state.where), [dict(p) for p in state.peers]


def test_balance_plan_executed_on_the_model_violates_no_limit() -> None:
    """During each step of a balance plan, the nodes are online and have enough capacity."""
    moves = 0
    for name, cluster, group in scenarios(seeds(8, 30, 400)):
        place = problem_of(cluster, group)
        plan = GroupBalancer(place, StopCriteria()).run()
        assert verify_moves(place.state, plan.entries, LIMITS) == [], name
        moves += len(plan.moves)
    assert moves > 40


def test_balance_score_falls_with_every_move_and_is_the_true_one() -> None:
    """Each move of balance lowers the score, and the last stated score is that of the cluster."""
    for name, cluster, group in scenarios(seeds(8, 20, 430)):
        place = problem_of(cluster, group)
        plan = GroupBalancer(place, StopCriteria()).run()
        scores = [plan.before, *(entry.score for entry in plan.entries)]
        assert all(b < a for a, b in pairwise(scores)), name
        replay(place.state, plan.moves)
        score = ScalarKernel(place.state, group.nodes, place.fixed).score()
        assert plan.after == pytest.approx(score, abs=1e-9), name


@pytest.mark.slow
def test_balance_restores_the_state_exactly() -> None:
    """Planning by balance restores the state exactly after all its tentative moves."""
    for name, cluster, group in scenarios(range(450, 460)):
        place = problem_of(cluster, group)
        before = snapshot(place.state)
        GroupBalancer(place, StopCriteria(compound=True)).run()
        assert snapshot(place.state) == before, name


@pytest.mark.slow
def test_balance_with_compound_moves_ends_no_higher() -> None:
    """With swaps and chains, `balance` never ends with a higher score than without them."""
    lower = 0
    for name, cluster, group in scenarios(range(460, 480)):
        place = problem_of(cluster, group)
        greedy = GroupBalancer(place, StopCriteria()).run()
        ahead = GroupBalancer(place, StopCriteria(compound=True)).run()
        assert ahead.after <= greedy.after + 1e-9, name
        assert verify_moves(place.state, ahead.entries, LIMITS) == [], name
        lower += ahead.after < greedy.after - 1e-9
    assert lower


def test_balance_with_a_traffic_limit_keeps_it_and_beats_the_cut_plan() -> None:
    """With a traffic limit, `balance` ends no worse than its unlimited plan cut at that traffic."""
    for name, cluster, group in scenarios(seeds(6, 20, 480)):
        place = problem_of(cluster, group)
        free = GroupBalancer(place, StopCriteria()).run()
        cost = free.copied / 3
        limited = GroupBalancer(place, StopCriteria(cost=cost)).run()
        assert limited.copied <= cost, name
        assert limited.after <= cut(free, cost) + 1e-9, name


def cut(plan: Plan, cost: float) -> float:
    """Return the score of a plan that is cut before its copies exceed `cost`."""
    copied, score = 0, plan.before
    for entry in plan.entries:
        copied += entry.move.copied
        if copied > cost:
            break
        score = entry.score
    return score


DOCUMENT = build(
    nodes=3,
    instances={f"i{n}": instance("node1", "node2", memory=512) for n in range(6)},
)


@pytest.fixture
def path(tmp_path):  # type: ignore[no-untyped-def]
    """Return the path of a file with an unbalanced cluster."""
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(DOCUMENT))
    return str(file)


def test_balance_command_json_fits_the_schema(path: str) -> None:
    """The output of balance --json conforms to schemas/plan.schema.json."""
    plan = json_of("balance", path)
    conforms(plan, "plan")
    assert plan["moves"]
    assert sorted(p for s in plan["job_sets"] for p in s) == list(range(len(plan["moves"])))
    assert plan["scores"]["after"] < plan["scores"]["before"]


def test_balance_command_without_time_plans_nothing(path: str) -> None:
    """With --time-limit 0, `balance` makes no move and reports the reason."""
    assert "time is up" in printed("balance", "--time-limit", "0", path, status=3)


def test_balance_command_interrupted_prints_the_plan_so_far(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After Ctrl-C, `balance` prints the two moves made so far, and ends with exit status 130."""
    import iallocator.commands.plans as command

    def interrupt(plan: Plan) -> None:
        if len(plan.moves) == 2:
            raise Stopped(SIGNALLED)

    monkeypatch.setattr(command, "say_plan", interrupt)
    assert len(json_of("balance", path, status=130)["moves"]) == 2


@pytest.mark.parametrize(
    ("option", "problem"),
    [("--offline=nope", "--offline: unknown node nope"),
     ("--group=nope", "--group: unknown group nope"),
     ("--select-instances=nope", "--select-instances: unknown instance nope")],
)  # fmt: skip
def test_balance_command_reports_an_unknown_name(
    option: str, problem: str, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`balance` reports a misspelt name as an error instead of an empty plan."""
    assert main(["balance", option, path]) == 2
    assert problem in capsys.readouterr().err


def test_balance_command_of_several_groups_balances_the_worst() -> None:
    """`balance` plans for the most unbalanced of two groups; with --all-groups, for both."""
    document = build(
        nodes={"good": 2, "bad": 3},
        instances={f"i{n}": instance("node3", "node4", memory=512) for n in range(6)},
    )
    for options, names in (([], ["bad"]), (["--all-groups"], ["bad", "good"])):
        plan = json_of("balance", *options, document=document)
        assert [group["group"] for group in plan["groups"]] == names


@pytest.mark.parametrize("state", ["offline", "drained"])
def test_balance_without_any_node_online_plans_nothing(state: str) -> None:
    """`balance` of a group without online nodes makes no moves and computes none."""
    held = {name: instance("node1", "node2") for name in ("a", "b")}
    document = build(2, instances=held, changes={f"node{k}": {state: True} for k in (1, 2)})
    assert json_of("balance", document=document)["moves"] == []
