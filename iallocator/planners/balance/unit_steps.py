"""How one member of a unit can get to a node: every way whose steps all keep the limits."""

from __future__ import annotations

from iallocator.limits.migration import may_not_receive
from iallocator.limits.node import (
    ABANDONED,
    ALL_LIMITS,
    FORCED_LIMITS,
    PRIMARY,
    SECONDARY,
    checks_for,
)
from iallocator.model.moves import FAILOVER, REPLACE_SECONDARY, places_after
from iallocator.planners.balance.move_kinds import KINDS
from iallocator.scoring.scalar import ScalarKernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iallocator.limits.node import Check
    from iallocator.model.instance import Instance
    from iallocator.model.moves import ElementaryMove
    from iallocator.model.state import State
    from iallocator.planners.balance.move_kinds import MoveKind, MoveRules

    Fixed = Sequence[tuple[float, ...]]

__all__ = ["kinds_to", "possible"]


def kinds_to(state: State, instance: Instance, target: int, rules: MoveRules) -> Iterator[MoveKind]:
    """The kinds of moves that `rules` allow and that make `target` the primary."""
    nodes, present = state.cluster.nodes, state.where[instance.name]
    online = nodes[present[0]].online, nodes[present[-1]].online
    for kind in KINDS:
        if kind.drbd != (len(present) > 1) or not rules.allows(kind, *online):
            continue
        if kind.targeted == (target in present):
            continue
        if places_after(present, kind.steps(present, target))[0] == target:
            yield kind


def possible(
    state: State,
    fixed: Fixed,
    instance: Instance,
    steps: Sequence[ElementaryMove],
    rules: MoveRules,
) -> bool:
    """Carry out `steps` while the limits allow each; whether they allow all.

    Changes the state: call it in a trial.  A move off a node that is not online is not
    held back by soft limits.
    """
    present = state.where[instance.name]
    tests = _Tests(state, fixed, instance, rules)
    for step in steps:
        after = places_after(present, [step])
        state.remove(instance, present)
        if not tests.pass_for(step[0], present[0], after):
            return False
        state.place(instance, after)
        present = after
    return True


class _Tests:
    """The limits that count for the moves of `instance` off where it is now."""

    def __init__(self, state: State, fixed: Fixed, instance: Instance, rules: MoveRules) -> None:
        self._state = state
        self._fixed = fixed
        self._instance = instance
        self._rules = rules
        up = all(map(self._is_up, state.where[instance.name]))
        self._limits = ALL_LIMITS if up and not rules.ignore_soft else FORCED_LIMITS

    def _is_up(self, index: int) -> bool:
        return self._state.cluster.nodes[index].online or index in self._rules.leaving

    def pass_for(self, kind: str, source: int, after: tuple[int, ...]) -> bool:
        """Whether a step to `after` may be made by the instance, which is off the state now.

        `source` was its primary before the step.
        """
        if kind == REPLACE_SECONDARY:
            return self._mirror_passes(after, SECONDARY)
        if may_not_receive(self._state.cluster, source, after[:1]):
            return False
        checks = checks_for(PRIMARY, self._instance, self._limits)
        checker = ScalarKernel(self._state, (), self._fixed)
        if checker.primary_refusal(self._instance, after[0], checks):
            return False
        return kind != FAILOVER or self._mirror_passes(
            after, SECONDARY if self._is_up(source) else ABANDONED
        )

    def _mirror_passes(self, after: tuple[int, ...], checks: tuple[Check, ...]) -> bool:
        chosen = checks_for(checks, self._instance, self._limits)
        checker = ScalarKernel(self._state, (), self._fixed)
        return checker.secondary_refusal(self._instance, after[0], after[1], chosen) is None
