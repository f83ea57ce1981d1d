"""Score pairs of many nodes, best first, with a lower bound for each primary.

The score of a pair is a sum of the changes by the primary, the changes by the secondary, and roots
of variances that both change. A root is never below its chord over the range of all pairs.
Therefore no pair has a lower score than one number of its primary plus one of its secondary.
Primaries are scored in the order of that bound, some at a time, until no other can be better.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.deadline import check
from iallocator.scoring.array_candidates import KEPT, ArrayCandidates
from iallocator.scoring.candidates import DECIMALS
from iallocator.scoring.metrics import (
    ROUNDING,
    STATISTICS,
    Totals,
    after_secondary,
    spread,
    terms,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from iallocator.aliases import Floats, Indices
    from iallocator.model.instance import Instance
    from iallocator.model.node_view import NodeView, Quantity
    from iallocator.scoring.array_candidates import Codes, PeerMemory
    from iallocator.scoring.candidates import LimitResults, Placement
    from iallocator.scoring.metrics import Change

    Changed = Callable[[NodeView], Change]
    """Returns the change of the statistics if nodes become like the given view."""

    Scores = Callable[[slice | Indices], Floats]
    """Returns the scores of some rows, infinite where a pair is not feasible."""

__all__ = ["PairScores", "PrunedPairs", "total_scores"]

BLOCK = 32_768
"""The number of scores computed at a time: a quarter of a megabyte in each array."""

FIRST = 8
"""The number of rows that are scored first; then twice as many each time."""

SLACK = 1e-8
"""By how much a rounding error may raise a bound."""


class PrunedPairs(ArrayCandidates):
    """Pairs that are scored only as far as the caller reads them.

    `codes` is rows × `columns`, 0 where a pair is feasible. `bounds` returns a lower bound of the
    scores of each row, or None if the kernel has changed. All scores are kept at once only if all
    pairs are ranked without bounds; otherwise the lowest of each row is kept.
    """

    def __init__(
        self,
        prefixes: Sequence[tuple[int, ...]],
        columns: Sequence[int],
        scores: Scores,
        codes: Codes,
        bounds: Callable[[], Floats | None],
        failures: dict[str, int],
        results: Callable[[], LimitResults],
    ) -> None:
        self._results = results
        self._prefixes = prefixes
        self._columns = columns
        self._asked = scores
        self._codes = codes
        self._bounds = bounds
        self._whole: Floats | None = None
        self._firsts: list[int] | None = None
        self._block: tuple[range, Floats] = range(0), np.empty((0, len(columns)))
        self._best: dict[int, tuple[float, int]] = {}
        self.failures = failures
        self.feasible = int(np.count_nonzero(codes == 0))

    @property
    def _scores(self) -> Floats:  # type: ignore[override]
        if self._whole is None:
            self._whole = self._asked(slice(None))
        return self._whole

    def score_all(self) -> None:
        if self._whole is None and len(self._prefixes) * len(self._columns) <= KEPT:
            self._whole = self._asked(slice(None))

    def _row(self, number: int) -> Floats:
        """Return the scores of a row, computed with a few next rows; not all are kept."""
        if self._whole is not None:
            return super()._row(number)
        rows, scores = self._block
        if number not in rows and number in self._best:  # rows are read in another order
            alone: Floats = self._asked(np.array([number]))[0]
            return alone
        if number not in rows:
            height = max(1, BLOCK // len(self._columns))
            begin = number - number % height
            rows = range(begin, min(begin + height, len(self._prefixes)))
            scores = self._asked(np.arange(rows.start, rows.stop))
            self._block = rows, scores
            self._whole = scores if len(rows) == len(self._prefixes) else None
            lowest, firsts = scores.min(axis=1).tolist(), scores.argmin(axis=1).tolist()
            self._best.update(zip(rows, zip(lowest, firsts)))
        found: Floats = scores[number - rows.start]
        return found

    def _first_of(self, number: int) -> tuple[float, int]:
        if number not in self._best:
            self._row(number)
        return self._best[number] if number in self._best else super()._first_of(number)

    def _blocks(self) -> Iterator[tuple[int, Floats]]:
        self.score_all()
        if self._whole is not None:
            yield 0, self._whole
            return
        height = max(1, BLOCK // len(self._columns))
        for begin in range(0, len(self._prefixes), height):
            check()
            rows = np.arange(begin, min(begin + height, len(self._prefixes)))
            yield begin, self._asked(rows)

    def open(self, number: int) -> tuple[tuple[int, ...], list[int]]:
        feasible = np.flatnonzero(self._codes[number] == 0).tolist()
        return self._prefixes[number], [self._columns[position] for position in feasible]

    def ranked(self) -> Iterator[Placement]:
        bounds = self._bounds() if self._whole is None else None
        yield from super().ranked() if bounds is None else self._ranked(bounds)

    def _ranked(self, bounds: Floats) -> Iterator[Placement]:
        """Yield all feasible placements, best first; rows are scored in the order of `bounds`."""
        order = np.argsort(bounds, kind="stable")
        waiting = np.empty((3, 0))  # score, row and column of pairs that another row may precede
        done, size = 0, FIRST
        while done < order.size or waiting.size:
            check()
            rows = np.sort(order[done : done + size])
            scores = self._asked(rows)
            at = np.nonzero(np.isfinite(scores))
            waiting = np.hstack([waiting, [scores[at], rows[at[0]], at[1]]])
            done, size = done + size, 2 * size
            limit = bounds[order[done]] if done < order.size else np.inf
            ready = waiting[0] < limit
            found, waiting = waiting[:, ready], waiting[:, ~ready]
            for position in np.lexsort(found[::-1]).tolist():
                score, row, column = found[:, position].tolist()
                yield score, (*self._prefixes[int(row)], self._columns[int(column)])


class PairScores:
    """Computes the scores of all pairs, some primaries at a time.

    `peers` is primaries × secondaries, where reserved memory matters. `first` is the change of the
    statistics by each primary, and `change` returns that by each secondary.
    """

    def __init__(
        self,
        totals: Totals,
        instance: Instance,
        second: NodeView,
        peers: PeerMemory,
        first: Change,
        change: Changed,
    ) -> None:
        self._totals = Totals(totals.counts, totals.centres, totals.sums, totals.squares)
        self._instance = instance
        self._second = second
        self._peers = peers
        self._first = first
        self._change = change

    @property
    def columns(self) -> Indices:
        """The secondary of each entry of `peers`, by its position."""
        return self._peers.columns

    def scores(self, rows: slice | Indices, shared: Change | None) -> Floats:
        """Return the scores of these primaries with all secondaries.

        `shared` is the change of the statistics that both nodes of a pair make together. Some rows
        are scored at a time, so that intermediate arrays stay in the processor's cache.
        """
        wanted = np.arange(self._peers.shape[0])[rows]
        total = np.empty((len(wanted), self._peers.shape[1]))
        height = max(1, BLOCK // max(1, total.shape[1]))
        for begin in range(0, len(wanted), height):
            some = wanted[begin : begin + height]
            peers = self._peers.of(some)
            after = after_secondary(self._second, self._instance, peers, np.maximum)
            first = [(_upright(a, some), _upright(square, some)) for a, square in self._first]
            changes: list[Change] = [first, self._change(after)]
            if shared is not None:
                changes.append([(_rows(a, some), _rows(square, some)) for a, square in shared])
            total[begin : begin + height] = total_scores(self._totals, changes, peers.shape)
        return total

    def bounds(self, tight: NodeView, change: Changed) -> Floats:
        """Return a lower bound of the scores for each primary; `tight` is the view of `columns`."""
        amounts = self._peers.amounts
        count, more = self._peers.shape[1], len(amounts)
        alone = self._change(after_secondary(self._second, self._instance, 0.0, np.maximum))
        with_peers = change(after_secondary(tight, self._instance, amounts, np.maximum))
        second = [
            (_joined(one[0], other[0], count, more), _joined(one[1], other[1], count, more))
            for one, other in zip(alone, with_peers)
        ]
        bounds = _bounds(self._totals, self._first, second, count + more)
        return np.broadcast_to(bounds, self._peers.shape[0])


def total_scores(totals: Totals, changes: Sequence[Change], shape: tuple[int, ...]) -> Floats:
    """Return rounded scores of `shape`. Terms of one shape are added up before they broadcast."""
    by_shape: dict[tuple[int, ...], Quantity] = {}
    for term in terms(totals, changes, np.sqrt, _spread):
        key = np.shape(term)
        by_shape[key] = by_shape[key] + term if key in by_shape else term
    total = np.zeros(shape)
    for key in sorted(by_shape, key=len):
        total += by_shape[key]
    return np.round(total, DECIMALS, out=total)


def _spread(added: Quantity, square: Quantity, count: Quantity) -> Quantity:
    """Return what `spread` returns; arrays of one shape need half of its time: two new arrays."""
    if not isinstance(added, np.ndarray) or np.shape(square) != added.shape:
        return spread(added, square, count)
    variance, mean_square = added / count, square / count
    np.multiply(variance, variance, out=variance)
    np.subtract(mean_square, variance, out=variance)
    np.multiply(mean_square, ROUNDING, out=mean_square)
    rounding = variance <= mean_square
    if rounding.any():
        variance[rounding] = 0.0
    return variance


def _rows(quantity: Quantity, rows: Indices) -> Quantity:
    """Return some rows of a matrix; return a number unchanged."""
    return quantity[rows] if np.ndim(quantity) == 2 else quantity


def _upright(quantity: Quantity, rows: Indices) -> Quantity:
    """Return some elements of an array over primaries as a column, which broadcasts to pairs."""
    return quantity[rows][:, None] if np.ndim(quantity) == 1 else quantity


def _bounds(totals: Totals, first: Change, second: Change, size: int) -> Floats:
    """Return a lower bound of the scores of all pairs for each primary.

    `first` and `second` are the changes by primaries and by `size` secondaries: arrays or numbers.
    """
    lows, others, slack = np.zeros(1), np.zeros(size), SLACK
    for k, statistic in enumerate(STATISTICS):
        count, weight = totals.counts[k], statistic.weight
        (added, squares), (more, more_squares) = first[k], second[k]
        if not statistic.spread:
            lows = lows + weight * (totals.sums[k] + added)
            others += weight * more
            continue
        mean = totals.sums[k] / count
        square = totals.squares[k] / count - mean * mean
        own = _variance(added, squares, mean, count)
        other = _variance(more, more_squares, mean, count)
        cross = 2 * np.abs(added).max() * np.abs(more).max() / count**2
        lowest = max(0.0, square + own.min() + other.min() - cross)
        highest = max(lowest, square + own.max() + other.max() + cross)
        slope = weight / (lowest**0.5 + highest**0.5) if highest > 0 else 0.0
        lows = lows + weight * lowest**0.5 + slope * (square - cross - lowest + own)
        others += slope * other
        most = totals.squares[k] + np.max(squares) + np.max(more_squares)
        slack += weight * (ROUNDING * max(0.0, float(most) / count)) ** 0.5
    found: Floats = lows + others.min() - slack
    return found


def _joined(one: Quantity, other: Quantity, first: int, second: int) -> Floats:
    """Return an array of `first` numbers and `second` others; each may be one number for all."""
    return np.hstack([np.broadcast_to(one, first), np.broadcast_to(other, second)])


def _variance(added: Quantity, square: Quantity, mean: float, count: int) -> Floats:
    """Return what a change adds to a variance, without the product with another change."""
    added, square = np.atleast_1d(added), np.atleast_1d(square)
    found: Floats = square / count - added * (added / count + 2 * mean) / count
    return found
