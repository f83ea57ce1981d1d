"""The same live migrations as Pacemaker orders them: fewer waits, and no node overfull."""

from __future__ import annotations

from random import Random

import pytest

from benchmarks.pacemaker import Graph, Problem, available, measure, ours, pacemakers, problem

pytestmark = pytest.mark.skipif(not available(), reason="crm_simulate is not installed")


def test_fewer_waits_and_never_overfull() -> None:
    """On problems that both order safely, and on all."""
    figures = measure(range(30))
    for _, theirs, mine in figures.values():
        assert mine.overfull == 0
        assert mine.waits < theirs.waits
    count, theirs, mine = figures["Pacemaker overfills no node"]
    assert count > 3
    assert mine.longest < theirs.longest
    assert figures["all"][1].overfull > 0


def test_pacemaker_ignores_amounts() -> None:
    """What the comparison rests on: an arrival with room enough waits for a departure there."""
    one = Problem(3, 12, {"comes": (1, 0, 1), "goes": (1, 1, 2)})
    assert pacemakers(one).ordered()["comes"] == {"goes"}
    assert ours(one).ordered()["comes"] == set()


def test_pacemaker_overfills_in_a_circle() -> None:
    """And it lets one of two that change places arrive early."""
    one = Problem(3, 12, {"a": (8, 0, 1), "b": (8, 1, 0)})
    assert _ever_overfull(one, pacemakers(one))
    assert not _ever_overfull(one, ours(one))


def test_overfull_moments_are_found() -> None:
    """The measure notices a graph without waits."""
    one = problem(1)
    graph = ours(one)
    graph.waits = {action: set() for action in graph.waits}
    assert _ever_overfull(Problem(one.nodes, 7, one.machines), graph)


def _ever_overfull(one: Problem, graph: Graph) -> bool:
    rng = Random(0)
    return any(graph.overfull(one, rng) for _ in range(20))
