"""Test whether one more of equal instances fits on a node, and how many more certainly fit.

Every limit is tested on amounts that only increase, or only decrease, with each such instance.
Therefore a node that accepts one more after many others accepts all of the others, too.
"""

from __future__ import annotations

from iallocator.limits.node import PRIMARY, SECONDARY, checks_for
from iallocator.model.node_view import NodeView, after_primary, after_secondary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.constraints.checks import Check
    from iallocator.limits.node import LimitSet
    from iallocator.model.instance import Instance
    from iallocator.model.node_view import Capacities
    from iallocator.model.state import State

__all__ = ["Horizon", "Standpoint"]

FAR = (256, 32, 4)
"""The numbers of further instances that are tried on a node, in this order, until one fits."""


class Standpoint:
    """The roles in which one node accepts a further instance now.

    Attributes
    ----------
    primary, secondary:
        Whether the node accepts one more instance in this role. For a secondary: beside a primary
        node for which the node reserves no memory yet.
    failing:
        Whether the node lacks the memory for the failure of one of its peers.
    ahead:
        The number of further instances, in any role, for which `primary` and `secondary` certainly
        stay true, and `failing` false.
    """

    __slots__ = ("ahead", "failing", "primary", "secondary")

    def __init__(self, primary: bool, secondary: bool, failing: bool, ahead: int) -> None:
        self.primary = primary
        self.secondary = secondary
        self.failing = failing
        self.ahead = ahead


class Horizon:
    """Tests nodes of `state` for further instances equal to `instance`.

    `instance` must have no tags and must not be placed. `fixed`: the capacities of all nodes, see
    `iallocator.model.node_view.capacities`. `limits`: the limits that are enforced.
    """

    def __init__(
        self,
        state: State,
        fixed: Capacities,
        instance: Instance,
        limits: LimitSet,
    ) -> None:
        self._state = state
        self._fixed = fixed
        self._instance = instance
        self._on_primary = checks_for(PRIMARY, instance, limits)
        self._on_secondary: tuple[Check, ...] = ()
        self._both: tuple[float, ...] = instance.as_primary
        self._reserved = 0.0
        if instance.required_nodes == 2:
            self._on_secondary = checks_for(SECONDARY, instance, limits)
            self._both = tuple(map(sum, zip(instance.as_primary, instance.as_secondary)))
            self._reserved = instance.memory if instance.reserves else 0.0

    def look(self, index: int) -> Standpoint:
        """Return the roles in which node `index` accepts a further instance now."""
        now = self._view(index)
        for count in FAR:
            if self._takes_after(now, count):
                return Standpoint(True, bool(self._on_secondary), False, count)
        primary = not self._rejects(self._on_primary, now, after_primary(now, self._instance))
        return Standpoint(primary, self._accepts_as_secondary(now), bool(now.fails_n1), 0)

    def takes_after(self, index: int, count: int) -> bool:
        """Return whether node `index` certainly accepts one more instance after `count` in every
        role.
        """
        return self._takes_after(self._view(index), count)

    def _takes_after(self, now: NodeView, count: int) -> bool:
        far = now.plus(
            [count * amount for amount in self._both], now.reserved + (count + 1) * self._reserved
        )
        if far.fails_n1:
            return False
        if self._rejects(self._on_primary, far, after_primary(far, self._instance)):
            return False
        return not self._on_secondary or self._accepts_as_secondary(far)

    def _view(self, index: int) -> NodeView:
        state = self._state
        return NodeView(state.row(index), self._fixed[index], state.reserved[index])

    def _accepts_as_secondary(self, view: NodeView) -> bool:
        """Return whether the node in `view` may be a secondary, for a primary without reserve
        there.
        """
        if not self._on_secondary:
            return False
        after = after_secondary(view, self._instance, 0, max)
        return not self._rejects(self._on_secondary, view, after)

    def _rejects(self, checks: Sequence[Check], before: NodeView, after: NodeView) -> bool:
        instance = self._instance
        return any(check.fails(before, after, instance) for check in checks)
