"""Storage pools in scans of many moves: which instances they keep away from which nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.model.storage import pools_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Floats, Truths
    from iallocator.model.instance import Instance, Pool
    from iallocator.model.storage import PoolSpace
    from iallocator.planners.balance.scan.instance_batch import InstanceBatch, Whole


__all__ = ["Cells", "PoolTable"]


class PoolTable:
    """The pools of the nodes in `scope`, as they are now."""

    def __init__(self, pools: PoolSpace, scope: Sequence[int], places: dict[str, tuple[int, ...]]):
        self._pools = pools
        self._scope = scope
        self._position = {index: k for k, index in enumerate(scope)}
        self._places = places

    def barred(self, instances: Sequence[Instance]) -> Truths:
        """Matrix instances × nodes: whether the node does not reach, or has no room.

        A node that holds the disks already needs no room.
        """
        reach: dict[tuple[Pool, ...], Truths] = {}
        free: dict[Pool, Floats] = {}
        found = np.zeros((len(instances), len(self._scope)), dtype=bool)
        for row, instance in enumerate(instances):
            pools = pools_of(instance)
            if pools not in reach:
                nodes = self._pools.storage.nodes_for(instance)
                reach[pools] = np.array(
                    [nodes is not None and index not in nodes for index in self._scope], dtype=bool
                )
            found[row] = reach[pools]
            if instance.draws:
                full = np.zeros(len(self._scope), dtype=bool)
                for pool, amount in instance.draws:
                    if pool not in free:
                        free[pool] = self._free(pool)
                    full |= free[pool] - amount <= 0
                here = [self._position.get(k, -1) for k in self._places[instance.name]]
                full[[k for k in here if k >= 0]] = False
                found[row] |= full
        return found

    def _free(self, pool: Pool) -> Floats:
        free = self._pools.free
        return np.array([free[index].get(pool, np.inf) for index in self._scope], np.float64)


class Cells:
    """Nodes of a table in an array: a row for each instance, or one row for all."""

    __slots__ = ("_pools", "_positions")

    def __init__(self, pools: PoolTable, positions: Whole) -> None:
        self._pools = pools
        self._positions = positions

    def bars(self, batch: InstanceBatch) -> Truths:
        """Per instance and node whether pools keep the one away from the other."""
        if batch.barred is None:
            batch.barred = self._pools.barred(batch.instances)
        rows = np.arange(len(batch.instances), dtype=np.intp)[:, None]
        found: Truths = batch.barred[rows, self._positions]
        return found
