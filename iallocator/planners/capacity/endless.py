"""Sizes of which a cluster takes more than can be counted, as they take no memory."""

from __future__ import annotations

from iallocator.scoring.horizon import Horizon

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.limits.node import LimitSet
    from iallocator.model.instance import Instance
    from iallocator.model.node_view import Capacities
    from iallocator.model.state import State

__all__ = ["MOST", "is_endless"]

MOST = 200_000
"""So many instances are counted, one by one, in less than a minute."""


def is_endless(
    state: State,
    fixed: Capacities,
    instance: Instance,
    nodes: Sequence[int],
    limits: LimitSet,
) -> bool:
    """Whether `nodes`, which the policy lets it come to, take more than `MOST` like `instance`.

    Only for what takes no memory: all else comes to an end by itself.
    """
    if instance.memory or not nodes:
        return False
    horizon = Horizon(state, fixed, instance, limits)
    each = MOST // len(nodes)
    return all(horizon.takes_after(index, each) for index in nodes) or any(
        horizon.takes_after(index, MOST) for index in nodes
    )
