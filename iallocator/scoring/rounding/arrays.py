"""Statistics of many placements at once, each added up one node after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.scoring.metrics import STATISTICS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.aliases import Floats
    from iallocator.scoring.rounding.placed import Sums, Values


__all__ = ["all_added_up"]

AT_ONCE = 1_000_000
"""Values in one array."""


def all_added_up(
    k: int,
    over: Sequence[int],
    values: Mapping[int, Values],
    after: Sequence[Mapping[int, Values]],
) -> list[Sums]:
    """Statistic `k` over the nodes `over`, for each placement with what nodes have `after` it."""
    count = len(over)
    if not count:
        return [(0, 0.0, 0.0)] * len(after)
    column = np.array([values[index][k] for index in over])
    position = {index: number for number, index in enumerate(over)}
    rows = max(1, AT_ONCE // count)
    found: list[Sums] = []
    for start in range(0, len(after), rows):
        changes = after[start : start + rows]
        table = np.tile(column, (len(changes), 1))
        for row, change in enumerate(changes):
            for index, new in change.items():
                if index in position:
                    table[row, position[index]] = new[k]
        found += _sums(k, count, table)
    return found


def _sums(k: int, count: int, table: Floats) -> list[Sums]:
    totals = _last(table)
    if not STATISTICS[k].spread:
        return [(count, total, 0.0) for total in totals.tolist()]
    away = table - (totals / count)[:, None]
    variances = _last(away * away) / count
    return [(count, *pair) for pair in zip(totals.tolist(), variances.tolist())]


def _last(table: Floats) -> Floats:
    """The sum of each row from left to right; other sums of arrays go another way."""
    return np.add.accumulate(table, axis=1)[:, -1]
