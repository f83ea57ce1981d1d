"""The table of the limits of a node, in the order in which they are tested.

A `Check` is one limit.  It compares a node before and after an instance came (`NodeView`: one node
or an array of nodes) and says where the limit is broken; the first broken limit is the reason of
the rejection.  A check also says how much the node lacks, in which words, and which `Resource` it
limits, if it limits a sum of what instances take.  All users follow from this table: the kernels,
the scans of planners, N+1 (`other_limits`), the rows of integer programs, the dimensions of
transitions, proofs by sums, and messages.

Soft checks are skipped by ``--ignore-soft-errors``.
"""

from __future__ import annotations

from math import ceil, floor

from iallocator.constraints.access import ACCESS, StoragePools
from iallocator.model.columns import (
    CPUS,
    CPUS_LATER,
    DISK,
    DISK_LATER,
    FREE_SPINDLES,
    FREE_SPINDLES_LATER,
    MEMORY,
    MEMORY_LATER,
    SPINDLES,
    SPINDLES_LATER,
)
from iallocator.tolerances import AMOUNT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iallocator.constraints.access import AccessConstraint
    from iallocator.model.cluster import Group, Node
    from iallocator.model.instance import Instance
    from iallocator.model.node_view import NodeView, Quantity

__all__ = [
    "ABANDONED",
    "ALL_LIMITS",
    "DISK_SPACE",
    "FORCED_LIMITS",
    "FREE_MEMORY",
    "HARD_LIMITS",
    "NO_WORSE_LIMITS",
    "OWN_SPINDLES",
    "POOL_SPACE",
    "PRIMARY",
    "REASONS",
    "RESOURCES",
    "SECONDARY",
    "SPINDLES_OF_DISKS",
    "STAYING",
    "Check",
    "LimitSet",
    "Resource",
    "RoleLimits",
    "checks_for",
    "failover_checks",
    "other_limits",
    "resources_of",
]  # fmt: skip

REASONS = {
    "FailMem": "memory",
    "FailDisk": "disk",
    "FailCPU": "virtual cpus",
    "FailN1": "a failure could not be survived",
    "FailTags": "exclusion tags",
    "FailMig": "migration tags",
    "FailDiskCount": "number of disks",
    "FailSpindles": "spindles",
    "FailInternal": "an internal error",
    "FailPolicy": "rejected by the instance policy of the group",
}
REASONS |= {one.reason: one.about for one in ACCESS if one.reason not in REASONS}
"""Reason that is counted -> what it is about, in the order in which counts are listed."""

UNLIMITED = float("inf")


class Resource:
    """An amount of which each instance takes some of its nodes, and each node has so much.

    Attributes
    ----------
    name:
        As transitions and messages name it: ``memory``.
    unit:
        The unit of an amount, with the name: ``MiB memory``.
    column:
        Its place in rows of nodes and vectors of instances, see `iallocator.model.columns`.
    later:
        The place of the amount once forthcoming instances exist; None if there is none.
    rising:
        Whether the columns count what is in use; otherwise they count what is free.
    local:
        Whether only instances with local disks take it.
    spare:
        ``(amount in the column, node)`` -> how much more the node can give: the largest whole
        amount if instances take whole amounts; `UNLIMITED` if the node has no bound.
    """

    __slots__ = ("column", "later", "local", "name", "rising", "spare", "unit")

    def __init__(
        self,
        unit: str,
        column: int,
        spare: Callable[[float, Node], float],
        *,
        later: int | None = None,
        rising: bool = False,
        local: bool = False,
    ) -> None:
        self.name = unit.removeprefix("MiB ")
        self.unit = unit
        self.column = column
        self.later = later
        self.rising = rising
        self.local = local
        self.spare = spare

    def taken(self, vector: Sequence[float]) -> float:
        """Return how much an instance takes of it in a role, by its `vector` there."""
        return vector[self.column] if self.rising else -vector[self.column]


def _some_must_remain(free: float, node: Node) -> float:
    return ceil(free) - 1


FREE_MEMORY, DISK_SPACE, VCPUS = "MiB memory", "MiB disk", "virtual cpus"
OWN_SPINDLES, SHARED_SPINDLES = "spindles of its own", "spindles under the policy's ratio"
POOL_SPACE = StoragePools.unit
SPINDLES_OF_DISKS = "the number of spindles of a disk"
"""Units of what a node may lack, see `Lack.unit`."""

_MEMORY = Resource(FREE_MEMORY, MEMORY, _some_must_remain, later=MEMORY_LATER)
_SPACE = Resource(DISK_SPACE, DISK, _some_must_remain, later=DISK_LATER, local=True)
_FREE_SPINDLES = Resource(
    "own spindles", FREE_SPINDLES,
    lambda free, node: free if node.exclusive_storage else UNLIMITED,
    later=FREE_SPINDLES_LATER, local=True,
)  # fmt: skip
_SPINDLES_IN_USE = Resource(
    "shared spindles", SPINDLES,
    lambda used, node: UNLIMITED if node.exclusive_storage else node.high_spindles - used,
    later=SPINDLES_LATER, rising=True, local=True,
)  # fmt: skip
_CPUS = Resource(
    "cpus", CPUS, lambda used, node: floor(node.vcpu_ratio * node.total_cpus - used + AMOUNT),
    later=CPUS_LATER, rising=True,
)  # fmt: skip


class Lack:
    """How much a node lacks that breaks a limit.

    Attributes
    ----------
    unit:
        What the node lacks.  Two limits that lack the same unit lack it once, not twice.
    amount:
        ``(before, after, instance)`` -> how much, above 0 where the limit is broken.  It is linear
        in what instances take, so that N+1 can add it up.
    purpose:
        What the amount is for, if not for the instance as it runs; else "".
    resource:
        The `Resource` of which the node has too little; None if the limit is no sum.
    """

    __slots__ = ("_asked", "amount", "purpose", "resource", "unit")

    def __init__(
        self,
        unit: str,
        asked: str,
        amount: Callable[[NodeView, NodeView, Instance], float],
        purpose: str = "",
        resource: Resource | None = None,
    ) -> None:
        self.resource = resource
        self.unit = unit
        self.amount = amount
        self.purpose = purpose
        self._asked = asked

    def asked(self, instance: Instance) -> float:
        """How much of it `instance` asks for in all; 1 where that means nothing."""
        return float(getattr(instance, self._asked) or 1) if self._asked else 1.0


def _everywhere(group: Group) -> bool:
    """Say that a limit may reject instances in any group."""
    return True


def _where_storage_is_exclusive(group: Group) -> bool:
    """Say that a limit may reject instances only in groups with exclusive storage."""
    return group.exclusive


class About:
    """Which instances and nodes a limit concerns; see `Check` for the attributes."""

    __slots__ = ("access", "applies", "local", "space")

    def __init__(
        self,
        *,
        local: bool = False,
        space: bool = False,
        access: bool = False,
        applies: Callable[[Group], bool] = _everywhere,
    ) -> None:
        self.local = local
        self.space = space
        self.access = access
        self.applies = applies


class When:
    """When a limit counts; see `Check` for the attributes."""

    __slots__ = ("forced", "later", "no_worse", "soft")

    def __init__(
        self,
        *,
        soft: bool = False,
        later: bool = False,
        forced: bool = True,
        no_worse: bool = False,
    ) -> None:
        self.soft = soft
        self.later = later
        self.forced = forced
        self.no_worse = no_worse


ANY_INSTANCE, ALWAYS, SOFT = About(), When(), When(soft=True)
LOCAL_DISKS = About(local=True)
FREE_DISK = About(local=True, space=True)
EXCLUSIVE_STORAGE = About(local=True, applies=_where_storage_is_exclusive)


class Check:
    """One limit.

    Attributes
    ----------
    reason:
        What it is counted as, one of `REASONS`.
    fails:
        ``(before, after, instance)`` -> where the limit is broken.
    words:
        The function of `iallocator.limits.words` that says what a person wants to know.
    soft:
        Whether it may be ignored on request.
    local:
        Whether it concerns only instances with local disks.
    forced:
        Whether it counts for forced moves, too.
    later:
        Whether it looks at the node as it will be once forthcoming instances exist.
    space:
        Whether it is about the free disk that the node reports.
    access:
        Whether it is an access constraint: only for instances that may not go everywhere.
    no_worse:
        Whether it counts only where what a failure loses must not grow.
    lacks:
        What a node lacks that breaks it.
    applies:
        Whether it may reject any instance in a group; by default in every group.
    """

    __slots__ = ("access", "applies", "fails", "forced", "lacks", "later", "local", "no_worse",
                 "reason", "soft", "space", "words")  # fmt: skip

    def __init__(
        self,
        reason: str,
        fails: Callable[[NodeView, NodeView, Instance], Quantity],
        words: str,
        lacks: Lack,
        about: About = ANY_INSTANCE,
        when: When = ALWAYS,
    ) -> None:
        self.reason = reason
        self.fails = fails
        self.words = words
        self.lacks = lacks
        self.local = about.local
        self.space = about.space
        self.access = about.access
        self.applies = about.applies
        self.soft = when.soft
        self.later = when.later
        self.forced = when.forced and not (when.soft or when.later)
        self.no_worse = when.no_worse

    def numbers(self, before: NodeView, after: NodeView, instance: Instance) -> str:
        """What a person wants to know of one node where it fails."""
        from iallocator.limits import words

        return str(getattr(words, self.words)(before, after, instance))


_WITH_RESERVE, _TO_TAKE_OVER = " (failover reserve included)", " (for a failover to it)"


class AccessCheck(Check):
    """The check of one access constraint: the node is open to the instance.

    Only instances that are not allowed everywhere are checked (`Instance.restricted`).
    """

    __slots__ = ("_by",)

    def __init__(self, constraint: AccessConstraint) -> None:
        self._by = constraint.name
        lack = Lack(constraint.unit, "", lambda b, a, i: int(self._bars(b, a, i)))
        super().__init__(constraint.reason, self._bars, "", lack, About(access=True))

    def _bars(self, b: NodeView, a: NodeView, i: Instance) -> Quantity:
        return False if a.at is None else a.at.bars(i, self._by)

    def numbers(self, before: NodeView, after: NodeView, instance: Instance) -> str:
        """Return the reason for the rejection, as text for people."""
        return "" if after.at is None else after.at.why(instance, self._by)


_ACCESS = tuple(map(AccessCheck, ACCESS))


def _no_spindles(soft: bool, later: bool) -> Check:
    lack = Lack(SPINDLES_OF_DISKS, "", lambda b, a, i: 1)
    return Check("FailSpindles", lambda b, a, i: b.exclusive * (i.spindles is None) > 0,
                 "unknown_spindles", lack, EXCLUSIVE_STORAGE,
                 When(soft=soft, later=later))  # fmt: skip


_TO_RESERVE = Lack(DISK_SPACE, "disk", lambda b, a, i: a.disk_reserve - a.disk)

_DISK = (
    Check("FailDisk", lambda b, a, i: a.disk <= 0, "disk",
          Lack(DISK_SPACE, "disk", lambda b, a, i: 1 - a.disk, resource=_SPACE), FREE_DISK),
    Check("FailDisk", lambda b, a, i: a.disk < a.disk_reserve, "disk_reserve", _TO_RESERVE,
          FREE_DISK, SOFT),
    _no_spindles(soft=False, later=False),
    Check("FailSpindles", lambda b, a, i: a.exclusive * (a.free_spindles < 0) > 0, "own_spindles",
          Lack(OWN_SPINDLES, "spindles", lambda b, a, i: -a.free_spindles,
               resource=_FREE_SPINDLES),
          EXCLUSIVE_STORAGE),
)  # fmt: skip


def _shared_spindles(soft: bool) -> Check:
    lack = Lack(SHARED_SPINDLES, "spindle_use", lambda b, a, i: a.spindles - a.high_spindles,
                resource=_SPINDLES_IN_USE)  # fmt: skip
    return Check("FailDisk", lambda b, a, i: a.spindles > a.high_spindles, "spindles", lack,
                 LOCAL_DISKS, When(soft=soft, forced=False))  # fmt: skip


def _disk_later(soft: bool) -> tuple[Check, ...]:
    return (
        Check("FailDisk", lambda b, a, i: a.disk_later <= 0, "less_disk_later",
              Lack(DISK_SPACE, "disk", lambda b, a, i: 1 - a.disk_later),
              FREE_DISK, When(soft=soft, later=True)),
        Check("FailDisk", lambda b, a, i: a.disk_later < a.disk_reserve, "disk_reserve",
              Lack(DISK_SPACE, "disk", lambda b, a, i: a.disk_reserve - a.disk_later),
              FREE_DISK, When(soft=True, later=True)),
        _no_spindles(soft=soft, later=True),
        Check("FailSpindles", lambda b, a, i: a.exclusive * (a.free_spindles_later < 0) > 0,
              "own_spindles_later",
              Lack(OWN_SPINDLES, "spindles", lambda b, a, i: -a.free_spindles_later),
              EXCLUSIVE_STORAGE, When(soft=soft, later=True)),
        Check("FailDisk", lambda b, a, i: a.spindles_later > a.high_spindles, "spindles_later",
              Lack(SHARED_SPINDLES, "spindle_use",
                   lambda b, a, i: a.spindles_later - a.high_spindles),
              LOCAL_DISKS, When(soft=soft, later=True)),
    )  # fmt: skip


_TO_FAIL_OVER = Lack(
    FREE_MEMORY, "memory", lambda b, a, i: a.reserved - a.memory + 1, _WITH_RESERVE
)

_N1 = (
    Check("FailMem", lambda b, a, i: a.fails_n1 > b.fails_n1, "n1", _TO_FAIL_OVER, when=SOFT),
    Check("FailMem",
          lambda b, a, i: a.fails_n1 * (a.reserved - a.memory > b.reserved - b.memory) > 0,
          "n1", _TO_FAIL_OVER, when=When(soft=True, no_worse=True)),
)  # fmt: skip
"""A node that fails already may lack more, but where nothing may become worse."""


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


PRIMARY = RoleLimits(
    *_ACCESS,
    Check("FailMem", lambda b, a, i: a.memory <= 0, "memory",
          Lack(FREE_MEMORY, "memory", lambda b, a, i: 1 - a.memory, resource=_MEMORY)),
    *_DISK,
    _shared_spindles(soft=True),
    *_N1,
    Check("FailCPU", lambda b, a, i: a.cpus / a.total_cpus > a.vcpu_ratio, "cpus",
          Lack(VCPUS, "vcpus", lambda b, a, i: a.cpus - a.vcpu_ratio * a.total_cpus,
               resource=_CPUS),
          when=SOFT),
    Check("FailTags", lambda b, a, i: a.conflicts > b.conflicts, "tags",
          Lack("places free of its exclusion tags", "", lambda b, a, i: a.conflicts - b.conflicts),
          when=SOFT),
    Check("FailMem", lambda b, a, i: a.memory_later <= 0, "memory_later",
          Lack(FREE_MEMORY, "memory", lambda b, a, i: 1 - a.memory_later), when=When(later=True)),
    *_disk_later(soft=True),
    Check("FailCPU", lambda b, a, i: a.cpus_later / a.total_cpus > a.vcpu_ratio, "cpus_later",
          Lack(VCPUS, "vcpus", lambda b, a, i: a.cpus_later - a.vcpu_ratio * a.total_cpus),
          when=When(soft=True, later=True)),
)  # fmt: skip
"""For a node that would become the primary."""

SECONDARY = RoleLimits(
    *_ACCESS,
    *_DISK,
    _shared_spindles(soft=False),
    Check("FailMem", lambda b, a, i: i.takeover_memory >= b.memory, "failover",
          Lack(FREE_MEMORY, "takeover_memory", lambda b, a, i: i.takeover_memory - b.memory + 1,
               _TO_TAKE_OVER),
          when=SOFT),
    *_N1,
    *_disk_later(soft=False),
    Check("FailMem", lambda b, a, i: i.takeover_memory >= b.memory_later, "failover_later",
          Lack(FREE_MEMORY, "takeover_memory",
               lambda b, a, i: i.takeover_memory - b.memory_later + 1,
               _TO_TAKE_OVER),
          when=When(soft=True, later=True)),
)  # fmt: skip
"""For a node that would become the secondary of a drbd instance."""


STAYING = RoleLimits(*_N1)
"""For a secondary that stays while the primary changes: memory is kept for each primary."""

ABANDONED = RoleLimits(*(check for check in SECONDARY.checks if check.reason != "FailDisk"))
"""For an old primary that is not online and becomes the secondary: its disk does not matter."""


class LimitSet:
    """Which limits count; those that there are stand below."""

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
    found = (check.lacks.resource for check in PRIMARY.checks if limits.holds(check))
    return tuple(dict.fromkeys(resource for resource in found if resource is not None))


RESOURCES = resources_of(ALL_LIMITS)
"""Every resource of nodes."""

_KNOWN: dict[tuple[object, ...], tuple[Check, ...]] = {}
"""What `checks_for` found; there are few combinations of what it depends on."""


def checks_for(role: RoleLimits, instance: Instance, limits: LimitSet) -> tuple[Check, ...]:
    """Return the checks of `role` that matter for `instance`, if `limits` count.

    A forthcoming instance takes nothing yet.
    """
    asked = instance.local, instance.restricted, instance.counts_disk, instance.forthcoming
    found = _KNOWN.get((role, asked, limits))
    if found is None:
        found = _KNOWN[role, asked, limits] = tuple(
            check for check in role.checks if limits.holds(check) and _matters(check, *asked)
        )
    return found


def failover_checks(instance: Instance) -> tuple[Check, ...]:
    """Return the checks of a secondary that `instance` fails over to: it has the disks already."""
    return tuple(
        check
        for check in checks_for(PRIMARY, instance, FORCED_LIMITS)
        if not (check.local or check.access)
    )


def other_limits(group: Group, *known: str) -> tuple[Check, ...]:
    """Return the limits that can keep instances off nodes of `group` when a node fails.

    All but those of `known`, which are units of `Lack`.  A calculation that takes only some
    resources into account proves that instances find a place only if this is empty.  One that
    knows `POOL_SPACE` asks `Cluster.reach`, which knows all access constraints.
    """
    return tuple(
        check
        for check in PRIMARY.checks
        if FORCED_LIMITS.holds(check)
        and (POOL_SPACE if check.access else check.lacks.unit) not in known
        and check.applies(group)
    )


def _matters(
    check: Check, local: bool, restricted: bool, counts_disk: bool, forthcoming: bool
) -> bool:
    """Return whether `check` concerns such an instance."""
    return (
        (local or not check.local)
        and (restricted or not check.access)
        and (counts_disk or not check.space)
        and (check.later or check.access or not forthcoming)
    )
