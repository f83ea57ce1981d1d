"""Test that no plan copies disks needlessly: several moves of an instance become one."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.clusters import Shape, document
from iallocator.compat import Behaviour
from iallocator.compat.hail import HailBehaviour
from iallocator.model.cluster import Cluster
from iallocator.model.moves import DRBD_FAILOVER, FAILOVER_TO, REPLACE_SECONDARY, Move, replay
from iallocator.model.state import State
from iallocator.options.settings import Settings
from iallocator.planners import direct
from iallocator.planners.balance.move_kinds import MoveRules
from iallocator.planners.direct import direct_moves
from iallocator.planners.outcome import Failures
from iallocator.planners.plan import Plan, PlanEntry
from iallocator.planners.plan_limits import PlanLimits
from iallocator.planners.result import GroupPlan, GroupPlans
from iallocator.transition.paths import shortest
from tests.builders import Json, as_bytes, cluster, rbd
from tests.command import run
from tests.model.make import model_of
from tests.seeds import seeds


def _cluster(template: str, seed: int, fullness: float = 0.3) -> Cluster:
    return model_of(document(Shape(5, template, per_node=3, fullness=fullness, seed=seed)))


def _direct(state: State, moves: list[Move]) -> list[Move]:
    """Return `moves`, which begin at `state`, without needless copies.

    The plan is made as a whole, so it does not matter how fast the score falls.
    """
    plan = Plan("balance", 0.0)
    plan.entries = [PlanEntry(move) for move in moves]
    settings = Settings()
    settings.n1 = "off"
    limits = PlanLimits(settings)
    done = GroupPlans("balance", state, [GroupPlan(state.cluster.groups[0], plan)])
    done.keeps_n1_on_the_way = False
    found = direct_moves(done, limits, Failures(limits), MoveRules())
    return moves if found is None else [entry.move for entry in found[0]]


def _wandering(cluster: Cluster, rng: random.Random, count: int) -> tuple[State, list[Move]]:
    """Return a state, and random moves on it; some continue or revert earlier ones."""
    state, moves = State(cluster), []
    for _ in range(count):
        instance = rng.choice(cluster.instances[:6])
        here = state.where[instance.name]
        other = rng.choice([index for index in range(5) if index not in here])
        steps = [(FAILOVER_TO, other)]
        if len(here) > 1:
            steps = rng.choice([[(REPLACE_SECONDARY, other)], [(DRBD_FAILOVER, here[1])]])
        move = Move.by_steps(instance, here, steps)
        move.apply(state)
        moves.append(move)
    return State(cluster), moves


@pytest.mark.parametrize("template", ["rbd", "drbd"])
def test_repeated_moves_of_an_instance_become_one_move(template: str) -> None:
    """Several moves of an instance become the fewest moves to its final nodes.

    One move is left, or two if both nodes of a drbd instance are new.
    """
    for seed in seeds(6, 60):
        cluster = _cluster(template, seed)
        state, moves = _wandering(cluster, random.Random(seed), 14)
        plan = _direct(state, moves)
        ends = [State(cluster), State(cluster)]
        replay(ends[0], moves)
        replay(ends[1], plan)
        assert ends[0].where == ends[1].where
        for instance in cluster.instances:
            made = [move for move in plan if move.instance is instance]
            new = set(ends[0].where[instance.name]).difference(instance.nodes)
            needed = len(new) or int(ends[0].where[instance.name] != instance.nodes)
            assert len(made) == needed, (seed, instance.name)


def test_temporary_move_that_frees_capacity_is_kept() -> None:
    """A temporary move is kept if two instances swap nodes that cannot hold both."""
    cluster = _cluster("rbd", 1, fullness=0.95)
    first, second = cluster.instances[0], cluster.instances[1]
    (a,), (b,) = first.nodes, second.nodes
    stops = [(first, a, 4), (second, b, a), (first, 4, b)]
    for node in (a, b):
        cluster.nodes[node].reported_memory = 100
    moves = [Move(one, (before,), (after,), [(FAILOVER_TO, after)]) for one, before, after in stops]
    cluster.nodes[4].reported_memory = 100_000
    assert _direct(State(cluster), moves) == moves


def _plans() -> Iterator[tuple[Json, Json]]:
    """Yield documents of nearly full clusters, each with options of squeeze."""
    for seed in seeds(4, 40):
        whole = document(Shape(7, "drbd", per_node=6, fullness=0.5, crowding=0.5, seed=seed))
        options = ("--drbd", "--json", "--verify-plan", "--exact-search=no")
        done = run("squeeze", *options, stdin=as_bytes(whole))
        if done.returncode == 0:
            yield whole, json.loads(done.stdout)


def _needless_copies(whole: Json, plan: Json) -> list[str]:
    """Return the instances that are copied more often than necessary for their new nodes."""
    copies: dict[str, int] = {}
    ends: dict[str, list[str]] = {}
    for move in plan["moves"]:
        name = move["instance"]
        copies[name] = copies.get(name, 0) + move["move"].count("r:")
        ends[name] = move["to"]
    before = {name: whole["instances"][name]["nodes"] for name in ends}
    return [
        name
        for name, end in ends.items()
        if copies[name] > len(set(end).difference(before[name])) or end == before[name]
    ]


def test_squeeze_plans_have_no_needless_temporary_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans of squeeze copy few instances twice, and only where no shorter route is legal."""
    plans = list(_plans())
    again = sum(len(_needless_copies(whole, plan)) for whole, plan in plans)
    moved = sum(len({move["instance"] for move in plan["moves"]}) for _, plan in plans)
    assert moved > 100
    assert again * 50 < moved
    monkeypatch.setattr(direct, "MOST_SHORTENING_MOVES", 10**9)
    monkeypatch.setattr(direct, "MOST_POSITIONS_TRIED", 10**9)
    assert list(_plans()) == plans


def _places(*moves: str) -> tuple[State, list[Move]]:
    """Return a state, and the moves of one drbd instance along `moves`, such as ``AB``, ``BC``."""
    cluster = _cluster("drbd", 3)
    mover = next(one for one in cluster.instances if one.template == "drbd")
    mover.nodes = (0, 1)
    found = []
    for before, after in itertools.pairwise(moves):
        start, end = (tuple("ABCDE".index(letter) for letter in place) for place in (before, after))
        found.append(Move(mover, start, end, shortest(start, end)))
    return State(cluster), found


@pytest.mark.parametrize(
    ("places", "notations"),
    [
        (("AB", "BC", "BA"), ["f"]),
        (("AB", "AC", "AB"), []),
        (("AB", "BA", "BC", "CB", "CA"), ["r:C f"]),
        (("AB", "AC", "AD"), ["r:D"]),
        (("AB", "BC", "CD", "DA"), ["r:D f"]),
    ],
)
def test_moves_of_one_instance_become_the_shortest_route(
    places: tuple[str, ...], notations: list[str]
) -> None:
    """The moves of one instance become the shortest route to its final placement."""
    state, moves = _places(*places)
    short = {node.name: "ABCDE"[node.index] for node in state.cluster.nodes}
    plan = _direct(state, moves)
    reported = []
    for move in plan:
        text = move.notation(state.cluster)
        for name, letter in short.items():
            text = text.replace(name, letter)
        reported.append(text)
    assert reported == notations
    last = plan[-1].after if plan else moves[0].before
    assert last == moves[-1].after


@pytest.mark.parametrize("options", [(), ("--restricted-migration",)])
def test_balance_copies_less_and_ends_the_same(
    options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`balance` without needless copies ends with the placement and scores of the full plan."""
    saved = 0

    def planned(whole: Json) -> Json:
        done = run("balance", "--json", "--verify-plan", *options, stdin=as_bytes(whole))
        assert done.returncode == 0, done.stderr
        plan: Json = json.loads(done.stdout)
        if options == ("--restricted-migration",):
            assert {move["move"].partition(":")[0] for move in plan["moves"]} <= {"f", "r"}
        return plan

    example = json.loads(Path("docs/examples/cluster.json").read_bytes())
    shapes = [Shape(6, "drbd", per_node=6, crowding=0.5, seed=seed) for seed in seeds(2, 6)]
    for whole in (example, *map(document, shapes)):
        plan = planned(whole)
        with monkeypatch.context() as patch:
            patch.setattr(Behaviour, "avoids_needless_copies", False)
            found = planned(whole)
        ends = [{move["instance"]: move["to"] for move in one["moves"]} for one in (plan, found)]
        for name, end in ends[1].items():
            assert ends[0].get(name, whole["instances"][name]["nodes"]) == end
        assert plan["scores"]["after"] == pytest.approx(found["scores"]["after"])
        traffic_of = [sum(move["copied_mib"] for move in one["moves"]) for one in (plan, found)]
        assert traffic_of[0] <= traffic_of[1]
        assert len(plan["moves"]) <= len(found["moves"])
        saved += traffic_of[1] - traffic_of[0]
    if not options:
        assert saved > 0


def test_compat_hail_keeps_the_moves_of_hbal() -> None:
    """With --compat hail, a plan keeps all moves of hbal, also needless copies."""
    assert Behaviour.avoids_needless_copies
    assert not HailBehaviour.avoids_needless_copies


@pytest.mark.parametrize("seed", [2, 27])
def test_check_shows_the_single_moves_of_balance_without_needless_copies(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`check` has the moves of balance without swaps and chains, needless copies removed."""
    monkeypatch.setattr(Behaviour, "balances_by_swaps", False)
    raw = document(Shape(5, "drbd", per_node=4, fullness=(0.6, 0.75)[seed % 2], seed=seed))
    balance, check = (
        json.loads(run(*words, "--json", stdin=as_bytes(raw)).stdout)["moves"]
        for words in (("balance", "--all-groups"), ("check", "--simulation"))
    )
    assert balance == check


def test_shorter_plan_keeps_n1_between_its_moves() -> None:
    """No move of a plan of balance leaves node3 without another node for its largest instance."""
    score, stick = "iallocator:score:", "iallocator:stickiness:"
    residents = {
        "a": rbd("node2", memory=900, tags=[f"{score}node1:-0.2", f"{stick}0.01"]),
        "b": rbd("node1", memory=900, tags=[f"{stick}3"]),
        "c": rbd("node1", memory=900, tags=[f"{stick}3"]),
        "d": rbd("node1", memory=900, tags=[f"{score}node2:0.3", f"{stick}0.5"]),
        "e": rbd("node3", memory=1500),
    }
    sizes = {"node1": 3000, "node2": 2500, "node3": 2500}
    document = cluster(3, memory=2500, cpus=64, instances=residents)
    document["nodes"]["node1"] |= {"total_memory": 3000, "free_memory": 300}
    document["nodes"]["node3"]["tags"] = [f"{score}0.1"]
    done = run("balance", "--json", "--min-gain=0", stdin=as_bytes(document))
    homes = {name: raw["nodes"][0] for name, raw in residents.items()}
    for move in json.loads(done.stdout)["moves"]:
        homes[move["instance"]] = move["to"][0]
        left = dict(sizes)
        for name, home in homes.items():
            left[home] -= residents[name]["memory"]
        if homes["e"] == "node3":  # it is the largest, and must fit elsewhere
            assert max(left["node1"], left["node2"]) > 1500, (move, homes)
