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

from math import sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iallocator.scoring.metrics import spread, terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Floats
    from iallocator.planners.balance.scan.arrays import Whole
    from iallocator.planners.balance.scan.blocks import RowEffects
    from iallocator.planners.balance.scan.proportional_statistics import ProportionalStatistics
    from iallocator.planners.balance.scan.target_terms import TargetTerms
    from iallocator.scoring.metrics import Totals

__all__ = ["CurrentScore", "RowBounds", "RowChords", "chords_between"]

if TYPE_CHECKING:
    Extremes = tuple[Floats, Floats]

    """The lowest and the highest amounts that moves add."""


class RowChords(NamedTuple):
    """For each instance (row), bounds of scores as linear functions of what moves add.

    Attributes
    ----------
    weights:
        Coefficients of what moves add, amounts × rows; see `ProportionalStatistics.size`.
    constant:
        The part that does not depend on the move, for each row.
    """

    weights: Floats
    constant: Floats

    def of(self, rows: Whole) -> RowChords:
        """Return the bounds of the instances at `rows`."""
        return RowChords(self.weights.take(rows, axis=1), self.constant[rows])


class RowBounds:
    """For each instance (row), the lowest bound of its moves of one kind when it was last computed.

    Attributes
    ----------
    added, linear:
        What all moves of an instance add at nodes other than the target: to the leading statistics
        that are deviations, amounts × rows, and to the score.
    weights:
        The coefficients of the chords by which the lowest bound was computed.
    low, high:
        The lowest and the highest amounts of reserved memory that moves add beyond `added`,
        (square, sum) × rows; empty if no move changes it.
    """

    def __init__(self, rows: int, statistics: ProportionalStatistics) -> None:
        self._reserved = statistics.reserved
        self._floor: Floats = np.full(rows, -np.inf)  # without the constant; -inf: unknown
        self.added: Floats = np.zeros((statistics.size, rows))
        self.linear: Floats = np.zeros(rows)
        self.weights: Floats = np.zeros((statistics.size, rows))
        self.low: Floats = np.zeros((len(self._reserved), rows))
        self.high: Floats = np.zeros((len(self._reserved), rows))

    def ends(self, terms: TargetTerms) -> Extremes:
        """Return the extremes of what moves add, amounts × rows.

        `terms`: what they add at their targets, without reserved memory.
        """
        low, high = self.added + terms.low, self.added + terms.high
        low[self._reserved] += self.low
        high[self._reserved] += self.high
        return low, high

    def below(self, chords: RowChords, ends: Extremes) -> Floats:
        """Return for each row a number that is at most the bound of each move by `chords`.

        `ends`: the extremes of what moves add.
        """
        more = chords.weights - self.weights
        least: Floats = np.minimum(more * ends[0], more * ends[1]).sum(axis=0)
        return least + self._floor + chords.constant

    def looked_at(self, rows: Whole, weights: Floats, lowest: Floats) -> None:
        """Store the lowest bound of the moves of each of `rows`.

        `lowest`: these bounds, without the constant of the chords. `weights`: the coefficients of
        the chords by which they were computed.
        """
        self._floor[rows] = lowest
        self.weights[:, rows] = weights

    def forbid(self, rows: Whole) -> None:
        """Record that all moves of `rows` are forbidden."""
        self._floor[rows] = np.inf

    def rewrite(self, rows: Whole, all_add: RowEffects | RowBounds, reserved: Extremes) -> None:
        """Record that all moves of `rows` have changed.

        `all_add`: has the new values of `added` and `linear`. `reserved`: the extremes of the
        amounts of reserved memory that the moves add beyond `added`.
        """
        self._floor[rows] = -np.inf
        self.linear[rows] = all_add.linear
        self.added[:, rows] = all_add.added
        self.low[:, rows], self.high[:, rows] = reserved

    def take(self, rows: Whole, others: RowBounds) -> None:
        """Record that all moves of `rows` have changed, and are those of `others`."""
        self.rewrite(rows, others, (others.low, others.high))

    def renew(self, rows: Whole, lowest: Floats, reserved: Extremes) -> None:
        """Record that some moves of `rows` have changed.

        `lowest`: their lowest bound by `weights`, without a constant. `reserved`: the extremes of
        what they add to reserved memory beyond `added`.
        """
        self._floor[rows] = np.minimum(self._floor[rows], lowest)
        self.low[:, rows] = np.minimum(self.low[:, rows], reserved[0])
        self.high[:, rows] = np.maximum(self.high[:, rows], reserved[1])


class CurrentScore:
    """The parts of the present score.

    `totals` are those of the nodes. `penalty` is the penalty of violated soft constraints.

    Attributes
    ----------
    present:
        The score.
    rest:
        The part of the score without the leading statistics that are deviations.
    sums, squares, counts, weights:
        The sums, sums of squares, numbers of values and weights of these leading statistics,
        shape (statistics, 1).
    variations:
        The sums of squares of the values less their mean, and `root_weights`, the weights of their
        square roots.
    """

    def __init__(
        self, totals: Totals, statistics: ProportionalStatistics, penalty: float = 0.0
    ) -> None:
        values: list[float] = terms(totals, (), sqrt)
        self.present = sum(values) + penalty
        spreads = statistics.spreads
        apart = {k for k in spreads for k in statistics.groups[k]}
        self.rest = sum([term for k, term in enumerate(values) if k not in apart]) + penalty
        self.sums = _upright([totals.sums[k] for k in spreads])
        self.squares = _upright([totals.squares[k] for k in spreads])
        self.counts = _upright([totals.counts[k] for k in spreads])
        self.weights = _upright([statistics.weights[k] for k in spreads])
        variances = np.maximum(spread(self.sums, self.squares, self.counts), 0.0)
        self.variations = variances * self.counts
        self.root_weights = self.weights / np.sqrt(self.counts)


def _upright(numbers: Sequence[float]) -> Floats:
    return np.array(numbers, dtype=np.float64).reshape(-1, 1)


SMALLEST_ROOTS = 1e-6
"""The least sum of the two roots by which the slope of a chord is computed."""


def chords_between(ends: Extremes, current: CurrentScore) -> RowChords:
    """Return chords for moves that add amounts between `ends` (amounts × rows).

    The chord of a square root from ``a²`` to ``b²`` is ``(x + a·b) / (a + b)``.
    """
    spreads = current.counts.size
    moved = slice(2 * spreads - len(ends[0]), spreads)
    low, high = (end[spreads:] for end in ends)
    tilts = -2 * current.sums[moved] / current.counts[moved]
    rest = np.maximum(low**2, high**2) / current.counts[moved]
    least, most = (current.variations + end[:spreads] for end in ends)
    least[moved] += np.minimum(tilts * low, tilts * high) - rest
    most[moved] += np.maximum(tilts * low, tilts * high)
    np.maximum(least, 0.0, out=least)
    first, last = np.sqrt(least), np.sqrt(np.maximum(least, most))
    slopes = current.root_weights / np.maximum(first + last, SMALLEST_ROOTS)
    starts = first * last
    starts += current.variations
    starts[moved] -= rest
    roots = float((current.root_weights * np.sqrt(current.variations)).sum())
    constant = (slopes * starts).sum(axis=0) + (current.present - roots)
    return RowChords(np.concatenate([slopes, slopes[moved] * tilts]), constant)
