"""The limits of a node: the checks of all constraints, in order, and when each is enforced.

The checks are those of `iallocator.constraints.table`. The first check that fails is the reason of
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
    "FORCED_RESOURCES",
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
    """Return the checks of all constraints for `role`; checks of later amounts come last."""
    checks = [check for one in CONSTRAINTS for check in getattr(one, role)]
    now, later = [c for c in checks if not c.later], [c for c in checks if c.later]
    return RoleLimits(*now, *later)


PRIMARY = _limits_of("primary")
"""The limits of a node that would become the primary."""

SECONDARY = _limits_of("secondary")
"""The limits of a node that would become the secondary of a drbd instance."""

STAYING = RoleLimits(*RESERVED_MEMORY.primary)
"""The limits of a secondary that stays while the primary changes: only its reserved memory."""

ABANDONED = RoleLimits(*(check for check in SECONDARY.checks if check.reason != "FailDisk"))
"""The limits of an old primary that is not online and becomes the secondary: all but its disk."""


class LimitSet:
    """A choice of the limits to enforce: which limits are left out."""

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
        """Return whether this choice leaves out some limits."""
        return self.spares_soft or self.spares_unforced

    def holds(self, check: Check) -> bool:
        """Return whether `check` is enforced."""
        if check.no_worse and not self.no_worse:
            return False
        return not (self.spares_soft and check.soft) and (check.forced or not self.spares_unforced)


ALL_LIMITS = LimitSet("all")
"""The choice of every limit, except those only for ``no-worse``."""

HARD_LIMITS = LimitSet("hard", spares_soft=True)
"""The choice for a new instance if soft limits are ignored: only hard limits."""

FORCED_LIMITS = LimitSet("forced", spares_unforced=True)
"""The choice for moves after a failure, off nodes that are not online, or without soft checks."""

NO_WORSE_LIMITS = LimitSet("all, and no-worse", no_worse=True)
"""The choice for moves with ``--n1 no-worse``: a node that lacks memory for a failover must not
lack more."""


def resources_of(limits: LimitSet) -> tuple[Resource, ...]:
    """Return the resources that `limits` check on a primary, in the order of the checks."""
    resources = (check.lacks.resource for check in PRIMARY.checks if limits.holds(check))
    return tuple(dict.fromkeys(resource for resource in resources if resource is not None))


FORCED_RESOURCES = resources_of(FORCED_LIMITS)
"""Every resource of nodes that a limit checks even for a forced move."""

RESOURCES = resources_of(ALL_LIMITS)
"""Every resource of nodes that a limit checks."""

RESERVE_WORDS = "disk_reserve"
"""The value of `Check.words` for the checks of the disk that must stay free."""

_KNOWN: dict[tuple[object, ...], tuple[Check, ...]] = {}
"""Role, kind of instance and limits -> the checks to enforce; a cache with few entries."""


def checks_for(role: RoleLimits, instance: Instance, limits: LimitSet) -> tuple[Check, ...]:
    """Return the checks of `role` that `limits` enforce and that concern `instance`.

    A forthcoming instance uses nothing yet, so only checks of later amounts and of access concern
    it.
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
    """Return `checks` without the check of the disk reserve of `node`.

    Use it for an instance with disks on `node` already: its move needs no new disk there.
    """
    if not node.kept_by:
        return checks
    return tuple(check for check in checks if check.words != RESERVE_WORDS)


def failover_checks(instance: Instance) -> tuple[Check, ...]:
    """Return the checks of a secondary to which `instance` fails over.

    Disks and access are not checked, because the secondary has the disks already.
    """
    return tuple(
        check
        for check in checks_for(PRIMARY, instance, FORCED_LIMITS)
        if not (check.local or check.access)
    )


def other_limits(group: Group, *known: str) -> tuple[Check, ...]:
    """Return the limits, other than `known`, that can keep instances off nodes when a node fails.

    `known`: units of `Lack`. A calculation that only takes `known` resources into account proves
    that instances can be placed only if no other limit applies in `group`. `POOL_SPACE` in `known`
    covers all access constraints, because such a calculation uses `Cluster.reach`.
    """
    return tuple(
        check
        for check in PRIMARY.checks
        if FORCED_LIMITS.holds(check)
        and (POOL_SPACE if check.access else check.lacks.unit) not in known
        and check.applies(group)
    )
