"""Limit policies: which limits are enforced for a new instance, a move, or a forced move."""

from __future__ import annotations

from iallocator.limits.node import (
    ABANDONED,
    ALL_LIMITS,
    FORCED_LIMITS,
    HARD_LIMITS,
    NO_WORSE_LIMITS,
    SECONDARY,
    checks_for,
    without_reserve,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from iallocator.constraints.checks import Check
    from iallocator.limits.node import LimitSet
    from iallocator.model.cluster import Node
    from iallocator.model.instance import Instance
    from iallocator.options.settings import Settings

__all__ = [
    "ALL_FORCED",
    "LimitPolicies",
    "LimitPolicy",
    "enforcing",
    "limit_policies_for",
    "limit_policies_of_plan",
]


class LimitPolicy:
    """The limits that are enforced for one way of placing an instance.

    Attributes
    ----------
    primary, secondary:
        The limits that are enforced on a node that gets this role.
    asks_n1:
        Whether `Evaluator.check` checks global N+1.
    """

    __slots__ = ("asks_n1", "name", "primary", "secondary")

    def __init__(
        self, name: str, primary: LimitSet, secondary: LimitSet, asks_n1: bool = True
    ) -> None:
        self.name = name
        self.primary = primary
        self.secondary = secondary
        self.asks_n1 = asks_n1

    def __repr__(self) -> str:
        return self.name


NEW_INSTANCE = LimitPolicy("new", ALL_LIMITS, ALL_LIMITS)
NORMAL_MOVE = LimitPolicy("move", ALL_LIMITS, ALL_LIMITS)
FORCED_MOVE = LimitPolicy("forced move", FORCED_LIMITS, FORCED_LIMITS, asks_n1=False)
"""The limit policy for leaving a node that is not online: any other node is better."""

LENIENT_NEW = LimitPolicy("new, soft limits ignored", HARD_LIMITS, FORCED_LIMITS)
LENIENT_MOVE = LimitPolicy("move, soft limits ignored", FORCED_LIMITS, FORCED_LIMITS)

HAIL_LENIENT_NEW = LimitPolicy("new, soft limits of its primary ignored", HARD_LIMITS, ALL_LIMITS)
HAIL_MOVE = LimitPolicy("move by the limits of nodes alone", ALL_LIMITS, ALL_LIMITS, asks_n1=False)


class LimitPolicies:
    """The limit policies of one group: for a new instance, and for an instance that moves.

    `leaving` are nodes that will be powered down. Instances leave them while these nodes still run,
    so the moves are not forced.
    """

    __slots__ = ("_forced", "_leaving", "_usual", "new")

    def __init__(
        self,
        new: LimitPolicy,
        usual: LimitPolicy,
        forced: LimitPolicy = FORCED_MOVE,
        leaving: Collection[int] = (),
    ) -> None:
        self.new = new
        self._usual = usual
        self._forced = forced
        self._leaving = leaving

    def off(self, source: Node) -> LimitPolicy:
        """Return the policy of an instance that leaves `source`; a forced move if `source` is not
        online.
        """
        return self._usual if self._is_up(source) else self._forced

    def old_primary_checks(self, instance: Instance, old: Node) -> tuple[Check, ...]:
        """Return the checks of the old primary, which becomes the secondary in a failover."""
        checks = SECONDARY if self._is_up(old) else ABANDONED
        return without_reserve(checks_for(checks, instance, self.off(old).secondary), old)

    def with_normal_limits(self) -> LimitPolicies:
        """Return limit policies in which no move is forced."""
        return LimitPolicies(self.new, self._usual, self._usual)

    def all_the_way(self, present: Iterable[Node]) -> LimitPolicies:
        """Return policies for all steps of a move; forced moves if a node of `present` is not
        online.
        """
        limit_policy = self._usual if all(map(self._is_up, present)) else self._forced
        return LimitPolicies(self.new, limit_policy, limit_policy, self._leaving)

    def reaches(self, node: Node) -> bool:
        """Return whether disks can be copied from `node`: it may be drained, but not offline."""
        return not node.offline or node.index in self._leaving

    def _is_up(self, node: Node) -> bool:
        return node.online or node.index in self._leaving


SOFT_ENFORCED = LimitPolicies(NEW_INSTANCE, NORMAL_MOVE)
NO_WORSE = LimitPolicies(NEW_INSTANCE, LimitPolicy("move", NO_WORSE_LIMITS, NO_WORSE_LIMITS))
"""The limit policies for ``--n1 no-worse``, where global N+1 protects failover capacity."""

LENIENT = LimitPolicies(LENIENT_NEW, LENIENT_MOVE)
HAIL_ENFORCING = LimitPolicies(NEW_INSTANCE, HAIL_MOVE)
HAIL_LENIENT = LimitPolicies(HAIL_LENIENT_NEW, FORCED_MOVE)
ALL_FORCED = LimitPolicies(FORCED_MOVE, FORCED_MOVE)


def limit_policies_for(settings: Settings) -> LimitPolicies:
    """Return the limit policies of a group with these `settings`."""
    if settings.ignore_soft_errors:
        return LENIENT if settings.behaviour.spares_soft_limits_of_secondaries else HAIL_LENIENT
    return enforcing(settings)


def enforcing(settings: Settings) -> LimitPolicies:
    """Return the limit policies of a group with these `settings`, but with soft limits enforced."""
    if not settings.behaviour.holds_moves_to_n1:
        return HAIL_ENFORCING
    return NO_WORSE if settings.n1 == "no-worse" else SOFT_ENFORCED


def limit_policies_of_plan(ignore_soft: bool, leaving: Collection[int] = ()) -> LimitPolicies:
    """Return the limit policies of moves that a planner makes within a group."""
    return LimitPolicies(
        NEW_INSTANCE, LENIENT_MOVE if ignore_soft else NORMAL_MOVE, FORCED_MOVE, leaving
    )
