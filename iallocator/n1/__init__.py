"""The rules of N+1: which failures must be tolerated, what may be assumed, what checks may cost."""

from __future__ import annotations

from math import inf

from iallocator.constraints.checks import (
    DISK_SPACE,
    FREE_MEMORY,
    OWN_SPINDLES,
    POOL_SPACE,
    SPINDLES_OF_DISKS,
)
from iallocator.deadline import SIMULATIONS, Deadline
from iallocator.limits.node import ABANDONED, FORCED_LIMITS, PRIMARY, SECONDARY, checks_for
from iallocator.model.state import LAST_ORDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Protocol

    from iallocator.constraints.checks import Check
    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.scoring.scalar import ScalarKernel

    class Colocation(Protocol):
        """The affinity constraints; N+1 only reads the colocation groups."""

        def units(self) -> Mapping[str, Sequence[str]]:
            """Return, for each instance of a colocation group, the names of all its members."""

    Growth = tuple[float, float, float, float]
    """How much more a failure loses than in the initial state, as four numbers. The first two are a
    number of instances and their MiB of memory; here, instances that have returned from offline
    nodes count as lost in the initial state. The last two are the number and the MiB if these
    instances do not count as lost.
    """


__all__ = [
    "ANY_NUMBER", "ENTERED", "MOVED_WITHIN", "N1_MODES", "NO_GROWTH", "ONLY_LEFT", "PACKED_LIMITS",
    "PAIR_SIZE", "PROVED_LOST", "PROVED_SAFE", "SUMMED_LIMITS", "UNPROVED", "WORK_PER_SECOND",
    "Failure", "Growth", "Rules", "UndecidedError", "disk_rejection", "plan_rules", "sum_of_shares",
]  # fmt: skip


Failure = tuple[int, ...]
"""The nodes that fail together, in ascending order; usually one."""

PAIR_SIZE = 2
"""The number of nodes in a pair: the largest failures of which all combinations are listed."""

ANY_NUMBER = 1 << 40
"""A count that stands for "unlimited": more instances than any cluster has."""

PROVED_SAFE, UNPROVED, PROVED_LOST = 0, 1, 2
"""The results of a check by bounds: a failure is proved tolerated, not decided, or proved not
tolerated."""

NO_GROWTH: Growth = (0.0, 0.0, 0.0, 0.0)
"""The `Growth` of a failure that loses no more than in the initial state."""

SUMMED_LIMITS = (FREE_MEMORY, DISK_SPACE, POOL_SPACE)
"""The limits of nodes that sums of free capacity take into account."""

PACKED_LIMITS = (*SUMMED_LIMITS, OWN_SPINDLES, SPINDLES_OF_DISKS)
"""The limits of nodes that counting and packing take into account, or report as undecided."""


MOST_BUDGETS = 3
"""The number of budgets of `sum_of_shares`."""


def sum_of_shares(
    closing: Iterable[tuple[float, float, float]],
    memory_budget: float,
    disk_budget: float,
    spindle_budget: float = 0,
) -> tuple[int, float]:
    """Return whether some target stays open, wherever the budgets are used, and the spare memory.

    A target is a node that can restart instances. It is closed if it lacks the memory, the disk or
    the spindles for one more instance. The first result is `PROVED_SAFE` if the budgets certainly
    cannot close all targets, else `UNPROVED`. The spare memory is infinite if the budgets cannot
    close all targets even after two of them are closed; else -1, or 0 with `UNPROVED`.

    Parameters
    ----------
    closing:
        For each target, the MiB of memory, the MiB of disk, and the spindles, each of which closes
        it; infinite where storage is not exclusive.
    memory_budget, disk_budget, spindle_budget:
        The MiB of memory, the MiB of disk, and the spindles that the instances restarted before
        use.
    """
    first = second = others = 0.0  # the two largest shares, and the sum of the others
    open_alone = 0  # targets that no budget can close
    by_memory = by_disk = by_spindles = False  # whether the budget can close a target alone
    for memory, disk, spindles in closing:
        if memory <= 0 or disk <= 0 or spindles <= 0:
            continue  # the target is closed already
        of_memory = memory / memory_budget if memory_budget else inf
        of_disk = disk / disk_budget if disk_budget else inf
        of_spindles = spindles / spindle_budget if spindle_budget else inf
        share = min(of_memory, of_disk, of_spindles)
        by_memory |= of_memory <= 1
        by_disk |= of_disk <= 1
        by_spindles |= of_spindles <= 1
        if share > second:
            others += second
            first, second = (share, first) if share > first else (first, share)
        else:
            others += share
        open_alone += share > 1
        if others > MOST_BUDGETS or open_alone > 2:  # no share is negative
            return PROVED_SAFE, inf
    most = by_memory + by_disk + by_spindles
    if others > most:
        return PROVED_SAFE, inf
    safe = first + second + others > most or open_alone
    return (PROVED_SAFE, -1) if safe else (UNPROVED, 0)


ONLY_LEFT, MOVED_WITHIN, ENTERED = range(3)
"""Effects of a plan on a group: instances only leave it; instances move within it; instances come
from another group, or are created."""

WORK_PER_SECOND = 1_000_000
"""The units of work that count as one second. One unit is one simulated move × one node; an idle
machine does more units in a second."""

SCALAR_WORK = 100
"""The units of work of one move × one node that is simulated without arrays."""


class UndecidedError(Exception):
    """Raised if the limit of work or time is reached before a failure is decided."""


N1_MODES = ("strict", "no-worse", "no-new", "off")
"""Values of ``--n1``."""


class Rules:
    """The rules of one ``--n1`` mode: which failures must be tolerated, and which nodes may take
    over.

    * ``strict``: all failures of the nodes that the score includes.  Offline and drained nodes can
      take over as long as they have the memory, and a failover needs disk to be left.
    * ``no-new``: the failures of online nodes of the group that were tolerated before.  Only online
      nodes take over, and a failover needs no new disk.
    * ``no-worse``: the failures of ``no-new``; in addition, a failure that was not tolerated must
      not lose more.  Exact search decides what the simulation does not: an instance is lost only if
      no order restarts it.
    * ``off``: none.

    Parameters
    ----------
    units:
        Instance -> all members of its colocation group, itself among them, by name; see
        `iallocator.model.constraints.items_of`.
    effort:
        When checks must end, and the simulations that they may do; None: there is no limit.
    movers_stay:
        Whether a moving instance also counts on the nodes that it leaves. hail counts it there by
        accident.
    failures:
        The sets of nodes that fail together, for example the nodes on one power supply. None: each
        node fails alone.
    plan:
        Whether the rules are for the last state of a plan: in every mode only online nodes take
        over, and ``strict`` requires the failures of all online nodes to be tolerated.
    namesake:
        An existing instance that the simulation confuses with the new instance, like hail: if the
        request names a group, hail numbers the new instance by the count of the group, which may be
        the number of one of its instances. When the node of that instance fails, hail moves the new
        instance instead of it.

    Attributes
    ----------
    requires_all:
        Whether every failure must be tolerated, whether it was before or not: ``strict``.
    strict:
        Whether nodes that are not online can take over, and a failover needs disk. True for
        ``strict``, except in rules for a plan.
    exact:
        Whether exact search decides the failures that bounds do not decide; by default, only with
        ``no-worse``.
    """

    __slots__ = (
        "_failures",
        "_power",
        "_targets",
        "effort",
        "exact",
        "mode",
        "movers_stay",
        "namesake",
        "plan",
        "requires_all",
        "strict",
        "units",
    )

    def __init__(
        self,
        mode: str,
        units: Mapping[str, Sequence[str]] | None = None,
        effort: Deadline | None = None,
        movers_stay: bool = False,
        namesake: Instance | None = None,
        failures: Sequence[Failure] | None = None,
        plan: bool = False,
        exact: bool | None = None,
    ) -> None:
        self._failures = failures
        self.namesake = namesake
        self.movers_stay = movers_stay
        self.effort = Deadline(None) if effort is None else effort
        self.mode = mode
        self.units = units or {}
        self.plan = plan
        self.requires_all = mode == "strict"
        self.strict = self.requires_all and not plan
        self.exact = mode == "no-worse" if exact is None else exact
        self._targets: dict[int, list[int]] = {}
        self._power: object = None

    def spend(self, moves: int) -> None:
        """Add `moves`, a number of moves × nodes, to the simulation work that is done.

        Raises
        ------
        UndecidedError
            If the limit of work or time is reached.
        """
        effort = self.effort
        effort.spend(moves, SIMULATIONS)
        if effort.spent:
            raise UndecidedError

    def targets(self, cluster: Cluster, group: Group) -> list[int]:
        """Return the indices of the nodes of `group` that may take over when other nodes fail."""
        targets = self._targets.get(group.index)
        if targets is None:
            targets = [i for i in group.nodes if self.strict or cluster.nodes[i].online]
            self._targets[group.index] = targets
        return targets

    def switch(self, power: object) -> None:
        """Drop the cached targets if `power`, which describes the condition of the nodes, has
        changed.
        """
        if power != self._power:
            self._power, self._targets = power, {}

    def recreates(self, instance: Instance) -> bool:
        """Return whether the instance is recreated when its node fails, instead of moved.

        With ``strict``, blockdev instances are recreated, too, as by hail.
        """
        return not instance.kind.survives_failure or (
            self.strict and instance.kind.recreated_if_strict
        )

    def impersonated(self, instance: Instance) -> bool:
        """Return whether `instance` is the new instance or its namesake, which hail confuses."""
        return self.namesake is not None and instance.order in (self.namesake.order, LAST_ORDER)

    def failing(self, cluster: Cluster, group: Group, scope: Sequence[int]) -> list[Failure]:
        """Return the failures that must be tolerated when an instance is placed in `group`.

        `scope`: the nodes over which the score of the allocation is computed. Without ``strict``, a
        node that is not online does not fail.
        """
        if not self.strict:
            return self.of_online(cluster, group)
        if self._failures is None:
            return [(i,) for i in scope]
        inside = frozenset(scope)
        return [one for one in self._failures if not inside.isdisjoint(one)]

    def of_online(self, cluster: Cluster, group: Group) -> list[Failure]:
        """Return the failures of `group`, each reduced to its online nodes."""
        nodes = cluster.nodes
        if self._failures is None:
            return [(i,) for i in group.nodes if nodes[i].online]
        inside = frozenset(group.nodes)
        sets = (tuple(i for i in one if nodes[i].online) for one in self._failures)
        return [one for one in dict.fromkeys(sets) if not inside.isdisjoint(one)]


def plan_rules(mode: str, relations: Colocation | None = None) -> Rules:
    """Return the rules for plans; the members of a colocation group must restart on one node."""
    return Rules(mode, None if relations is None else relations.units(), plan=True)


def disk_rejection(
    checker: ScalarKernel, state: State, instance: Instance, old: int, secondary: int
) -> Check | None:
    """Return the hard limit that rejects the failover of `instance` with ``strict``, or None.

    With ``strict``, a failover from `old` to `secondary` requires disk on both: `old` becomes the
    secondary. `instance` must not be placed on `state`.
    """
    left = SECONDARY if state.cluster.nodes[old].online else ABANDONED
    return checker.primary_rejection(
        instance, secondary, checks_for(PRIMARY, instance, FORCED_LIMITS)
    ) or checker.secondary_rejection(
        instance, secondary, old, checks_for(left, instance, FORCED_LIMITS)
    )
