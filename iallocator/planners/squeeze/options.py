"""What is wanted of a squeezing."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from iallocator.planners.survival import mode_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from iallocator.compat import Behaviour
    from iallocator.deadline import Deadline
    from iallocator.model.cluster import Group
    from iallocator.options.settings import Settings
    from iallocator.planners.stop_criteria import StopCriteria

__all__ = ["ALL", "DRBD", "SHARED", "SqueezeOptions"]

SHARED, DRBD, ALL = range(3)
"""Which instances may be taken along: on shared storage; drbd ones, too; every movable one."""


@dataclass(slots=True)
class SqueezeOptions:
    """What is wanted of a squeezing.

    Attributes
    ----------
    target, minimal:
        The reserve of every online node in standard instances: after nodes were powered
        down; below which others are powered on.  The target should not be less.
    master:
        Name of the master node, which stays; "" if it is not known.
    prefer, avoid:
        Names of the nodes to take first, and last.
    kinds:
        `SHARED`, `DRBD` or `ALL`.
    group:
        Name or uuid of the only group to look at; "": every group.
    tag_prefix:
        What this program's own tags begin with.
    deadline:
        Ends everything when time is up.
    settings:
        The settings for global N+1, soft limits and exact search, with those of groups that
        have tags of their own.
    """

    limits: StopCriteria
    settings: Settings
    _: KW_ONLY
    target: float = 2.0
    minimal: float = 2.0
    master: str = ""
    prefer: Collection[str] = ()
    avoid: Collection[str] = ()
    kinds: int = SHARED
    group: str = ""
    tag_prefix: str = "iallocator:"
    deadline: Deadline | None = None

    @property
    def behaviour(self) -> Behaviour:
        """Where the planners of other programs differ."""
        return self.settings.behaviour

    def n1_of(self, group: Group) -> str:
        """How global N+1 is judged in `group`."""
        return mode_of(self.settings, group)

    def searches(self, group: Group) -> bool:
        """Return whether exact search may be used in `group`."""
        return self.settings.by_group.get(group.index, self.settings).searches

    def ignores_soft(self, group: Group) -> bool:
        """Whether soft limits do not count in `group`."""
        return self.settings.by_group.get(group.index, self.settings).ignore_soft_errors
