"""Compute a lower bound of the score of every placement that balancing could reach.

The score is a sum of statistics. Each statistic is bounded alone, from the amounts that instances
add to the online nodes. Most limits are ignored, so the bound can be below the score of the best
placement. See ``docs/design/bounds.md`` for the proof.
"""

from __future__ import annotations

from math import ceil, fsum

import numpy as np

from iallocator.deadline import check
from iallocator.model.columns import COLUMNS, FREE_SPINDLES, FREE_SPINDLES_LATER
from iallocator.planners.balance.every_placement import least_of_all
from iallocator.planners.balance.score_model import UNLINEAR, ScoreModel
from iallocator.scoring.least_spread import common_unit, least_deviation
from iallocator.scoring.metrics import RESERVED_TOTAL, STATISTICS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.aliases import Floats
    from iallocator.model.state import State
    from iallocator.planners.balance.plan_builder import BalanceProblem

    Spread = tuple[Floats, Floats, Floats, float, float]
    """The arguments of `least_deviation`."""

__all__ = ["least_score"]

BOUND_SAFETY = 1e-12
"""A share of the bound, and an amount of the score, that are subtracted for rounding errors."""

INSTANCES_AT_ONCE = 1024
"""The number of instances of which one array operation computes the largest amounts."""


def least_score(problem: BalanceProblem, state: State) -> float:
    """Return a lower bound of the score of every placement that balancing can reach from `state`.

    The bound ignores limits on the number of moves and on the amount to copy. Cost: instances ×
    nodes, and some thousand passes over the nodes.
    """
    model = ScoreModel(problem, state)
    roles = _Roles(model)
    fixed = model.fixed_sums()
    # The terms of the standard deviations
    known: dict[tuple[object, ...], float] = {}
    total = 0.0
    for k, statistic in enumerate(STATISTICS):
        check()
        if statistic.spread and not statistic.offline and not statistic.reads & UNLINEAR:
            inputs = _spread(model, roles, k)
            if inputs is not None:
                base, slopes, most, amount, unit = inputs
                key = base.tobytes(), slopes.tobytes(), most.tobytes(), amount, unit
                if key not in known:
                    known[key] = least_deviation(base, slopes, most, amount, unit)
                total += statistic.weight * known[key]
    least = total + _reserved_total(model, fixed[RESERVED_TOTAL])
    # The least amount that one instance adds to the score if it stays on an offline node
    costs = []
    for parts in model.parts:
        for part in parts:
            if part.present not in model.place:
                vectors = {part.vector, *(other.vector for other in parts)}
                costs.append(min(sum(model.added(one, part.present)) for one in vectors))
    stays = min(costs, default=None)
    if stays is not None:  # leaving one more instance on an offline node may be better for the rest
        least = min(least, stays + fixed[RESERVED_TOTAL])
    bound = least + fsum(fixed) - fixed[RESERVED_TOTAL]
    exact = least_of_all(model, fixed)
    if exact is not None:
        bound = max(bound, exact)
    bound += problem.fixed_penalty
    return max(0.0, bound * (1 - BOUND_SAFETY) - BOUND_SAFETY)


class _Roles:
    """The movable roles of the instances of a model.

    Attributes
    ----------
    vectors:
        Roles × columns: the amounts that each role adds to a node.
    """

    def __init__(self, model: ScoreModel) -> None:
        roles = [part for parts in model.parts for part in parts]
        vectors = [part.vector for part in roles]
        self.vectors: Floats = np.array(vectors, dtype=np.float64).reshape(-1, len(COLUMNS))
        counts = [len(parts) for parts in model.parts if parts]
        last = np.cumsum(counts, dtype=np.intp) - 1
        first = last - np.array(counts, dtype=np.intp) + 1
        self._ends = [
            (one, np.array([roles[k].allowed for k in one.tolist()], dtype=bool))
            for one in (first, last)
        ]

    def most(self, sizes: Floats, nodes: int) -> Floats:
        """Return the largest amount that each of `nodes` online nodes can have.

        `sizes`: the amount of each role. An instance has one role on a node: the larger one that
        is allowed there.
        """
        most = np.zeros(nodes)
        for start in range(0, len(self._ends[0][0]), INSTANCES_AT_ONCE):
            some = slice(start, start + INSTANCES_AT_ONCE)
            own = np.maximum(*(sizes[at[some], None] * may[some] for at, may in self._ends))
            own[0] += most
            most = own.sum(axis=0)
        return most


def _spread(model: ScoreModel, roles: _Roles, k: int) -> Spread | None:
    """Return the arguments of `least_deviation` for statistic `k`; None if it has no bound."""
    statistic, view = STATISTICS[k], model.view()
    count = len(model.online)
    if statistic.disk and not np.all(view.stored):
        return None  # the amounts of nodes without a known disk size are unknown
    base = np.broadcast_to(statistic.value(view), (count,)).astype(np.float64)
    slopes = {}
    empty = np.zeros_like(model.rows)
    nothing = np.broadcast_to(statistic.value(model.view(empty)), (count,))
    for column in (COLUMNS.index(name) for name in statistic.reads if name in COLUMNS):
        one = empty.copy()
        one[column] = 1
        slope = np.broadcast_to(statistic.value(model.view(one)), (count,)) - nothing
        if slope.any():
            slopes[column] = slope
    amounts = {column: roles.vectors[:, column] for column in slopes}
    slopes = {column: slope for column, slope in slopes.items() if amounts[column].any()}
    if not slopes:
        return base, np.ones(count), np.zeros(count), 0.0, 0.0
    if len(slopes) > 1:
        return None
    ((column, slope),) = slopes.items()
    if column in (FREE_SPINDLES, FREE_SPINDLES_LATER) and model.hides_spindles():
        return None
    sizes = amounts[column] * np.sign(slope[0])
    slope = np.abs(slope) if np.all(np.sign(slope) == np.sign(slope[0])) else np.zeros(1)
    if not np.all(slope > 0) or not (np.all(sizes >= 0) or np.all(sizes <= 0)):
        return None
    if np.any(sizes < 0):
        base, sizes = -base, -sizes
    most = roles.most(sizes, count)
    total = float(sizes.sum())
    if most.sum() < total:
        return None
    return base, slope, most, total, common_unit([size for size in sizes.tolist() if size])


def _reserved_total(model: ScoreModel, least: float) -> float:
    """Return a lower bound of the term of the memory that nodes reserve for failovers.

    `least` is a known bound. The bound is for placements with all movable roles on online nodes. A
    node reserves the largest sum of memory for the failure of one other node, so sums cannot be
    spread over more than the other online nodes.
    """
    sizes = []
    staying = {one.name for (one, _), parts in zip(model.mobile, model.parts) if len(parts) < 2}
    mobile = {one.name for one, _ in model.mobile} - staying
    for index in model.scope:
        for name, instance in model.state.secondaries[index].items():
            both = all(node in model.place for node in model.state.where[name])
            if instance.reserves and (name in mobile or both):
                sizes.append(instance.memory)
    others = len(model.online) - 1
    if not sizes or others < 1:
        return least
    sizes.sort(reverse=True)
    unit = common_unit(sizes)
    most = max(
        sum(sizes) / others if not unit else unit * ceil(sum(sizes) / unit / others),
        *(size * ceil(count / others) for count, size in enumerate(sizes, start=1)),
    )
    per_memory = float(model.view().per_memory.min())
    return max(least, STATISTICS[RESERVED_TOTAL].weight * most * per_memory)
