"""What instances change at the targets of their moves, as products of two numbers.

Only deviations that do not depend on memory reserved for failovers are included.  An instance adds
an amount to some columns of its target.  A statistic changes by the amount times a factor of the
target.  So what a move adds to a sum of squares is a sum of a few terms.  Each term is a number of
the instance times a number of the target.

What all moves add is one matrix product, so it is not stored for each move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.planners.balance.scan.arrays import PLACES
from iallocator.scoring.metrics import counting
from iallocator.scoring.proportional_statistics import coefficients

if TYPE_CHECKING:
    from iallocator.aliases import Floats
    from iallocator.planners.balance.scan.arrays import (
        BatchView,
        InstanceBatch,
        NodeTable,
        Vector,
        Whole,
    )
    from iallocator.planners.balance.scan.proportional_statistics import ProportionalStatistics

__all__ = ["RoleAmounts", "TargetTerms", "no_terms"]

HIDDEN = {True: ("free_spindles_later",), False: ("free_spindles", "free_spindles_later")}
"""True for forthcoming instances -> the columns that `NodeView.hide_spindles` changes."""


class TargetTerms:
    """The terms of what instances (rows) add to deviations at targets (columns).

    Parameters
    ----------
    sums:
        Adds up the terms of each amount, see `ProportionalStatistics.size`.
    of_rows, of_columns:
        The numbers of the instances and of the targets, terms × rows and terms × columns.

    Attributes
    ----------
    low, high:
        Bounds of what the moves of each row add, amounts × rows.
    """

    def __init__(self, sums: Sums, of_rows: Floats, of_columns: Floats) -> None:
        self._sums = sums
        self._of_rows = of_rows
        self._of_columns = of_columns
        one = of_rows * of_columns.min(axis=1, keepdims=True)
        other = of_rows * of_columns.max(axis=1, keepdims=True)
        self.low = sums.of(np.minimum(one, other))
        self.high = sums.of(np.maximum(one, other))

    def part(self, rows: Whole, columns: Whole | slice) -> TargetTerms:
        """Return the terms of some rows and columns."""
        return TargetTerms(self._sums, self._of_rows[:, rows], self._of_columns[:, columns])

    def weighted(self, weights: Floats, rows: Whole, columns: Whole | slice) -> Floats:
        """Return the sum of what each move adds times its weight, rows × columns.

        `weights`: amounts × rows.
        """
        by_row = weights[self._sums.places] * self._of_rows.take(rows, axis=1)
        if isinstance(columns, slice):
            return by_row.T @ self._of_columns[:, columns]
        return (self._of_columns[:, columns].T @ by_row).T

    def added(self, rows: Whole, columns: Whole) -> Floats:
        """Return what moves add, amounts × moves; each has one of `rows` and one of `columns`."""
        return self._sums.of(
            self._of_rows.take(rows, axis=1) * self._of_columns.take(columns, axis=1)
        )


def no_terms(rows: int, size: int) -> TargetTerms:
    """Return the terms of moves without a target; `size`: the number of amounts."""
    sums = Sums(np.zeros(0, dtype=np.intp), size)
    return TargetTerms(sums, np.zeros((0, rows)), np.zeros((0, 1)))


class Sums:
    """Adds up terms; `places`: for each term, the place of its sum, in ascending order.

    `size`: the number of places.
    """

    def __init__(self, places: Whole, size: int) -> None:
        self.places = places
        self._size = size
        self._starts: Whole = np.flatnonzero(np.diff(places, prepend=-1))
        self._filled: Whole = places[self._starts]

    def of(self, terms: Floats) -> Floats:
        """Return the sums of `terms` (terms × anything), places × anything."""
        sums: Floats = np.zeros((self._size, terms.shape[1]))
        if self._filled.size:
            sums[self._filled] = np.add.reduceat(terms, self._starts, axis=0)
        return sums


class RoleAmounts:
    """What the instances of `batch` add to nodes in one role.

    `amounts`: what each instance adds to each column in this role. `targets`: the positions of the
    targets of moves. Hidden spindles are a column to which each instance adds 1, see
    `NodeView.hide_spindles`.
    """

    def __init__(
        self,
        table: NodeTable,
        statistics: ProportionalStatistics,
        batch: InstanceBatch,
        amounts: Vector,
        targets: Whole,
    ) -> None:
        self._table = table
        self._targets = targets
        count, nodes = len(batch.instances), len(table.nodes)
        everywhere = self._everywhere()
        self._hidden: list[tuple[int, str]] = []  # position of a column, and its name
        of: list[int] = []
        own: list[Floats] = [np.zeros((0, count))]
        factors: list[Floats] = [np.zeros((0, nodes))]
        for j, k in enumerate(statistics.without_reserved):
            for column, factor in coefficients(k, everywhere).items():
                amount = amounts[PLACES[column]]
                if batch.hides_spindles and column in HIDDEN[batch.forthcoming]:
                    self._hidden.append((len(of), column))
                    amount = np.ones((count, 1))
                if amount is not None:
                    of.append(j)
                    own.append(np.broadcast_to(amount.T, (1, count)))
                    factors.append(np.broadcast_to(factor * counting(k, everywhere), (1, nodes)))
        of_part: Whole = np.array(of, dtype=np.intp)
        self._own = np.concatenate(own)
        self._factors = np.concatenate(factors)
        leaders: Whole = np.array(statistics.without_reserved, dtype=np.intp)
        self._leaders = leaders[of_part]
        self._values = Sums(of_part, leaders.size)
        # The square of a sum: the square of each part, and each product of two parts twice
        one, other = np.nonzero(np.triu(of_part[:, None] == of_part))
        self._pairs = one, other
        twice = np.where(one == other, 1.0, 2.0)[:, None]
        first_moved = len(statistics.spreads) - statistics.moved
        self._moved: Whole = np.flatnonzero(of_part >= first_moved)
        places = [of_part, of_part[one], of_part[self._moved] + statistics.moved]
        of_rows = [2 * self._own, twice * self._own[one] * self._own[other], self._own[self._moved]]
        self._order = np.argsort(np.concatenate(places), kind="stable")
        self._sums = Sums(np.concatenate(places)[self._order], statistics.size)
        self._of_rows: Floats = np.concatenate(of_rows)[self._order]

    def terms(self) -> TargetTerms:
        """Return the terms of what moves add to the targets in the present state."""
        factors = self._present_factors(True)[:, self._targets]
        values = self._table.values[self._leaders][:, self._targets]
        one, other = self._pairs
        numbers = [factors * values, factors[one] * factors[other], factors[self._moved]]
        return TargetTerms(self._sums, self._of_rows, np.concatenate(numbers)[self._order])

    def added(self, rows: Whole, nodes: Whole, coming: bool = True) -> Floats:
        """Return what instances add to the values of nodes, deviations × rows.

        `nodes`: the node of each instance. `coming`: whether the instances come to these nodes; if
        not, they are there now.
        """
        return self._values.of(
            self._present_factors(coming).take(nodes, axis=1) * self._own.take(rows, axis=1)
        )

    def _present_factors(self, coming: bool) -> Floats:
        """Return the change of each deviation by one unit of each of its columns, at each node."""
        if not self._hidden:
            return self._factors
        factors, view = self._factors.copy(), self._everywhere()
        for place, column in self._hidden:
            factors[place] *= -(getattr(view, column) + 1) * view.exclusive * coming
        return factors

    def _everywhere(self) -> BatchView:
        return self._table.view(np.arange(len(self._table.nodes), dtype=np.intp))
