"""Colourings: right, and with as few colours as a brute force finds."""

from __future__ import annotations

from itertools import product
from random import Random

from iallocator.solver.colouring import colour, colour_greedily, large_clique

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


def test_colour_on_small_graphs_is_as_good_as_brute_force() -> None:
    """The fewest colours, and the proof."""
    rng = Random(1)
    for _ in range(60):
        graph = _graph(rng, rng.randint(0, 6))
        colours, proved = colour(graph)
        assert _right(graph, colours)
        assert proved
        assert len(set(colours)) == _fewest(graph)


def test_colour_on_larger_graphs_is_right_and_no_worse_than_greedy() -> None:
    """Even where the steps do not suffice for a proof."""
    rng = Random(2)
    for _ in range(10):
        graph = _graph(rng, 40)
        colours, _ = colour(graph, steps=500)
        assert _right(graph, colours)
        assert len(large_clique(graph)) <= len(set(colours)) <= len(set(colour_greedily(graph)))
