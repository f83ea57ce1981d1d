"""The rules of N+1: which failures must be tolerated, what may be assumed, what checks may cost."""

from __future__ import annotations

from iallocator.model.state import LAST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance

__all__ = [
    "INFINITE",
    "LOST",
    "MODES",
    "SAFE",
    "UNKNOWN",
    "WORK",
    "Effort",
    "Rules",
    "UndecidedError",
    "share_of",
]


SAFE, UNKNOWN, LOST = 0, 1, 2
"""What bounds prove of a failure: it is tolerated, nothing, or it is not tolerated."""

INFINITE = float("inf")


def share_of(cost: float, budget: float) -> float:
    """Return the share of `budget` that `cost` is; infinite if there is no budget."""
    if cost <= 0:
        return 0.0
    return cost / budget if budget else INFINITE


WORK = 1_000_000
"""Moves × nodes that count as one second: less than an idle machine simulates in that time."""

SCALAR = 100
"""The work of one move × node that is not simulated in arrays."""


class UndecidedError(Exception):
    """A failure stays undecided, because the work of the request is spent."""


class Effort:
    """The work that simulations and searches of one request may do.

    Attributes
    ----------
    left:
        Moves × nodes that may still be simulated.
    undecided:
        How many placements were rejected because the work was spent.
    used:
        The work done so far.
    """

    __slots__ = ("_over", "left", "undecided", "used")

    def __init__(self, left: float = float("inf"), over: Callable[[], bool] | None = None) -> None:
        self.left = left
        self._over = over
        self.undecided = 0
        self.used = 0

    @property
    def spent(self) -> bool:
        """Return whether no work is left, or the time is up."""
        return self.left <= 0 or (self._over is not None and self._over())

    def spend(self, moves: int, scalar: bool = False) -> None:
        """Count so many moves × nodes as done.

        Raises
        ------
        UndecidedError
            If no work is left.
        """
        work = moves * SCALAR if scalar else moves
        self.used += work
        self.left -= work
        if self.spent:
            raise UndecidedError


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
        What checks may cost; None: any amount.
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
        effort: Effort | None = None,
        movers_stay: bool = False,
        namesake: Instance | None = None,
    ) -> None:
        self.namesake = namesake
        self.movers_stay = movers_stay
        self.effort = effort or Effort()
        self.mode = mode
        self.units = units or {}
        self.strict = mode == "strict"
        self.exact = mode == "no-worse"
        self._targets: dict[int, list[int]] = {}

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
