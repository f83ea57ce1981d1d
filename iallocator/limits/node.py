"""The limits of a node: the checks of all constraints, in order, and which are enforced when.

The checks are those of `iallocator.constraints.table`. The first one that fails is the reason of
the rejection. Soft checks are skipped by ``--ignore-soft-errors``.
"""

from __future__ import annotations

from iallocator.constraints.checks import POOL_SPACE
from iallocator.constraints.table import CONSTRAINTS, RESERVED_MEMORY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.constraints.checks import Check, Resource
    from iallocator.model.cluster import Group, Node
    from iallocator.model.instance import Instance

__all__ = [
    "ABANDONED",
    "ALL_LIMITS",
    "FORCED_LIMITS",
    "HARD_LIMITS",
    "NO_WORSE_LIMITS",
    "PRIMARY",
    "RESOURCES",
    "SECONDARY",
    "STAYING",
    "LimitSet",
    "RoleLimits",
    "checks_for",
    "failover_checks",
    "other_limits",
    "resources_of",
    "without_reserve",
]


class RoleLimits:
    """The limits of a node in one role, in the order in which they are tested.

    Attributes
    ----------
    checks:
        One `Check` for each limit.
    """

    __slots__ = ("checks",)

    def __init__(self, *checks: Check) -> None:
        self.checks = checks


def _limits_of(role: str) -> RoleLimits:
    """Return the checks of all constraints for a `role`; those that look ahead come last."""
    checks = [check for one in CONSTRAINTS for check in getattr(one, role)]
    now, later = [c for c in checks if not c.later], [c for c in checks if c.later]
    return RoleLimits(*now, *later)


PRIMARY = _limits_of("primary")
"""For a node that would become the primary."""

SECONDARY = _limits_of("secondary")
"""For a node that would become the secondary of a drbd instance."""

STAYING = RoleLimits(*RESERVED_MEMORY.primary)
"""For a secondary that stays while the primary changes: memory is kept for each primary."""

ABANDONED = RoleLimits(*(check for check in SECONDARY.checks if check.reason != "FailDisk"))
"""For an old primary that is not online and becomes the secondary: its disk does not matter."""


class LimitSet:
    """A choice of limits to enforce; the choices in use are defined below the class."""

    __slots__ = ("name", "no_worse", "spares_soft", "spares_unforced")

    def __init__(
        self,
        name: str,
        spares_soft: bool = False,
        spares_unforced: bool = False,
        no_worse: bool = False,
    ) -> None:
        self.name = name
        self.no_worse = no_worse
        self.spares_soft = spares_soft
        self.spares_unforced = spares_unforced

    def __repr__(self) -> str:
        return f"{self.name} limits"

    @property
    def spares(self) -> bool:
        """Return whether some limits are not enforced."""
        return self.spares_soft or self.spares_unforced

    def holds(self, check: Check) -> bool:
        """Return whether `check` is enforced."""
        if check.no_worse and not self.no_worse:
            return False
        return not (self.spares_soft and check.soft) and (check.forced or not self.spares_unforced)


ALL_LIMITS = LimitSet("all")
"""Every limit."""

HARD_LIMITS = LimitSet("hard", spares_soft=True)
"""For a new instance where soft limits are ignored."""

FORCED_LIMITS = LimitSet("forced", spares_unforced=True)
"""For moves when a node fails, off nodes that are not online, or that ignore soft limits."""

NO_WORSE_LIMITS = LimitSet("all, and no-worse", no_worse=True)
"""For moves with ``--n1 no-worse``: failovers that lack memory must not lack more."""


def resources_of(limits: LimitSet) -> tuple[Resource, ...]:
    """Return the resources that `limits` bound, in the order in which they are tested."""
    resources = (check.lacks.resource for check in PRIMARY.checks if limits.holds(check))
    return tuple(dict.fromkeys(resource for resource in resources if resource is not None))


RESOURCES = resources_of(ALL_LIMITS)
"""Every resource of nodes."""

RESERVE = "disk_reserve"
"""The words of the checks of the disk that must stay free."""

_KNOWN: dict[tuple[object, ...], tuple[Check, ...]] = {}
"""Role, kind of instance and limits -> the result of `checks_for`; there are few of them."""


def checks_for(role: RoleLimits, instance: Instance, limits: LimitSet) -> tuple[Check, ...]:
    """Return the checks of `role` that concern `instance`, of those that `limits` enforce.

    A forthcoming instance takes nothing yet.
    """
    instance_kind = instance.local, instance.restricted, instance.counts_disk, instance.forthcoming
    checks = _KNOWN.get((role, instance_kind, limits))
    if checks is None:
        local, restricted, counts_disk, forthcoming = instance_kind
        checks = _KNOWN[role, instance_kind, limits] = tuple(
            check
            for check in role.checks
            if limits.holds(check)
            and (local or not check.local)
            and (restricted or not check.access)
            and (counts_disk or not check.space)
            and (check.later or check.access or not forthcoming)
        )
    return checks


def without_reserve(checks: tuple[Check, ...], node: Node) -> tuple[Check, ...]:
    """Return `checks` without the disk reserve of `node`: the disks of the instance are there."""
    if not node.kept_by:
        return checks
    return tuple(check for check in checks if check.words != RESERVE)


def failover_checks(instance: Instance) -> tuple[Check, ...]:
    """Return the checks of a secondary that `instance` fails over to: it has the disks already."""
    return tuple(
        check
        for check in checks_for(PRIMARY, instance, FORCED_LIMITS)
        if not (check.local or check.access)
    )


def other_limits(group: Group, *known: str) -> tuple[Check, ...]:
    """Return the limits that can keep instances off nodes of `group` when a node fails.

    All but those of `known`, which are units of `Lack`.  A calculation with only some resources
    proves that instances can be placed only if this set is empty. A calculation with `POOL_SPACE`
    uses `Cluster.reach`, which has all access constraints.
    """
    return tuple(
        check
        for check in PRIMARY.checks
        if FORCED_LIMITS.holds(check)
        and (POOL_SPACE if check.access else check.lacks.unit) not in known
        and check.applies(group)
    )
