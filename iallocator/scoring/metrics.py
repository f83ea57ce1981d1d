"""The twenty statistics of the cluster score, in one table.

Source: the arithmetic of Ganeti's allocation tools.  A lower score is better;
every statistic is 0 for an evenly used, conflict-free cluster.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from iallocator.model.node_view import NodeView, Quantity

__all__ = [
    "DOMAINS", "LOCATION", "N1_COUNT", "RESERVED", "RESERVED_TOTAL", "RESERVING", "STATISTICS",
    "Statistic",
]  # fmt: skip


class Statistic:
    """One term of the score.

    Attributes
    ----------
    name:
        The name of the statistic in Ganeti's terms.
    weight:
        Its factor in the score.
    value:
        The quantity of a node, as a formula over its `NodeView`. It is a sum of products of one
        column (`iallocator.model.columns`) and any number of capacities, so that an instance
        changes it by the same amount each time. Only the statistics of this table that exist may
        read `reserved`, `fails_n1`, `misplaced` and `domain_conflicts`.
    more:
        What makes the statistic, and so the score, larger: a clause for tables and pages.
    less:
        What has improved if it is smaller.
    spread:
        True: the population standard deviation over the nodes; False: their sum.
    offline:
        True: over the nodes that are not online; False: over those that are.
    disk:
        Whether only nodes that may have storage of their own count.
    reads:
        The attributes of a `NodeView` that `value` depends on.
    """

    __slots__ = ("disk", "less", "more", "name", "offline", "reads", "spread", "value", "weight")

    def __init__(
        self,
        name: str,
        weight: float,
        value: Callable[[NodeView], Quantity],
        more: str,
        less: str,
        *,
        spread: bool = True,
        offline: bool = False,
        disk: bool = False,
    ) -> None:
        self.name = name
        self.weight = weight
        self.value = value
        self.more = more
        self.less = less
        self.spread = spread
        self.offline = offline
        self.disk = disk
        noted = _Noted()
        value(noted)  # type: ignore[arg-type]
        self.reads = frozenset(noted.read)


class _Noted:
    """Stands for a `NodeView`, and notes which attributes a formula reads."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def __getattr__(self, name: str) -> float:
        self.read.append(name)
        return 1.0


def _instances(n: NodeView) -> Quantity:
    return n.primaries + n.secondaries


STATISTICS = (
    Statistic(
        "free_mem", 0.5, lambda n: n.memory * n.per_memory,
        "free memory differs between nodes",
        "free memory more even",
    ),
    Statistic(
        "free_disk", 0.5,
        lambda n: n.disk * n.per_disk + n.free_spindles * n.per_own_spindle + n.no_disk,
        "free disk differs between nodes",
        "free disk more even",
        disk=True,
    ),
    Statistic(
        "n1_cnt", 1, lambda n: _instances(n) * n.fails_n1,
        "instances on nodes that fail N+1",
        "fewer instances on nodes that fail N+1",
        spread=False,
    ),
    Statistic(
        "reserved_mem", 1, lambda n: n.reserved * n.per_memory,
        "memory reserved for failovers differs between nodes",
        "memory reserved for failovers more even",
    ),
    Statistic(
        "offline_all", 4, _instances,
        "instances on nodes that are not online",
        "fewer instances on nodes that are not online",
        spread=False, offline=True,
    ),
    Statistic(
        "offline_pri", 16, lambda n: n.primaries,
        "primaries on nodes that are not online",
        "fewer primaries on nodes that are not online",
        spread=False, offline=True,
    ),
    Statistic(
        "vcpu_ratio", 0.5, lambda n: n.cpus * n.per_cpu * n.per_speed,
        "virtual cpus per cpu differ between nodes",
        "virtual cpus more even",
    ),
    Statistic(
        "cpu_load", 1, lambda n: n.cpu_load,
        "cpu load differs between nodes",
        "cpu load more even",
    ),
    Statistic(
        "mem_load", 1, lambda n: n.memory_load,
        "memory load differs between nodes",
        "memory load more even",
    ),
    Statistic(
        "disk_load", 1, lambda n: n.disk_load,
        "disk load differs between nodes",
        "disk load more even",
    ),
    Statistic(
        "net_load", 1, lambda n: n.net_load,
        "network load differs between nodes",
        "network load more even",
    ),
    Statistic(
        "pri_tags", 2, lambda n: n.conflicts,
        "primaries with the same exclusion tag on one node",
        "fewer exclusion tags twice on one node",
        spread=False,
    ),
    Statistic(
        "spindles", 0.5, lambda n: n.spindles * n.per_spindle,
        "spindles in use differ between nodes",
        "spindles more even",
        disk=True,
    ),
    Statistic(
        "free_mem_forth", 0.5, lambda n: n.memory_later * n.per_memory,
        "free memory differs, forthcoming instances counted",
        "free memory more even once forthcoming instances exist",
    ),
    Statistic(
        "free_disk_forth", 0.5,
        lambda n: (
            n.disk_later * n.per_disk + n.free_spindles_later * n.per_own_spindle + n.no_disk
        ),
        "free disk differs, forthcoming instances counted",
        "free disk more even once forthcoming instances exist",
        disk=True,
    ),
    Statistic(
        "vcpu_ratio_forth", 0.5, lambda n: n.cpus_later * n.per_cpu * n.per_speed,
        "virtual cpus per cpu differ, forthcoming instances counted",
        "virtual cpus more even once forthcoming instances exist",
    ),
    Statistic(
        "spindles_forth", 0.5, lambda n: n.spindles_later * n.per_spindle,
        "spindles in use differ, forthcoming instances counted",
        "spindles more even once forthcoming instances exist",
        disk=True,
    ),
    Statistic(
        "location", 1, lambda n: n.misplaced,
        "failure domains shared with the secondary, desired locations missed",
        "fewer shared failure domains",
        spread=False,
    ),
    Statistic(
        "location_exclusion", 1, lambda n: n.domain_conflicts,
        "same exclusion tag twice in one failure domain",
        "fewer exclusion tags twice in one failure domain",
        spread=False,
    ),
    Statistic(
        "reserved_mem_total", 0.25, lambda n: n.reserved * n.per_memory,
        "memory reserved for failovers in all",
        "less memory reserved for failovers",
        spread=False,
    ),
)  # fmt: skip
"""In the order in which they are listed and explained."""


def _reading(name: str) -> list[int]:
    """Return the positions of the statistics that read an attribute of a node."""
    return [k for k, statistic in enumerate(STATISTICS) if name in statistic.reads]


(LOCATION,), (DOMAINS,) = _reading("misplaced"), _reading("domain_conflicts")
"""Positions of the statistics that depend on more than one node."""

(N1_COUNT,) = _reading("fails_n1")
"""Position of the statistic of nodes that could not take over the instances of a peer."""

RESERVED, RESERVED_TOTAL = _reading("reserved")
"""Positions of the deviation and of the sum of the memory reserved on nodes."""

RESERVING = (N1_COUNT, RESERVED, RESERVED_TOTAL)
"""Positions of the statistics that change with the memory reserved on a node."""
