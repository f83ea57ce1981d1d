"""Statistics that always change alike when instances move, so that one stands for all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.scoring.movetable import CrowdView
from iallocator.scoring.statistics import STATISTICS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.scoring.movetable import Crowd, Floats, NodeTable

__all__ = ["Twins", "find_twins"]


class Twins:
    """Statistics that always change alike, each group led by its first.

    ``groups``: leader -> all of its group; only statistics that moves can change.
    """

    def __init__(self, groups: dict[int, list[int]]) -> None:
        self.groups = groups
        self.leaders = list(groups)
        self.spreads = [k for k in groups if STATISTICS[k].spread]
        self.sums = [k for k in groups if not STATISTICS[k].spread]
        self.weights = {k: sum(STATISTICS[j].weight for j in group) for k, group in groups.items()}


def find_twins(table: NodeTable, crowds: Sequence[Crowd], tagged: bool) -> Twins:
    """Which statistics moves can change, and which of them always change alike.

    Found by trying: columns that are equal on all nodes, and to which all instances
    add equal amounts, get equal random numbers; what is equal then is always equal.
    """
    rng = np.random.default_rng(1)
    shape = table.reserved.size
    leaders: dict[bytes, int] = {}
    columns: list[Floats] = []
    for k, column in enumerate(table.columns):
        amounts = [v for c in crowds for v in (c.as_primary[k], c.as_secondary[k])]
        key = column.tobytes() + b"".join(b"-" if v is None else v.tobytes() for v in amounts)
        twin = leaders.setdefault(key, k)
        if twin != k:
            columns.append(columns[twin])
        elif any(v is not None for v in amounts):
            columns.append(column + rng.random(shape))
        else:
            columns.append(column)
    probe = CrowdView(columns, list(table.fixed), table.reserved + rng.random(shape))
    groups: dict[int, list[int]] = {}
    seen: dict[tuple[bytes, bool, bool], int] = {}
    for k, statistic in enumerate(STATISTICS):
        value = np.asarray(np.broadcast_to(statistic.value(probe), shape), dtype=np.float64)
        fixed = np.array_equal(value, _present(table, k))
        tag = tagged and statistic.name in ("pri_tags", "location", "location_exclusion")
        if fixed and not tag and statistic.name != "n1_cnt":
            continue
        alone = b"" if statistic.spread else bytes([k])
        leader = seen.setdefault((value.tobytes() + alone, statistic.spread, statistic.offline), k)
        groups.setdefault(leader, []).append(k)
    return Twins(groups)


def _present(table: NodeTable, k: int) -> Floats:
    view = table.view(np.arange(table.reserved.size, dtype=np.intp))
    value = STATISTICS[k].value(view)
    return np.asarray(np.broadcast_to(value, table.reserved.size), dtype=np.float64)
