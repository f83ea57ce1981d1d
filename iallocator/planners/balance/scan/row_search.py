"""The moves of one kind whose bounds are low, looking at as few instances as that takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from iallocator.aliases import Floats
    from iallocator.planners.balance.scan.batch_scan import BatchScan, Measure
    from iallocator.planners.balance.scan.move_bounds import CurrentScore, MoveStore
    from iallocator.planners.balance.scan.node_table import Whole

__all__ = ["RowSearch"]

SLACK = 1e-9
"""By how much rounding may lift a bound above the score, per unit of score."""

AT_ONCE = 4_000
"""The instances of so many moves are looked at first, then twice as many, and so on."""


class RowSearch:
    """Looks at the moves of `store`, which is one of `scan`; `measure`, `budget` as in `best`.

    Attributes
    ----------
    scan, store:
        What is searched.
    """

    def __init__(
        self,
        scan: BatchScan,
        store: MoveStore,
        ground: CurrentScore,
        measure: Measure,
        budget: float,
    ) -> None:
        self.scan = scan
        self.store = store
        self._ground = ground
        self._measure = measure
        self._chords = store.row_chords(ground)
        bounds = measure(store.rows.below(self._chords).reshape(-1, 1), store.prices)
        if np.isfinite(budget):
            bounds = np.where(store.prices <= budget, bounds, np.inf)
        self._bounds = bounds[:, 0]
        self._order: Whole = np.argsort(self._bounds, kind="stable")
        self._looked: list[tuple[Whole, Floats]] = []

    @property
    def low(self) -> float:
        """What no measure is below."""
        return float(self._bounds[self._order[0]]) if self._order.size else np.inf

    def _within(self, limit: float) -> float:
        """What a bound may be, at most, of a measure up to `limit`."""
        return limit + SLACK * max(1.0, abs(limit), abs(self._ground.present))

    def narrow(self, limit: float) -> float:
        """Look at all moves that may have a measure up to `limit`; the lowest known then."""
        start, size = 0, max(1, AT_ONCE // self.store.shape[1])
        while start < self._order.size:
            rows = self._order[start : start + size]
            allowed = self._within(limit) if limit < np.inf else np.inf
            rows = rows[(self._bounds[rows] <= allowed) & (self._bounds[rows] < np.inf)]
            if not rows.size:
                break
            limit = min(limit, self._look(rows))
            start += size
            size *= 2
        return limit

    def _look(self, rows: Whole) -> float:
        """The measure of the most promising move of `rows`."""
        store = self.store
        bounds = self._measure(store.bounds_of(rows, self._chords), store.prices[rows])
        self._looked.append((rows, bounds))
        row, column = divmod(int(bounds.argmin()), store.shape[1])
        if not bounds[row, column] < np.inf:
            return np.inf
        move = np.array([rows[row] * store.shape[1] + column], dtype=np.intp)
        return float(self.scan.measured(store, move, self._measure, self._ground)[0])

    def moves(self, limit: float) -> Whole:
        """The flat positions of those that may have a measure up to `limit`, if that is any."""
        found: list[Whole] = [np.zeros(0, dtype=np.intp)]
        for rows, bounds in self._looked if limit < np.inf else ():
            row, column = np.nonzero(bounds <= self._within(limit))
            found.append(rows[row] * self.store.shape[1] + column)
        return np.sort(np.concatenate(found))
