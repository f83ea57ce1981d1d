"""Compute the lowest score of all placements of a few instances, with array operations.

Of the limits, only the free memory and disk of nodes are enforced, so the result is a lower bound.
The score is computed by the table of statistics. The statistics of exclusion tags and failure
domains only count instances that cannot move.
"""

from __future__ import annotations

from itertools import product
from math import inf, prod

import numpy as np

from iallocator.deadline import check
from iallocator.model.columns import COLUMNS, DISK, MEMORY
from iallocator.model.node_view import NodeView
from iallocator.scoring.metrics import NO_CENTRES, STATISTICS, Totals, node_counts, terms, values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iallocator.aliases import Floats
    from iallocator.planners.balance.score_model import MovableRole, ScoreModel

__all__ = ["MOST_PLACEMENTS", "least_of_all"]

MOST_PLACEMENTS = 400_000
"""The largest number of placements that are enumerated, in about two seconds."""

EVALUATED_AT_ONCE = 4096
"""The number of placements that one array operation evaluates."""

ENUMERATED_NODES = 32
"""The largest number of nodes of a group; arrays have `EVALUATED_AT_ONCE` × nodes² numbers."""


class _Choices:
    """The amounts that each choice of nodes for some instances adds to the nodes.

    Attributes
    ----------
    columns:
        Choices × columns × online nodes: the added amounts of the columns.
    peers:
        Choices × online nodes × nodes: MiB that a node reserves for the failure of each other node.
    costs:
        For each choice, what it adds to the score by statistics of nodes that are not online.
    """

    __slots__ = ("columns", "costs", "peers")

    def __init__(self, columns: Floats, peers: Floats, costs: Floats) -> None:
        self.columns = columns
        self.peers = peers
        self.costs = costs

    def times(self, other: _Choices) -> _Choices:
        """Return all combinations of a choice of this object and a choice of `other`."""
        return _Choices(
            _sums(self.columns, other.columns),
            _sums(self.peers, other.peers),
            _sums(self.costs, other.costs),
        )


def _sums(one: Floats, other: Floats) -> Floats:
    """Return the sum of each pair of an item of `one` and an item of `other`."""
    return (one[:, None] + other[None]).reshape(-1, *one.shape[1:])


def least_of_all(model: ScoreModel, fixed: Sequence[float]) -> float | None:
    """Return the lowest score of all placements; None if they are not enumerated.

    The placements are not enumerated if there are more than `MOST_PLACEMENTS`, or more than
    `ENUMERATED_NODES` nodes, or if amounts of spindles are no sums. `fixed`: for each statistic, a
    lower bound of its term if it is a sum over the nodes.
    """
    if len(model.scope) > ENUMERATED_NODES:
        return None
    if sum(len(parts) > 0 for parts in model.parts) > MOST_PLACEMENTS.bit_length():
        return None  # with two places for each, there are too many placements
    placements = [_placements(model, parts) for parts in model.parts if parts]
    if prod(map(len, placements)) > MOST_PLACEMENTS or not model.online or model.hides_spindles():
        return None
    choices = [
        _choices(model, parts, some) for parts, some in zip(filter(None, model.parts), placements)
    ]
    choices.sort(key=lambda one: len(one.costs))
    count, nodes = len(model.online), len(model.scope)
    tail = _Choices(np.zeros((1, len(COLUMNS), count)), np.zeros((1, count, nodes)), np.zeros(1))
    while choices and len(tail.costs) * len(choices[-1].costs) <= EVALUATED_AT_ONCE:
        tail = tail.times(choices.pop())
    tail.peers += model.fixed_peers()
    evaluate = _evaluation(model, fixed)
    least = inf
    for chosen in product(*(range(len(one.costs)) for one in choices)):
        check()
        columns, peers, costs = tail.columns + model.rows, tail.peers, tail.costs
        for one, k in zip(choices, chosen):
            columns = columns + one.columns[k]
            peers = peers + one.peers[k]
            costs = costs + one.costs[k]
        least = min(least, evaluate(columns, peers, costs))
    return least if least < inf else None


def _placements(model: ScoreModel, parts: Sequence[MovableRole]) -> list[tuple[int, ...]]:
    """Return the possible placements of one instance: for each of its movable roles, a node."""
    places = product(*(dict.fromkeys(model.targets(part)) for part in parts))
    dead = {part.present for part in parts} - set(model.online)
    pairs = [chosen for chosen in places if len({*chosen}) == len(chosen)]
    if len(parts) == 2:  # a failover leaves the secondary on a dead primary, and the reverse
        first, second = parts
        pairs += [
            (one, other)
            for one in (first.present, second.present)
            for other in (first.present, second.present)
            if one != other and {one, other} & dead
        ]
        for index in dead:
            pairs += [(index, one) for one in model.targets(second)]
            pairs += [(one, index) for one in model.targets(first)]
    return [*dict.fromkeys(pair for pair in pairs if len({*pair}) == len(pair))]


def _choices(
    model: ScoreModel, parts: Sequence[MovableRole], placements: Sequence[tuple[int, ...]]
) -> _Choices:
    count = len(model.online)
    columns = np.zeros((len(placements), len(COLUMNS), count))
    peers = np.zeros((len(placements), count, len(model.scope)))
    costs = np.zeros(len(placements))
    instance = parts[0].instance
    staying = {} if len(parts) == 2 else dict(enumerate(model.present(instance)))
    for k, chosen in enumerate(placements):
        nodes = {**staying, **{int(not part.primary): c for part, c in zip(parts, chosen)}}
        for part, index in zip(parts, chosen):
            if index in model.place:
                columns[k, :, model.place[index]] += part.vector
            else:
                costs[k] += sum(model.added(part.vector, index))
        if len(nodes) == 2 and instance.reserves and nodes[1] in model.place:
            peers[k, model.place[nodes[1]], model.scope.index(nodes[0])] += instance.memory
    return _Choices(columns, peers, costs)


def _evaluation(
    model: ScoreModel, fixed: Sequence[float]
) -> Callable[[Floats, Floats, Floats], float]:
    """Return a function that returns the lowest score of many placements, or infinity.

    Its parameters describe each placement: the amounts of the nodes, the memory that secondaries
    reserve for each primary, and the score of nodes that are not online. Placements that overfill a
    node in memory or disk are left out.
    """
    count = len(model.online)
    capacities = [*model.capacities]
    present = model.present_rows()
    stored = int(np.sum(model.view().stored))
    counts = node_counts(count, 0, stored)
    view = NodeView([*present], capacities, np.zeros(count))
    centres = [
        float(np.sum(value)) / number if statistic.spread else 0.0
        for value, number, statistic in zip(values(view, NO_CENTRES), counts, STATISTICS)
    ]
    nothing = [0.0] * len(STATISTICS)
    totals = Totals(counts, centres, nothing, nothing)

    def evaluate(columns: Floats, peers: Floats, costs: Floats) -> float:
        legal = np.ones(len(costs), dtype=bool)
        for column in (MEMORY, DISK):
            free = columns[:, column]
            legal &= ((free > 0) | (free >= present[column])).all(axis=1)
        if not legal.any():
            return inf
        by_column = np.moveaxis(columns[legal], 1, 0)
        after = NodeView([*by_column], capacities, peers[legal].max(axis=2, initial=0.0))
        change = []
        for value in values(after, centres):
            rows = np.broadcast_to(value, by_column.shape[1:])
            change.append((rows.sum(axis=1), (rows * rows).sum(axis=1)))
        scores = costs[legal]
        for statistic, term, least in zip(STATISTICS, terms(totals, [change], np.sqrt), fixed):
            if statistic.spread:
                scores = scores + term
            elif statistic.offline or not statistic.reads & {"reserved", "fails_n1"}:
                scores = scores + least
            else:
                scores = scores + np.maximum(term, least)
        return float(scores.min())

    return evaluate
