"""Where the next of equal instances on one node goes; see `iallocator.scoring.standing`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from iallocator.model.columns import COLUMNS
from iallocator.model.node_view import NodeView
from iallocator.scoring.metrics import STATISTICS
from iallocator.scoring.score_delta import NO_CENTRES, after_primary, values
from iallocator.scoring.standing import N1_COUNT, TIE, Standing, pick, picks, roots
from iallocator.scoring.standing.course import Standpoints, guessed, scores_on_the_way
from iallocator.tolerances import SCORE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from iallocator.aliases import Floats, Nodes


__all__ = ["StandingSingles"]

LIFETIME = 1024
"""More than for pairs: values follow from how many have come, so that rounding does not add up."""

CELLS = 16_384
"""Steps × nodes that are looked at together at most: more leaves the processor's cache."""


class StandingSingles(Standing):
    """For instances on one node: all groups' nodes are one row of candidates."""

    @property
    def lifetime(self) -> int:
        return LIFETIME

    def course(self, most: int) -> list[Nodes]:
        scores = self._scores()
        most = min(most, self._left, max(1, CELLS // scores.size))
        at = Standpoints(
            self._x, self._primary, self._p_slope, self._p_rest,
            self._counts, self._weights, self._offset(),
        )  # fmt: skip
        path = guessed(at, scores, most, self._ahead)
        return [(node,) for node in _confirmed(path, scores_on_the_way(at, path))] if path else []

    def best(self) -> Nodes | None:
        scores = self._scores()
        lowest = pick(scores)
        if lowest is not None and scores[lowest] == np.inf:
            return ()
        return None if lowest is None else (lowest,)

    def best_but(self, barred: Collection[int]) -> tuple[int | None, list[int]]:
        scores = self._scores()
        others = scores.copy()
        positions = sorted(barred)
        others[positions] = np.inf
        lowest = pick(others)
        if lowest is None or others[lowest] == np.inf:
            return None, []
        highest = others[lowest] + TIE
        return lowest, [node for node in positions if scores[node] <= highest]

    def nearest(self, count: int) -> list[int]:
        """At most so many of the nodes that take it, those with the lowest scores."""
        scores = self._scores()
        found = np.argsort(scores, kind="stable")[:count]
        return [int(node) for node in found if scores[node] < np.inf]

    def _renew(self) -> None:
        super()._renew()
        self._origin = self._x
        self._came = np.zeros(self._x.shape[1])
        self._stale = False

    @contextmanager
    def trial(self) -> Iterator[None]:
        came: Floats = self._came.copy()
        with super().trial():
            yield
        self._came, self._stale = came, True

    def _exact(self, change: Floats) -> Floats:
        """Where it is the same on an empty node, that: many times as much is exact then, too."""
        nothing = np.zeros(change.shape[1])
        view = NodeView([nothing] * len(COLUMNS), list(self._matrix), nothing)
        after = values(after_primary(view, self._instance), NO_CENTRES)
        found = np.stack(
            [np.broadcast_to(a - b, nothing.shape) for a, b in zip(after, values(view, NO_CENTRES))]
        )
        same = np.abs(found - change) <= SCORE * np.maximum(1.0, np.abs(change))
        return np.where(same, found, change)

    def _follow(self, nodes: Nodes) -> None:
        """What a placement changes is only counted; values follow from that."""
        self._came[nodes[0]] += 1
        self._stale = True

    def placed_along(self, path: Sequence[Nodes]) -> None:
        self._left -= len(path)
        for (index,) in path:
            self._came[index] += 1
            self._ahead[index] -= 1
        self._stale = True
        if self._left <= 0:
            self._renew()
        for (index,) in path:
            if self._ahead[index] <= 0:
                self._look(index)

    def _catch_up(self) -> None:
        if self._stale:
            x = self._origin + self._came * self._primary
            self._x = x - self._share * x.sum(axis=1, keepdims=True)
            self._stale = False

    def _scores(self) -> Floats:
        """The score with the next instance on each node; infinite where it cannot be."""
        self._catch_up()
        square = self._squares()[:, None]
        variance = self._x * self._p_slope
        variance += self._p_rest
        variance += square
        scores: Floats = self._weights @ roots(variance, square)
        scores += self._offset()
        return scores

    def _offset(self) -> Floats:
        """What does not follow from the values; infinite where the next one cannot come."""
        found = np.full(self._takes_primary.size, self._rest)
        if self._near:
            found += self._failing * STATISTICS[N1_COUNT].weight
        found[~self._takes_primary] = np.inf
        return found


def _confirmed(path: Sequence[int], scores: Floats) -> list[int]:
    """The part of `path` that is right by the `scores` of its steps, and what is right after it."""
    right, certain = picks(scores)
    every = np.arange(len(path))
    certain &= scores[every, right] < np.inf
    wrong = np.flatnonzero(~certain | (right != path))
    if not wrong.size:
        return list(path)
    step = int(wrong[0])
    return [*path[:step], int(right[step])] if certain[step] else list(path[:step])
