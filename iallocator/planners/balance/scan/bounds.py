"""Lower bounds of the scores after all moves of one kind.

The score after a move is a sum of square roots, which is expensive for millions of moves.  A root
is concave: between the ends of an interval, it lies above its chord.  So the sum of the chords,
which is linear in the changes, is never above the score.  A move is scored exactly only if its
bound is as low as the best known score.

The lowest bound of the moves of each instance is kept, too.  A step leaves the changes of most
moves equal, and changes the coefficients of the chords a little.  So the lowest bound of an
instance falls by at most these differences times the extremes of its changes.
"""

from __future__ import annotations

from functools import reduce
from math import sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iallocator.scoring.metrics import spread, terms
from iallocator.tolerances import VARIANCE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.aliases import Floats
    from iallocator.planners.balance.scan.arrays import Whole
    from iallocator.planners.balance.scan.proportional_statistics import ProportionalStatistics
    from iallocator.scoring.metrics import Totals

__all__ = ["CurrentScore", "RowBounds", "RowChords", "chords_between", "extremes"]

if TYPE_CHECKING:
    Extremes = tuple[Floats, Floats]

    """The least and the most that moves add."""


FEW_COLUMNS = 8
"""Up to so many columns are reduced one by one, because numpy reduces a short axis slowly."""


class RowChords(NamedTuple):
    """For each instance (row), bounds of scores as linear functions of what moves change.

    Attributes
    ----------
    slopes, tilts:
        Coefficients of what is added to the squares, and to the sums, of the leading spreads;
        spreads × rows.
    constant:
        The part that does not depend on the move, for each row.
    """

    slopes: Floats
    tilts: Floats
    constant: Floats

    def of(self, rows: Whole) -> RowChords:
        """Return the bounds of some rows, which are instances."""
        return RowChords(self.slopes[:, rows], self.tilts[:, rows], self.constant[rows])


class RowBounds:
    """For each instance (row), the lowest bound of its moves of one kind when it was last computed.

    `spreads`: how many leading spreads there are.

    Attributes
    ----------
    low, high:
        The least and the most that the moves add: (squares, sums) × spreads × rows.
    """

    def __init__(self, rows: int, spreads: int) -> None:
        self._floor: Floats = np.full(rows, -np.inf)  # without the constant; -inf: unknown
        self._slopes: Floats = np.zeros((spreads, rows))  # with which the floor was computed
        self._tilts: Floats = np.zeros((spreads, rows))
        self.low: Floats = np.zeros((2, spreads, rows))
        self.high: Floats = np.zeros((2, spreads, rows))

    def below(self, chords: RowChords) -> Floats:
        """Return a lower bound of the bounds of the moves of each row."""
        bounds = self._floor + chords.constant
        coefficients = zip((chords.slopes, chords.tilts), (self._slopes, self._tilts))
        for (now, then), low, high in zip(coefficients, self.low, self.high):
            more = now - then
            bounds += np.minimum(more * low, more * high).sum(axis=0)
        return bounds

    def looked_at(self, rows: Whole, chords: RowChords, lowest: Floats) -> None:
        """Store the `lowest` bound, without its constant, and the `chords` of each of `rows`."""
        self._floor[rows] = lowest
        self._slopes[:, rows] = chords.slopes
        self._tilts[:, rows] = chords.tilts

    def forbid(self, rows: Whole) -> None:
        """Note that all moves of `rows` are forbidden."""
        self._floor[rows] = np.inf

    def rewrite(self, rows: Whole, squares: Extremes, sums: Mapping[int, Floats]) -> None:
        """Note that all moves of `rows` are new.

        `squares`: the extremes of what they add to squares, spreads × rows; `sums`: what they add
        to the sum of each spread that any move has changed so far, rows × columns.
        """
        self._floor[rows] = -np.inf
        self.low[0][:, rows], self.high[0][:, rows] = squares
        for j, added in sums.items():
            self.low[1][j, rows], self.high[1][j, rows] = extremes(added)

    def take(self, rows: Whole, others: RowBounds) -> None:
        """Note that all moves of `rows` are new, and that they have the extremes of `others`."""
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
        """Note that some moves of `rows` are new.

        `linear`: what they add to the score directly, rows × columns; `squares`: what they add to
        squares, spreads × rows × columns; `ends`: the extremes of `squares`, if known.
        """
        bound = linear + np.einsum("jr,jrc->rc", self._slopes[:, rows], squares)
        for j, added in sums.items():
            bound += self._tilts[j, rows][:, None] * added
        self._floor[rows] = np.minimum(self._floor[rows], bound.min(axis=1))
        self._widen(0, slice(None), rows, ends or extremes(squares))
        for j, added in sums.items():
            self._widen(1, j, rows, extremes(added))

    def _widen(self, position: int, j: int | slice, rows: Whole, ends: Extremes) -> None:
        """Include the extremes of more moves of `rows`."""
        low, high = self.low[position], self.high[position]
        low[j, rows] = np.minimum(low[j, rows], ends[0])
        high[j, rows] = np.maximum(high[j, rows], ends[1])


def extremes(added: Floats) -> Extremes:
    """Return the least and the most along the last axis of `added`."""
    columns = [added[..., k] for k in range(added.shape[-1])]
    if 0 < len(columns) <= FEW_COLUMNS:
        return reduce(np.minimum, columns), reduce(np.maximum, columns)
    return added.min(axis=-1), added.max(axis=-1)


class CurrentScore:
    """The parts of the present score; `penalty` is that of violated soft constraints.

    Attributes
    ----------
    present, rest:
        The score; the part of it without the leading statistics that are spreads.
    sums, squares, counts, weights:
        Of those statistics, shape (statistics, 1).
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
    """Return the chords of moves that add from `low` to `high`, and the ends of the chords.

    `low` and `high` are (squares, sums) × spreads × rows. The ends are the least and the most that
    moves add to variances, spreads × rows.
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
    slopes = np.where(gap > VARIANCE, rise / np.maximum(gap, VARIANCE), 0.0)
    constant = current.present + (starts - slopes * (least + rest)).sum(axis=0)
    return RowChords(slopes / current.counts, slopes * tilts, constant), least, most
