"""Colouring graphs: greedily by DSATUR, and with the fewest colours by branch and bound.

A graph lists, for each vertex, the vertices that must have another colour.  The integer program
(one choice of a colour for each vertex) takes 3 to 60 times as long as this search, and needs 0.1 s
to load: `docs/design/exact-search.md` has the measurement.
"""

from __future__ import annotations

from iallocator.solver.branch_and_bound import BranchAndBound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    Graph = Sequence[Collection[int]]

__all__ = ["colour", "colour_greedily", "large_clique"]

MOST_COLOURING_STEPS = 20_000
"""The vertices that the exact search colours, or colours again, before it ends."""


def colour_greedily(graph: Graph) -> list[int]:
    """Return a colour for each vertex, a number from 0.

    The vertex with most colours among its neighbours is coloured next. Cost: vertices squared.
    """
    colours = [-1] * len(graph)
    seen: list[set[int]] = [set() for _ in graph]
    left = set(range(len(graph)))
    while left:
        vertex = max(left, key=lambda v: (len(seen[v]), len(graph[v]), -v))
        left.remove(vertex)
        colours[vertex] = next(c for c in range(len(graph)) if c not in seen[vertex])
        for other in graph[vertex]:
            seen[other].add(colours[vertex])
    return colours


def large_clique(graph: Graph) -> list[int]:
    """Return vertices that are all neighbours of each other, found greedily.

    Each of them needs its own colour, so their number is a lower bound.
    """
    best: list[int] = []
    for start in sorted(range(len(graph)), key=lambda v: -len(graph[v])):
        if len(graph[start]) < len(best):
            break
        clique = [start]
        open_to = set(graph[start])
        while open_to:
            vertex = max(open_to, key=lambda v: (len(open_to.intersection(graph[v])), -v))
            clique.append(vertex)
            open_to.intersection_update(graph[vertex])
        best = max(best, clique, key=len)
    return best


def colour(graph: Graph, steps: int = MOST_COLOURING_STEPS) -> tuple[list[int], bool]:
    """Return a colouring with few colours, and whether fewer colours are impossible.

    `steps`: the most vertices that the search colours, or colours again.
    """
    search = _Search(graph, steps)
    if search.clique and len(search.clique) < search.cost:
        for number, vertex in enumerate(search.clique):
            search.paint(vertex, number)
        search.search(len(search.clique))
    return search.best, search.proved


class _Search(BranchAndBound):
    """Branch and bound over the order of DSATUR: every decision colours one more vertex.

    The cost is the number of colours.

    Attributes
    ----------
    best:
        The colours of the vertices with the fewest colours found.
    clique:
        Vertices that need a colour each.
    """

    def __init__(self, graph: Graph, steps: int) -> None:
        self.best = colour_greedily(graph)
        self.clique = large_clique(graph)
        super().__init__(len(graph), max(self.best, default=-1) + 1, len(self.clique))
        self._graph = graph
        self._steps = steps
        self._colours = [-1] * len(graph)
        self._used = [len(self.clique)]  # colours used, after each decision
        self._seen: list[dict[int, int]] = [{} for _ in graph]

    def must_end(self) -> bool:
        return self._steps <= 0

    def branches(self, depth: int) -> Iterator[tuple[int, tuple[int, int]]]:
        vertex = max(
            (v for v, c in enumerate(self._colours) if c < 0),
            key=lambda v: (len(self._seen[v]), len(self._graph[v]), -v),
        )
        used = self._used[-1]
        for number in range(used + 1):
            if number not in self._seen[vertex]:
                yield max(used, number + 1), (vertex, number)

    def enter(self, depth: int, choice: tuple[int, int]) -> None:
        vertex, number = choice
        self._steps -= 1
        self._used.append(max(self._used[-1], number + 1))
        self.paint(vertex, number)

    def leave(self, depth: int, choice: tuple[int, int]) -> None:
        vertex, number = choice
        self._used.pop()
        self._colours[vertex] = -1
        for other in self._graph[vertex]:
            self._seen[other][number] -= 1
            if not self._seen[other][number]:
                del self._seen[other][number]

    def accept(self, cost: int) -> bool:
        self.best = list(self._colours)
        return True

    def paint(self, vertex: int, number: int) -> None:
        """Give `vertex` the colour `number`."""
        self._colours[vertex] = number
        for other in self._graph[vertex]:
            self._seen[other][number] = self._seen[other].get(number, 0) + 1
