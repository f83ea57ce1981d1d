"""The moves of a batch where the best is asked for step after step: none of them is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.limits.node import ALL_LIMITS, FORCED_LIMITS
from iallocator.planners.balance.scan.batch_scan import BatchScan
from iallocator.planners.balance.scan.changes import write_moves
from iallocator.planners.balance.scan.stepwise.factored_moves import FactoredMoves
from iallocator.planners.balance.scan.stepwise.factors import Common

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from iallocator.aliases import Floats, Truths
    from iallocator.planners.balance.move_kinds import MoveKind
    from iallocator.planners.balance.scan.move_bounds import CurrentScore, MoveStore
    from iallocator.planners.balance.scan.node_table import Whole
    from iallocator.planners.balance.scan.stepwise.factors import Factors

__all__ = ["SteppingScan"]


class SteppingScan(BatchScan):
    """A `BatchScan` whose stores are `FactoredMoves`; `factors` are those of the batch.

    Tags and bonds are not heeded: there must be none that matter.
    """

    def __init__(self, factors: Factors, *arguments: Any) -> None:
        self._factors = factors
        self._factored: list[FactoredMoves] = []
        super().__init__(*arguments)

    def _stores(self, keep: bool, ground: CurrentScore) -> list[MoveStore]:
        column = np.full(len(self._table.nodes), -1, dtype=np.intp)
        column[self._targets] = np.arange(self._targets.size)
        memory = self._batch.memory[:, 0] * (self._batch.drbd and self._batch.reserves)
        common = Common(
            self._table, self._factors, self._targets, column, self._primary, self._secondary,
            memory, self._limits, self._failing,
        )  # fmt: skip
        self._factored = [
            FactoredMoves(kind, self._twins, common, ground) for kind in self._kinds()
        ]
        return list(self._factored)

    def refresh(self, changed: Whole, ground: CurrentScore) -> None:
        """As of `BatchScan`."""
        for store in self._factored:
            store.refresh(ground)
        super().refresh(changed, ground)

    def _unbar(self, rows: Truths, nodes: Truths) -> None:
        for store in self._factored:
            store.unbar(rows, nodes[self._targets])

    def _evaluate_rows(self, rows: Whole, ground: CurrentScore) -> None:
        super()._evaluate_rows(rows, ground)
        for store in self._factored:
            store.forget(rows, self._left[rows])

    def _evaluate_columns(self, rows: Whole, columns: Whole) -> None:
        for store in self._factored:
            store.lower(columns)

    def _write(self, stores: Sequence[MoveStore], rows: Whole, columns: Whole | None) -> None:
        """Note what moves of `rows` change where the instances are."""
        block = self._block(rows, self._targets)
        for store in stores:
            if isinstance(store, FactoredMoves):
                write_moves([store.leaving], rows, slice(None), [block.leaving(store.kind)])

    def _limits(self, kind: MoveKind, rows: Whole) -> tuple[Truths, Floats] | None:
        """Of all moves of `rows`, where limits of the targets forbid them, and what they add."""
        limits = FORCED_LIMITS if self._rules.ignore_soft else ALL_LIMITS
        if self._migration is None and not self._breakable.any(limits):
            return None
        forbidden = np.zeros((rows.size, self._targets.size), dtype=bool)
        added = np.zeros(forbidden.shape)
        for _, part in self._by_condition(rows):
            block = self._block(rows[part], self._targets)
            forbidden[part] = block.barred(kind)
            if self._breakable.failing():
                added[part] = block.more_failing(kind)
        return forbidden, added

    def _failing(self, kind: MoveKind, rows: Whole, columns: Whole) -> Floats | float:
        """What moves of `kind` add to the score as targets come to fail N+1."""
        if not self._breakable.failing():
            return 0.0
        added = np.zeros(rows.size)
        for _, part in self._by_condition(rows):
            block = self._block(rows[part], self._targets[columns[part], None])
            added[part] = np.ravel(block.more_failing(kind))
        return added
