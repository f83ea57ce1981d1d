"""Find the best pair for the next of equal drbd instances; see `iallocator.scoring.incremental`.

The score of a pair is a sum: terms that only the primary changes, terms of memory that the
secondary reserves, and square roots of variances to which both nodes add amounts. A square root is
concave: an amount adds less to it, the larger the variance is already. So each score has a lower
bound: one number for the primary plus one number for the secondary. The first number is the term of
the primary with the secondary that adds least. The second number is the increase by the secondary
beside the primary that adds most. The bounds are close to the score of the best pair, so that few
pairs are scored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.deadline import check
from iallocator.scoring.incremental import SCORE_NOISE, SCORE_TIE, IncrementalScores, pick, roots
from iallocator.scoring.metrics import (
    LOCATION,
    N1_COUNT,
    RESERVED,
    RESERVED_TOTAL,
    STATISTICS,
    VARIANCE_ROUNDING,
    terms,
)
from iallocator.tolerances import SCORE_DECIMALS

if TYPE_CHECKING:
    from iallocator.aliases import Floats, Indices, Nodes
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.scoring.arrays import ArrayKernel

__all__ = ["IncrementalPairs"]

FEW_PAIRS = 6
"""The most pairs that are scored one by one, without arrays."""

PAIRS_GROWTH = 8
"""The factor by which the number of scored pairs grows, until the scored pairs decide."""

PAIRS_LIFETIME = 512
"""The number of placements after which all values are read from the state again."""

NEARLY_NOTHING = 1e-6
"""The share of the largest variance below which no chord is drawn: square roots are steep there."""

TINY_VARIANCE = 1e-300
"""A variance that replaces 0, so that it can be a divisor."""

N1_WEIGHT = STATISTICS[N1_COUNT].weight


class _Reserve:
    """The score terms of reserved memory for further instances equal to `instance`.

    `placed` must be called after each placement.

    Attributes
    ----------
    keeps:
        The MiB that each instance reserves on its secondary for its primary.
    amounts:
        The MiB that each node reserves: the largest amount for a single other node.
    """

    def __init__(self, state: State, instance: Instance) -> None:
        self.keeps = float(instance.memory) if instance.reserves else 0.0
        self._state, self._instance = state, instance
        size = len(state.cluster.nodes)
        self._peers = np.zeros((size, size))
        for index, peers in enumerate(state.peers):
            for primary, amount in peers.items():
                self._peers[primary, index] = amount

    def renew(self, kernel: ArrayKernel) -> float:
        """Read all values from `kernel`, which is of the present state; return the sum of the
        terms.
        """
        self.amounts: Floats = np.array(self._state.reserved, dtype=np.float64)
        self._per_memory = kernel.per_memory()
        self._share = kernel.counted()[RESERVED] / kernel.totals.counts[RESERVED]
        self._online = float(kernel.totals.counts[RESERVED])
        spread = kernel.changes(self._instance)[0][RESERVED]
        self._spread = spread - self._share * spread.sum()
        self._look()
        return float(terms(kernel.totals, (), np.sqrt)[RESERVED])

    def _look(self) -> None:
        """Compute the attributes that depend on the amounts of reserved memory."""
        self._square: float = float(self._spread @ self._spread) / self._online
        self._still: float = STATISTICS[RESERVED].weight * self._square**0.5

        # A lower bound of the terms for each secondary, whatever the primary is.  The terms are
        # convex in the reserved amount: never below the tangent at the least amount.
        self.least: Floats = np.full(len(self._spread), self._still)
        if self.keeps:
            per, online = self._per_memory, self._online
            least = np.maximum(self.keeps - self.amounts, 0.0) * per
            here = self._after(least, self._spread)
            mean = (self._spread + least - least / online) / online
            variance = (2 * self._spread + least - least / online) * least / online
            deviation = np.sqrt(np.maximum(variance + self._square, TINY_VARIANCE))
            weight, total = STATISTICS[RESERVED].weight, STATISTICS[RESERVED_TOTAL].weight
            slope = weight * mean / deviation + total
            self.least = here + np.minimum(slope, 0.0) * (self.keeps * per - least)

    def placed(self, primary: int, secondary: int) -> float:
        """Update the amounts after a placement; return by how much it raises the scores of all
        pairs.
        """
        if not self.keeps:
            return 0.0
        self._peers[primary, secondary] += self.keeps
        more = self._peers[primary, secondary] - self.amounts[secondary]
        if more <= 0:
            return 0.0
        self.amounts[secondary] += more
        added = float(more * self._per_memory[secondary])
        self._spread[secondary] += added
        self._spread -= self._share * self._spread.sum()
        self._look()
        return float(STATISTICS[RESERVED_TOTAL].weight * added)

    def more(self, rows: Indices, columns: Indices) -> Floats:
        """Return how many MiB more each secondary in `columns` would reserve for its primary in
        `rows`.
        """
        if not self.keeps:
            return np.zeros(rows.size)
        needed = self._peers[rows, columns] + self.keeps
        amounts: Floats = np.maximum(needed - self.amounts[columns], 0.0)
        return amounts

    def terms(self, more: Floats, columns: Indices) -> Floats | float:
        """Return the sum of the terms of reserved memory if `columns` reserve `more` MiB more."""
        if not more.any():
            return self._still
        return self._after(more * self._per_memory[columns], self._spread[columns])

    def missing(self, primary: int, secondary: int) -> float:
        """Return the MiB that `secondary` lacks for the failover of one more primary of `primary`.

        The result is 0 or negative if `secondary` has enough free memory.
        """
        return float(self._peers[primary, secondary] + self.keeps - self.amounts[secondary])

    def term(self, primary: int, secondary: int) -> float:
        """Return the sum of the terms with a further instance on `primary` and `secondary`."""
        more = self.missing(primary, secondary) if self.keeps else 0.0
        if more <= 0:
            return self._still
        share = more * float(self._per_memory[secondary])
        mean = share / self._online
        spread = float(self._spread[secondary])
        variance = float((2 * spread + share) * mean - mean * mean + self._square)
        deviation = variance**0.5 if variance > VARIANCE_ROUNDING * self._square else 0.0
        return STATISTICS[RESERVED].weight * deviation + STATISTICS[RESERVED_TOTAL].weight * share

    def _after(self, share: Floats, spread: Floats) -> Floats:
        """Return the sum of the terms if nodes with values `spread` (less the mean) reserve `share`
        more.
        """
        mean = share / self._online
        variance = (2 * spread + share) * mean - mean * mean + self._square
        scores: Floats = STATISTICS[RESERVED].weight * roots(variance, self._square)
        return scores + STATISTICS[RESERVED_TOTAL].weight * share


class IncrementalPairs(IncrementalScores):
    """Incremental scores of drbd instances on each ordered pair of different nodes of one group."""

    _takers: list[tuple[Indices, Indices]] | None = None

    def _prepare(self) -> None:
        self._reserve = _Reserve(self._state, self._instance)
        # Nodes × nodes: the part of the score for location tags that both nodes have
        nodes = self._state.cluster.nodes
        self._shared: Floats | None = None
        if any(node.locations for node in nodes):
            weight = STATISTICS[LOCATION].weight
            shared = [[weight * len(a.locations & b.locations) for b in nodes] for a in nodes]
            self._shared = np.array(shared, dtype=np.float64)

    @property
    def lifetime(self) -> int:
        return PAIRS_LIFETIME

    def _start(self) -> None:
        """Compute the values that all pairs of nodes share."""
        kinds, split = len(self._x), self._split
        self._square = self._squares()
        self._mean_squares = self._square.tolist()
        amounts = self._amounts  # what each node alone adds to variances, in each role
        np.multiply(self._x, self._p_slope, out=amounts[:kinds])
        np.multiply(self._x[split:], self._s_slope[split:], out=amounts[kinds:])
        amounts += self._constant

    def _bounds(self, primaries: Indices, secondaries: Indices) -> tuple[Floats, Floats]:
        """Return a number for each primary and each secondary: a pair scores at least their sum."""
        kinds, split = len(self._x), self._split
        first = self._amounts[:kinds].take(primaries, axis=1)
        second = self._amounts[kinds:].take(secondaries, axis=1)
        lowest = np.minimum.reduce(second, axis=1)
        least = self._square * (1 - VARIANCE_ROUNDING)
        most = least[split:] + np.maximum.reduce(first[split:], axis=1)
        least[split:] += lowest
        first += least[:, None]
        second += most[:, None]
        most += lowest
        line = 0.0 if first.min(initial=1.0) > 0 else NEARLY_NOTHING * float(self._square.max())
        weights = self._weights[split:]
        one = self._weights @ _concave(first, line)
        other = weights @ _concave(second, line)
        if self._sums is not None:
            one += self._sums[0][primaries]
            other += self._sums[1][secondaries]
        other += self._rest - float(weights @ _concave(most, line))
        other += self._reserve.least[secondaries]
        if self._near:
            one += self._failing[primaries] * N1_WEIGHT
            other += self._failing[secondaries] * N1_WEIGHT
        return one, other

    def _score_of(self, primary: int, secondary: int) -> float:
        """Return the score of one pair, without arrays: that is faster."""
        if primary == secondary:
            return np.inf
        kinds, split = len(self._x), self._split
        first = self._amounts[:kinds, primary].tolist()
        second = self._amounts[kinds:, secondary].tolist()
        over, crosses = self._over[primary], self._crosses[primary]
        score = self._rest + self._reserve.term(primary, secondary)
        for k, (amount, square) in enumerate(zip(first, self._mean_squares)):
            variance = amount + square
            if k >= split:
                m = k - split
                variance += second[m] + over[m] - crosses[m] * self._secondary_cross[secondary][m]
            if variance > VARIANCE_ROUNDING * square:
                score += self._each_weight[k] * variance**0.5
        if self._shared is not None:
            score += float(self._shared[primary, secondary])
        if self._sums is not None:
            score += float(self._sums[0][primary] + self._sums[1][secondary])
        if self._near:
            failing, reserve = self._failing, self._reserve
            if reserve.keeps and not failing[secondary]:  # infinite if a node exceeds its limits
                after = reserve.amounts[secondary] + max(0.0, reserve.missing(primary, secondary))
                if self._memory[secondary] <= after:
                    return np.inf
            score += N1_WEIGHT * (int(failing[primary]) + int(failing[secondary]))
        return score

    def _scores(self, rows: Indices, columns: Indices) -> Floats:
        """Return the score of each pair of a primary in `rows` and the secondary at its place in
        `columns`.
        """
        kinds, split = len(self._x), self._split
        variance = self._amounts[:kinds, rows]
        both = variance[split:]
        both += self._amounts[kinds:, columns]
        both += self._p_over[:, rows]
        both -= self._p_cross[:, rows] * self._s_cross[:, columns]
        square = self._square[:, None]
        variance += square
        scores: Floats = self._weights @ roots(variance, square)
        more = self._reserve.more(rows, columns)
        scores += self._reserve.terms(more, columns)
        scores += self._rest
        if self._shared is not None:
            scores += self._shared[rows, columns]
        if self._sums is not None:
            scores += self._sums[0][rows] + self._sums[1][columns]
        if self._near:
            failing, reserve = self._failing, self._reserve
            scores += (failing[columns] * 1.0 + failing[rows]) * N1_WEIGHT
            if reserve.keeps:  # infinite if a node exceeds its limits
                after = reserve.amounts[columns] + more
                scores[(self._memory[columns] <= after) & ~failing[columns]] = np.inf
        scores[rows == columns] = np.inf
        return scores

    def _renew_reserved(self, kernel: ArrayKernel) -> None:
        self._memory = kernel.memory()
        self._rest -= self._reserve.renew(kernel)
        split, counts = self._split, self._counts[self._split :, None]
        self._p_cross = 2 * self._primary[split:] / counts
        self._s_cross = self._secondary[split:] / counts
        self._p_over = np.maximum(
            self._p_cross * self._s_cross.max(axis=1, keepdims=True),
            self._p_cross * self._s_cross.min(axis=1, keepdims=True),
        )
        self._constant = np.concatenate((self._p_rest, self._s_rest[split:]))
        self._constant[split : len(self._x)] -= self._p_over
        self._amounts = np.empty_like(self._constant)
        self._each_weight = self._weights.tolist()
        self._crosses, self._over = self._p_cross.T.tolist(), self._p_over.T.tolist()
        self._secondary_cross = self._s_cross.T.tolist()

    def placed(self, nodes: Nodes) -> None:
        self._rest += self._reserve.placed(*nodes)
        super().placed(nodes)

    def _follow(self, nodes: Nodes) -> None:
        super()._follow(nodes)
        if self._sums is not None:
            self._rest += float(self._sums[0][nodes[0]] + self._sums[1][nodes[1]])
        self._memory[nodes[0]] -= self._instance.memory

    def best(self) -> Nodes | None:
        self._start()
        scored_pairs: list[tuple[float, int, int]] = []
        for primaries, secondaries in self._taking():
            possible = primaries.size and secondaries.size
            if possible and not self._best_of(primaries, secondaries, scored_pairs):
                return None
        if len(scored_pairs) < 2:
            return scored_pairs[0][1:] if scored_pairs else ()
        scored_pairs.sort(key=lambda one: one[1:])
        lowest = pick(np.array([score for score, *_ in scored_pairs]))
        return None if lowest is None else scored_pairs[lowest][1:]

    def _taking(self) -> list[tuple[Indices, Indices]]:
        """Return the possible primaries and secondaries of each group."""
        if self._takers is None:
            self._takers = [
                (nodes[self._takes_primary[nodes]], nodes[self._takes_secondary[nodes]])
                for nodes in self._groups
            ]
        return self._takers

    def _look(self, index: int) -> None:
        super()._look(index)
        self._takers = None

    def _best_of(
        self, primaries: Indices, secondaries: Indices, pairs: list[tuple[float, int, int]]
    ) -> bool:
        """Add the best pair of a group to `pairs`; return False if rounding decides which it is."""
        rows, columns, value = primaries, secondaries, np.inf
        while True:  # the bounds of fewer and better pairs are closer to their scores
            check()
            low = self._bounds(rows, columns)
            value = min(value, self._reached(rows, columns, low, value == np.inf))
            if value == np.inf:
                return True
            first = np.flatnonzero(low[0] <= value + 2 * SCORE_TIE - low[1].min())
            second = np.flatnonzero(low[1] <= value + 2 * SCORE_TIE - low[0].min())
            before, left = rows.size * columns.size, first.size * second.size
            rows, columns = rows[first], columns[second]
            if left <= FEW_PAIRS or 2 * left > before:
                break
        if left == 1:
            pairs.append((value, int(rows[0]), int(columns[0])))
            return True
        least = low[0][first, None] + low[1][second]  # rows × columns, lower bounds of the scores
        least[rows[:, None] == columns] = np.inf

        # The pairs that may be the best if one has the score `value`
        at, to = np.nonzero(least <= value + 2 * SCORE_TIE)
        rows, columns, sums = rows[at], columns[to], least[at, to]
        if rows.size > FEW_PAIRS:  # the pair with score `value` may be far from the best
            some = np.argpartition(sums, FEW_PAIRS - 1)[:FEW_PAIRS]
            value = min(value, float(self._scores_of(rows[some], columns[some]).min()))
            near = np.flatnonzero(sums <= value + 2 * SCORE_TIE)
            rows, columns, sums = rows[near], columns[near], sums[near]
        best = self._first_of(rows, columns, float(sums.min()))
        if best is not None:
            pairs.append(best)
        return best is not None

    def _first_of(
        self, rows: Indices, columns: Indices, least: float
    ) -> tuple[float, int, int] | None:
        """Return score and nodes of the first of the best pairs; None if rounding decides.

        Each node in `rows` is paired with the node at its place in `columns`; no score is below
        `least`.
        """
        count = FEW_PAIRS
        while True:
            check()
            scores = self._scores_of(rows[:count], columns[:count])
            best = pick(scores)
            done = count >= rows.size
            if best is not None:
                ends = [least - 2 * SCORE_NOISE, scores[best] + 2 * SCORE_NOISE]
                low, high = np.round(ends, SCORE_DECIMALS).tolist()
                if done or low == high:  # no pair has a lower rounded score
                    return float(scores[best]), int(rows[best]), int(columns[best])
            if done:
                return None
            count *= PAIRS_GROWTH

    def _scores_of(self, rows: Indices, columns: Indices) -> Floats:
        """Return the score of each pair of a primary in `rows` and the secondary at its place in
        `columns`.
        """
        if rows.size > FEW_PAIRS:
            return self._scores(rows, columns)
        return np.array(list(map(self._score_of, rows.tolist(), columns.tolist())))

    def _reached(
        self, rows: Indices, columns: Indices, low: tuple[Floats, Floats], some: bool
    ) -> float:
        """Return the score of the pair with the lowest bounds.

        `low`: the bounds of primaries and of secondaries. If that pair is infeasible and `some` is
        true, more pairs are scored until one is feasible; the result is their lowest score.
        """
        value = self._score_of(int(rows[low[0].argmin()]), int(columns[low[1].argmin()]))
        size, most = 2, max(rows.size, columns.size)
        while some and value == np.inf and size < PAIRS_GROWTH * most:
            few, others = _lowest(rows, low[0], size), _lowest(columns, low[1], size)
            every = np.repeat(few, others.size), np.tile(others, few.size)
            value = float(self._scores_of(*every).min())
            size *= PAIRS_GROWTH
        return value


def _concave(variance: Floats, line: float) -> Floats:
    """Return square roots, with a straight line below variance `line`: a concave lower bound."""
    deviation = np.sqrt(np.maximum(variance, 0.0))
    return np.minimum(deviation, variance / line**0.5) if line else deviation


def _lowest(nodes: Indices, bounds: Floats, size: int) -> Indices:
    """Return the `size` nodes with the lowest `bounds`, ascending."""
    if nodes.size <= size:
        return nodes
    return nodes[np.sort(np.argpartition(bounds, size)[:size])]
