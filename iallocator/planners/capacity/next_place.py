"""Where the next of many equal instances goes, with what was known for the one before it."""

from __future__ import annotations

from iallocator.limits.node import ALL_LIMITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.limits.node import LimitSet
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.planners.capacity.survival import FillingSurvival
    from iallocator.scoring import Kernels
    from iallocator.scoring.standing import Standing

__all__ = ["NextPlace", "next_place_for"]


class NextPlace:
    """Answers as long as neither scores that are all but equal nor N+1 are in doubt."""

    def __init__(
        self, standing: Standing, survival: FillingSurvival, groups: Sequence[int]
    ) -> None:
        self._standing = standing
        self._survival = survival
        self._groups = groups
        self._certain = 0

    def find(self, instance: Instance) -> tuple[int, ...] | None:
        """The nodes for `instance`; None: ask otherwise, there may be none."""
        if self._certain <= 0:
            self._certain = self._survival.certain(instance, self._groups)
            if self._certain <= 0:
                return None
        return self._standing.best() or None

    def placed(self, nodes: tuple[int, ...]) -> None:
        """One more has come to `nodes`."""
        self._certain -= 1
        self._standing.placed(nodes)


def next_place_for(
    instance: Instance,
    state: State,
    kernels: Kernels,
    survival: FillingSurvival,
    groups: Sequence[tuple[Group, Sequence[int]]],
    limits_of: Mapping[int, LimitSet],
) -> NextPlace | None:
    """What finds places for more like `instance`; None where soft limits are ignored.

    `groups` holds the nodes whose policy takes it.
    """
    if any(limits_of[group.index] is not ALL_LIMITS for group, _ in groups):
        return None
    from iallocator.scoring.standing import StandingSingles
    from iallocator.scoring.standing_pairs import StandingPairs

    kind = StandingPairs if instance.required_nodes == 2 else StandingSingles
    standing = kind(
        state, kernels.fixed, kernels.matrix(), instance, [nodes for _, nodes in groups], ALL_LIMITS
    )
    return NextPlace(standing, survival, [group.index for group, _ in groups])
