"""What it costs that secondaries reserve memory, while equal instances on two nodes are placed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.scoring.metrics import STATISTICS
from iallocator.scoring.score_delta import ROUNDING, terms
from iallocator.scoring.standing import roots

if TYPE_CHECKING:
    from iallocator.aliases import Floats, Indices
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.scoring.arrays import ArrayKernel

__all__ = ["Reserve"]

TINY = 1e-300
"""A variance that can be divided by, where there is none."""

RESERVED, RESERVED_TOTAL = (
    next(k for k, statistic in enumerate(STATISTICS) if statistic.name == name)
    for name in ("reserved_mem", "reserved_mem_total")
)


class Reserve:
    """The terms of reserved memory for more of `instance`, which `placed` must hear of.

    Attributes
    ----------
    keeps:
        MiB that each of them reserves on its secondary for its primary.
    amounts:
        MiB that each node reserves: for one other node at a time, that which needs most.
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
        """Take all from `kernel`, made of the state; the terms as they are, of all nodes."""
        self.amounts: Floats = np.array(self._state.reserved, dtype=np.float64)
        self._per_memory = kernel.per_memory()
        self._share = kernel.counted()[RESERVED] / kernel.totals.counts[RESERVED]
        self._online = float(kernel.totals.counts[RESERVED])
        spread = kernel.changes(self._instance)[0][RESERVED]
        self._spread = spread - self._share * spread.sum()
        self._look()
        return float(terms(kernel.totals, (), np.sqrt)[RESERVED])

    def _look(self) -> None:
        """What follows from the amounts."""
        self._square: float = float(self._spread @ self._spread) / self._online
        self._still: float = STATISTICS[RESERVED].weight * self._square**0.5
        self.least = self._least()

    def placed(self, primary: int, secondary: int) -> float:
        """One more is there; by how much a term has grown that all placements have in common."""
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
        """MiB that each of `columns` would reserve more for the place in `rows`."""
        if not self.keeps:
            return np.zeros(rows.size)
        needed = self._peers[rows, columns] + self.keeps
        found: Floats = np.maximum(needed - self.amounts[columns], 0.0)
        return found

    def terms(self, more: Floats, columns: Indices) -> Floats | float:
        """The terms if `columns` reserve so many MiB more."""
        if not more.any():
            return self._still
        return self._after(more * self._per_memory[columns], self._spread[columns])

    def missing(self, primary: int, secondary: int) -> float:
        """MiB that `secondary` reserves too little for one more of `primary`; or below 0."""
        return float(self._peers[primary, secondary] + self.keeps - self.amounts[secondary])

    def term(self, primary: int, secondary: int) -> float:
        """The terms with one more there."""
        more = self.missing(primary, secondary) if self.keeps else 0.0
        if more <= 0:
            return self._still
        share = more * float(self._per_memory[secondary])
        mean = share / self._online
        spread = float(self._spread[secondary])
        variance = float((2 * spread + share) * mean - mean * mean + self._square)
        deviation = variance**0.5 if variance > ROUNDING * self._square else 0.0
        return STATISTICS[RESERVED].weight * deviation + STATISTICS[RESERVED_TOTAL].weight * share

    def _after(self, share: Floats, spread: Floats) -> Floats:
        """The same for a `share` more of their memory, where they have `spread` above the mean."""
        mean = share / self._online
        variance = (2 * spread + share) * mean - mean * mean + self._square
        found: Floats = STATISTICS[RESERVED].weight * roots(variance, self._square)
        return found + STATISTICS[RESERVED_TOTAL].weight * share

    def _least(self) -> Floats:
        """At least this much the terms are for each secondary, whoever the primary is.

        They are convex in what is reserved: never below the tangent where that is least.
        """
        if not self.keeps:
            return np.full(len(self._spread), self._still)
        per = self._per_memory
        least = np.maximum(self.keeps - self.amounts, 0.0) * per
        here = self._after(least, self._spread)
        mean = (self._spread + least - least / self._online) / self._online
        variance = (2 * self._spread + least - least / self._online) * least / self._online
        deviation = np.sqrt(np.maximum(variance + self._square, TINY))
        slope = STATISTICS[RESERVED].weight * mean / deviation + STATISTICS[RESERVED_TOTAL].weight
        found: Floats = here + np.minimum(slope, 0.0) * (self.keeps * per - least)
        return found
