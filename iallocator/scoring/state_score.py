"""The score of a whole state, and the terms of which it is the sum."""

from __future__ import annotations

from math import sqrt

from iallocator.model.node_view import capacities
from iallocator.scoring.scalar import ScalarKernel
from iallocator.scoring.score_delta import terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iallocator.model.instance import Instance
    from iallocator.model.state import State

__all__ = ["kernel_of", "score_of", "terms_of", "terms_with"]


def score_of(state: State, scope: Sequence[int], min_disk: float = 0.0) -> float:
    """The score of the nodes in `scope`, lower is better.

    `min_disk` is the share of every node's disk that is to stay free.
    """
    return kernel_of(state, scope, min_disk).score()


def terms_of(state: State, scope: Sequence[int]) -> list[float]:
    """The weighted terms of the score of the nodes in `scope`, as the statistics stand."""
    return terms(kernel_of(state, scope).totals, (), sqrt)


def terms_with(
    state: State, scope: Sequence[int], instance: Instance
) -> Callable[[tuple[int, ...]], list[float]]:
    """What gives the terms of the score once `instance`, which is off the state, is on nodes."""
    kernel = kernel_of(state, scope)
    return lambda nodes: kernel.terms_of(instance, nodes)


def kernel_of(state: State, scope: Sequence[int], min_disk: float = 0.0) -> ScalarKernel:
    """The kernel that scores `state` over `scope`, to be renewed where the state changes."""
    return ScalarKernel(state, scope, [capacities(node, min_disk) for node in state.cluster.nodes])
