"""Single nodes before and after they get an instance, tested for every limit."""

from __future__ import annotations

from iallocator.limits.node import PRIMARY, SECONDARY, checks_for
from iallocator.scoring.score_delta import after_primary, after_secondary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.limits.node import Check, RoleLimits
    from iallocator.model.instance import Instance
    from iallocator.model.node_view import NodeView
    from iallocator.model.state import State
    from iallocator.placement.limit_policy import LimitPolicy
    from iallocator.scoring import Kernels

__all__ = ["WhatIf"]


class WhatIf:
    """What `instance`, off the state, would make of single nodes as `state` is now.

    It finds every limit that a node breaks; a check finds the first.  See `Evaluator.what_if`.

    Attributes
    ----------
    limits, mirror_limits:
        Which limits count for primaries and for secondaries: those of `limit_policy`.
    """

    def __init__(
        self,
        state: State,
        kernels: Kernels,
        instance: Instance,
        limit_policy: LimitPolicy,
        on_primary: RoleLimits = PRIMARY,
        on_secondary: RoleLimits = SECONDARY,
    ) -> None:
        self.instance = instance
        self.limits = limit_policy.primary
        self.mirror_limits = limit_policy.secondary
        self._state = state
        self._checker = kernels.checker(state)
        self._primary = checks_for(on_primary, instance, self.limits)
        self._secondary = checks_for(on_secondary, instance, self.mirror_limits)

    def primary(self, index: int) -> tuple[NodeView, NodeView]:
        """Node `index` before and after as the primary; of the tags what limits look at."""
        before = self._checker.view(index)
        after = after_primary(before, self.instance)
        if self.instance.exclusion:
            after.conflicts += self._state.tag_amounts(self.instance, index, None)[0]
        return before, after

    def secondary(self, index: int, primary: int | None) -> tuple[NodeView, NodeView]:
        """Node `index` before and after as the secondary.

        `primary` None stands for one of which it holds no secondaries yet.
        """
        before = self._checker.view(index)
        peers = 0 if primary is None else self._state.peers[index].get(primary, 0)
        return before, after_secondary(before, self.instance, peers, max)

    def primary_failures(self, index: int) -> list[tuple[Check, str]]:
        """The limits that node `index` breaks as the primary, each with the numbers."""
        return self._failures(self._primary, *self.primary(index))

    def secondary_failures(self, index: int, primary: int | None) -> list[tuple[Check, str]]:
        """The limits that node `index` breaks as the secondary, each with the numbers."""
        return self._failures(self._secondary, *self.secondary(index, primary))

    def _failures(
        self, checks: Sequence[Check], before: NodeView, after: NodeView
    ) -> list[tuple[Check, str]]:
        return [
            (check, check.numbers(before, after, self.instance))
            for check in checks
            if check.fails(before, after, self.instance)
        ]
