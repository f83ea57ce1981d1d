"""What targets do to the statistics, as products of a number of the instance and one of the node.

An instance adds to a statistic of a node an amount of its own times the `scale` of the node.
So the change of the squares, d² + 2 d v at a value v, is a sum of two such products, and a
linear function of the changes of many moves is a product of two narrow matrices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iallocator.scoring.metrics import STATISTICS
from iallocator.scoring.score_delta import counting, value_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iallocator.aliases import Floats, Truths
    from iallocator.planners.balance.move_kinds import MoveKind
    from iallocator.planners.balance.scan.equivalent_metrics import Twins
    from iallocator.planners.balance.scan.instance_batch import InstanceBatch
    from iallocator.planners.balance.scan.node_table import NodeTable, Whole

    Limits = Callable[[MoveKind, Whole], tuple[Truths, Floats] | None]
    Failing = Callable[[MoveKind, Whole, Whole], Floats | float]

__all__ = ["SPREAD", "TOTAL", "Common", "Factors", "factors_of"]

SPREAD, TOTAL = (
    next(k for k, statistic in enumerate(STATISTICS) if statistic.name == name)
    for name in ("reserved_mem", "reserved_mem_total")
)
"""The statistics of the memory that is reserved for failovers."""

EXACT = 1e-9
"""Relative differences above this mean that a change is no such product."""


class Factors(NamedTuple):
    """The amounts and scales of the steady statistics, in the order of `Twins.steady`.

    Attributes
    ----------
    leads, mirrors:
        What each instance adds as a primary, and as a secondary, where the scale is 1;
        statistics × instances.
    scales:
        Statistics × targets.
    """

    leads: Floats
    mirrors: Floats
    scales: Floats


class Common(NamedTuple):
    """What the moves of a batch have in common.

    Attributes
    ----------
    table, factors, targets:
        The nodes; the amounts and scales; the positions of the targets in the table.
    column:
        Per node of the table its position among the targets, -1 of others.
    primary, secondary, memory:
        Per instance the positions of its nodes, kept up to date, and what it reserves in MiB;
        0 where it reserves nothing.
    limits:
        Says which moves of some rows are forbidden, and what they add by failures of N+1,
        rows × targets each; None where there is nothing of either.
    failing:
        What moves, by rows and columns, add to the score as targets come to fail N+1.
    """

    table: NodeTable
    factors: Factors
    targets: Whole
    column: Whole
    primary: Whole
    secondary: Whole
    memory: Floats
    limits: Limits
    failing: Failing


def factors_of(
    table: NodeTable, batch: InstanceBatch, twins: Twins, targets: Whole
) -> Factors | None:
    """The factors of the moves of `batch` to `targets`; None if there are none, or no targets."""
    reserves = batch.drbd and batch.reserves
    if not targets.size or batch.restricted or any(i.hides_spindles for i in batch.instances):
        return None
    if reserves and SPREAD not in twins.spreads:
        return None
    scales: list[Floats] = []
    for k in twins.steady:
        one, other = (_response(table, k, targets, number) for number in (1, 2))
        place = int(np.abs(one).argmax())
        scale = one / one[place] if one[place] else np.zeros(targets.size)
        if np.abs(other - scale * other[place]).max() > EXACT * np.abs(other).max():
            return None
        scales.append(np.where(np.abs(scale - 1) < EXACT, 1.0, scale))
    places = [targets[int(np.abs(scale).argmax())] for scale in scales]
    leads = _amounts(table, batch.as_primary, twins.steady, places, len(batch.instances))
    mirrors = _amounts(table, batch.as_secondary, twins.steady, places, len(batch.instances))
    factors = np.array(scales).reshape(len(scales), targets.size)
    factors /= np.abs(factors).max(axis=1, keepdims=True, initial=1e-300)
    return Factors(leads, mirrors, factors)


def _response(table: NodeTable, k: int, targets: Whole, number: int) -> Floats:
    """How statistic `k` of the targets changes when equal amounts are added to all of them."""
    present = table.view(targets)
    amounts = [np.full(1, 1000.0 + (7 * c + 3) * number**2) for c in range(len(table.columns))]
    more = present.plus(amounts, 0)
    statistic = STATISTICS[k]
    change = (statistic.value(more) - statistic.value(present)) * counting(k, present)
    found: Floats = np.broadcast_to(np.asarray(change, dtype=np.float64), targets.shape)
    return found


def _amounts(
    table: NodeTable,
    vector: Sequence[Floats | None],
    steady: Sequence[int],
    places: Sequence[int],
    count: int,
) -> Floats:
    """What `count` instances add, statistics × instances, each statistic at a node of its own."""
    found: Floats = np.zeros((len(steady), count))
    for j, (k, place) in enumerate(zip(steady, places)):
        view = table.view(np.array([place], dtype=np.intp))
        after = view.plus(vector, view.reserved)
        found[j] = np.ravel(value_of(k, after, table.centres[k]) - table.values[k][place])
    return found
