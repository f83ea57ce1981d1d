"""Statistics, and columns, that are in proportion, so that one of them stands for all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.scoring.metrics import RESERVING, STATISTICS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Floats

    Stood = tuple[int, int, float]
    """A statistic, the one that stands for it, and how many times as much as that it is."""

__all__ = ["SPREADS", "joined", "merged", "still_merged"]

ALIKE = 4e-15
"""Statistics whose values differ by less than this, in proportion, are one."""

SPREADS = [k for k, statistic in enumerate(STATISTICS) if statistic.spread and k not in RESERVING]
"""Positions of the deviations that do not depend on memory reserved for failovers."""


def merged(
    changing: Sequence[int], whole: Floats, counted: Floats
) -> tuple[dict[int, float], list[Stood]]:
    """Of statistics that are in proportion one each, with its weight for all of them; the others.

    `whole` has, per statistic, its values less the mean, and all that may be added to them;
    `counted` 1 where a node counts for it, else 0.
    """
    weights: dict[int, float] = {}
    others: list[Stood] = []
    for k in changing:
        row = whole[k]
        for leader in weights:
            other = whole[leader]
            if (counted[k] != counted[leader]).any():
                continue
            at = int(np.abs(other).argmax())
            factor = row[at] / other[at]
            limit = ALIKE * max(1.0, float(np.abs(row).max()))
            if factor > 0 and float(np.abs(row - factor * other).max()) <= limit:
                weights[leader] += STATISTICS[k].weight * factor
                others.append((k, leader, float(factor)))
                break
        else:
            weights[k] = STATISTICS[k].weight
    return weights, others


def still_merged(others: Sequence[Stood], values: Floats, most: Floats) -> bool:
    """Whether these are in proportion in other `values`, too; `most`: the largest of all else."""
    if not others:
        return True
    rows, leaders, factors = (np.array(column) for column in zip(*others))
    differ = np.abs(values[rows] - factors[:, None] * values[leaders]).max(axis=1)
    size = np.maximum(np.abs(values[rows]).max(axis=1), most[rows])
    return bool((differ <= ALIKE * np.maximum(size, 1.0)).all())


def joined(vectors: Floats, per_amount: Floats) -> tuple[list[int], Floats]:
    """The columns that are used, of those in proportion in all `vectors` only one.

    And what one more in each of them, and in those that it stands for, adds to statistics.
    """
    found: dict[int, Floats] = {}
    for column in np.flatnonzero(vectors.any(axis=0)).tolist():
        amounts = vectors[:, column]
        at = int(np.abs(amounts).argmax())
        for leader, known in found.items():
            other = vectors[:, leader]
            factor = amounts[at] / other[at] if other[at] else 0.0
            if (amounts == factor * other).all():
                found[leader] = known + factor * per_amount[column]
                break
        else:
            found[column] = per_amount[column]
    shape = len(found), *per_amount.shape[1:]
    return list(found), np.array(list(found.values())).reshape(shape)
