"""Scores of many states of one request, of which each differs from the one before at few nodes.

`explain` alone uses this module. Cost: O(n) for each state, with values computed for the nodes that
have changed only.
"""

from __future__ import annotations

from iallocator.model.node_view import Capacities
from iallocator.scoring.metrics import NO_CENTRES, STATISTICS, Totals, counting, node_counts, values
from iallocator.scoring.scalar import ScalarKernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from iallocator.aliases import Floats
    from iallocator.model.cluster import Cluster
    from iallocator.model.state import State
    from iallocator.scoring.scalar import EarlierNodes

__all__ = ["SuccessiveKernels"]

MANY_NODES = 20
"""The number of nodes from which the array library computes sums over all nodes faster.

One state of 20 nodes takes 53 microseconds with arrays and 76 without; of 10 nodes, 52 and 56.
"""


class SuccessiveKernels:
    """Makes a kernel that scores the nodes of `scope` for each state of a request.

    The values of a node are kept until the node changes.  The sums are those of a new
    `ScalarKernel`, digit by digit: they are added up in the same order.  `arrays`: whether the
    array library is loaded.
    """

    def __init__(self, cluster: Cluster, scope: Sequence[int], arrays: bool) -> None:
        self._scope = scope
        self._fixed = Capacities(cluster.nodes, 0.0, scope)
        self._arrays = arrays and len(scope) >= MANY_NODES
        self._earlier: EarlierNodes = {}, {}
        self._stamps: list[int] = []

    def kernel(self, state: State) -> ScalarKernel:
        """Return the kernel of `state` as it is now."""
        if not self._arrays:
            return ScalarKernel(state, self._scope, self._fixed, earlier=self._earlier)
        import numpy as np

        limits = ScalarKernel(state, (), self._fixed)
        if not self._stamps:
            views = [limits.view(index) for index in self._scope]
            online, stored = sum(v.online for v in views), sum(v.stored for v in views)
            self._counts = node_counts(int(online), len(views) - int(online), int(stored))
            statistics = range(len(STATISTICS))
            self._counting = np.array([[counting(k, v) for k in statistics] for v in views], float)
            self._plain = np.zeros(self._counting.shape)
            self._stamps = [-1] * len(views)
        for position, index in enumerate(self._scope):
            if self._stamps[position] != state.stamps[index]:
                self._stamps[position] = state.stamps[index]
                self._plain[position] = values(limits.view(index), NO_CENTRES)
        sums = np.cumsum(self._plain, axis=0)[-1].tolist()
        centres = [
            total / count if statistic.spread else 0.0
            for statistic, total, count in zip(STATISTICS, sums, self._counts)
        ]
        own = self._plain - np.array(centres) * self._counting
        sums, squares = (np.cumsum(a, axis=0)[-1].tolist() for a in (own, own * own))
        totals = Totals(self._counts, centres, sums, squares)
        return ScalarKernel(state, self._scope, self._fixed, (totals, NodeValues(self._scope, own)))


class NodeValues(dict["int", "list[float]"]):
    """Node -> its values of the statistics, less the centres; made of an array when read."""

    def __init__(self, scope: Sequence[int], array: Floats) -> None:
        super().__init__()
        self._place = scope
        self._array = array

    def get(self, index: int, default: Any = None) -> Any:
        """Return the values of a node, or `default` if it is outside of the scope."""
        if index not in self._place:
            return default
        found: list[float] = self._array[self._place.index(index)].tolist()
        return found
