"""Where the next of equal instances on two nodes goes; see `iallocator.scoring.standing`.

No pair is better than the bounds of its nodes together, which hardly are below the score of the
best (see `pair_scores`): so few more than that one have to be scored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.deadline import check
from iallocator.scoring.candidates import DECIMALS
from iallocator.scoring.standing import NOISE, TIE, pick
from iallocator.scoring.standing.pair_scores import ScoredPairs

if TYPE_CHECKING:
    from iallocator.aliases import Floats, Indices, Nodes

__all__ = ["StandingPairs"]

FEW = 6
"""Up to so many pairs are scored one by one."""

GROWTH = 8
"""Where so many are not enough, so many times as many are tried."""


class StandingPairs(ScoredPairs):
    """For drbd instances: every ordered pair of different nodes of one group."""

    _takers: list[tuple[Indices, Indices]] | None = None

    def best(self) -> Nodes | None:
        self._start()
        found: list[tuple[float, int, int]] = []
        for primaries, secondaries in self._taking():
            possible = primaries.size and secondaries.size
            if possible and not self._best_of(primaries, secondaries, found):
                return None
        if len(found) < 2:
            return found[0][1:] if found else ()
        found.sort(key=_nodes)
        lowest = pick(np.array([score for score, *_ in found]))
        return None if lowest is None else found[lowest][1:]

    def _taking(self) -> list[tuple[Indices, Indices]]:
        """The primaries and the secondaries of each group."""
        if self._takers is None:
            self._takers = [
                (nodes[self._takes_primary[nodes]], nodes[self._takes_secondary[nodes]])
                for nodes in self._groups
            ]
        return self._takers

    def _look(self, index: int) -> None:
        super()._look(index)
        self._takers = None

    def _best_of(
        self, primaries: Indices, secondaries: Indices, found: list[tuple[float, int, int]]
    ) -> bool:
        """Add the best pair of a group to `found`; False if it is too close to tell."""
        rows, columns, value = primaries, secondaries, np.inf
        while True:  # among the better ones bounds are closer
            check()
            low = self._bounds(rows, columns)
            value = min(value, self._reached(rows, columns, low, value == np.inf))
            if value == np.inf:
                return True
            first = np.flatnonzero(low[0] <= value + 2 * TIE - low[1].min())
            second = np.flatnonzero(low[1] <= value + 2 * TIE - low[0].min())
            before, left = rows.size * columns.size, first.size * second.size
            rows, columns = rows[first], columns[second]
            if left <= FEW or 2 * left > before:
                break
        if left == 1:
            found.append((value, int(rows[0]), int(columns[0])))
            return True
        least = low[0][first, None] + low[1][second]
        least[rows[:, None] == columns] = np.inf
        best = self._first_of(*self._possible(rows, columns, least, value))
        if best is not None:
            found.append(best)
        return best is not None

    def _possible(
        self, rows: Indices, columns: Indices, least: Floats, value: float
    ) -> tuple[Indices, Indices, float]:
        """The pairs that may be the best if one scores `value`; see `_first_of`.

        `least`: rows × columns, what no score is below.
        """
        at, to = np.nonzero(least <= value + 2 * TIE)
        rows, columns, sums = rows[at], columns[to], least[at, to]
        if rows.size > FEW:  # the one that scores so may be a bad one
            some = np.argpartition(sums, FEW - 1)[:FEW]
            value = min(value, float(self._scores_of(rows[some], columns[some]).min()))
            near = np.flatnonzero(sums <= value + 2 * TIE)
            rows, columns, sums = rows[near], columns[near], sums[near]
        return rows, columns, float(sums.min())

    def _first_of(
        self, rows: Indices, columns: Indices, least: float
    ) -> tuple[float, int, int] | None:
        """The score and the nodes of the first of the best pairs; None if that cannot be told.

        One is the pair of a place in `rows` with that in `columns`; no score is below `least`.
        """
        count = FEW
        while True:
            check()
            scores = self._scores_of(rows[:count], columns[:count])
            best = pick(scores)
            done = count >= rows.size
            if best is not None and (done or _lowest_of_all(scores[best], least)):
                return float(scores[best]), int(rows[best]), int(columns[best])
            if done:
                return None
            count *= GROWTH

    def _scores_of(self, rows: Indices, columns: Indices) -> Floats:
        """Of each pair; see `_first_of`."""
        if rows.size > FEW:
            return self._scores(rows, columns)
        return np.array(list(map(self._score_of, rows.tolist(), columns.tolist())))

    def _reached(
        self, rows: Indices, columns: Indices, low: tuple[Floats, Floats], some: bool
    ) -> float:
        """The score of the best pair by its bounds; if it must be `some`, of the best feasible."""
        value = self._score_of(int(rows[low[0].argmin()]), int(columns[low[1].argmin()]))
        size, most = 2, max(rows.size, columns.size)
        while some and value == np.inf and size < GROWTH * most:
            few, others = _lowest(rows, low[0], size), _lowest(columns, low[1], size)
            every = np.repeat(few, others.size), np.tile(others, few.size)
            value = float(self._scores_of(*every).min())
            size *= GROWTH
        return value


def _nodes(found: tuple[float, int, int]) -> tuple[int, int]:
    return found[1:]


def _lowest(nodes: Indices, bounds: Floats, size: int) -> Indices:
    """The `size` nodes with the lowest bounds, ascending."""
    if nodes.size <= size:
        return nodes
    return nodes[np.sort(np.argpartition(bounds, size)[:size])]


def _lowest_of_all(score: float, least: float) -> bool:
    """Whether certainly nothing that is not below `least` is below `score` once rounded."""
    low, high = np.round([least - 2 * NOISE, score + 2 * NOISE], DECIMALS).tolist()
    return bool(low == high)
