"""Statistics that are always in proportion when instances move, so that one stands for all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.model.columns import COLUMNS
from iallocator.scoring.metrics import N1_COUNT, RESERVING, STATISTICS
from iallocator.scoring.proportional_statistics import LINEAR, coefficients
from iallocator.scoring.score_delta import counting
from iallocator.tolerances import VARIANCE

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from iallocator.aliases import Floats
    from iallocator.planners.balance.scan.arrays import InstanceBatch, NodeTable

__all__ = ["ProportionalStatistics", "proportional_statistics"]

TAGGED = frozenset(("conflicts", "misplaced", "domain_conflicts"))

BY_TAGS = frozenset(k for k, statistic in enumerate(STATISTICS) if statistic.reads & TAGGED)
"""Positions of the statistics that change with tags only."""


class ProportionalStatistics:
    """Statistics that always change alike, each group led by its first.

    Attributes
    ----------
    groups:
        Leader -> all of its group, and by what factor they change when it changes by one;
        only statistics that moves can change.
    steady:
        The leaders of the spread kind that do not depend on memory reserved for
        failovers; first those that a secondary changes, which are so many: `mirrored`.
    spreads, sums:
        All leaders of either kind; `spreads` begins with `steady`.
    others:
        All leaders but `steady`.
    moved:
        How many of `spreads` have to be looked at for changes of their sums: the last ones.
        On nodes that are all alike what one node gains another loses, but for the memory
        reserved.
    weights:
        Leader -> the weights of its group together, in terms of the leader.
    """

    def __init__(
        self, groups: dict[int, dict[int, float]], mirrored: Collection[int], even: Collection[int]
    ) -> None:
        self.groups = groups
        spreads = [k for k in groups if STATISTICS[k].spread]
        steady = [k for k in spreads if k not in RESERVING]
        self.steady = sorted(steady, key=lambda k: k not in mirrored)
        self.mirrored = sum(1 for k in steady if k in mirrored)
        self.spreads = self.steady + [k for k in spreads if k in RESERVING]
        alike = all(k in even for k in steady)
        self.moved = len(self.spreads) - (len(steady) if alike else 0)
        self.sums = [k for k in groups if not STATISTICS[k].spread]
        self.others = self.spreads[len(self.steady) :] + self.sums
        self.weights = {
            k: sum([STATISTICS[j].weight * abs(factor) for j, factor in group.items()])
            for k, group in groups.items()
        }


def proportional_statistics(
    table: NodeTable, batches: Sequence[InstanceBatch], tagged: bool
) -> ProportionalStatistics:
    """Return which statistics moves can change, and which of them are always in proportion.

    Columns to which all instances add amounts in proportion are one source of change. Two
    statistics are in proportion if, by their formulas, their responses to each source are, on all
    nodes, and if their values deviate from their means in the same proportion now.
    """
    everywhere = table.view(np.arange(table.reserved.size, dtype=np.intp))
    sources = _sources(table, batches)
    leaders: list[tuple[int, Floats]] = []
    groups: dict[int, dict[int, float]] = {}
    even: set[int] = set()
    for k, statistic in enumerate(STATISTICS):
        counts = counting(k, everywhere)
        by_tags = tagged and k in BY_TAGS
        if not np.any(counts):
            continue
        if LINEAR[k] is None:
            if by_tags or k == N1_COUNT:
                groups[k] = {k: 1.0}
            continue
        by_column = coefficients(k, everywhere)
        response = np.zeros((len(sources), table.reserved.size))
        for row, source in enumerate(sources):
            for column, share in source.items():
                response[row] += share * by_column.get(column, 0.0)
        if all(
            np.ptp(np.atleast_1d(one * counts)) <= VARIANCE * np.abs(one).max()
            for one in by_column.values()
        ):
            even.add(k)
        if not (response.any() or by_tags):
            continue
        if statistic.spread:
            for leader, other in leaders:
                factor = _factor(response.ravel(), other)
                if factor and _alike(table, k, leader, factor):
                    groups[leader][k] = factor
                    break
            else:
                leaders.append((k, response.ravel()))
                groups[k] = {k: 1.0}
        else:
            groups[k] = {k: 1.0}
    return ProportionalStatistics(groups, _changed_by_secondaries(batches), even)


def _alike(table: NodeTable, k: int, leader: int, factor: float) -> bool:
    """Whether `k` runs over the same nodes as `leader`, with the same values but for a factor."""
    everywhere = table.view(np.arange(table.reserved.size, dtype=np.intp))
    if not np.array_equal(counting(k, everywhere), counting(leader, everywhere)):
        return False
    far = np.abs(table.values[k] - factor * table.values[leader]).max()
    largest = np.abs(table.values[k]).max() + abs(table.centres[k])
    return bool(far <= VARIANCE * largest)


def _sources(table: NodeTable, batches: Sequence[InstanceBatch]) -> list[dict[str, float]]:
    """Return the independent sources of change: column -> its amount per amount of the first.

    Memory reserved on nodes is a source of its own.
    """
    leaders: list[tuple[Floats, dict[str, float]]] = []
    for k, column in enumerate(COLUMNS):
        amounts = np.concatenate([_amounts(batch, k) for batch in batches] or [np.zeros(1)])
        if not amounts.any():
            continue
        for leader, source in leaders:
            factor = _factor(amounts, leader)
            if factor:
                source[column] = factor
                break
        else:
            leaders.append((amounts, {column: 1.0}))
    return [{"reserved": 1.0}, *(source for _, source in leaders)]


def _amounts(batch: InstanceBatch, k: int) -> Floats:
    """What the instances of a batch add to column `k`, first as primaries."""
    zeros = np.zeros(len(batch.instances))
    both = (batch.as_primary[k], batch.as_secondary[k])
    return np.concatenate([zeros if v is None else v[:, 0] for v in both])


def _factor(one: Floats, other: Floats) -> float:
    """The factor by which `one` is `other`; 0 if it is not a multiple."""
    place = int(np.abs(other).argmax())
    if not one[place] or not other[place]:
        return 0.0
    factor = float(one @ other) / float(other @ other)
    if abs(factor - 1) < VARIANCE:
        factor = 1.0
    far = np.abs(one - factor * other).max()
    return factor if far <= VARIANCE * np.abs(one).max() else 0.0


def _changed_by_secondaries(batches: Sequence[InstanceBatch]) -> set[int]:
    """Return the statistics of a node that depend on a column which secondaries change."""
    columns = {
        column
        for batch in batches
        for column, amounts in zip(COLUMNS, batch.as_secondary)
        if amounts is not None
    }
    return {k for k, statistic in enumerate(STATISTICS) if columns & statistic.reads}
