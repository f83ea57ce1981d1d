"""Find statistics that moves always change in proportion, so that one represents the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.model.columns import COLUMNS
from iallocator.scoring.metrics import N1_COUNT, RESERVED, STATISTICS, counting
from iallocator.scoring.proportional_statistics import LINEAR, coefficients
from iallocator.tolerances import VARIANCE_TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from iallocator.aliases import Floats
    from iallocator.planners.balance.scan.arrays import InstanceBatch, NodeTable

__all__ = ["ProportionalStatistics", "proportional_statistics"]

TAG_ATTRIBUTES = frozenset(("conflicts", "misplaced", "domain_conflicts"))

BY_TAGS = frozenset(k for k, statistic in enumerate(STATISTICS) if statistic.reads & TAG_ATTRIBUTES)
"""Positions of the statistics that only tags change."""


class ProportionalStatistics:
    """Groups of statistics that always change in proportion; the first of a group is its leader.

    A statistic is a position in the table of statistics.

    Attributes
    ----------
    groups:
        Leader -> the statistics of its group, each with the factor by which it changes if the
        leader changes by one. Statistics that moves cannot change are left out.
    without_reserved:
        The leaders that are deviations and do not depend on memory reserved for failovers.
    spreads, sums:
        All leaders that are deviations, and all other leaders; `spreads` begins with
        `without_reserved`.
    reserving:
        Whether the deviation of reserved memory is the last one of `spreads`.
    size:
        The number of *amounts* that a move adds: to the sum of squares of each of `spreads`, then
        to the sum of each of the last `moved` ones.
    reserved:
        The positions of the two amounts of reserved memory; empty without `reserving`.
    moved:
        The number of statistics with a sum that a move can change; they are the last ones of
        `spreads`. On equal nodes, a move adds to one node what it takes from another, except for
        reserved memory.
    weights:
        Leader -> the sum of the weights of its group, in units of the leader.
    """

    def __init__(self, groups: dict[int, dict[int, float]], even: Collection[int]) -> None:
        self.groups = groups
        spreads = [k for k in groups if STATISTICS[k].spread]
        self.without_reserved = plain = [k for k in spreads if k != RESERVED]
        self.reserving = RESERVED in spreads
        self.spreads = plain + [RESERVED] * self.reserving
        alike = all(k in even for k in plain)
        self.moved = len(self.spreads) - (len(plain) if alike else 0)
        self.size = len(self.spreads) + self.moved
        self.reserved = [len(plain), self.size - 1] * self.reserving
        self.sums = [k for k in groups if not STATISTICS[k].spread]
        self.weights = {
            k: sum([STATISTICS[j].weight * abs(factor) for j, factor in group.items()])
            for k, group in groups.items()
        }


def proportional_statistics(
    table: NodeTable, batches: Sequence[InstanceBatch], tagged: bool
) -> ProportionalStatistics:
    """Return which statistics moves can change, in groups that always change in proportion.

    Columns to which all instances add amounts in proportion are one source of change. Two
    statistics are in proportion under two conditions. By their formulas, their responses to each
    source are in one proportion on all nodes. In the present state, their values deviate from their
    means in this proportion.

    `tagged`: whether tags affect statistics.
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
            np.ptp(np.atleast_1d(one * counts)) <= VARIANCE_TOLERANCE * np.abs(one).max()
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
    return ProportionalStatistics(groups, even)


def _alike(table: NodeTable, k: int, leader: int, factor: float) -> bool:
    """Return whether two statistics are in proportion now, and count equal sets of nodes.

    They are in proportion if the values of `k`, less their mean, are `factor` times the values of
    `leader`, less their mean.
    """
    everywhere = table.view(np.arange(table.reserved.size, dtype=np.intp))
    if not np.array_equal(counting(k, everywhere), counting(leader, everywhere)):
        return False
    far = np.abs(table.values[k] - factor * table.values[leader]).max()
    largest = np.abs(table.values[k]).max() + abs(table.centres[k])
    return bool(far <= VARIANCE_TOLERANCE * largest)


def _sources(table: NodeTable, batches: Sequence[InstanceBatch]) -> list[dict[str, float]]:
    """Return the independent sources of change: column -> its amount per unit of the first column.

    Memory reserved on nodes is a separate source.
    """
    leaders: list[tuple[Floats, dict[str, float]]] = []
    for k, column in enumerate(COLUMNS):
        parts = [np.zeros(1)]  # what instances add as primaries, then as secondaries
        for batch in batches:
            both = (batch.as_primary[k], batch.as_secondary[k])
            count = len(batch.instances)
            parts += [np.broadcast_to(0.0 if v is None else v[:, 0], count) for v in both]
        amounts = np.concatenate(parts[1:] or parts)
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


def _factor(one: Floats, other: Floats) -> float:
    """Return the factor that turns vector `other` into `one`; 0 if there is no such factor."""
    place = int(np.abs(other).argmax())
    if not one[place] or not other[place]:
        return 0.0
    factor = float(one @ other) / float(other @ other)
    if abs(factor - 1) < VARIANCE_TOLERANCE:
        factor = 1.0
    far = np.abs(one - factor * other).max()
    return factor if far <= VARIANCE_TOLERANCE * np.abs(one).max() else 0.0
