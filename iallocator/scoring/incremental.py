"""Find the placements of equal instances one after the other, by incremental scores.

Equal instances all add the same amounts to the statistics of a node. A placement therefore changes
one column of the values, and the sums. The scores of all candidates follow from values and sums in
a few array operations, without the limits and formulas of `iallocator.scoring.arrays`. The limits
of a node are tested again only after as many instances as certainly fit
(`iallocator.limits.fit_horizon`).

For instances on one node, several placements are found at once: a guess at the next placements
gives the sums after each of them, and all their scores are one array, steps × nodes. A guessed
placement is right if it has the lowest score of its step.

The scores agree with those of the kernel to `SCORE_NOISE`. If this accuracy does not decide which
candidate has the lowest rounded score, `best` returns None, and the kernel must decide.
`iallocator.scoring.incremental_pairs` is for instances on two nodes. Scoring a step costs a few
array operations on one value for each node.
"""

from __future__ import annotations

from heapq import heapify, heapreplace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iallocator.light import copy
from iallocator.limits.fit_horizon import Horizon
from iallocator.model.columns import COLUMNS
from iallocator.model.node_view import NodeView, after_primary
from iallocator.scoring.arrays import ArrayKernel, values_of
from iallocator.scoring.metrics import N1_COUNT, NO_CENTRES, STATISTICS, VARIANCE_ROUNDING, terms
from iallocator.scoring.proportional_statistics import SPREADS, SUMMED, merged
from iallocator.tolerances import SCORE_DECIMALS, SCORE_TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from iallocator.aliases import Floats, Indices, Nodes, Truths
    from iallocator.limits.node import LimitSet
    from iallocator.model.instance import Instance
    from iallocator.model.node_view import Capacities
    from iallocator.model.state import State

__all__ = [
    "SCORE_NOISE",
    "SCORE_TIE",
    "IncrementalScores",
    "IncrementalSingles",
    "pick",
    "picks",
    "roots",
]

SCORE_NOISE = 2e-13
"""The most by which rounding errors let scores differ from the kernel's; scores have no unit."""

SCORE_TIE = 10.0**-SCORE_DECIMALS + 4 * SCORE_NOISE
"""A difference of scores above which two scores are never equal after rounding."""

TIE_GRID = 2.0**43
"""Two nodes count as equal if their scores, rounded to multiples of 1 / `TIE_GRID`, are equal."""

SINGLES_LIFETIME = 1024
"""The number of placements on one node after which all values are read from the state again.

Values are computed from the number of placements, so that rounding errors do not add up.
"""

MOST_STEP_NODES = 16_384
"""The most steps × nodes that are scored together: more scores do not fit into the processor's
cache."""


def roots(variance: Floats, square: Floats | float) -> Floats:
    """Return standard deviations; 0 where `variance` is only a rounding error.

    `square`: the mean square, which determines the size of rounding errors.
    """
    return np.sqrt(variance * (variance > VARIANCE_ROUNDING * square))


def pick(scores: Floats) -> int | None:
    """Return the position of the first of the lowest rounded scores; None if that is uncertain.

    It is uncertain if a rounding error could change the result. At least one score must be finite.
    """
    flat = scores.ravel()
    first = int(flat.argmin())
    near = np.flatnonzero(flat <= flat[first] + SCORE_TIE)
    if near.size == 1:
        return first
    nearest = flat[near]
    if nearest.min() == nearest.max():
        return int(near[0])
    scaled = nearest * 10.0**SCORE_DECIMALS
    if (np.abs(scaled - np.floor(scaled) - 0.5) < SCORE_NOISE * 10.0**SCORE_DECIMALS).any():
        return None
    return int(near[np.round(nearest, SCORE_DECIMALS).argmin()])


def picks(scores: Floats) -> tuple[Indices, Truths]:
    """Return for each row the position of the first of the lowest rounded scores, and its
    certainty.

    The certainty is False if a rounding error could change the position. The result is undefined
    for a row without a finite score.
    """
    lowest = scores.argmin(axis=1)
    near = scores <= scores.min(axis=1, keepdims=True) + SCORE_TIE
    rows = np.flatnonzero(np.count_nonzero(near, axis=1) > 1)
    certain = np.ones(len(scores), dtype=bool)
    if not rows.size:
        return lowest, certain
    columns = np.flatnonzero(near[rows].any(axis=0))
    part = np.ix_(rows, columns)
    scores, near = scores[part], near[part]
    unit = 10.0**SCORE_DECIMALS
    with np.errstate(invalid="ignore"):  # infinite ones are near where there is no finite one
        scaled = scores * unit
        split = near & (np.abs(scaled - np.floor(scaled) - 0.5) < SCORE_NOISE * unit)
    fine = np.rint(scores * TIE_GRID)
    alike = (near == (fine == fine.min(axis=1, keepdims=True))).all(axis=1)
    certain[rows] = alike | ~split.any(axis=1)
    rounded = np.where(near, np.round(scores, SCORE_DECIMALS), np.inf)
    lowest[rows] = columns[rounded.argmin(axis=1)]
    return lowest, certain


class IncrementalScores:
    """The statistics that further instances equal to `instance` change, over all nodes.

    Parameters
    ----------
    groups:
        The nodes that may host the instance, by group and ascending.
    fixed, matrix:
        The capacities of all nodes, as tuples and as an array.
    """

    def __init__(
        self,
        state: State,
        fixed: Capacities,
        matrix: Floats,
        instance: Instance,
        groups: Sequence[Sequence[int]],
        limits: LimitSet,
    ) -> None:
        self._state = state
        self._matrix = matrix
        self._instance = instance
        self._groups = [np.array(nodes, dtype=np.intp) for nodes in groups]
        self._horizon = Horizon(state, fixed, instance, limits)
        self._prepare()
        size = len(state.cluster.nodes)
        self._ahead = [0] * size
        self._takes_primary = np.zeros(size, dtype=bool)
        self._takes_secondary = np.zeros(size, dtype=bool)
        self._failing = np.zeros(size, dtype=bool)
        self._near: set[int] = set()
        for nodes in groups:
            for index in nodes:
                self._look(index)
        self._left = 0
        self._x: Floats = np.empty(0)
        self._sums: tuple[Floats, Floats] | None = None
        self._renew()

    def _prepare(self) -> None:
        """Initialise the attributes of a subclass, before any node is evaluated."""

    @property
    def lifetime(self) -> int:
        """Return the number of placements after which all values are read from the state again.

        This limits the accumulated rounding error.
        """
        raise NotImplementedError

    def best(self) -> Nodes | None:
        """Return the nodes of the next instance; () if no node fits; None if the kernel must
        decide.
        """
        raise NotImplementedError

    def path(self, most: int) -> list[Nodes]:
        """Return the nodes of the next instances: up to `most`, as many as are found at once.

        The result is empty if no node fits, or if the kernel must decide.
        """
        nodes = self.best() if most else None
        return [nodes] if nodes else []

    def best_but(self, barred: Collection[int]) -> tuple[int | None, list[int]]:
        """Return the best single node not in `barred`, and the nodes in `barred` that may be
        better.

        The node is None if no node fits, or if the kernel must decide.
        """
        raise NotImplementedError

    def nearest(self, count: int) -> list[int]:
        """Return the single nodes with the lowest scores, at most `count`, on which the instance
        fits.
        """
        raise NotImplementedError

    @property
    def left(self) -> int:
        """Return the number of placements until all values are read from the state again."""
        return self._left - 1

    def copy(self) -> IncrementalScores:
        """Return an independent copy, which can follow up to `left` further placements.

        Use the copy for placements in a trial of the state.
        """
        raise NotImplementedError

    def placed(self, nodes: Nodes) -> None:
        """Update the scores after an instance was placed on `nodes`."""
        self._left -= 1
        if self._left <= 0:
            self._renew()
        else:
            self._follow(nodes)
        for index in nodes:
            self._ahead[index] -= 1
            if self._ahead[index] <= 0:
                self._look(index)

    def placed_along(self, path: Sequence[Nodes]) -> None:
        """Update the scores after several placements, all of which are in the state already.

        `path`: the placements returned by one call of the method `path`, or at most `left` others.
        """
        for nodes in path:
            self.placed(nodes)

    def _look(self, index: int) -> None:
        """Test the limits of node `index`; store for how many placements the result is certain."""
        change = self._horizon.look(index)
        self._ahead[index] = change.ahead
        self._takes_primary[index] = change.primary
        self._takes_secondary[index] = change.secondary
        self._failing[index] = change.failing
        if change.ahead:
            self._near.discard(index)
        else:
            self._near.add(index)

    def _renew(self) -> None:
        """Read all values from the present state."""
        state = self._state
        kernel = ArrayKernel(state, range(len(state.cluster.nodes)), self._matrix)
        values, primary, secondary = kernel.changes(self._instance)
        primary = self._exact(primary)
        counted = kernel.counted()
        changing = [k for k in SPREADS if primary[k].any() or secondary[k].any()]
        changing.sort(key=lambda k: bool(secondary[k].any()))
        whole = np.concatenate((values, primary, secondary), axis=1)
        weights = merged(changing, whole, counted)
        kept = list(weights)
        counts = np.array([kernel.totals.counts[k] for k in kept], dtype=np.float64)
        self._weights = np.array([weights[k] for k in kept])
        self._counts = counts
        self._x = values[kept]
        self._primary = primary[kept]
        self._secondary = secondary[kept]
        share = counted[kept] / counts[:, None]
        self._share = share
        self._p_slope, self._p_rest = _parabola(self._primary, counts[:, None])
        self._s_slope, self._s_rest = _parabola(self._secondary, counts[:, None])
        self._split = sum(1 for k in kept if not secondary[k].any())
        rest = terms(kernel.totals, (), np.sqrt)
        self._rest = sum(float(rest[k]) for k in range(len(rest)) if k not in changing)
        weighted = [
            sum(STATISTICS[k].weight * change[k] for k in SUMMED) for change in (primary, secondary)
        ]
        self._sums = (weighted[0], weighted[1]) if any(np.any(one) for one in weighted) else None
        self._renew_reserved(kernel)
        self._x -= self._share * self._x.sum(axis=1, keepdims=True)
        self._left = self.lifetime

    def _exact(self, change: Floats) -> Floats:
        """Return the amounts that an instance adds to its primary.

        `change`: the amounts as computed from the present state.
        """
        return change

    def _renew_reserved(self, kernel: ArrayKernel) -> None:
        """Read the values of reserved memory from the present state."""

    def _follow(self, nodes: Nodes) -> None:
        """Update values, which stay relative to their mean, after a placement on `nodes`."""
        x = self._x
        x[:, nodes[0]] += self._primary[:, nodes[0]]
        if len(nodes) > 1:
            x[:, nodes[1]] += self._secondary[:, nodes[1]]
        x -= self._share * x.sum(axis=1, keepdims=True)

    def _squares(self) -> Floats:
        """Return the mean square of each statistic; as values are less their mean, it is the
        variance.
        """
        x = self._x
        return np.einsum("kn,kn->k", x, x) / self._counts  # type: ignore[no-any-return]


def _parabola(change: Floats, count: Floats) -> tuple[Floats, Floats]:
    """Return by how much `change` at a node raises the variance: a linear function of its value.

    The first array has the slopes of the function, the second one the constants.
    """
    mean = change / count
    return 2 * mean, change * mean - mean * mean


class IncrementalSingles(IncrementalScores):
    """Incremental scores of instances on one node; the nodes of all groups are one row of
    candidates.
    """

    @property
    def lifetime(self) -> int:
        return SINGLES_LIFETIME

    def path(self, most: int) -> list[Nodes]:
        scores = self._scores()
        most = min(most, self._left, max(1, MOST_STEP_NODES // scores.size))
        at = _PathStart(
            self._x, self._primary, self._p_slope, self._p_rest,
            self._counts, self._weights, self._offset(),
            None if self._sums is None else self._sums[0],
        )  # fmt: skip
        # Guess the nodes of the next instances, as if each raised the score of its node alone.  The
        # guess ends when a node has received as many instances as `_ahead` says, or one.
        square = np.einsum("kn,kn->k", at.values, at.values) / at.counts
        spread = np.sqrt(np.maximum(square, np.finfo(float).tiny))
        added = (at.weights / (2 * spread)) @ (at.slope * at.change)
        open_to = np.flatnonzero(scores < np.inf)
        unit = 10.0**SCORE_DECIMALS
        starts = np.rint(scores[open_to] * unit).tolist()
        steps = np.rint(added * unit).tolist()
        heap = list(zip(starts, open_to.tolist()))
        heapify(heap)
        left = list(self._ahead)
        path: list[int] = []
        while heap and len(path) < most:
            score, node = heap[0]
            path.append(node)
            left[node] -= 1
            if left[node] <= 0:
                break
            heapreplace(heap, (score + steps[node], node))
        return [(node,) for node in _confirmed(path, _scores_on_path(at, path))] if path else []

    def best(self) -> Nodes | None:
        scores = self._scores()
        lowest = pick(scores)
        if lowest is not None and scores[lowest] == np.inf:
            return ()
        return None if lowest is None else (lowest,)

    def best_but(self, barred: Collection[int]) -> tuple[int | None, list[int]]:
        scores = self._scores()
        others = scores.copy()
        positions = sorted(barred)
        others[positions] = np.inf
        lowest = pick(others)
        if lowest is None or others[lowest] == np.inf:
            return None, []
        highest = others[lowest] + SCORE_TIE
        return lowest, [node for node in positions if scores[node] <= highest]

    def nearest(self, count: int) -> list[int]:
        scores = self._scores()
        order = np.argsort(scores, kind="stable")[:count]
        return [int(node) for node in order if scores[node] < np.inf]

    def _renew(self) -> None:
        super()._renew()
        self._origin = self._x
        self._came = np.zeros(self._x.shape[1])
        self._stale = False

    def copy(self) -> IncrementalSingles:
        twin = copy(self)
        twin._ahead, twin._near = list(self._ahead), set(self._near)
        twin._takes_primary = self._takes_primary.copy()
        twin._takes_secondary = self._takes_secondary.copy()
        twin._failing, twin._came = self._failing.copy(), self._came.copy()
        return twin

    def _exact(self, change: Floats) -> Floats:
        """Return the amounts that an instance adds to its primary, without rounding errors if
        possible.

        If all nodes add equal amounts, the amounts of an empty node are exact: its multiples have
        no rounding error.
        """
        nothing = np.zeros(change.shape[1])
        view = NodeView([nothing] * len(COLUMNS), list(self._matrix), nothing)
        after = after_primary(view, self._instance)
        changes = values_of(after, NO_CENTRES, nothing.shape)
        changes -= values_of(view, NO_CENTRES, nothing.shape)
        same = np.abs(changes - change) <= SCORE_TOLERANCE * np.maximum(1.0, np.abs(change))
        return np.where(same, changes, change)

    def _follow(self, nodes: Nodes) -> None:
        """Count the placement of an instance on a node; values are computed from these counts."""
        self._came[nodes[0]] += 1
        self._stale = True
        if self._sums is not None:
            self._rest += float(self._sums[0][nodes[0]])

    def placed_along(self, path: Sequence[Nodes]) -> None:
        self._left -= len(path)
        for nodes in path:
            self._follow(nodes)
            self._ahead[nodes[0]] -= 1
        if self._left <= 0:
            self._renew()
        for (index,) in path:
            if self._ahead[index] <= 0:
                self._look(index)

    def _scores(self) -> Floats:
        """Return the score with the next instance on each node; infinite where it does not fit."""
        if self._stale:
            x = self._origin + self._came * self._primary
            self._x = x - self._share * x.sum(axis=1, keepdims=True)
            self._stale = False
        square = self._squares()[:, None]
        variance = self._x * self._p_slope
        variance += self._p_rest
        variance += square
        scores: Floats = self._weights @ roots(variance, square)
        scores += self._offset()
        return scores

    def _offset(self) -> Floats:
        """Return the part of the scores that does not depend on the values; infinite: no free
        capacity.
        """
        offset = np.full(self._takes_primary.size, self._rest)
        if self._sums is not None:
            offset += self._sums[0]
        if self._near:
            offset += self._failing * STATISTICS[N1_COUNT].weight
        offset[~self._takes_primary] = np.inf
        return offset


def _confirmed(path: Sequence[int], scores: Floats) -> list[int]:
    """Return the beginning of `path` that the `scores` of its steps confirm, and the next node."""
    right, certain = picks(scores)
    every = np.arange(len(path))
    certain &= scores[every, right] < np.inf
    wrong = np.flatnonzero(~certain | (right != path))
    if not wrong.size:
        return list(path)
    step = int(wrong[0])
    return [*path[:step], int(right[step])] if certain[step] else list(path[:step])


class _PathStart(NamedTuple):
    """The values of statistics × nodes before a sequence of placements.

    Attributes
    ----------
    values, change:
        The values less their mean, and the amounts that an instance adds at its node.
    slope, rest:
        Slope and constant of the variance that an instance adds, a line over the value of the node.
    counts, weights:
        For each statistic, the number of nodes that it includes, and its weight.
    offset:
        For each node, the part of the score that is not a deviation; infinite if an instance does
        not fit.
    raised:
        For each node, how much an instance on it raises the scores of all nodes; None: not at all.
    """

    values: Floats
    change: Floats
    slope: Floats
    rest: Floats
    counts: Floats
    weights: Floats
    offset: Floats
    raised: Floats | None


def _scores_on_path(at: _PathStart, path: Sequence[int]) -> Floats:
    """Return the score of each node before each step of `path`, as an array of steps × nodes.

    A step places an instance on a node; the scores are those of the next instance.
    """
    nodes = np.array(path, dtype=np.intp)
    came = np.zeros((nodes.size, at.values.shape[1]))  # how many each node received before a step
    came[np.arange(1, nodes.size), nodes[:-1]] = 1
    came.cumsum(axis=0, out=came)
    scores = np.repeat(at.offset[None], len(path), axis=0)
    if at.raised is not None:
        scores += _running(at.raised[nodes], 0.0)[:, None]
    for k, weight in enumerate(at.weights):
        # Variance and mean of the statistic before each step
        values, change = at.values[k], at.change[k][nodes].astype(np.longdouble)
        before = values[nodes] + came[np.arange(nodes.size), nodes] * change
        sums = _running(change, 0.0) / at.counts[k]
        squares = _running(change * (2 * before + change), float(values @ values)) / at.counts[k]
        square, mean = (squares - sums * sums).astype(np.float64), sums.astype(np.float64)
        slope, change = at.slope[k], at.change[k]
        variance = came * (slope * change)
        variance += slope * at.values[k] + at.rest[k]
        variance -= mean[:, None] * slope
        variance += square[:, None]
        variance *= variance > VARIANCE_ROUNDING * square[:, None]
        scores += weight * np.sqrt(variance, out=variance)
    return scores


def _running(steps: Floats, start: float) -> Floats:
    """Return the sum of `start` and all earlier steps, before each step."""
    sums = np.empty_like(steps)
    sums[0] = start
    np.cumsum(steps[:-1], out=sums[1:])
    sums[1:] += start
    return sums
