"""The twenty statistics of the cluster score, in one table.

Source: the arithmetic of Ganeti's allocation tools.  A lower score is better;
every statistic is 0 for an evenly used, conflict-free cluster.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from iallocator.model.node_view import NodeView, Quantity

__all__ = ["STATISTICS", "Statistic"]


class Statistic:
    """One term of the score.

    Attributes
    ----------
    value:
        The quantity of a node, from its `NodeView`.
    spread:
        True: the population standard deviation over the nodes; False: their sum.
    offline:
        True: over the nodes that are not online; False: over those that are.
    disk:
        Whether it is about internal storage: nodes without any are balanced, so it runs
        over the others only.
    weight:
        Its factor in the score.
    """

    __slots__ = ("disk", "name", "offline", "spread", "value", "weight")

    def __init__(
        self,
        name: str,
        weight: float,
        value: Callable[[NodeView], Quantity],
        *,
        spread: bool = True,
        offline: bool = False,
        disk: bool = False,
    ) -> None:
        self.name = name
        self.weight = weight
        self.value = value
        self.spread = spread
        self.offline = offline
        self.disk = disk


def _instances(n: NodeView) -> Quantity:
    return n.primaries + n.secondaries


STATISTICS = (
    Statistic("free_mem", 0.5, lambda n: n.memory * n.per_memory),
    Statistic(
        "free_disk",
        0.5,
        lambda n: n.disk * n.per_disk + n.free_spindles * n.per_own_spindle + n.no_disk,
        disk=True,
    ),
    Statistic("n1_cnt", 1, lambda n: _instances(n) * n.fails_n1, spread=False),
    Statistic("reserved_mem", 1, lambda n: n.reserved * n.per_memory),
    Statistic("offline_all", 4, _instances, spread=False, offline=True),
    Statistic("offline_pri", 16, lambda n: n.primaries, spread=False, offline=True),
    Statistic("vcpu_ratio", 0.5, lambda n: n.cpus * n.per_cpu * n.per_speed),
    Statistic("cpu_load", 1, lambda n: n.cpu_load),
    Statistic("mem_load", 1, lambda n: n.memory_load),
    Statistic("disk_load", 1, lambda n: n.disk_load),
    Statistic("net_load", 1, lambda n: n.net_load),
    Statistic("pri_tags", 2, lambda n: n.conflicts, spread=False),
    Statistic("spindles", 0.5, lambda n: n.spindles * n.per_spindle, disk=True),
    Statistic("free_mem_forth", 0.5, lambda n: n.memory_later * n.per_memory),
    Statistic(
        "free_disk_forth",
        0.5,
        lambda n: n.disk_later * n.per_disk + n.free_spindles_later * n.per_own_spindle + n.no_disk,
        disk=True,
    ),
    Statistic("vcpu_ratio_forth", 0.5, lambda n: n.cpus_later * n.per_cpu * n.per_speed),
    Statistic("spindles_forth", 0.5, lambda n: n.spindles_later * n.per_spindle, disk=True),
    Statistic("location", 1, lambda n: n.misplaced, spread=False),
    Statistic("location_exclusion", 1, lambda n: n.domain_conflicts, spread=False),
    Statistic("reserved_mem_total", 0.25, lambda n: n.reserved * n.per_memory, spread=False),
)
"""In the order in which they are listed and explained."""
