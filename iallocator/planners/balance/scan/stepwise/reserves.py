"""The memory that moves of one kind reserve for failovers, where that follows from the target.

A target that mirrors reserves for the node that leads; a node that stays reserves for the target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.planners.balance.scan.stepwise.factors import SPREAD, TOTAL
from iallocator.scoring.score_delta import counting

if TYPE_CHECKING:
    from iallocator.aliases import Floats, Truths
    from iallocator.planners.balance.move_kinds import MoveKind
    from iallocator.planners.balance.scan.equivalent_metrics import Twins
    from iallocator.planners.balance.scan.node_table import Whole
    from iallocator.planners.balance.scan.stepwise.factors import Common

    Added = tuple[Floats, Floats]
    """What is added to the squares, and to the sum, targets × instances."""

__all__ = ["Reserves"]


class Reserves:
    """What the moves of a kind reserve more than the nodes do without the instance.

    Attributes
    ----------
    weight:
        That of what is added to the sum in the score, beside that of the spread.
    low, high:
        Per instance the extremes of what its moves add: (squares, sums) × instances.
    """

    def __init__(self, common: Common, kind: MoveKind, twins: Twins) -> None:
        self._common = common
        self._mirrors = kind.letters in {("r",), ("f", "r")}
        first = kind.letters in {("r",), ("r", "f")}
        self._node = common.primary if first else common.secondary
        self._place = twins.spreads.index(SPREAD)
        self.weight = twins.weights.get(TOTAL, 0.0)
        table = common.table
        view = table.view(np.arange(len(table.nodes), dtype=np.intp))
        counts = np.broadcast_to(counting(SPREAD, view), table.reserved.shape)
        self._scale: Floats = counts * view.per_memory
        self._centre: Floats = counts * table.centres[SPREAD]
        rows = common.primary.size
        self._before: Floats = np.zeros(rows)  # MiB, where the node of the instance reserves
        self._value: Floats = np.zeros(rows)
        self.low: Floats = np.zeros((2, rows))
        self.high: Floats = np.zeros((2, rows))
        self._leads = not first

    def renew(self, rows: Whole, left: Floats) -> None:
        """The instances of `rows` are elsewhere; `left`: reserved on secondaries without them."""
        node = self._node[rows]
        before = left if self._leads else self._common.table.reserved[node]
        self._before[rows] = before
        self._value[rows] = before * self._scale[node] - self._centre[node]

    def added(self, rows: Whole | slice, targets: Whole) -> Added:
        """What moves of `rows` to `targets` of the table add; of the shape of both together."""
        table, node = self._common.table, self._node[rows]
        if self._mirrors:
            more = table.peers[targets, node] + self._common.memory[rows]
            more -= table.reserved[targets]
            scale, value = self._scale[targets], table.values[SPREAD][targets]
        else:
            more = table.peers[node, targets] + self._common.memory[rows]
            more -= self._before[rows]
            scale, value = self._scale[node], self._value[rows]
        np.maximum(more, 0.0, out=more)
        more *= scale
        return more * (more + 2 * value), more

    def known(self, rows: Whole) -> Added:
        """What moves of `rows` to all targets add; the extremes are noted."""
        found = self.added(rows, self._common.targets[:, None])
        for k, part in enumerate(found):
            self.low[k, rows], self.high[k, rows] = part.min(axis=0), part.max(axis=0)
        return found

    def beyond(self, found: Added) -> Truths:
        """Of which instances `found`, which is of all, is beyond the extremes."""
        beyond: Truths = np.zeros(self._before.size, dtype=bool)
        for k, part in enumerate(found):
            beyond |= (part.min(axis=0) < self.low[k]) | (part.max(axis=0) > self.high[k])
        return beyond

    def bound(self, found: Added, slopes: Floats, tilts: Floats) -> Floats:
        """What `found` adds to the bounds by these coefficients, spreads × rows each."""
        squares, sums = found
        bound: Floats = slopes[self._place] * squares
        bound += (tilts[self._place] + self.weight) * sums
        return bound
