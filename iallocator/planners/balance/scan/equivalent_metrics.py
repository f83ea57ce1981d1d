"""Statistics that always change alike when instances move, so that one stands for all."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from iallocator.scoring.metrics import RESERVING, STATISTICS
from iallocator.scoring.score_delta import counting
from iallocator.tolerances import VARIANCE

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from iallocator.aliases import Floats
    from iallocator.planners.balance.scan.instance_batch import InstanceBatch
    from iallocator.planners.balance.scan.node_table import NodeTable

__all__ = ["Twins", "find_twins"]


class Twins:
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


def find_twins(table: NodeTable, batches: Sequence[InstanceBatch], tagged: bool) -> Twins:
    """Which statistics moves can change, and which of them always change alike.

    Found by trying: columns to which all instances add equal amounts, but for a factor,
    get equal noise, but for that factor; statistics that respond alike always will.
    They are twins if their values deviate alike from their means now.
    """
    nodes = np.arange(table.reserved.size, dtype=np.intp)
    present = table.view(nodes)
    probe = present.plus(
        _column_noise(table, batches), table.reserved + _noise(nodes.size, len(table.columns))
    )
    leaders: list[tuple[int, Floats]] = []
    groups: dict[int, dict[int, float]] = {}
    for k, statistic in enumerate(STATISTICS):
        response: Floats = np.broadcast_to(
            np.subtract(statistic.value(probe), statistic.value(present)), nodes.shape
        )
        tag = tagged and statistic.name in ("pri_tags", "location", "location_exclusion")
        if not (response.any() or tag or statistic.name == "n1_cnt"):
            continue
        if not np.any(counting(k, present)):
            continue
        if statistic.spread:
            for leader, other in leaders:
                factor = _factor(response, other)
                if factor and _alike(table, k, leader, factor):
                    groups[leader][k] = factor
                    break
            else:
                leaders.append((k, response))
                groups[k] = {k: 1.0}
        else:
            groups[k] = {k: 1.0}
    return Twins(groups, _changed_by_secondaries(table, batches), _even(table))


def _even(table: NodeTable) -> set[int]:
    """The statistics that respond on all nodes alike to the same amount."""
    nodes = np.arange(table.reserved.size, dtype=np.intp)
    present = table.view(nodes)
    more = present.plus([np.full(1, 1000.0 + k) for k in range(len(table.columns))], 0)
    even = set()
    for k, statistic in enumerate(STATISTICS):
        change = np.subtract(statistic.value(more), statistic.value(present))
        response = np.atleast_1d(change * counting(k, present))
        if np.ptp(response) <= VARIANCE * np.abs(statistic.value(more)).max():
            even.add(k)
    return even


def _alike(table: NodeTable, k: int, leader: int, factor: float) -> bool:
    """Whether `k` runs over the same nodes as `leader`, with the same values but for a factor."""
    everywhere = table.view(np.arange(table.reserved.size, dtype=np.intp))
    if not np.array_equal(counting(k, everywhere), counting(leader, everywhere)):
        return False
    far = np.abs(table.values[k] - factor * table.values[leader]).max()
    largest = np.abs(table.values[k]).max() + abs(table.centres[k])
    return bool(far <= VARIANCE * largest)


def _column_noise(table: NodeTable, batches: Sequence[InstanceBatch]) -> list[Floats]:
    """Per column a disturbance of each node, none where instances change nothing."""
    zeros = np.zeros(table.reserved.size)
    leaders: list[tuple[Floats, Floats]] = []
    disturbances: list[Floats] = []
    for k, column in enumerate(table.columns):
        amounts = np.concatenate([_amounts(batch, k) for batch in batches] or [zeros])
        noise = zeros
        if amounts.any():
            for leader, other in leaders:
                factor = _factor(amounts, leader)
                if factor:
                    noise = factor * other
                    break
            else:
                noise = _noise(column.size, k) * (1 + np.abs(column).max())
                leaders.append((amounts, noise))
        disturbances.append(noise)
    return disturbances


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


def _noise(count: int, number: int) -> Floats:
    """Numbers from 0 to 1 without any pattern that a formula could have."""
    steps = np.arange(1, count + 1) * sqrt(2) + (number + 1) * sqrt(3)
    noise: Floats = np.modf(np.abs(np.sin(steps)) * 9973)[0]
    return noise


def _changed_by_secondaries(table: NodeTable, batches: Sequence[InstanceBatch]) -> set[int]:
    """The statistics of a node that a secondary changes: they become NaN if its amounts are."""
    node = table.view(np.zeros(1, dtype=np.intp))
    changed: set[int] = set()
    for batch in batches:
        amounts = [None if v is None else np.full(1, np.nan) for v in batch.as_secondary]
        after = node.plus(amounts, node.reserved)
        changed |= {k for k, s in enumerate(STATISTICS) if np.isnan(s.value(after)).any()}
    return changed
