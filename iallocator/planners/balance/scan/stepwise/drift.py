"""What no move of an instance gains more than, and how that falls when others move.

A move changes the variance of a statistic by x, and so the score by a root: g(x) = w (√(v + x) -
√v), where v is the variance now.  When v becomes u, that changes by h(x) = g'(x) - g(x), whatever
the instance.  Where v falls h is concave and increasing, with h(0) = 0: between the least x and 0
it lies above its chord, and beyond it is not below 0.  Where v grows h is convex and decreasing:
it lies above its tangent at 0.  So a bound falls by no more than a product of two vectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.scoring.score_delta import spread

if TYPE_CHECKING:
    from iallocator.aliases import Floats, Truths
    from iallocator.planners.balance.scan.move_bounds import CurrentScore
    from iallocator.planners.balance.scan.node_table import Whole

__all__ = ["Drift"]

TINY = 1e-12
"""A variance below this has no tangent worth the name."""


class Drift:
    """Of `rows` instances what their moves add to the score at least; `spreads`: of statistics.

    Attributes
    ----------
    floor:
        Per row, what no move adds less than to the score as it is; -inf: not known.
    """

    def __init__(self, rows: int, spreads: int) -> None:
        self.floor: Floats = np.full(rows, -np.inf)
        self._since: Floats = np.zeros(rows)  # by how much it fell since it was found
        self._least: Floats = np.zeros((spreads, rows))  # what moves add to variances, below 0
        self._most: Floats = np.zeros((spreads, rows))  # the same, above 0
        self._widest: Floats = np.zeros((spreads, 1))  # the most that any adds to a sum

    def forget(self, rows: Whole | Truths | slice = slice(None)) -> None:
        """Nothing is known of `rows`."""
        self.floor[rows] = -np.inf

    def found(
        self, rows: Whole, floor: Floats, least: Floats, most: Floats, widest: Floats
    ) -> None:
        """Of the moves of `rows` this is known now.

        `floor`: what they add to the score at least, per row; `least`, `most`: what they
        add to variances, spreads × rows; `widest`: the most that they add to sums.
        """
        self.floor[rows] = floor
        self._since[rows] = 0.0
        self._least[:, rows] = np.minimum(least, 0.0)
        self._most[:, rows] = np.maximum(most, 0.0)
        self._widest = np.maximum(self._widest, widest[:, None])

    def lower(self, floor: Floats) -> None:
        """There are new moves, which added `floor` per row when the rows were found."""
        np.minimum(self.floor, floor + self._since, out=self.floor)

    def fall(self, before: CurrentScore, after: CurrentScore) -> None:
        """The score was `before`, and is `after`."""
        old = np.maximum(spread(before.sums, before.squares, before.counts), 0.0)
        new = np.maximum(spread(after.sums, after.squares, after.counts), 0.0)
        weights = after.weights
        lowest = np.maximum(self._least.min(axis=1, keepdims=True), -new)
        chord = weights * (np.sqrt(new + lowest) - np.sqrt(new))
        chord -= weights * (np.sqrt(np.maximum(old + lowest, 0.0)) - np.sqrt(old))
        down = np.where((new < old) & (lowest < 0), chord / np.minimum(lowest, -1e-300), 0.0)
        steep = old > TINY
        tangent = 1 / np.sqrt(np.maximum(new, TINY)) - 1 / np.sqrt(np.maximum(old, TINY))
        up = np.where((new > old) & steep, weights / 2 * tangent, 0.0)
        jump = np.where((new > old) & ~steep, weights * (np.sqrt(new) - np.sqrt(old)), 0.0)
        jump += self._moved(before, after, new, lowest)
        change = down[:, 0] @ self._least + up[:, 0] @ self._most - jump.sum()
        self.floor += change
        self._since += change

    def _moved(
        self, before: CurrentScore, after: CurrentScore, new: Floats, lowest: Floats
    ) -> Floats:
        """By how much the score of a move falls at most since means have moved, per spread.

        That shifts x by what the move adds to the sum, times twice the shift of the mean.
        """
        shift = 2 * np.abs(after.sums - before.sums) * self._widest / after.counts**2
        start = np.maximum(new + lowest - shift, 0.0)
        found: Floats = after.weights * (np.sqrt(start + shift) - np.sqrt(start))
        return found
