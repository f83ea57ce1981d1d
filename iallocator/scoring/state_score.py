"""The score of a whole state, and the terms of which it is the sum."""

from __future__ import annotations

from math import sqrt

from iallocator.model.node_view import Capacities
from iallocator.scoring.scalar import ScalarKernel
from iallocator.scoring.score_delta import terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.state import State

__all__ = ["kernel_of", "score_of", "terms_of"]


def score_of(state: State, scope: Sequence[int], min_disk: float = 0.0) -> float:
    """The score of the nodes in `scope`, lower is better.

    `min_disk` is the share of every node's disk that is to stay free.
    """
    return kernel_of(state, scope, min_disk).score()


def terms_of(state: State, scope: Sequence[int]) -> list[float]:
    """The weighted terms of the score of the nodes in `scope`, as the statistics stand."""
    return terms(kernel_of(state, scope).totals, (), sqrt)


def kernel_of(state: State, scope: Sequence[int], min_disk: float = 0.0) -> ScalarKernel:
    """The kernel that scores `state` over `scope`, to be renewed where the state changes."""
    return ScalarKernel(state, scope, Capacities(state.cluster.nodes, min_disk, scope))
