"""Colouring graphs: greedily by DSATUR, and with the fewest colours by branch and bound.

A graph is a list that says of every vertex which others it must not share its colour with.
"""

from __future__ import annotations

from iallocator.deadline import check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    Graph = Sequence[Collection[int]]

__all__ = ["colour", "colour_greedily", "large_clique"]

STEPS = 20_000
"""Vertices that the exact search colours, or colours anew, before it keeps the best it has."""


def colour_greedily(graph: Graph) -> list[int]:
    """Return a colour, from 0 on, per vertex; the vertex with most colours around it comes next.

    Cost: vertices squared.
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
    """Vertices that are neighbours of each other, found greedily: they need a colour each."""
    best: list[int] = []
    for start in sorted(range(len(graph)), key=lambda v: -len(graph[v])):
        if len(graph[start]) < len(best):
            break
        found = [start]
        open_to = set(graph[start])
        while open_to:
            vertex = max(open_to, key=lambda v: (len(open_to.intersection(graph[v])), -v))
            found.append(vertex)
            open_to.intersection_update(graph[vertex])
        best = max(best, found, key=len)
    return best


def colour(graph: Graph, steps: int = STEPS) -> tuple[list[int], bool]:
    """Colours of the vertices, as few as are found within `steps`, and whether fewer cannot be."""
    search = _Search(graph, steps)
    search.run()
    return search.best, search.proved


class _Search:
    """Branch and bound over the order of DSATUR.

    Attributes
    ----------
    best:
        The colours of the vertices with the fewest colours found.
    proved:
        Whether there is no way with fewer.
    """

    def __init__(self, graph: Graph, steps: int) -> None:
        self.best = colour_greedily(graph)
        self.proved = False
        self._graph = graph
        self._steps = steps
        self._count = max(self.best, default=-1) + 1
        self._colours = [-1] * len(graph)
        self._seen: list[dict[int, int]] = [{} for _ in graph]
        self._clique = large_clique(graph)

    def run(self) -> None:
        """Find the best."""
        if len(self._clique) < self._count:
            for number, vertex in enumerate(self._clique):
                self._paint(vertex, number)
            self._descend(len(self._clique), len(self._clique))
        self.proved = self._steps > 0

    def _descend(self, painted: int, used: int) -> None:
        """Colour the rest, `painted` vertices having `used` colours."""
        if painted == len(self._graph):
            self.best, self._count = list(self._colours), used
            return
        vertex = max(
            (v for v, c in enumerate(self._colours) if c < 0),
            key=lambda v: (len(self._seen[v]), len(self._graph[v]), -v),
        )
        for number in range(used + 1):
            check()
            if max(used, number + 1) >= self._count or self._steps <= 0:
                return
            if number in self._seen[vertex]:
                continue
            self._steps -= 1
            self._paint(vertex, number)
            self._descend(painted + 1, max(used, number + 1))
            self._wipe(vertex)
            if self._count <= len(self._clique):
                return

    def _paint(self, vertex: int, number: int) -> None:
        self._colours[vertex] = number
        for other in self._graph[vertex]:
            self._seen[other][number] = self._seen[other].get(number, 0) + 1

    def _wipe(self, vertex: int) -> None:
        number, self._colours[vertex] = self._colours[vertex], -1
        for other in self._graph[vertex]:
            self._seen[other][number] -= 1
            if not self._seen[other][number]:
                del self._seen[other][number]
