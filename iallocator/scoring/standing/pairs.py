"""Where the next of equal instances on two nodes goes; see `iallocator.scoring.standing`.

The score of a pair is a sum: terms that only the primary changes, terms that only the
secondary changes, and roots of variances that both change.  A root is never below its chord
over the range of all pairs, which makes a lower bound that is one number per primary plus
one per secondary.  So only pairs of the most promising of both are scored, as many as it takes
until no other pair can be better.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.scoring.metrics import STATISTICS
from iallocator.scoring.score_delta import LOCATION, terms
from iallocator.scoring.standing import N1_COUNT, TIE, Standing, pick, roots

if TYPE_CHECKING:
    from iallocator.aliases import Floats, Indices, Nodes
    from iallocator.scoring.arrays import ArrayKernel


__all__ = ["StandingPairs"]

RESERVED, RESERVED_TOTAL = (
    next(k for k, statistic in enumerate(STATISTICS) if statistic.name == name)
    for name in ("reserved_mem", "reserved_mem_total")
)

FEW = 24
"""Up to so many nodes all pairs are scored."""

FIRST = 8
"""So many primaries and secondaries are looked at first where there are more nodes."""


class StandingPairs(Standing):
    """For drbd instances: every ordered pair of different nodes of one group."""

    def best(self) -> Nodes | None:
        self._start()
        found: list[tuple[float, int, int]] = []
        for nodes in self._groups:
            primaries = nodes[self._takes_primary[nodes]]
            secondaries = nodes[self._takes_secondary[nodes]]
            possible = primaries.size and secondaries.size
            if possible and not self._best_of(primaries, secondaries, found):
                return None
        if not found:
            return ()
        found.sort(key=_nodes)
        lowest = pick(np.array([score for score, *_ in found]))
        return None if lowest is None else found[lowest][1:]

    def _start(self) -> None:
        """What all pairs have in common as things are."""
        split, x = self._split, self._x
        square = self._squares()[:, None]
        at_primary = x * self._p_slope
        at_primary += self._p_rest
        variance = at_primary[:split] + square[:split]
        self._alone = self._weights[:split] @ roots(variance, square[:split])
        self._alone += self._rest
        self._square = square[split:]
        self._at_primary = at_primary[split:]
        at_secondary = x[split:] * self._s_slope[split:]
        at_secondary += self._s_rest[split:]
        self._at_secondary = at_secondary
        spread = self._kept
        self._kept_square = float(spread @ spread) / self._online
        if self._near:
            weight = STATISTICS[N1_COUNT].weight
            self._alone += self._failing * weight

    def _best_of(
        self, primaries: Indices, secondaries: Indices, found: list[tuple[float, int, int]]
    ) -> bool:
        """Add the best pair of a group to `found`; False if it is too close to tell."""
        rows, columns, low = primaries, secondaries, None
        size = FIRST
        if max(primaries.size, secondaries.size) > FEW:
            low = self._bounds(primaries, secondaries)
        while True:
            complete = low is None or size >= max(primaries.size, secondaries.size)
            if low is not None and not complete:
                rows, row_limit = _lowest(primaries, low[0], size)
                columns, column_limit = _lowest(secondaries, low[1], size)
            elif low is not None:
                rows, columns = primaries, secondaries
            scores = self._scores(rows, columns)
            at = pick(scores)
            value = float(scores.min())
            if (
                complete
                or low is None
                or min(row_limit + low[1].min(), low[0].min() + column_limit) > value + 2 * TIE
            ):
                break
            size *= 2
        if at is None:
            return False
        if value < np.inf:
            row, column = divmod(at, columns.size)
            found.append((float(scores[row, column]), int(rows[row]), int(columns[column])))
        return True

    def _scores(self, rows: Indices, columns: Indices) -> Floats:
        """Every pair of `rows` as primaries and `columns` as secondaries."""
        variance = self._at_primary[:, rows, None] + self._at_secondary[:, None, columns]
        variance += self._square[:, :, None]
        variance -= self._p_cross[:, rows, None] * self._s_cross[:, None, columns]
        spread = roots(variance, self._square[:, :, None])
        flat = spread.reshape(len(spread), rows.size * columns.size)
        scores: Floats = (self._weights[self._split :] @ flat).reshape(rows.size, columns.size)
        scores += self._alone[rows, None]
        self._add_reserved(scores, rows, columns)
        scores[rows[:, None] == columns] = np.inf
        return scores

    def _add_reserved(self, scores: Floats, rows: Indices, columns: Indices) -> None:
        """The terms of the memory that is reserved, the limit that it is, and locations."""
        if self._near:
            scores += self._failing[columns] * STATISTICS[N1_COUNT].weight
        if self._shared is not None:
            scores += self._shared[rows[:, None], columns]
        if not self._keeps:
            scores += STATISTICS[RESERVED].weight * self._kept_square**0.5
            return
        needed = self._peers[rows[:, None], columns] + self._keeps
        more = np.maximum(needed - self._reserved[columns], 0.0)
        if self._near:
            after = self._reserved[columns] + more
            scores[(self._memory[columns] <= after) & ~self._failing[columns]] = np.inf
        if more.any():
            scores += self._kept_term(more * self._per_memory[columns], columns)
        else:
            scores += STATISTICS[RESERVED].weight * self._kept_square**0.5

    def _kept_term(self, more: Floats, columns: Indices) -> Floats:
        """The terms of reserved memory if `columns` reserve a share `more` of their memory."""
        mean = more / self._online
        variance = (2 * self._kept[columns] + more) * mean - mean * mean + self._kept_square
        found: Floats = STATISTICS[RESERVED].weight * roots(variance, self._kept_square)
        return found + STATISTICS[RESERVED_TOTAL].weight * more

    def _bounds(self, primaries: Indices, secondaries: Indices) -> tuple[Floats, Floats]:
        """Two rows of numbers: no pair is better than what it has in both together."""
        first, second = self._at_primary[:, primaries], self._at_secondary[:, secondaries]
        crosses = np.abs(self._p_cross[:, primaries]).max(axis=1) * np.abs(
            self._s_cross[:, secondaries]
        ).max(axis=1)
        square = self._square[:, 0]
        least = square + first.min(axis=1) + second.min(axis=1) - crosses
        most = square + first.max(axis=1) + second.max(axis=1) + crosses
        low, high = np.sqrt(np.maximum(least, 0.0)), np.sqrt(np.maximum(most, 0.0))
        width = high * high - low * low
        slope = self._weights[self._split :] * np.divide(
            high - low, width, out=np.zeros_like(width), where=width > 0
        )
        start = self._weights[self._split :] @ low + slope @ (square - crosses - low * low)
        kept = self._least_reserved(secondaries)
        return self._alone[primaries] + slope @ first + start, slope @ second + kept

    def _least_reserved(self, columns: Indices) -> Floats:
        """At least this much the terms of reserved memory are, whoever the primary is.

        They are convex in what is reserved: never below the tangent where that is least.
        """
        if not self._keeps:
            return np.full(columns.size, STATISTICS[RESERVED].weight * self._kept_square**0.5)
        per = self._per_memory[columns]
        least = np.maximum(self._keeps - self._reserved[columns], 0.0) * per
        here = self._kept_term(least, columns)
        mean = (self._kept[columns] + least - least / self._online) / self._online
        spread = np.sqrt(
            np.maximum(
                (2 * self._kept[columns] + least) * least / self._online
                - (least / self._online) ** 2
                + self._kept_square,
                1e-300,
            )
        )
        slope = STATISTICS[RESERVED].weight * mean / spread + STATISTICS[RESERVED_TOTAL].weight
        found: Floats = here + np.minimum(slope, 0.0) * (self._keeps * per - least)
        return found

    def _renew_reserved(self, kernel: ArrayKernel) -> None:
        instance, state = self._instance, self._state
        size = len(state.cluster.nodes)
        self._keeps = float(instance.memory) if instance.reserves else 0.0
        self._reserved = np.array(state.reserved, dtype=np.float64)
        self._memory = kernel.memory()
        self._per_memory = kernel.per_memory()
        self._online_share = kernel.counted()[RESERVED] / kernel.totals.counts[RESERVED]
        self._online = float(kernel.totals.counts[RESERVED])
        self._kept = kernel.changes(instance)[0][RESERVED]
        self._kept -= self._online_share * self._kept.sum()
        self._rest -= float(terms(kernel.totals, (), np.sqrt)[RESERVED])
        self._peers = np.zeros((size, size))
        for index, peers in enumerate(state.peers):
            for primary, amount in peers.items():
                self._peers[primary, index] = amount
        split, counts = self._split, self._counts[self._split :, None]
        self._p_cross = 2 * self._primary[split:] / counts
        self._s_cross = self._secondary[split:] / counts
        self._shared = self._shared_locations()

    def _shared_locations(self) -> Floats | None:
        """What it costs that both nodes of a pair have the same locations."""
        nodes = self._state.cluster.nodes
        if not any(node.locations for node in nodes):
            return None
        weight = STATISTICS[LOCATION].weight
        shared = [[weight * len(one.locations & two.locations) for two in nodes] for one in nodes]
        return np.array(shared, dtype=np.float64)

    def _follow(self, nodes: Nodes) -> None:
        super()._follow(nodes)
        primary, secondary = nodes
        self._memory[primary] -= self._instance.memory
        if not self._keeps:
            return
        self._peers[primary, secondary] += self._keeps
        more = self._peers[primary, secondary] - self._reserved[secondary]
        if more > 0:
            self._reserved[secondary] += more
            added = more * self._per_memory[secondary]
            self._kept[secondary] += added
            self._kept -= self._online_share * self._kept.sum()
            self._rest += STATISTICS[RESERVED_TOTAL].weight * added


def _nodes(found: tuple[float, int, int]) -> tuple[int, int]:
    return found[1:]


def _lowest(nodes: Indices, bounds: Floats, size: int) -> tuple[Indices, float]:
    """The `size` nodes with the lowest bounds, ascending, and the lowest bound of the others."""
    if nodes.size <= size:
        return nodes, np.inf
    order = np.argpartition(bounds, size)
    return nodes[np.sort(order[:size])], float(bounds[order[size]])
