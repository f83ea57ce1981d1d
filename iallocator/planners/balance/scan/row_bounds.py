"""What no move of an instance is below, so that most instances need not be looked at in a step.

A move's bound is linear in what the move changes, with coefficients that hold for all moves of
its instance.  After a step the changes of most moves are the same, and the coefficients a little
different.  So the lowest bound of an instance's moves falls by no more than these differences
times the extremes of its changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from iallocator.planners.balance.scan.node_table import Floats, Whole

__all__ = ["RowBounds", "RowChords"]

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

    def rewrite(self, rows: Whole, squares: Floats, sums: Floats) -> None:
        """All moves of `rows` are new; `squares`, `sums`: spreads × rows × columns."""
        self._floor[rows] = -np.inf
        for position, added in enumerate((squares, sums)):
            self.low[position][:, rows] = added.min(axis=2)
            self.high[position][:, rows] = added.max(axis=2)

    def renew(self, rows: Whole, linear: Floats, squares: Floats, sums: Floats) -> None:
        """Some moves of `rows` are new; `linear`: what they add, rows × columns."""
        bound = linear + np.einsum("jr,jrc->rc", self._slopes[:, rows], squares)
        bound += np.einsum("jr,jrc->rc", self._tilts[:, rows], sums)
        self._floor[rows] = np.minimum(self._floor[rows], bound.min(axis=1))
        for position, added in enumerate((squares, sums)):
            low, high = self.low[position], self.high[position]
            low[:, rows] = _with(np.minimum, low[:, rows], added)
            high[:, rows] = _with(np.maximum, high[:, rows], added)


def _with(extreme: np.ufunc, known: Floats, added: Floats) -> Floats:
    """`known` and `added`, whose last axis is more, taken together."""
    columns = range(added.shape[2])
    more = (added[:, :, k] for k in columns) if len(columns) <= FEW else (extreme.reduce(added, 2),)
    for one in more:
        known = extreme(known, one)
    return known
