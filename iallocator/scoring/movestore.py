"""What is known of all moves of one kind: their changes, and a bound of their scores.

The score after a move is a sum of roots, which is dear for millions of moves.  A root
is concave: between the ends of an interval it lies above its chord.  So the sum of the
chords, which is linear in the changes, is never above the score; only the moves whose
bound is as good as the best score known are scored by the kernel.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from iallocator.scoring.candidates import DECIMALS
from iallocator.scoring.kernel import spread, terms
from iallocator.scoring.statistics import STATISTICS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.scoring.kernel import Totals
    from iallocator.scoring.movekinds import MoveKind
    from iallocator.scoring.moveshifts import Shift
    from iallocator.scoring.movetable import Floats, Whole
    from iallocator.scoring.movetwins import Twins
    from iallocator.scoring.view import Quantity

__all__ = ["MoveStore"]


class MoveStore:
    """Changes of the moves of one `kind`, instances × nodes (or × 1 without target).

    Attributes
    ----------
    sums, squares:
        Per leading statistic that is a spread, what is added; 0 for forbidden moves.
        ``sums`` has only those that were ever not 0.
    linear:
        What all other statistics add to the score; infinite for forbidden moves.
    prices:
        Per instance what the move costs, in any unit, shape (instances, 1).
    """

    def __init__(self, kind: MoveKind, twins: Twins, shape: tuple[int, int]) -> None:
        self.kind = kind
        self._twins = twins
        self.shape = shape
        self.squares: Floats = np.zeros((len(twins.spreads), *shape))
        self.sums: dict[int, Floats] = {}
        self.linear: Floats = np.full(shape, np.inf)
        self.prices: Floats = np.zeros((shape[0], 1))
        self._low = [0.0] * len(twins.spreads)
        self._high = [0.0] * len(twins.spreads)
        self._widest: dict[int, tuple[float, float]] = {}

    def write(
        self, rows: Whole, columns: Whole | slice, forbidden: Quantity, shifts: Sequence[Shift]
    ) -> None:
        """Note the changes of a block of moves."""
        where = (rows[:, None], columns) if isinstance(columns, np.ndarray) else (rows, columns)
        shape = self.linear[where].shape
        forbidden = np.broadcast_to(np.asarray(forbidden, dtype=bool), shape)
        nothing = bool(forbidden.all())
        allowed = ~forbidden
        for j, k in enumerate(self._twins.spreads):
            added, square = (0.0, 0.0) if nothing else _gathered(shifts, k)
            self.squares[(j, *where)] = square = square * allowed
            self._low[j] = min(self._low[j], float(np.min(square)))
            self._high[j] = max(self._high[j], float(np.max(square)))
            if k in self.sums or np.any(added):
                self._write_sums(k, where, added * allowed)
        linear: Quantity = 0.0
        for k in () if nothing else self._twins.sums:
            linear = linear + self._twins.weights[k] * _gathered(shifts, k)[0]
        self.linear[where] = np.where(forbidden, np.inf, linear)

    def _write_sums(self, k: int, where: tuple[Whole | slice, ...], added: Floats) -> None:
        if k not in self.sums:
            self.sums[k] = np.zeros(self.shape)
            self._widest[k] = (0.0, 0.0)
        self.sums[k][where] = added
        low, high = self._widest[k]
        self._widest[k] = min(low, float(added.min())), max(high, float(added.max()))

    def forbid(self, rows: Whole) -> None:
        """No move of these instances."""
        self.linear[rows] = np.inf
        self.squares[:, rows] = 0
        for added in self.sums.values():
            added[rows] = 0

    def bounds(self, totals: Totals, present: float) -> Floats:
        """Per move a number that its score is not below."""
        slopes = np.zeros(len(self._twins.spreads))
        constant = present
        bound = self.linear
        for j, k in enumerate(self._twins.spreads):
            slope, start, tilt = self._chord(j, k, totals)
            slopes[j] = slope
            constant += start
            if tilt:
                bound = bound + tilt * self.sums[k]
        linear = slopes @ self.squares.reshape(len(slopes), -1)
        return bound + (linear.reshape(self.shape) + constant)

    def _chord(self, j: int, k: int, totals: Totals) -> tuple[float, float, float]:
        """The chord of one term: its slope by squares, its constant, its slope by sums.

        The variance after a move is linear in what is added to the sum and to the
        squares, but for the square of what is added to the sum, which is at most `rest`.
        """
        count = totals.count(STATISTICS[k].offline)
        total, squares = totals.sums[k], totals.squares[k]
        now = max(0.0, spread(total, squares, count))
        least, most = self._low[j] / count, self._high[j] / count
        tilt = rest = 0.0
        if k in self.sums:
            ends = self._widest[k]
            tilt = -2 * total / count**2
            rest = max(end * end for end in ends) / count**2
            by_sums = [tilt * end for end in ends]
            least, most = least + min(by_sums) - rest, most + max(by_sums)
        low, high = max(least, -now), max(most, 0.0)
        weight = self._twins.weights[k]
        if high - low <= 0:
            return 0.0, 0.0, 0.0
        at_low = weight * (sqrt(now + low) - sqrt(now))
        at_high = weight * (sqrt(now + high) - sqrt(now))
        slope = (at_high - at_low) / (high - low)
        return slope / count, at_low - slope * low - slope * rest, slope * tilt

    def scores(self, moves: Whole, totals: Totals) -> Floats:
        """The scores after the moves at these flat positions, not rounded."""
        change: list[tuple[Quantity, Quantity]] = [(0.0, 0.0)] * len(STATISTICS)
        for j, k in enumerate(self._twins.spreads):
            added = self.sums[k].ravel()[moves] if k in self.sums else 0.0
            square = self.squares[j].ravel()[moves]
            for twin in self._twins.groups[k]:
                change[twin] = added, square
        score = self.linear.ravel()[moves]
        for term in terms(totals, (change,), np.sqrt):
            score = score + term
        return score

    def prices_of(self, moves: Whole) -> Floats:
        """What the moves at these flat positions cost."""
        price: Floats = self.prices[moves // self.shape[1], 0]
        return price

    def rounded(self, moves: Whole, totals: Totals) -> Floats:
        """As `scores`, rounded for comparison."""
        result: Floats = np.round(self.scores(moves, totals), DECIMALS)
        return result


def _gathered(shifts: Sequence[Shift], k: int) -> tuple[Quantity, Quantity]:
    """All changes of one statistic, narrow arrays first."""
    found = [shift[k] for shift in shifts if k in shift]
    found.sort(key=lambda change: np.size(change[0]))
    added: Quantity = 0.0
    square: Quantity = 0.0
    for more, more_square in found:
        added = added + more
        square = square + more_square
    return added, square
