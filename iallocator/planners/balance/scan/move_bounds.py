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

from iallocator.planners.balance.scan.changes import Changes
from iallocator.scoring.candidates import DECIMALS
from iallocator.scoring.score_delta import spread, terms
from iallocator.tolerances import VARIANCE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.aliases import Floats, Truths
    from iallocator.planners.balance.move_kinds import MoveKind
    from iallocator.planners.balance.scan.changes import Where
    from iallocator.planners.balance.scan.equivalent_metrics import Twins
    from iallocator.planners.balance.scan.node_table import Whole
    from iallocator.scoring.score_delta import Totals

__all__ = ["CurrentScore", "MoveStore", "RowBounds", "RowChords", "chords_between", "extremes"]

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

    def __init__(self, totals: Totals, twins: Twins, penalty: float = 0.0) -> None:
        found: list[float] = terms(totals, (), sqrt)
        self.totals = totals
        self.present = sum(found) + penalty
        spreads = twins.spreads
        apart = {twin for k in spreads for twin in twins.groups[k]}
        self.rest = sum([term for k, term in enumerate(found) if k not in apart]) + penalty
        self.sums = _upright([totals.sums[k] for k in spreads])
        self.squares = _upright([totals.squares[k] for k in spreads])
        self.counts = _upright([totals.counts[k] for k in spreads])
        self.weights = _upright([twins.weights[k] for k in spreads])


def _upright(numbers: Sequence[float]) -> Floats:
    return np.array(numbers, dtype=np.float64).reshape(-1, 1)


class MoveStore(Changes):
    """The moves of one kind, with bounds.

    Attributes
    ----------
    prices:
        Per instance what the move costs, in any unit, shape (instances, 1).
    rows:
        What the moves of each instance are not below.
    """

    def __init__(
        self, kind: MoveKind, twins: Twins, shape: tuple[int, int], kept: int | None = None
    ) -> None:
        super().__init__(kind, twins, shape, kept)
        self.prices: Floats = np.zeros((shape[0], 1))
        self._low: Floats = np.zeros(len(twins.spreads))
        self._high: Floats = np.zeros(len(twins.spreads))
        self._widest: dict[int, tuple[float, float]] = {}
        self.rows = RowBounds(shape[0], len(twins.spreads))

    def write(self, where: Where, added: Floats, squares: Floats, linear: Floats) -> None:
        """As of `Changes`."""
        super().write(where, added, squares, linear)
        low, high = extremes(squares)
        self._low = np.minimum(self._low, low.min(axis=1))
        self._high = np.maximum(self._high, high.max(axis=1))
        if isinstance(where[1], slice):
            self.rows.rewrite(np.ravel(where[0]), (low, high), self._sums_at(where))
        else:
            rows, sums = np.ravel(where[0]), self._sums_at(where)
            self.rows.renew(rows, linear, squares, sums, (low, high))

    def _sums_at(self, where: Where) -> dict[int, Floats]:
        """What is added to the sums there, rows × columns, by the position of the spread."""
        spreads = enumerate(self.twins.spreads)
        return {j: self.sums[k][where] for j, k in spreads if k in self.sums}

    def recentre(self, shifts: Sequence[float]) -> None:
        """Values have become relative to other centres, greater by `shifts`; extremes are new."""
        for j, k in enumerate(self.twins.spreads):
            if k in self.sums and shifts[k]:
                self.squares[:, :, j] -= 2 * shifts[k] * self.sums[k]
        everyone, every = np.arange(self.shape[0], dtype=np.intp), slice(None)
        ends = self.squares.min(axis=1).T, self.squares.max(axis=1).T
        self._low = np.minimum(ends[0].min(axis=1), 0.0)
        self._high = np.maximum(ends[1].max(axis=1), 0.0)
        self._widest = {
            k: (min(float(added.min()), 0.0), max(float(added.max()), 0.0))
            for k, added in self.sums.items()
        }
        self.rows.rewrite(everyone, ends, self._sums_at((everyone, every)))

    def _squares_at(self, where: Where) -> Floats:
        """What is added to the squares there, spreads × rows × columns."""
        found: Floats = np.moveaxis(self.squares[where], -1, 0)
        return found

    def _write_sums(self, k: int, where: Where, added: Floats) -> None:
        super()._write_sums(k, where, added)
        low, high = self._widest.get(k, (0.0, 0.0))
        self._widest[k] = min(low, float(added.min())), max(high, float(added.max()))

    def add(self, where: Where, forbidden: Truths, costs: Floats) -> None:
        """Forbid some of the moves there, and let the others cost more, or less."""
        found = np.where(forbidden, np.inf, self.linear[where] + costs)
        self._put(self.linear, where, found)
        if not isinstance(where[1], slice):
            squares, sums = self._squares_at(where), self._sums_at(where)
            self.rows.renew(np.ravel(where[0]), self.linear[where], squares, sums)

    def bar(self, row: int, column: int) -> None:
        """Forbid this move."""
        self._put(self.linear, (row, column), np.inf)

    def forbid(self, rows: Whole) -> None:
        """No move of these instances."""
        super().forbid(rows)
        self.rows.forbid(rows)

    def bounds(self, ground: CurrentScore) -> Floats:
        """Per move a number that its score is not below."""
        slopes = np.zeros(len(self.twins.spreads))
        constant = ground.present
        bound = self.linear
        for j, k in enumerate(self.twins.spreads):
            slope, start, tilt = self._chord(j, k, ground.totals)
            slopes[j] = slope
            constant += start
            if tilt:
                bound = bound + tilt * self.sums[k]
        linear = np.tensordot(slopes, np.moveaxis(self.squares, -1, 0), axes=1)
        return bound + (linear + constant)

    def lowest(self, ground: CurrentScore, count: int) -> tuple[Whole, Floats]:
        """The flat positions of `count` moves with low bounds, if there are so many; the bounds."""
        flat = self.bounds(ground).ravel()
        moves = np.argpartition(flat, min(count, flat.size) - 1)[:count]
        moves = moves[np.isfinite(flat[moves])]
        return moves, flat[moves]

    def floors(self, ground: CurrentScore) -> Floats:
        """Per instance what the scores of its moves are not below."""
        self._chords = self.row_chords(ground)
        return self.rows.below(self._chords)

    def look(self, rows: Whole) -> Floats:
        """The bounds of the moves of `rows`, as things were when `floors` was asked."""
        return self.bounds_of(rows, self._chords)

    def row_chords(self, ground: CurrentScore, rows: Whole | slice = slice(None)) -> RowChords:
        """Closer bounds: chords between the extremes of each instance's moves."""
        return chords_between(self.rows.low[:, :, rows], self.rows.high[:, :, rows], ground)[0]

    def bounds_of(self, rows: Whole, chords: RowChords) -> Floats:
        """The bounds of the moves of `rows`; what they are not below is noted."""
        here = chords.of(rows)
        bound = self.linear_bounds(rows, here)
        self.rows.looked_at(rows, here, bound.min(axis=1))
        found: Floats = bound + here.constant[:, None]
        return found

    def linear_bounds(self, rows: Whole, here: RowChords) -> Floats:
        """The bounds of the moves of `rows`, constant aside, by `here`, their chords."""
        bound = self.linear[rows] + np.einsum("jr,rcj->rc", here.slopes, self.squares[rows])
        for j, k in enumerate(self.twins.spreads):
            if k in self.sums:
                bound += here.tilts[j][:, None] * self.sums[k][rows]
        found: Floats = bound
        return found

    def _chord(self, j: int, k: int, totals: Totals) -> tuple[float, float, float]:
        """The chord of one term: its slope by squares, its constant, its slope by sums.

        The variance after a move is linear in what is added to the sum and to the
        squares, but for the square of what is added to the sum, which is at most `rest`.
        """
        count = totals.counts[k]
        total, squares = totals.sums[k], totals.squares[k]
        now = max(0.0, spread(total, squares, count))
        least, most = float(self._low[j]) / count, float(self._high[j]) / count
        tilt = rest = 0.0
        if k in self.sums:
            ends = self._widest[k]
            tilt = -2 * total / count**2
            rest = max(end * end for end in ends) / count**2
            by_sums = [tilt * end for end in ends]
            least, most = least + min(by_sums) - rest, most + max(by_sums)
        low, high = max(least, -now), max(most, 0.0)
        weight = self.twins.weights[k]
        if high - low <= 0:
            return 0.0, 0.0, 0.0
        at_low = weight * (sqrt(now + low) - sqrt(now))
        at_high = weight * (sqrt(now + high) - sqrt(now))
        slope = (at_high - at_low) / (high - low)
        return slope / count, at_low - slope * low - slope * rest, slope * tilt

    def scores(self, moves: Whole, ground: CurrentScore) -> Floats:
        """The scores after the moves at these flat positions, not rounded."""
        spreads = self.twins.spreads
        flat = self.squares.reshape(self.linear.size, len(spreads))
        squares = np.ascontiguousarray(flat[moves].T)
        added = np.zeros(squares.shape)
        for j, k in enumerate(spreads):
            if k in self.sums:
                added[j] = self.sums[k].ravel()[moves]
        variances = spread(ground.sums + added, ground.squares + squares, ground.counts)
        roots: Floats = ground.weights * np.sqrt(variances)
        score: Floats = ground.rest + self.linear.ravel()[moves] + roots.sum(axis=0)
        return score

    def prices_of(self, moves: Whole) -> Floats:
        """What the moves at these flat positions cost."""
        price: Floats = self.prices[moves // self.shape[1], 0]
        return price

    def rounded(self, moves: Whole, ground: CurrentScore) -> Floats:
        """As `scores`, rounded for comparison."""
        result: Floats = np.round(self.scores(moves, ground), DECIMALS)
        return result


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
