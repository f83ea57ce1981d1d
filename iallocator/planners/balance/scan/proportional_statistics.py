"""Find statistics that moves always change in proportion, so that one represents the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.model.columns import COLUMNS
from iallocator.scoring.metrics import N1_COUNT, RESERVING, STATISTICS, counting
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
    mirrored:
        The number of statistics that a secondary changes; they are the first ones of
        `without_reserved`.
    spreads, sums:
        All leaders that are deviations, and all other leaders; `spreads` begins with
        `without_reserved`.
    others:
        All leaders that are not in `without_reserved`.
    moved:
        The number of statistics with a sum that a move can change; they are the last ones of
        `spreads`. On equal nodes, a move adds to one node what it takes from another, except for
        reserved memory.
    weights:
        Leader -> the sum of the weights of its group, in units of the leader.
    """

    def __init__(
        self, groups: dict[int, dict[int, float]], mirrored: Collection[int], even: Collection[int]
    ) -> None:
        self.groups = groups
        spreads = [k for k in groups if STATISTICS[k].spread]
        plain = [k for k in spreads if k not in RESERVING]
        self.without_reserved = sorted(plain, key=lambda k: k not in mirrored)
        self.mirrored = sum(1 for k in plain if k in mirrored)
        self.spreads = self.without_reserved + [k for k in spreads if k in RESERVING]
        alike = all(k in even for k in plain)
        self.moved = len(self.spreads) - (len(plain) if alike else 0)
        self.sums = [k for k in groups if not STATISTICS[k].spread]
        self.others = self.spreads[len(self.without_reserved) :] + self.sums
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
    columns = {
        column
        for batch in batches
        for column, amounts in zip(COLUMNS, batch.as_secondary)
        if amounts is not None
    }
    by_secondaries = {k for k, statistic in enumerate(STATISTICS) if columns & statistic.reads}
    return ProportionalStatistics(groups, by_secondaries, even)


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
            parts += [np.zeros(len(batch.instances)) if v is None else v[:, 0] for v in both]
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
