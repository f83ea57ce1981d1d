"""Emptying nodes by balancing of alike instances only the first: the same as of all."""

from __future__ import annotations

import random

import pytest

from benchmarks.clusters import Shape, document
from iallocator.model.cluster import Cluster, Group
from iallocator.planners.balance.greedy import GreedyBalancer
from iallocator.planners.balance.move_kinds import MoveRules
from iallocator.planners.balance.problem import BalanceProblem
from iallocator.planners.plan import Plan
from iallocator.planners.power_state import Switched
from iallocator.planners.squeeze import emptying
from iallocator.planners.squeeze.emptying import empty
from iallocator.planners.stop_criteria import StopCriteria
from iallocator.wire.document import read_cluster
from iallocator.wire.reading import Reading
from tests.planners.worlds import problem_of, worlds
from tests.seeds import seeds

LIMITS = StopCriteria(min_gain=0.0)


def _silent(plan: Plan) -> None:
    """Say nothing of a plan."""


def _both(cluster: Cluster, group: Group, off: frozenset[int]) -> tuple[Plan, Plan]:
    """Return what balancing finds to empty the nodes `off`, and what emptying does."""

    def problem() -> BalanceProblem:
        return problem_of(cluster, group, MoveRules(evacuate_only=True).while_leaving(off))

    with Switched(cluster, off):
        plain = GreedyBalancer(problem(), LIMITS, _silent).run()
        return plain, empty(problem(), LIMITS, _silent)


def _moves(plan: Plan) -> list[tuple[str, str, float]]:
    return [(move.instance.name, move.notation, round(move.score, 6)) for move in plan.moves]


@pytest.mark.parametrize("template", ["rbd", "drbd"])
@pytest.mark.parametrize("fewest", [1, 3])
def test_emptying_alike_instances_makes_the_moves_of_balancing_all(
    template: str, fewest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dozens of each kind leave; they are looked at in several rounds, and nothing else changes."""
    monkeypatch.setattr(emptying, "FEWEST", fewest)
    monkeypatch.setattr(emptying, "SHARE", 10)
    cluster = read_cluster(document(Shape(8, template, crowding=0.2, seed=fewest)), Reading())
    plain, emptied = _both(cluster, cluster.groups[0], frozenset({1, 4, 5}))
    assert len(plain.moves) > 30
    assert _moves(emptied) == _moves(plain)


def test_emptying_generated_clusters_makes_the_moves_of_balancing_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tags, networks, pools, nodes that are offline already: whoever differs is looked at alone."""
    monkeypatch.setattr(emptying, "FEWEST", 1)
    moved = 0
    for name, cluster, group in worlds(seeds(16, 40)):
        online = [index for index in group.nodes if cluster.nodes[index].online]
        off = frozenset(random.Random(name).sample(online, len(online) // 2))
        plain, emptied = _both(cluster, group, off)
        assert _moves(emptied) == _moves(plain), name
        moved += len(plain.moves)
    assert moved > 100
