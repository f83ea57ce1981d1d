"""Sums and squares of statistics in many rows at once, while instances leave one node for others.

A value counts as often as its weight says, so deviations are only added up.  The variance after one
more instance is linear in the old value: a slope and a rest.  Arrays are statistics × rows, or
steps × statistics × rows where every step is known in advance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iallocator.scoring.metrics import ROUNDING

if TYPE_CHECKING:
    from iallocator.aliases import Floats, Indices, Truths

__all__ = [
    "InitialSums",
    "NodeVarianceSums",
    "UniformVarianceSums",
    "VarianceChange",
    "VarianceSums",
]


class VarianceChange(NamedTuple):
    """What the next instance changes: statistics × rows × nodes, or × 1 if all nodes are equal.

    Attributes
    ----------
    change:
        To the value of the node that receives the instance.
    slope, rest:
        The new variance is the old value times `slope`, plus `rest`.
    """

    change: Floats
    slope: Floats
    rest: Floats

    def of(self, rows: Truths) -> VarianceChange:
        """Return the change of these rows only, for `VarianceSums.add`."""
        return self._replace(change=self.change[:, rows], slope=self.slope[:, rows])


class InitialSums(NamedTuple):
    """What is known before the first step.

    Attributes
    ----------
    sums, squares:
        Sums of values and of squares.
    taken:
        What leaves the failed node in each step, steps × statistics × kinds.
    there:
        The values of the failed node.
    counts:
        The number of nodes that count for each statistic.
    kinds:
        The kind of each row.
    """

    sums: Floats
    squares: Floats
    taken: Floats
    there: Floats
    counts: Floats
    kinds: Indices


class VarianceSums:
    """The sums of the first rows, which still have an instance to restart.

    Attributes
    ----------
    rounding:
        A variance above this is not a rounding error relative to its mean square.
    """

    def __init__(self, first: InitialSums) -> None:
        share = self._share = (1 / first.counts)[:, None]
        self._squares = first.squares * share  # but for what follows from the kind and the step
        self._mean = first.sums * share
        self._there = first.there
        self._kinds = first.kinds
        self._gone = np.cumsum(first.taken, axis=0)
        self.rounding = np.inf

    def at(self, step: int, rows: int) -> VarianceChange:
        """Return what step number `step` changes in the first `rows`, once the instance left."""
        raise NotImplementedError

    def square(self, step: int, rows: int) -> Floats:
        """Return the mean square before the instance is added to another node."""
        gone = self._gone[step].take(self._kinds[:rows], axis=1)
        found: Floats = gone * (gone + 2 * self._there[:, :rows]) * self._share
        found += self._squares[:, :rows]
        return found

    def add(self, moves: VarianceChange, best: Indices, before: Floats) -> Floats:
        """Add the instances to nodes `best` with values `before`; return the new values."""
        raise NotImplementedError

    def keep(self, rows: Truths) -> None:
        """Continue with these rows only."""
        self._squares = self._squares.compress(rows, axis=1)
        self._mean = self._mean.compress(rows, axis=1)
        self._there = self._there.compress(rows, axis=1)
        self._kinds = self._kinds[rows]


class UniformVarianceSums(VarianceSums):
    """The sums if all nodes are equal: they do not depend on the choices.

    `change`: of each step, for each kind.
    """

    def __init__(self, first: InitialSums, change: Floats) -> None:
        super().__init__(first)
        share, gone, kinds = self._share, self._gone, first.kinds
        square = change * change * share
        self._came = np.cumsum(square, axis=0) - square  # to the mean square, but for choices
        mean = (gone + np.cumsum(change, axis=0) - change) * share
        slope = 2 * share * change
        rest = gone * gone * share + self._came + square * (1 - share) - (mean + slope) * mean
        self._change = change.take(kinds, axis=2)[..., None]
        self._slope = slope.take(kinds, axis=2)[..., None]
        self._rest = rest.take(kinds, axis=2)
        self._rest += (2 * share * gone).take(kinds, axis=2) * first.there
        self._rest -= (2 * mean + slope).take(kinds, axis=2) * self._mean
        self._squares -= self._mean * self._mean
        most = np.abs(first.taken).sum(axis=0).max(axis=1, initial=0)
        most += np.abs(change).sum(axis=0).max(axis=1, initial=0)
        most += np.sqrt(
            first.squares.max(axis=1, initial=0)
        )  # no norm of all values is larger ever
        self.rounding = ROUNDING * float((share[:, 0] * most * most).max(initial=0))

    def at(self, step: int, rows: int) -> VarianceChange:
        rest = self._squares[:, :rows] + self._rest[step, :, :rows]
        change, slope = self._change[step, :, :rows], self._slope[step, :, :rows]
        return VarianceChange(change, slope, rest[..., None])

    def square(self, step: int, rows: int) -> Floats:
        mean = self._mean[:, :rows]
        came = self._came[step].take(self._kinds[:rows], axis=1)
        found: Floats = super().square(step, rows) + mean * mean + came
        return found

    def add(self, moves: VarianceChange, best: Indices, before: Floats) -> Floats:
        self._squares[:, : best.size] += before * moves.slope[:, :, 0]
        return before + moves.change[:, :, 0]

    def keep(self, rows: Truths) -> None:
        super().keep(rows)
        self._change = self._change.compress(rows, axis=2)
        self._slope = self._slope.compress(rows, axis=2)
        self._rest = self._rest.compress(rows, axis=2)


class NodeVarianceSums(VarianceSums):
    """The sums if the chosen node matters.

    `amounts`: steps × kinds × columns; `linear`: statistics × columns × nodes, what one more in a
    column adds.
    """

    def __init__(self, first: InitialSums, amounts: Floats, linear: Floats) -> None:
        super().__init__(first)
        self._amounts = amounts
        self._linear = linear

    def at(self, step: int, rows: int) -> VarianceChange:
        share, kinds = self._share, self._kinds[:rows]
        change = np.matmul(self._amounts[step], self._linear).take(kinds, axis=1)
        mean = self._mean[:, :rows] + self._gone[step].take(kinds, axis=1) * share
        slope = change * (2 * share)[..., None]
        rest = change * change * (share - share * share)[..., None]
        rest -= slope * mean[..., None]
        rest += (self.square(step, rows) - mean * mean)[..., None]
        return VarianceChange(change, slope, rest)

    def add(self, moves: VarianceChange, best: Indices, before: Floats) -> Floats:
        change = moves.change[:, np.arange(best.size), best]
        self._squares[:, : best.size] += change * (2 * before + change) * self._share
        self._mean[:, : best.size] += change * self._share
        return before + change
