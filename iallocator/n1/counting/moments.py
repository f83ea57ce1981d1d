"""Sums and squares of statistics in many rows at once, while instances leave one node for others.

Values count as often as their weight says, so that deviations need only be added up.  The
variance with one more instance is linear in what is there: a slope, and a rest.  Arrays are
statistics × rows; where each step is known before the first, steps × statistics × rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iallocator.scoring.score_delta import ROUNDING

if TYPE_CHECKING:
    from iallocator.aliases import Floats, Indices, Truths

__all__ = ["Alike", "Apart", "Moments", "Parabola"]

MARGIN = 16.0
"""So many times the variance that counts as rounding is far from it."""


class Parabola(NamedTuple):
    """What the next instance does, statistics × rows × nodes, or × 1 where nodes do not differ.

    Attributes
    ----------
    change:
        To the value of the node where it comes to.
    slope, rest:
        The variance then is the old value times `slope`, and `rest`.
    square:
        Mean square without it, statistics × rows; None: no variance comes near rounding.
    """

    change: Floats
    slope: Floats
    rest: Floats
    square: Floats | None

    def of(self, rows: Truths) -> Parabola:
        """That of these rows only, for `Moments.add`."""
        return self._replace(change=self.change[:, rows], slope=self.slope[:, rows])


class Moments:
    """Of the first rows, those that still move somebody.

    `sums` and `squares` are those before the first step; with each step `taken` leaves the node
    that fails, where `there` is what it holds at first.  `counts`: how many nodes count.
    """

    def __init__(
        self, sums: Floats, squares: Floats, taken: Floats, there: Floats, counts: Floats
    ) -> None:
        self._share = (1 / counts)[:, None]
        self._squares = squares * self._share  # as far as they depend on choices
        gone = np.cumsum(taken, axis=0)
        self._left = (gone + 2 * there) * gone
        self._left *= self._share
        self._means = (sums + gone) * self._share

    def at(self, step: int, rows: int) -> Parabola:
        """What the move of number `step` does in the first `rows`, once it has left."""
        raise NotImplementedError

    def add(self, moves: Parabola, best: Indices, before: Floats) -> Floats:
        """What `moves` tells has come to nodes `best`, where `before` was: what is there now."""
        raise NotImplementedError

    def keep(self, rows: Truths) -> None:
        """Go on with these rows only."""
        self._squares = self._squares.compress(rows, axis=1)
        self._means = self._means.compress(rows, axis=2)
        self._left = self._left.compress(rows, axis=2)


class Alike(Moments):
    """Where all nodes are alike, sums do not depend on choices; `change`: of each step."""

    def __init__(
        self,
        sums: Floats,
        squares: Floats,
        taken: Floats,
        there: Floats,
        counts: Floats,
        change: Floats,
    ) -> None:
        super().__init__(sums, squares, taken, there, counts)
        share = self._share
        self._means += (np.cumsum(change, axis=0) - change) * share
        square = change * change * share
        mean_square = self._means * self._means
        self._left += np.cumsum(square, axis=0) - square - mean_square
        slope = 2 * share * change
        self._rest = self._left + square * (1 - share) - slope * self._means
        self._least = np.maximum(4 * square, MARGIN * ROUNDING * mean_square) - self._left
        self._change, self._slope = change[..., None], slope[..., None]

    def at(self, step: int, rows: int) -> Parabola:
        squares, square = self._squares[:, :rows], None
        if not np.greater(squares, self._least[step, :, :rows]).all():
            square = squares + self._left[step, :, :rows] + self._means[step, :, :rows] ** 2
        rest = squares + self._rest[step, :, :rows]
        change, slope = self._change[step, :, :rows], self._slope[step, :, :rows]
        return Parabola(change, slope, rest[..., None], square)

    def add(self, moves: Parabola, best: Indices, before: Floats) -> Floats:
        self._squares[:, : best.size] += before * moves.slope[:, :, 0]
        return before + moves.change[:, :, 0]

    def keep(self, rows: Truths) -> None:
        super().keep(rows)
        self._change = self._change.compress(rows, axis=2)
        self._slope = self._slope.compress(rows, axis=2)
        self._rest = self._rest.compress(rows, axis=2)
        self._least = self._least.compress(rows, axis=2)


class Apart(Moments):
    """Where it matters to sums which node is chosen.

    `amounts`: steps × rows × columns; `linear`: statistics × columns × nodes, what one more in a
    column adds.
    """

    def __init__(
        self,
        sums: Floats,
        squares: Floats,
        taken: Floats,
        there: Floats,
        counts: Floats,
        amounts: Floats,
        linear: Floats,
    ) -> None:
        super().__init__(sums, squares, taken, there, counts)
        self._amounts = amounts
        self._linear = linear
        self._came = np.zeros_like(squares)

    def at(self, step: int, rows: int) -> Parabola:
        share = self._share
        change = np.matmul(self._amounts[step, :rows], self._linear)
        mean = self._means[step, :, :rows] + self._came[:, :rows]
        square = self._squares[:, :rows] + self._left[step, :, :rows]
        slope = change * (2 * share)[..., None]
        rest = change * change * (share - share * share)[..., None]
        rest -= slope * mean[..., None]
        rest += (square - mean * mean)[..., None]
        return Parabola(change, slope, rest, square)

    def add(self, moves: Parabola, best: Indices, before: Floats) -> Floats:
        change = moves.change[:, np.arange(best.size), best]
        self._squares[:, : best.size] += change * (2 * before + change) * self._share
        self._came[:, : best.size] += change * self._share
        return before + change

    def keep(self, rows: Truths) -> None:
        super().keep(rows)
        self._came = self._came.compress(rows, axis=1)
        self._amounts = self._amounts.compress(rows, axis=1)
