"""Where the next ones of many equal instances go, on one node each: several are told at once.

A placement changes the values of one node, and sums.  So a guess at the way of the next ones
tells the sums after each of them, and all scores on the way are one array, steps × nodes.  The
guess is right as far as each step leads to the lowest score; where it first is wrong, what is
right there is known.
"""

from __future__ import annotations

from heapq import heapify, heapreplace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iallocator.scoring.candidates import DECIMALS
from iallocator.scoring.score_delta import ROUNDING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Floats, Indices

__all__ = ["Standpoints", "guessed", "scores_on_the_way"]


class Standpoints(NamedTuple):
    """Statistics as they are, statistics × nodes but for `weights`, `counts`, and `offset`.

    Attributes
    ----------
    values, change:
        Less the mean; and what one more instance adds at its node.
    slope, rest:
        Of the variance that it adds at a value, which is linear in that.
    counts, weights:
        Per statistic: how many nodes count, and its weight.
    offset:
        Per node, what else belongs to the score; infinite where none can come.
    """

    values: Floats
    change: Floats
    slope: Floats
    rest: Floats
    counts: Floats
    weights: Floats
    offset: Floats


def guessed(at: Standpoints, scores: Floats, most: int, ahead: Sequence[int]) -> list[int]:
    """Where the next `most` come to if each raises the score of its node alone, and evenly.

    `scores` are those of the next one.  Ends after a node has got as many as `ahead` says, or one.
    """
    square = np.einsum("kn,kn->k", at.values, at.values) / at.counts
    spread = np.sqrt(np.maximum(square, np.finfo(float).tiny))
    added = (at.weights / (2 * spread)) @ (at.slope * at.change)
    open_to = np.flatnonzero(scores < np.inf)
    unit = 10.0**DECIMALS
    starts = np.rint(scores[open_to] * unit).tolist()
    steps = np.rint(added * unit).tolist()
    heap = list(zip(starts, open_to.tolist()))
    heapify(heap)
    left = list(ahead)
    path: list[int] = []
    while heap and len(path) < most:
        score, node = heap[0]
        path.append(node)
        left[node] -= 1
        if left[node] <= 0:
            break
        heapreplace(heap, (score + steps[node], node))
    return path


def scores_on_the_way(at: Standpoints, path: Sequence[int]) -> Floats:
    """Steps × nodes: the scores of each node for the instance of that step, those before placed."""
    nodes = np.array(path, dtype=np.intp)
    came = _came_before(nodes, at.values.shape[1])
    found = np.repeat(at.offset[None], len(path), axis=0)
    for k, weight in enumerate(at.weights):
        square, mean = _moments(at, k, nodes, came)
        slope, change = at.slope[k], at.change[k]
        variance = came * (slope * change)
        variance += slope * at.values[k] + at.rest[k]
        variance -= mean[:, None] * slope
        variance += square[:, None]
        variance *= variance > ROUNDING * square[:, None]
        found += weight * np.sqrt(variance, out=variance)
    return found


def _came_before(nodes: Indices, count: int) -> Floats:
    """Steps × nodes: how many have come to each before that step."""
    came = np.zeros((nodes.size, count))
    came[np.arange(1, nodes.size), nodes[:-1]] = 1
    return came.cumsum(axis=0, out=came)


def _moments(at: Standpoints, k: int, nodes: Indices, came: Floats) -> tuple[Floats, Floats]:
    """Variance and mean of statistic `k` before each step.

    Added up in the longest floats there are: the sums of many must not lose digits.
    """
    values, change = at.values[k], at.change[k][nodes].astype(np.longdouble)
    before = values[nodes] + came[np.arange(nodes.size), nodes] * change
    sums = _running(change, 0.0) / at.counts[k]
    squares = _running(change * (2 * before + change), float(values @ values)) / at.counts[k]
    return (squares - sums * sums).astype(np.float64), sums.astype(np.float64)


def _running(steps: Floats, start: float) -> Floats:
    """Sums before each step."""
    found = np.empty_like(steps)
    found[0] = start
    np.cumsum(steps[:-1], out=found[1:])
    found[1:] += start
    return found
