"""The storage pools of many nodes, as checks of limits ask for them."""

from __future__ import annotations

import numpy as np

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from iallocator.model.instance import Instance
    from iallocator.model.storage import PoolSpace

__all__ = ["Sites"]


class Sites:
    """The storage pools of several nodes; see `iallocator.model.node_view.OneSite`."""

    def __init__(self, pools: PoolSpace, nodes: Sequence[int]) -> None:
        self._pools = pools
        self._nodes = nodes

    def bars(self, instance: Instance) -> NDArray[np.bool_]:
        """Per node whether they keep `instance` away, which is on no node now."""
        bars = self._pools.bars
        return np.array([bars(index, instance) for index in self._nodes], dtype=bool)

    def why(self, instance: Instance) -> str:
        """The reason, where there is one node."""
        return self._pools.why(self._nodes[0], instance)
