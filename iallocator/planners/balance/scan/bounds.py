"""What is known of all moves of one kind: their changes, and lower bounds of their scores.

The score after a move is a sum of roots, which is dear for millions of moves.  A root
is concave: between the ends of an interval it lies above its chord.  So the sum of the
chords, which is linear in the changes, is never above the score; only the moves whose
bound is as good as the best score known are scored exactly.

A lower bound for all moves of an instance is kept as well.  After a step the changes of most
moves are the same, and the coefficients of the chords a little different.  So the lowest bound of
an instance falls by no more than these differences times the extremes of its changes.
"""

from __future__ import annotations

from functools import reduce
from math import sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iallocator.scoring.score_delta import spread, terms
from iallocator.tolerances import VARIANCE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.aliases import Floats
    from iallocator.planners.balance.scan.arrays import Whole
    from iallocator.planners.balance.scan.proportional_statistics import ProportionalStatistics
    from iallocator.scoring.score_delta import Totals

__all__ = ["CurrentScore", "RowBounds", "RowChords", "chords_between", "extremes"]

if TYPE_CHECKING:
    Extremes = tuple[Floats, Floats]

    """Least and most of what moves add."""


FEW = 8
"""So many columns are gone through one by one: reducing a short axis is slow."""


class RowChords(NamedTuple):
    """The bounds of moves' scores as linear functions of what they change, per instance (row).

    Attributes
    ----------
    slopes, tilts:
        By what is added to the squares, and to the sums, of the leading spreads; spreads × rows.
    constant:
        What does not depend on the move, per row.
    """

    slopes: Floats
    tilts: Floats
    constant: Floats

    def of(self, rows: Whole) -> RowChords:
        """Those of `rows`."""
        return RowChords(self.slopes[:, rows], self.tilts[:, rows], self.constant[rows])


class RowBounds:
    """Per instance (row) of one kind of moves the lowest bound, as it was when last looked at.

    `spreads`: how many leading spreads there are.

    Attributes
    ----------
    low, high:
        Least and most of what the moves add: (squares, sums) × spreads × rows.
    """

    def __init__(self, rows: int, spreads: int) -> None:
        self._floor: Floats = np.full(rows, -np.inf)  # constant aside; -inf: to be looked at
        self._slopes: Floats = np.zeros((spreads, rows))  # by which the floor was found
        self._tilts: Floats = np.zeros((spreads, rows))
        self.low: Floats = np.zeros((2, spreads, rows))
        self.high: Floats = np.zeros((2, spreads, rows))

    def below(self, chords: RowChords) -> Floats:
        """Per row what the bounds of its moves are not below."""
        found = self._floor + chords.constant
        coefficients = zip((chords.slopes, chords.tilts), (self._slopes, self._tilts))
        for (now, then), low, high in zip(coefficients, self.low, self.high):
            more = now - then
            found += np.minimum(more * low, more * high).sum(axis=0)
        return found

    def looked_at(self, rows: Whole, chords: RowChords, lowest: Floats) -> None:
        """The lowest bounds of `rows`, constant aside, by `chords`, which are those of `rows`."""
        self._floor[rows] = lowest
        self._slopes[:, rows] = chords.slopes
        self._tilts[:, rows] = chords.tilts

    def forbid(self, rows: Whole) -> None:
        """All moves of `rows` are forbidden."""
        self._floor[rows] = np.inf

    def rewrite(self, rows: Whole, squares: Extremes, sums: Mapping[int, Floats]) -> None:
        """All moves of `rows` are new.

        `squares`: the extremes of what they add, spreads × rows; `sums`: what they add, rows ×
        columns, of each spread whose sum any move has ever changed.
        """
        self._floor[rows] = -np.inf
        self.low[0][:, rows], self.high[0][:, rows] = squares
        for j, added in sums.items():
            self.low[1][j, rows], self.high[1][j, rows] = extremes(added)

    def renew(
        self,
        rows: Whole,
        linear: Floats,
        squares: Floats,
        sums: Mapping[int, Floats],
        ends: Extremes | None = None,
    ) -> None:
        """Some moves of `rows` are new.

        `linear`: what they add, rows × columns; `squares`: the same to the squares, spreads ×
        rows × columns; `ends`: its extremes, where they are known.
        """
        bound = linear + np.einsum("jr,jrc->rc", self._slopes[:, rows], squares)
        for j, added in sums.items():
            bound += self._tilts[j, rows][:, None] * added
        self._floor[rows] = np.minimum(self._floor[rows], bound.min(axis=1))
        self._widen(0, slice(None), rows, ends or extremes(squares))
        for j, added in sums.items():
            self._widen(1, j, rows, extremes(added))

    def _widen(self, position: int, j: int | slice, rows: Whole, ends: Extremes) -> None:
        """Take the extremes of more moves of `rows` into account."""
        low, high = self.low[position], self.high[position]
        low[j, rows] = np.minimum(low[j, rows], ends[0])
        high[j, rows] = np.maximum(high[j, rows], ends[1])


def extremes(added: Floats) -> Extremes:
    """The least and the most along the last axis of `added`."""
    columns = [added[..., k] for k in range(added.shape[-1])]
    if 0 < len(columns) <= FEW:
        return reduce(np.minimum, columns), reduce(np.maximum, columns)
    return added.min(axis=-1), added.max(axis=-1)


class CurrentScore:
    """The score as things are, taken apart; `penalty` is what broken wishes add to it.

    Attributes
    ----------
    present, rest:
        The score; the part of it that is not the leading statistics of the spread kind.
    sums, squares, counts, weights:
        Of those statistics, shape (statistics, 1).
    """

    def __init__(
        self, totals: Totals, statistics: ProportionalStatistics, penalty: float = 0.0
    ) -> None:
        found: list[float] = terms(totals, (), sqrt)
        self.totals = totals
        self.present = sum(found) + penalty
        spreads = statistics.spreads
        apart = {k for k in spreads for k in statistics.groups[k]}
        self.rest = sum([term for k, term in enumerate(found) if k not in apart]) + penalty
        self.sums = _upright([totals.sums[k] for k in spreads])
        self.squares = _upright([totals.squares[k] for k in spreads])
        self.counts = _upright([totals.counts[k] for k in spreads])
        self.weights = _upright([statistics.weights[k] for k in spreads])


def _upright(numbers: Sequence[float]) -> Floats:
    return np.array(numbers, dtype=np.float64).reshape(-1, 1)


def chords_between(
    low: Floats, high: Floats, ground: CurrentScore
) -> tuple[RowChords, Floats, Floats]:
    """The chords of moves that add this, (squares, sums) × spreads × rows; the ends of these.

    The ends are what moves add to variances, at least and at most, spreads × rows.
    """
    tilts = -2 * ground.sums / ground.counts**2
    rest = np.maximum(low[1] ** 2, high[1] ** 2) / ground.counts**2
    ends = tilts * low[1], tilts * high[1]
    now = np.maximum(spread(ground.sums, ground.squares, ground.counts), 0.0)
    least = np.maximum(low[0] / ground.counts + np.minimum(*ends) - rest, -now)
    most = np.maximum(high[0] / ground.counts + np.maximum(*ends), least)
    starts = ground.weights * (np.sqrt(now + least) - np.sqrt(now))
    rise = ground.weights * (np.sqrt(now + most) - np.sqrt(now)) - starts
    gap = most - least
    slopes = np.where(gap > VARIANCE, rise / np.maximum(gap, VARIANCE), 0.0)
    constant = ground.present + (starts - slopes * (least + rest)).sum(axis=0)
    return RowChords(slopes / ground.counts, slopes * tilts, constant), least, most
