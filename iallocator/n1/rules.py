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
INFINITE = float("inf")


def share_of(cost: float, budget: float) -> float:
    """Which part of `budget` something costs; infinite if there is none."""
    if cost <= 0:
        return 0.0
    return cost / budget if budget else INFINITE


WORK = 1_000_000
"""Moves × nodes simulated per second that is allowed: less than a quiet machine does."""

SCALAR = 100
"""How many of those one takes that is not done in arrays."""


class UndecidedError(Exception):
    """It is not known whether a failure would be survived: there is nothing left to spend."""


class Effort:
    """What is left for the simulations of one request.

    Attributes
    ----------
    left:
        Moves × nodes that may still be simulated.
    undecided:
        How many placements were not judged for lack of it.
    used:
        How much has been spent.
    """

    __slots__ = ("_over", "left", "undecided", "used")

    def __init__(self, left: float = float("inf"), over: Callable[[], bool] | None = None) -> None:
        self.left = left
        self._over = over
        self.undecided = 0
        self.used = 0

    @property
    def spent(self) -> bool:
        """Whether nothing is left, or time is up."""
        return self.left <= 0 or (self._over is not None and self._over())

    def spend(self, moves: int, scalar: bool = False) -> None:
        """Pay for so many moves × nodes.

        Raises
        ------
        UndecidedError
            If nothing is left.
        """
        work = moves * SCALAR if scalar else moves
        self.used += work
        self.left -= work
        if self.spent:
            raise UndecidedError


MODES = ("strict", "no-worse", "no-new", "off")
"""Values of ``--n1``."""


class Rules:
    """How strictly N+1 is judged.

    ``strict``: every node over which the score runs could fail and be survived; nodes that
    are offline or drained may be moved to as long as they have the memory, and a
    failover needs disk to be left.  ``no-new``: no online node of the group becomes
    unsurvivable that was survivable before; only online nodes are moved to, and
    a failover needs no new disk.  ``no-worse``: as ``no-new``, and where a failure is lost
    already no more of it may be; what the simulation calls lost is searched exactly, and only
    what finds no place in any order is lost.  ``off``: nothing is required.

    `movers_stay`: an instance that moves is taken for where it was; hail does so, by accident.
    `namesake`: an instance that is taken for the new one; hail does so, by accident: where a
    group is named it numbers the new instance by how many the group has, which may be the number
    of one of those. When the node of that one fails, the new one is moved in its place,
    from wherever it is.
    `units`: instance -> all that must be on its node, itself among them, by name; see
    `iallocator.model.constraints.items_of`.  `effort`: what simulations may cost; None: anything.
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
        """The nodes of `group` that may take over."""
        targets = self._targets.get(group.index)
        if targets is None:
            targets = [i for i in group.nodes if self.strict or cluster.nodes[i].online]
            self._targets[group.index] = targets
        return targets

    def recreates(self, instance: Instance) -> bool:
        """Whether the instance is created anew when its node fails, and not moved.

        hail counts blockdev among those.
        """
        return not instance.kind.survives_failure or (
            self.strict and instance.kind.recreated_if_strict
        )

    def mistaken(self, instance: Instance) -> bool:
        """Whether `instance` is the new one in the place of its namesake."""
        return self.namesake is not None and instance.order in (self.namesake.order, LAST)

    def failing(self, cluster: Cluster, group: Group, scope: Sequence[int]) -> Sequence[int]:
        """The nodes whose failure has to be survived when `group` is used.

        `scope` are the nodes over which the allocation's score runs.
        """
        if self.strict:
            return scope
        return [i for i in group.nodes if cluster.nodes[i].online]
