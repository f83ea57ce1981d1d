"""The rules of N+1: which failures must be tolerated, what may be assumed, what checks may cost."""

from __future__ import annotations

from iallocator.deadline import SIMULATIONS, Deadline
from iallocator.model.state import LAST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance

__all__ = [
    "INFINITE",
    "LOST",
    "MODES",
    "SAFE",
    "UNKNOWN",
    "WORK",
    "Rules",
    "UndecidedError",
    "sum_of_shares",
]


SAFE, UNKNOWN, LOST = 0, 1, 2
"""What bounds prove of a failure: it is tolerated, nothing, or it is not tolerated."""

INFINITE = float("inf")


def sum_of_shares(
    closing: Iterable[tuple[float, float]], memory_budget: float, disk_budget: float
) -> tuple[int, float]:
    """Return `SAFE` if budgets of memory and disk cannot close all targets, and what is spare.

    `closing`: the MiB of memory, and of disk, either of which closes a target.  The spare memory is
    infinite if the budgets cannot do so even if two targets are closed already, else -1.
    """
    first = second = others = 0.0  # the two largest shares, and the sum of the others
    for memory, disk in closing:
        if memory <= 0 or disk <= 0:
            continue  # the target is closed already
        share = min(
            memory / memory_budget if memory_budget else INFINITE,
            disk / disk_budget if disk_budget else INFINITE,
        )
        if share > second:
            others += second
            first, second = (share, first) if share > first else (first, share)
        else:
            others += share
        if others > 2:  # no share is negative
            return SAFE, INFINITE
    return (SAFE, -1) if first + second + others > 2 else (UNKNOWN, 0)


WORK = 1_000_000
"""Moves × nodes that count as one second: less than an idle machine simulates in that time."""

SCALAR = 100
"""The work of one move × node that is not simulated in arrays."""


class UndecidedError(Exception):
    """A failure stays undecided, because the work of the request is spent."""


MODES = ("strict", "no-worse", "no-new", "off")
"""Values of ``--n1``."""


class Rules:
    """Which failures must be tolerated, and what may be assumed in a failure.

    * ``strict``: all failures of the nodes over which the score runs.  Offline and drained nodes
      can take over as long as they have the memory, and a failover needs disk to be left.
    * ``no-new``: the failures of online nodes of the group that were tolerated before.  Only online
      nodes take over, and a failover needs no new disk.
    * ``no-worse``: as ``no-new``, and a failure that was not tolerated must not lose more.  Exact
      search decides what the simulation does not: an instance is lost only if no order restarts it.
    * ``off``: none.

    Parameters
    ----------
    units:
        Instance -> all members of its colocation group, itself among them, by name; see
        `iallocator.model.constraints.items_of`.
    effort:
        When checks must end, and the simulations that they may do; None: there is no limit.
    movers_stay:
        Whether an instance that moves counts where it was before. hail does so by accident.
    namesake:
        An instance that counts as the new one. hail does so by accident: if the request names a
        group, hail numbers the new instance by the count of the group, which may be the number of
        one of its instances. When the node of that instance fails, the new one is moved in its
        place.
    """

    __slots__ = (
        "_targets",
        "effort",
        "exact",
        "mode",
        "movers_stay",
        "namesake",
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
    ) -> None:
        self.namesake = namesake
        self.movers_stay = movers_stay
        self.effort = Deadline(None) if effort is None else effort
        self.mode = mode
        self.units = units or {}
        self.strict = mode == "strict"
        self.exact = mode == "no-worse"
        self._targets: dict[int, list[int]] = {}

    def spend(self, moves: int) -> None:
        """Count so many moves × nodes as simulated.

        Raises
        ------
        UndecidedError
            If no work is left, or the time is up.
        """
        effort = self.effort
        effort.spend(moves, SIMULATIONS)
        if effort.spent:
            raise UndecidedError

    def targets(self, cluster: Cluster, group: Group) -> list[int]:
        """Return the nodes of `group` that may take over."""
        targets = self._targets.get(group.index)
        if targets is None:
            targets = [i for i in group.nodes if self.strict or cluster.nodes[i].online]
            self._targets[group.index] = targets
        return targets

    def recreates(self, instance: Instance) -> bool:
        """Return whether the instance is created anew when its node fails, instead of moved.

        hail creates blockdev instances anew as well.
        """
        return not instance.kind.survives_failure or (
            self.strict and instance.kind.recreated_if_strict
        )

    def mistaken(self, instance: Instance) -> bool:
        """Return whether `instance` is the new one in the place of its namesake."""
        return self.namesake is not None and instance.order in (self.namesake.order, LAST)

    def failing(self, cluster: Cluster, group: Group, scope: Sequence[int]) -> Sequence[int]:
        """Return the nodes that must be able to fail when `group` is used.

        `scope`: the nodes over which the allocation's score runs.
        """
        if self.strict:
            return scope
        return [i for i in group.nodes if cluster.nodes[i].online]
