"""Where the next of equal instances on two nodes goes; see `iallocator.scoring.standing`.

No pair is better than the bounds of its nodes together, which hardly are below the score of the
best (see `pair_scores`): so few more than that one have to be scored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

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
        low = self._bounds(primaries, secondaries)
        value = self._reached(primaries, secondaries, low)
        if value == np.inf:
            return True
        at = np.flatnonzero(low[0] <= value + 2 * TIE - low[1].min())
        to = np.flatnonzero(low[1] <= value + 2 * TIE - low[0].min())
        rows, columns = primaries[at], secondaries[to]
        if at.size == to.size == 1:
            found.append((value, int(rows[0]), int(columns[0])))
            return True
        least = low[0][at, None] + low[1][to]
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
        self, primaries: Indices, secondaries: Indices, low: tuple[Floats, Floats]
    ) -> float:
        """The score of a pair that is among the best by its bounds; infinite if there is none."""
        value = self._score_of(int(primaries[low[0].argmin()]), int(secondaries[low[1].argmin()]))
        size, most = 2, max(primaries.size, secondaries.size)
        while value == np.inf and size < GROWTH * most:
            rows, columns = _lowest(primaries, low[0], size), _lowest(secondaries, low[1], size)
            every = np.repeat(rows, columns.size), np.tile(columns, rows.size)
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
