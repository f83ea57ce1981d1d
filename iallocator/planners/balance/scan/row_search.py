"""The moves of one kind whose bounds are low, looking at as few instances as that takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.deadline import check
from iallocator.scoring.candidates import DECIMALS
from iallocator.tolerances import SCORE

if TYPE_CHECKING:
    from iallocator.aliases import Floats
    from iallocator.planners.balance.scan.batch_scan import BatchScan, Keyed, Measure
    from iallocator.planners.balance.scan.move_bounds import CurrentScore, MoveStore
    from iallocator.planners.balance.scan.node_table import Whole

__all__ = ["RowSearch"]

AT_ONCE = 4_000
"""The instances of so many moves are looked at first, then twice as many, and so on."""

MEASURED = 32
"""So many moves of those are scored exactly, at most, to know what to look for."""


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
        bounds = measure(store.floors(ground).reshape(-1, 1), store.prices)
        if np.isfinite(budget):
            bounds = np.where(store.prices <= budget, bounds, np.inf)
        self._bounds = bounds[:, 0]
        self._looked: list[tuple[Whole, Floats]] = []
        self._known: dict[int, float] = {}

    @property
    def low(self) -> float:
        """What no measure is below."""
        return float(self._bounds.min(initial=np.inf))

    def _within(self, limit: float) -> float:
        """What a bound may be, at most, of a measure up to `limit`."""
        return limit + SCORE * max(1.0, abs(limit), abs(self._ground.present))

    def narrow(self, limit: float) -> float:
        """Look at all moves that may have a measure up to `limit`; the lowest known then."""
        size = max(1, AT_ONCE // self.store.shape[1])
        left = self._bounds.copy()
        while True:
            check()
            allowed = self._within(limit) if limit < np.inf else np.inf
            rows = np.flatnonzero((left <= allowed) & (left < np.inf))
            if not rows.size:
                return limit
            if rows.size > size:
                rows = rows[np.argpartition(left[rows], size)[:size]]
            limit = min(limit, self._look(rows, limit))
            left[rows] = np.inf
            size *= 2

    def _look(self, rows: Whole, limit: float) -> float:
        """The lowest measure of the most promising moves of `rows`, if it may be below `limit`."""
        store = self.store
        bounds = self._measure(store.look(rows), store.prices[rows])
        self._looked.append((rows, bounds))
        places = np.flatnonzero(bounds < limit)
        if not places.size:
            return np.inf
        if places.size > MEASURED:
            low = np.take(bounds, places)
            places = places[np.argpartition(low, MEASURED)[:MEASURED]]
        row, column = np.divmod(places, store.shape[1])
        moves = rows[row] * store.shape[1] + column
        scores = store.rounded(moves, self._ground)
        self._known.update(zip(moves.tolist(), scores.tolist()))
        measures = np.round(self._measure(scores, store.prices_of(moves)), DECIMALS)
        return float(measures.min())

    def lowest(self, limit: float) -> Keyed | None:
        """The best move whose bound is up to `limit`, if that is any."""
        moves = self._moves(limit)
        if not moves.size:
            return None
        unknown = np.array([m for m in moves.tolist() if m not in self._known], dtype=np.intp)
        if unknown.size:
            found = self.store.rounded(unknown, self._ground)
            self._known.update(zip(unknown.tolist(), found.tolist()))
        scores = np.array([self._known[move] for move in moves.tolist()])
        return self.scan.lowest(self.store, moves, scores, self._measure)

    def _moves(self, limit: float) -> Whole:
        """The flat positions of those that may have a measure up to `limit`, if that is any."""
        found: list[Whole] = [np.zeros(0, dtype=np.intp)]
        for rows, bounds in self._looked if limit < np.inf else ():
            row, column = np.nonzero(bounds <= self._within(limit))
            found.append(rows[row] * self.store.shape[1] + column)
        return np.sort(np.concatenate(found))
