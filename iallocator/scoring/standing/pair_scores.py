"""What pairs of nodes score for more of equal instances; see `iallocator.scoring.standing`.

The score of a pair is a sum: terms that only the primary changes, terms of memory that the
secondary reserves, and roots of variances to which each of both adds an amount of its own.  What
an amount adds to a root is the less, the more there is under it.  So no pair is better than its
primary with the least that a secondary adds, and what its secondary adds to the most with a
primary: one number per primary plus one per secondary.  Where the best of both are best in
everything, that is the score itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.scoring.metrics import STATISTICS
from iallocator.scoring.score_delta import LOCATION, ROUNDING
from iallocator.scoring.standing import N1_COUNT, Standing, roots
from iallocator.scoring.standing.reserve import Reserve

if TYPE_CHECKING:
    from iallocator.aliases import Floats, Indices, Nodes
    from iallocator.model.state import State
    from iallocator.scoring.arrays import ArrayKernel

__all__ = ["ScoredPairs"]

LIFETIME = 512
"""So many placements are followed until everything is taken from the state again."""

NEARLY_NOTHING = 1e-6
"""Share of the largest variance below which lines are not drawn: roots are steep there."""

N1_WEIGHT = STATISTICS[N1_COUNT].weight


class ScoredPairs(Standing):
    """Scores of single pairs, of many at once, and what none of a group is below."""

    def _prepare(self) -> None:
        self._reserve = Reserve(self._state, self._instance)
        self._shared = _shared_locations(self._state)

    @property
    def lifetime(self) -> int:
        return LIFETIME

    def _start(self) -> None:
        """What all pairs have in common as things are."""
        kinds, split = len(self._x), self._split
        self._square = self._squares()
        self._mean_squares = self._square.tolist()
        amounts = self._amounts  # what each node adds to variances, alone, in each role
        np.multiply(self._x, self._p_slope, out=amounts[:kinds])
        np.multiply(self._x[split:], self._s_slope[split:], out=amounts[kinds:])
        amounts += self._constant

    def _bounds(self, primaries: Indices, secondaries: Indices) -> tuple[Floats, Floats]:
        """Two rows of numbers: no pair is better than what it has in both together."""
        kinds, split = len(self._x), self._split
        first = self._amounts[:kinds].take(primaries, axis=1)
        second = self._amounts[kinds:].take(secondaries, axis=1)
        lowest = np.minimum.reduce(second, axis=1)
        least = self._square * (1 - ROUNDING)
        most = least[split:] + np.maximum.reduce(first[split:], axis=1)
        least[split:] += lowest
        first += least[:, None]
        second += most[:, None]
        most += lowest
        line = 0.0 if first.min(initial=1.0) > 0 else NEARLY_NOTHING * float(self._square.max())
        weights = self._weights[split:]
        one = self._weights @ _concave(first, line)
        other = weights @ _concave(second, line)
        other += self._rest - float(weights @ _concave(most, line))
        other += self._reserve.least[secondaries]
        if self._near:
            one += self._failing[primaries] * N1_WEIGHT
            other += self._failing[secondaries] * N1_WEIGHT
        return one, other

    def _score_of(self, primary: int, secondary: int) -> float:
        """What `_scores` says of a single pair; without arrays, which is quicker."""
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
                variance += second[m] + over[m] - crosses[m] * self._mirrored[secondary][m]
            if variance > ROUNDING * square:
                score += self._each_weight[k] * variance**0.5
        if self._shared is not None:
            score += float(self._shared[primary, secondary])
        if self._near:
            score += self._near_cost(primary, secondary)
        return score

    def _near_cost(self, primary: int, secondary: int) -> float:
        """What nodes that come close to limits cost; infinite where one would be beyond."""
        failing, reserve = self._failing, self._reserve
        if reserve.keeps and not failing[secondary]:
            after = reserve.amounts[secondary] + max(0.0, reserve.missing(primary, secondary))
            if self._memory[secondary] <= after:
                return np.inf
        return N1_WEIGHT * (int(failing[primary]) + int(failing[secondary]))

    def _scores(self, rows: Indices, columns: Indices) -> Floats:
        """The same of many pairs, of each place in `rows` with that in `columns`."""
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
        if self._near:
            self._add_near(scores, rows, columns, more)
        scores[rows == columns] = np.inf
        return scores

    def _add_near(self, scores: Floats, rows: Indices, columns: Indices, more: Floats) -> None:
        """What nodes that come close to limits cost; infinite where one would be beyond."""
        failing, reserve = self._failing, self._reserve
        scores += (failing[columns] * 1.0 + failing[rows]) * N1_WEIGHT
        if reserve.keeps:
            after = reserve.amounts[columns] + more
            scores[(self._memory[columns] <= after) & ~failing[columns]] = np.inf

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
        self._mirrored = self._s_cross.T.tolist()

    def placed(self, nodes: Nodes) -> None:
        self._rest += self._reserve.placed(*nodes)
        super().placed(nodes)

    def _follow(self, nodes: Nodes) -> None:
        super()._follow(nodes)
        self._memory[nodes[0]] -= self._instance.memory


def _shared_locations(state: State) -> Floats | None:
    """What it costs that both nodes of a pair have the same locations."""
    nodes = state.cluster.nodes
    if not any(node.locations for node in nodes):
        return None
    weight = STATISTICS[LOCATION].weight
    shared = [[weight * len(one.locations & two.locations) for two in nodes] for one in nodes]
    return np.array(shared, dtype=np.float64)


def _concave(variance: Floats, line: float) -> Floats:
    """Roots, but straight below `line`: concave there, too, and nowhere more than the root."""
    found = np.sqrt(np.maximum(variance, 0.0))
    return np.minimum(found, variance / line**0.5) if line else found
