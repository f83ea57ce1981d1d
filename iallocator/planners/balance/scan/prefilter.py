"""Which limits can be broken at all by the moves of a batch.

Every limit is the sooner broken the more an instance asks for.  What would hold on every
node for one that asks for the most of everything need not be tested for each move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.limits.node import PRIMARY, SECONDARY, checks_for

if TYPE_CHECKING:
    from iallocator.aliases import Floats
    from iallocator.limits.node import Check, LimitSet, RoleLimits
    from iallocator.planners.balance.scan.instance_batch import InstanceBatch
    from iallocator.planners.balance.scan.node_table import BatchView, NodeTable

__all__ = ["RelevantChecks"]


class RelevantChecks:
    """The limits that moves of `batch` may break, as `table` is now.

    `tagged`: tags of nodes or instances matter.
    """

    def __init__(self, table: NodeTable, batch: InstanceBatch, tagged: bool) -> None:
        self._table = table
        self._batch = batch
        self._tagged = tagged
        self._failing: bool | None = None
        self._found: dict[tuple[RoleLimits, LimitSet, bool], tuple[Check, ...]] = {}

    def checks(self, role: RoleLimits, limits: LimitSet, leading: bool) -> tuple[Check, ...]:
        """Those of `role` that count and may fail; `leading`: for the primary."""
        key = role, limits, leading
        if key not in self._found:
            batch = self._batch
            checks = checks_for(role, batch, limits)  # type: ignore[arg-type]
            before, after = self._views(leading)
            most = batch.take(np.zeros(1, dtype=np.intp))
            most.memory = batch.memory.max(axis=0, keepdims=True)
            most.takeover_memory = batch.takeover_memory.max(axis=0, keepdims=True)
            self._found[key] = tuple(
                check
                for check in checks
                if check.pools
                or (self._tagged and check.reason == "FailTags")
                or np.any(check.fails(before, after, most))  # type: ignore[arg-type]
            )
        return self._found[key]

    def any(self, limits: LimitSet) -> bool:
        """Whether moves may break anything of `limits`, or have more nodes fail N+1."""
        roles = ((PRIMARY, True), (SECONDARY, False))
        return any(self.checks(role, limits, leading) for role, leading in roles) or (
            self.failing()
        )

    def failing(self) -> bool:
        """Whether a node fails N+1, or may with one more instance."""
        if self._failing is None:
            after = [self._views(leading)[1] for leading in (True, False)]
            self._failing = any(bool(np.any(view.fails_n1)) for view in after)
        return self._failing

    def _views(self, leading: bool) -> tuple[BatchView, BatchView]:
        """All nodes, and all of them once they have taken the most demanding instance."""
        table, batch = self._table, self._batch
        nodes = np.arange(len(table.nodes), dtype=np.intp)[None, :]
        before = table.view(nodes)
        vector = batch.as_primary if leading else batch.as_secondary
        reserved = before.reserved
        if not leading and batch.reserves:
            peers = table.peers.max(axis=1)[None, :] + batch.memory.max()
            reserved = np.maximum(reserved, peers)
        after = before.plus([None if v is None else _most(v) for v in vector], reserved)
        before.reserved = -np.inf  # a node that fails N+1 with the instance may do so without
        return before, after


def _most(amounts: Floats) -> Floats:
    """The largest of `amounts`, whatever their sign, shape (1, 1)."""
    low, high = amounts.min(axis=0, keepdims=True), amounts.max(axis=0, keepdims=True)
    most: Floats = low if -low > high else high
    return most
