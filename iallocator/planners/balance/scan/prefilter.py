"""Which limits can be broken at all by the moves of a crowd.

Every limit is the sooner broken the more an instance asks for.  What would hold on every
node for one that asks for the most of everything need not be tested for each move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.limits.node import checks_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.limits.node import Check, LimitSet
    from iallocator.planners.balance.scan.instance_batch import InstanceBatch
    from iallocator.planners.balance.scan.node_table import (
        CrowdView,
        Floats,
        NodeTable,
    )

__all__ = ["RelevantChecks"]


class RelevantChecks:
    """The limits that moves of `crowd` may break, as `table` is now.

    `tagged`: tags of nodes or instances matter.
    """

    def __init__(self, table: NodeTable, crowd: InstanceBatch, tagged: bool) -> None:
        self._table = table
        self._crowd = crowd
        self._tagged = tagged
        self._found: dict[tuple[tuple[Check, ...], LimitSet, bool], tuple[Check, ...]] = {}

    def checks(self, role: Sequence[Check], limits: LimitSet, leading: bool) -> tuple[Check, ...]:
        """Those of `role` that count and may fail; `leading`: for the primary."""
        key = tuple(role), limits, leading
        if key not in self._found:
            crowd = self._crowd
            checks = checks_for(key[0], crowd, limits)  # type: ignore[arg-type]
            before, after = self._views(leading)
            most = crowd.take(np.zeros(1, dtype=np.intp))
            most.memory = crowd.memory.max(axis=0, keepdims=True)
            most.takeover_memory = crowd.takeover_memory.max(axis=0, keepdims=True)
            self._found[key] = tuple(
                check
                for check in checks
                if check.pools
                or (self._tagged and check.reason == "FailTags")
                or np.any(check.fails(before, after, most))  # type: ignore[arg-type]
            )
        return self._found[key]

    def _views(self, leading: bool) -> tuple[CrowdView, CrowdView]:
        """All nodes, and all of them once they have taken the most demanding instance."""
        table, crowd = self._table, self._crowd
        nodes = np.arange(len(table.nodes), dtype=np.intp)[None, :]
        before = table.view(nodes)
        vector = crowd.as_primary if leading else crowd.as_secondary
        reserved = before.reserved
        if not leading and crowd.reserves:
            peers = table.peers.max(axis=1)[None, :] + crowd.memory.max()
            reserved = np.maximum(reserved, peers)
        after = before.plus([None if v is None else _most(v) for v in vector], reserved)
        before.reserved = -np.inf  # a node that fails N+1 with the instance may do so without
        return before, after


def _most(amounts: Floats) -> Floats:
    """The largest of `amounts`, whatever their sign, shape (1, 1)."""
    low, high = amounts.min(axis=0, keepdims=True), amounts.max(axis=0, keepdims=True)
    most: Floats = low if -low > high else high
    return most
