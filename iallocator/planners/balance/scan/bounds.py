"""Lower bounds of the scores after all moves of one kind.

The score after a move is a sum of square roots, which is expensive for millions of moves.  A square
root is concave: between the ends of an interval, it lies above its chord.  So the sum of the
chords, which is linear in the changes, is never above the score.  A move is scored exactly only if
its bound is as low as the best known score.

The lowest bound of the moves of each instance is kept, too.  After a step, the changes of most
moves are the same as before, and the coefficients of the chords differ only a little.  So the
lowest bound of an instance falls by at most these differences times the extremes of its changes.
"""

from __future__ import annotations

from functools import reduce
from math import sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iallocator.scoring.metrics import spread, terms
from iallocator.tolerances import VARIANCE_TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.aliases import Floats
    from iallocator.planners.balance.scan.arrays import Whole
    from iallocator.planners.balance.scan.proportional_statistics import ProportionalStatistics
    from iallocator.scoring.metrics import Totals

__all__ = ["CurrentScore", "RowBounds", "RowChords", "chords_between", "extremes"]

if TYPE_CHECKING:
    Extremes = tuple[Floats, Floats]

    """The lowest and the highest amounts that moves add."""


FEW_COLUMNS = 8
"""The largest number of columns that are reduced one by one, as numpy is slow on short axes."""


class RowChords(NamedTuple):
    """For each instance (row), bounds of scores as linear functions of what moves add.

    Attributes
    ----------
    slopes, tilts:
        Coefficients of what moves add to the sums of squares (slopes) and to the sums (tilts)
        of the leading statistics that are deviations; statistics × rows.
    constant:
        The part that does not depend on the move, for each row.
    """

    slopes: Floats
    tilts: Floats
    constant: Floats

    def of(self, rows: Whole) -> RowChords:
        """Return the bounds of the instances at `rows`."""
        return RowChords(self.slopes[:, rows], self.tilts[:, rows], self.constant[rows])


class RowBounds:
    """For each instance (row), the lowest bound of its moves of one kind when it was last computed.

    `spreads`: the number of leading statistics that are deviations.

    Attributes
    ----------
    low, high:
        The lowest and the highest amounts that the moves add: (squares, sums) × statistics × rows.
    """

    def __init__(self, rows: int, spreads: int) -> None:
        self._floor: Floats = np.full(rows, -np.inf)  # without the constant; -inf: unknown
        self._slopes: Floats = np.zeros((spreads, rows))  # with which the floor was computed
        self._tilts: Floats = np.zeros((spreads, rows))
        self.low: Floats = np.zeros((2, spreads, rows))
        self.high: Floats = np.zeros((2, spreads, rows))

    def below(self, chords: RowChords) -> Floats:
        """Return for each row a number that is at most the bound of each move by `chords`."""
        bounds = self._floor + chords.constant
        coefficients = zip((chords.slopes, chords.tilts), (self._slopes, self._tilts))
        for (now, then), low, high in zip(coefficients, self.low, self.high):
            more = now - then
            bounds += np.minimum(more * low, more * high).sum(axis=0)
        return bounds

    def looked_at(self, rows: Whole, chords: RowChords, lowest: Floats) -> None:
        """Store the lowest bound of the moves of each of `rows`.

        `lowest`: these bounds, without the constant of the chords. `chords`: the chords by which
        they were computed.
        """
        self._floor[rows] = lowest
        self._slopes[:, rows] = chords.slopes
        self._tilts[:, rows] = chords.tilts

    def forbid(self, rows: Whole) -> None:
        """Record that all moves of `rows` are forbidden."""
        self._floor[rows] = np.inf

    def rewrite(self, rows: Whole, squares: Extremes, sums: Mapping[int, Floats]) -> None:
        """Record that all moves of `rows` have changed.

        `squares`: the extremes of what they add to sums of squares, statistics × rows. `sums`:
        position of a statistic -> what they add to its sum, rows × columns; statistics with sums
        that no move has changed so far are left out.
        """
        self._floor[rows] = -np.inf
        self.low[0][:, rows], self.high[0][:, rows] = squares
        for j, added in sums.items():
            self.low[1][j, rows], self.high[1][j, rows] = extremes(added)

    def take(self, rows: Whole, others: RowBounds) -> None:
        """Record that all moves of `rows` have changed, and have the extremes of `others`."""
        self._floor[rows] = -np.inf
        self.low[:, :, rows], self.high[:, :, rows] = others.low, others.high

    def renew(
        self,
        rows: Whole,
        linear: Floats,
        squares: Floats,
        sums: Mapping[int, Floats],
        ends: Extremes | None = None,
    ) -> None:
        """Record that some moves of `rows` have changed.

        `linear`: what they add to the score directly, rows × columns. `squares`: what they add to
        sums of squares, statistics × rows × columns. `sums`: position of a statistic -> what they
        add to its sum. `ends`: the extremes of `squares`, if known.
        """
        bound = linear + np.einsum("jr,jrc->rc", self._slopes[:, rows], squares)
        for j, added in sums.items():
            bound += self._tilts[j, rows][:, None] * added
        self._floor[rows] = np.minimum(self._floor[rows], bound.min(axis=1))
        self._widen(0, slice(None), rows, ends or extremes(squares))
        for j, added in sums.items():
            self._widen(1, j, rows, extremes(added))

    def _widen(self, position: int, j: int | slice, rows: Whole, ends: Extremes) -> None:
        """Widen the extremes of `rows`, so that they include `ends`, the extremes of more moves."""
        low, high = self.low[position], self.high[position]
        low[j, rows] = np.minimum(low[j, rows], ends[0])
        high[j, rows] = np.maximum(high[j, rows], ends[1])


def extremes(added: Floats) -> Extremes:
    """Return the lowest and the highest value along the last axis of `added`."""
    columns = [added[..., k] for k in range(added.shape[-1])]
    if 0 < len(columns) <= FEW_COLUMNS:
        return reduce(np.minimum, columns), reduce(np.maximum, columns)
    return added.min(axis=-1), added.max(axis=-1)


class CurrentScore:
    """The parts of the present score.

    `penalty` is the penalty of violated soft constraints.

    Attributes
    ----------
    totals:
        The sums and the sums of squares of all statistics.
    present:
        The score.
    rest:
        The part of the score without the leading statistics that are deviations.
    sums, squares, counts, weights:
        The sums, sums of squares, numbers of values and weights of these leading statistics,
        shape (statistics, 1).
    """

    def __init__(
        self, totals: Totals, statistics: ProportionalStatistics, penalty: float = 0.0
    ) -> None:
        values: list[float] = terms(totals, (), sqrt)
        self.totals = totals
        self.present = sum(values) + penalty
        spreads = statistics.spreads
        apart = {k for k in spreads for k in statistics.groups[k]}
        self.rest = sum([term for k, term in enumerate(values) if k not in apart]) + penalty
        self.sums = _upright([totals.sums[k] for k in spreads])
        self.squares = _upright([totals.squares[k] for k in spreads])
        self.counts = _upright([totals.counts[k] for k in spreads])
        self.weights = _upright([statistics.weights[k] for k in spreads])


def _upright(numbers: Sequence[float]) -> Floats:
    return np.array(numbers, dtype=np.float64).reshape(-1, 1)


def chords_between(
    low: Floats, high: Floats, current: CurrentScore
) -> tuple[RowChords, Floats, Floats]:
    """Return chords for moves that add amounts from `low` to `high`, and the ends of the chords.

    `low` and `high` are (squares, sums) × statistics × rows. The ends are the lowest and the
    highest amounts that moves add to variances, statistics × rows.
    """
    tilts = -2 * current.sums / current.counts**2
    rest = np.maximum(low[1] ** 2, high[1] ** 2) / current.counts**2
    ends = tilts * low[1], tilts * high[1]
    now = np.maximum(spread(current.sums, current.squares, current.counts), 0.0)
    least = np.maximum(low[0] / current.counts + np.minimum(*ends) - rest, -now)
    most = np.maximum(high[0] / current.counts + np.maximum(*ends), least)
    starts = current.weights * (np.sqrt(now + least) - np.sqrt(now))
    rise = current.weights * (np.sqrt(now + most) - np.sqrt(now)) - starts
    gap = most - least
    slopes = np.where(gap > VARIANCE_TOLERANCE, rise / np.maximum(gap, VARIANCE_TOLERANCE), 0.0)
    constant = current.present + (starts - slopes * (least + rest)).sum(axis=0)
    return RowChords(slopes / current.counts, slopes * tilts, constant), least, most
