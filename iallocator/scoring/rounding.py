"""Order candidates of equal scores as hail does, by the rounding error of their scores.

Where different nodes have nearly equal scores, the sixteenth decimal decides in hail. This module
therefore computes the score of near-equal candidates again, with hail's order of operations: values
of nodes are quotients, a statistic is added up over the nodes in the order of the document, and a
new pair of nodes changes the sums that were added up before, first for its primary.

This module is used with ``--compat hail`` only. The formulas are those of
`iallocator.scoring.metrics`. Cost: O(n) for each near-equal candidate, O(1) for each new pair.
"""

from __future__ import annotations

from itertools import islice
from math import sqrt

from iallocator.deadline import check
from iallocator.model.node_view import (
    CAPACITIES,
    NodeView,
    after_primary,
    after_secondary,
    capacities,
)
from iallocator.scoring.candidates import Candidates
from iallocator.scoring.metrics import DOMAINS, STATISTICS, counting, scope_group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from iallocator.aliases import Floats, Nodes
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.scoring.candidates import Placement

    ExactScores = Callable[[list[tuple[int, ...]]], list[float]]
    """A function that returns the scores of placements, to the last digit.

    Its argument lists the nodes of each placement.
    """

    Values = tuple[float, ...]
    """The value of a node for each statistic, in the order of `STATISTICS`."""

    Sums = tuple[int, float, float]
    """The sums of a statistic: the number of values, their sum, and their variance.

    The variance is 0 for a statistic that is a sum.
    """

__all__ = ["NEAR_SCORE", "RunningSums", "decided", "decided_now", "exactly"]

NEAR_SCORE = 1e-7
"""The difference of scores above which rounding errors cannot change the order of two scores."""

VALUES_WORTH_ARRAYS = 50_000
"""The number of values from which on arrays add them faster, including the time to load numpy."""

VALUES_AT_ONCE = 1_000_000
"""The most values in one array."""


def decided(
    state: State, scope: Sequence[int], instance: Instance, candidates: Candidates
) -> Candidates:
    """Return `candidates` of a new instance, with near-equal scores in the order of hail."""
    return _NearEquals(candidates, RunningSums(state, scope, instance).created)


def decided_now(
    state: State, scope: Sequence[int], instance: Instance, candidates: Candidates
) -> Candidates:
    """Return `candidates` of a moving instance, with the best placements in the order of hail.

    The instance must not be placed. Only placements with scores near the lowest are ordered.
    """
    return _FirstDecided(candidates, RunningSums(state, scope, instance).moved)


def exactly(
    state: State, scope: Sequence[int], instance: Instance, placements: Sequence[Placement]
) -> list[float | None]:
    """Return the exact score of each placement; None for one without another score near its own."""
    near = [
        any(one is not other and abs(one[0] - other[0]) <= NEAR_SCORE for other in placements)
        for one in placements
    ]
    if not any(near):
        return [None] * len(placements)
    doubtful_nodes = [nodes for (_, nodes), doubtful in zip(placements, near) if doubtful]
    scores = iter(RunningSums(state, scope, instance).created(doubtful_nodes))
    return [next(scores) if doubtful else None for doubtful in near]


# The order of near-equal candidates


def _in_exact_order(placements: Iterable[Placement], exact: ExactScores) -> Iterator[Placement]:
    """Yield `placements`, best first; near-equal scores are ordered by `exact`, then by nodes.

    Exact scores are computed only for the placements that the caller reads.
    """
    for level in _levels(placements):
        yield from _by_exact_score(level, exact)


def _levels(placements: Iterable[Placement]) -> Iterator[list[Placement]]:
    """Yield lists of `placements`, best first; each list has scores that are near its first."""
    level: list[Placement] = []
    for placement in placements:
        if level and placement[0] - level[0][0] > NEAR_SCORE:
            yield level
            level = []
        level.append(placement)
    if level:
        yield level


def _by_exact_score(level: list[Placement], exact: ExactScores) -> list[Placement]:
    if len(level) < 2:
        return level
    scores = exact([nodes for _, nodes in level])
    ranks = sorted((score, nodes, rank) for score, (rank, nodes) in zip(scores, level))
    return [(rank, nodes) for _, nodes, rank in ranks]


class _NearEquals(Candidates):
    """Candidates with near-equal scores in the order of hail, decided when they are read."""

    def __init__(self, candidates: Candidates, exact: ExactScores) -> None:
        self._candidates = candidates
        self._exact = exact
        self.failures = candidates.failures
        self.feasible = candidates.feasible

    def rows(self) -> int:
        return self._candidates.rows()

    def row(self, number: int) -> Iterator[Placement]:
        return _in_exact_order(self._candidates.row(number), self._exact)

    def ranked(self) -> Iterator[Placement]:
        return _in_exact_order(self._candidates.ranked(), self._exact)

    def in_order(self, placements: list[Placement]) -> list[Placement]:
        return list(_in_exact_order(super().in_order(placements), self._exact))


class _FirstDecided(Candidates):
    """Candidates with the best ones in the order of hail; the order of all others is unchanged."""

    def __init__(self, candidates: Candidates, exact: ExactScores) -> None:
        self._candidates = candidates
        self.failures = candidates.failures
        self.feasible = candidates.feasible
        self._first = _by_exact_score(next(_levels(candidates.ranked()), []), exact)

    def rows(self) -> int:
        return self._candidates.rows()

    def row(self, number: int) -> Iterator[Placement]:
        return self._candidates.row(number)

    def ranked(self) -> Iterator[Placement]:
        yield from self._first
        yield from islice(self._candidates.ranked(), len(self._first), None)


# The values of nodes


class _Per(float):
    """The factor 1 / `total`; multiplied by it, a number becomes the quotient that hail computes.

    It is 0 if `total` is 0.
    """

    __slots__ = ("total",)

    total: float

    def __new__(cls, total: float) -> _Per:
        made = super().__new__(cls, 1 / total if total else 0.0)
        made.total = total
        return made

    def __rmul__(self, amount: float) -> float:
        return amount / self.total if self.total else 0.0


class _ExactValues:
    """The values of nodes with and without `instance`, which is not placed.

    Attributes
    ----------
    by_domain:
        Whether the score depends on failure domains, which are not among the values of a node.
    """

    def __init__(self, state: State, instance: Instance, group: int | None) -> None:
        self._state = state
        self._instance = instance
        self._group = group
        self._views: dict[int, NodeView] = {}
        self._after: dict[tuple[int, float, int], Values] = {}
        self.by_domain = bool(instance.exclusion)

    def view(self, index: int) -> NodeView:
        """Return the view of node `index` in the present state."""
        if index not in self._views:
            node = self._state.cluster.nodes[index]
            exclusive = node.exclusive_storage
            fixed = dict(zip(CAPACITIES, capacities(node)))
            fixed["per_memory"] = _Per(node.total_memory)
            fixed["per_disk"] = _Per(0 if exclusive else node.total_disk)
            fixed["per_own_spindle"] = _Per(node.total_spindles if exclusive else 0)
            fixed["per_cpu"] = _Per(node.total_cpus)
            fixed["per_speed"] = _Per(node.cpu_speed)
            fixed["per_spindle"] = _Per(0 if exclusive else node.high_spindles)
            self._views[index] = NodeView.of(self._state, index, list(fixed.values()))
        return self._views[index]

    def before(self, index: int) -> Values:
        """Return the values of node `index` in the present state."""
        return _values(self.view(index))

    def after(self, place: Nodes) -> dict[int, Values]:
        """Return node -> its values with the instance on `place`, of which the first is the
        primary.
        """
        primary, instance = place[0], self._instance
        nodes = [self._state.cluster.nodes[index] for index in place]
        shared = 0  # location tags that count because both nodes have them
        if len(nodes) > 1 and nodes[0].online and not instance.forthcoming:
            shared = len(nodes[0].locations & nodes[1].locations)
        own = primary, -1, shared
        if own not in self._after:
            view = after_primary(self.view(primary), instance)
            if instance.exclusion or instance.desired:
                conflicts, misplaced = self._state.tag_amounts(instance, primary, None)
                view.conflicts += conflicts
                view.misplaced += misplaced
            view.misplaced += shared
            self._after[own] = _values(view)
        values = {primary: self._after[own]}
        for secondary in place[1:]:
            peers = self._state.peers[secondary].get(primary, 0)
            key = secondary, peers, 0
            if key not in self._after:
                view = after_secondary(self.view(secondary), instance, peers, max)
                self._after[key] = _values(view)
            values[secondary] = self._after[key]
        return values

    def domain_conflicts(self, place: Nodes) -> float:
        """Return how often instances with one exclusion tag share a failure domain.

        The instance is counted on `place`.
        """
        state, group = self._state, self._group
        conflicts = state.domain_conflicts(group)
        if self.by_domain:
            conflicts += state.added_domain_conflicts(self._instance, place[0], group)
        return conflicts


def _values(view: NodeView) -> Values:
    return tuple([statistic.value(view) for statistic in STATISTICS])


# The statistics


class RunningSums:
    """Computes scores of placements of `instance` with the rounding errors of hail.

    The instance must not be placed, and the state must not change while scores are read. `scope`:
    the nodes that the score includes.
    """

    def __init__(self, state: State, scope: Sequence[int], instance: Instance) -> None:
        placed = self._placed = _ExactValues(state, instance, scope_group(state.cluster, scope))
        document = sorted(scope, reverse=True)  # the model reverses the nodes
        self._values = {index: placed.before(index) for index in document}
        kinds = [(statistic.offline, statistic.disk) for statistic in STATISTICS]
        counted = {
            kind: [index for index in document if counting(k, placed.view(index))]
            for k, kind in enumerate(kinds)
            if kind not in kinds[:k]
        }
        self._over = [counted[kind] for kind in kinds]
        self._sums = [_added_up(k, over, self._values) for k, over in enumerate(self._over)]
        self._known: dict[tuple[Values, ...], float] = {}

    def moved(self, places: Sequence[Nodes]) -> list[float]:
        """Return the score with a moving instance on each of `places`; no sums are reused."""
        if len(places) * len(self._values) > VALUES_WORTH_ARRAYS:
            columns = [
                _all_added_up(k, over, self._values, [self._placed.after(p) for p in places])
                for k, over in enumerate(self._over)
            ]
            sums: Sequence[Sequence[Sums]] = [*zip(*columns)]
        else:
            sums = []
            for place in places:
                after = self._placed.after(place)
                values = self._values | after
                # A statistic is added up again if a value of it changes
                sums.append(
                    [
                        _added_up(k, over, values)
                        if any(values[index][k] != self._values[index][k] for index in after)
                        else self._sums[k]
                        for k, over in enumerate(self._over)
                    ]
                )
        return [self._score(one, place) for one, place in zip(sums, places)]

    def created(self, places: Sequence[Nodes]) -> list[float]:
        """Return the score with a new instance on each of `places`; for pairs, sums are updated."""
        if len(places[0]) == 1:
            return self.moved(places)
        scores: list[float] = []
        for place in places:
            after = self._placed.after(place)
            key = tuple(values for index in place for values in (self._values[index], after[index]))
            known = None if self._placed.by_domain else self._known.get(key)
            if known is None:
                check()
                sums = self._sums
                for index in place:
                    sums = self._changed(sums, index, after[index])
                known = self._known[key] = self._score(sums, place)
            scores.append(known)
        return scores

    def _changed(self, sums: list[Sums], index: int, after: Values) -> list[Sums]:
        """Return `sums` updated for the values `after` of node `index`."""
        view, before = self._placed.view(index), self._values[index]
        return [
            _replaced(k, sums[k], before[k], after[k]) if view.online and counting(k, view)
            else sums[k]
            for k in range(len(sums))
        ]  # fmt: skip

    def _score(self, sums: Sequence[Sums], place: Nodes) -> float:
        """Return the score: the sum of the weighted terms of `sums`."""
        score = 0.0
        for k, (statistic, (_, total, variance)) in enumerate(zip(STATISTICS, sums)):
            value = sqrt(variance) if statistic.spread else total
            if k == DOMAINS:
                value = self._placed.domain_conflicts(place)
            score += value * statistic.weight
        return score


def _added_up(k: int, over: Sequence[int], values: dict[int, Values]) -> Sums:
    """Return the sums of statistic `k`, added up over the nodes `over` one after the other.

    The function `sum` is not used, because it may compensate for rounding errors.
    """
    total = 0.0
    for index in over:
        total += values[index][k]
    if not STATISTICS[k].spread or not over:
        return len(over), total, 0.0
    mean, squares = total / len(over), 0.0
    for index in over:
        away = values[index][k] - mean
        squares += away * away
    return len(over), total, squares / len(over)


def _replaced(k: int, sums: Sums, old: float, new: float) -> Sums:
    """Return the `sums` of statistic `k` with the value `new` instead of `old`."""
    count, total, variance = sums
    if not STATISTICS[k].spread:
        return count, total + new - old, 0.0
    more, more_square = new - old, new * new - old * old
    change = (count * more_square - 2 * total * more) - more * more
    return count, total + more, max(0.0, variance + change / (count * count))


def _all_added_up(
    k: int, over: Sequence[int], values: dict[int, Values], after: Sequence[dict[int, Values]]
) -> list[Sums]:
    """Return the sums of statistic `k` for each of the values `after`, with sequential rounding.

    Each result is what `_added_up` returns for it; arrays compute many at once.
    """
    import numpy as np

    def last(table: Floats) -> Floats:
        # the sum of each row from left to right; other sums of arrays add in another order
        return np.add.accumulate(table, axis=1)[:, -1]

    count = len(over)
    if not count:
        return [(0, 0.0, 0.0)] * len(after)
    column = np.array([values[index][k] for index in over])
    position = {index: number for number, index in enumerate(over)}
    rows = max(1, VALUES_AT_ONCE // count)
    sums: list[Sums] = []
    for start in range(0, len(after), rows):
        changes = after[start : start + rows]
        table = np.tile(column, (len(changes), 1))
        for row, change in enumerate(changes):
            for index, new in change.items():
                if index in position:
                    table[row, position[index]] = new[k]
        totals = last(table)
        if not STATISTICS[k].spread:
            sums += [(count, total, 0.0) for total in totals.tolist()]
            continue
        away = table - (totals / count)[:, None]
        variances = last(away * away) / count
        sums += [(count, *pair) for pair in zip(totals.tolist(), variances.tolist())]
    return sums
