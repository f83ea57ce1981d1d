"""Test the solver against brute force, and improvements of answers."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from itertools import product
from random import Random
from typing import Any

import pytest

from iallocator.deadline import Deadline
from iallocator.solver.colouring import colour, colour_greedily, large_clique
from iallocator.solver.highs import search
from iallocator.solver.problem import FOUND, IMPOSSIBLE, TIME_OUT, Choice, Kind, Problem
from tests.seeds import seeds

pytest.importorskip("highspy")


def _random_problem(seed: int) -> tuple[Problem, dict[str, list[Choice]]]:
    """Return a random small problem, and the choices of each of its items."""
    rng = random.Random(seed)
    problem = Problem()
    bins = range(rng.randint(2, 4))
    for number in bins:
        problem.at_most(("room", number), rng.randint(4, 12))
    choices: dict[str, list[Choice]] = {}
    for kind in range(rng.randint(2, 4)):
        size, cost = rng.randint(1, 6), rng.random()
        where = rng.sample(bins, rng.randint(1, len(bins)))
        own = [Choice((number,), cost * number, {("room", number): size}) for number in where]
        members = [f"{kind}-{n}" for n in range(rng.randint(1, 2))]
        problem.kinds.append(Kind(members, own))
        choices |= dict.fromkeys(members, own)
    return problem, choices


def _cheapest(problem: Problem, choices: Mapping[str, Sequence[Choice]]) -> float | None:
    """Return the lowest sum of costs by brute force; None if nothing fits."""
    best = None
    for taken in itertools.product(*choices.values()):
        used: dict[Any, float] = {}
        for choice in taken:
            for row, amount in choice.uses.items():
                used[row] = used.get(row, 0) + amount
        if all(used.get(row, 0) <= high for row, (_, high) in problem.bounds.items()):
            cost = sum(choice.cost for choice in taken)
            best = cost if best is None else min(best, cost)
    return best


@pytest.mark.parametrize("seed", seeds(20, 60))
def test_search_finds_the_cheapest_answer_or_proves_that_there_is_none(seed: int) -> None:
    """The solver finds the cheapest solution, or proves that there is none."""
    problem, choices = _random_problem(seed)
    expected = _cheapest(problem, choices)
    answer = search(problem, lambda values: None, Deadline.of_search(20), gap=0)
    if expected is None:
        assert answer.status == IMPOSSIBLE
        return
    assert answer.status == FOUND
    values = answer.values(problem)
    cost = sum(
        next(c.cost for c in choices[member] if c.value == value)
        for member, value in values.items()
    )
    assert set(values) == set(choices)
    assert cost == pytest.approx(expected, abs=1e-6)


def test_search_with_a_check_rules_out_what_it_rejects() -> None:
    """The solver returns the next best solution after the check has rejected one."""
    problem = Problem()
    problem.kinds = [Kind(["a", "b"], [Choice(n, float(n), {}) for n in range(3)])]
    seen = []

    def check(values: Mapping[str, Any]) -> list[str] | None:
        seen.append(sorted(values.values()))
        return ["a", "b"] if sum(values.values()) < 3 else None

    answer = search(problem, check, Deadline.of_search(20), gap=0)
    assert sorted(answer.values(problem).values()) == [1, 2]
    assert len({tuple(values) for values in seen}) == len(seen)


def test_search_proves_that_nothing_passes_the_check() -> None:
    """If the check rejects every combination, the solver proves that there is no solution."""
    problem = Problem()
    problem.kinds = [Kind(["a", "b"], [Choice(n, 0.0, {}) for n in range(3)])]
    assert search(problem, lambda values: ["a", "b"], Deadline.of_search(20)).status == IMPOSSIBLE


def test_search_without_time_reports_it() -> None:
    """Without time, the solver reports that, and has no result."""
    problem = Problem()
    problem.kinds = [Kind(["a"], [Choice(1, 0.0, {})])]
    assert search(problem, lambda values: None, Deadline.of_search(0)).status == TIME_OUT


def test_a_penalty_lets_members_be_left_out() -> None:
    """The solver leaves out the optional item with the least penalty if capacity is short."""
    problem = Problem()
    problem.at_most(("room",), 1)
    problem.kinds = [
        Kind([name], [Choice(1, 0.0, {("room",): 1})], penalty)
        for name, penalty in (("cheap", 1.0), ("dear", 5.0))
    ]
    answer = search(problem, lambda values: None, Deadline.of_search(20), gap=0)
    assert set(answer.values(problem)) == {"dear"}


# Colourings: right, and with as few colours as a brute force finds.


Graph = list[set[int]]


def _graph(rng: Random, size: int) -> Graph:
    found: Graph = [set() for _ in range(size)]
    density = rng.random()
    for one in range(size):
        for other in range(one):
            if rng.random() < density:
                found[one].add(other)
                found[other].add(one)
    return found


def _right(graph: Graph, colours: list[int]) -> bool:
    return all(colours[one] != colours[other] for one in range(len(graph)) for other in graph[one])


def _fewest(graph: Graph) -> int:
    size = len(graph)
    return next(
        count
        for count in range(size + 1)
        if any(_right(graph, list(some)) for some in product(range(count), repeat=size))
    )


def test_colouring_of_small_graphs_equals_brute_force() -> None:
    """The solver colours small graphs with the fewest colours, and proves that."""
    rng = Random(1)
    for _ in range(60):
        graph = _graph(rng, rng.randint(0, 6))
        colours, proved = colour(graph)
        assert _right(graph, colours)
        assert proved
        assert len(set(colours)) == _fewest(graph)


def test_colouring_of_larger_graphs_is_valid_and_no_worse_than_greedy() -> None:
    """The colouring of a larger graph is valid, and no worse than greedy colouring."""
    rng = Random(2)
    for _ in range(10):
        graph = _graph(rng, 40)
        colours, _ = colour(graph, steps=500)
        assert _right(graph, colours)
        assert len(large_clique(graph)) <= len(set(colours)) <= len(set(colour_greedily(graph)))
