"""The options of `squeeze`, and the reserve that each online node keeps."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from iallocator.limits.node import ALL_LIMITS, PRIMARY, checks_for
from iallocator.model.columns import CPUS, MEMORY, MEMORY_LATER
from iallocator.model.instance import Backend, Disks, Instance
from iallocator.model.node_view import NodeView, capacities
from iallocator.model.templates import EXT, PLAIN
from iallocator.tolerances import AMOUNT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from iallocator.compat import Behaviour
    from iallocator.model.cluster import Group
    from iallocator.model.policy import Spec
    from iallocator.model.state import State
    from iallocator.options.settings import Settings
    from iallocator.planners.plan_limits import StopCriteria

__all__ = ["ALL", "DRBD", "SHARED", "Headroom", "SqueezeOptions"]


class Headroom:
    """An instance of `factor` times the size of `standard`, fractions left out.

    Its disks are on shared storage, or with `local` on the node itself.
    """

    __slots__ = ("instance",)

    def __init__(self, standard: Spec, factor: float, local: bool = False) -> None:
        disk = int(standard.disk * factor)
        spindles = int(standard.spindles * factor)
        self.instance = Instance(
            "",
            Backend(
                int(standard.memory * factor), int(standard.cpus * factor), spindle_use=spindles
            ),
            Disks(PLAIN if local else EXT, disk, [disk], spindles),
        )

    def lacks(self, state: State, index: int) -> str:
        """Return why the node cannot hold the reserve now; "" if it can.

        If a node already lacks memory for failovers, this alone is no reason.
        """
        node = state.cluster.nodes[index]
        before = NodeView.of(state, index, capacities(node))
        after = before.plus(self.instance.as_primary, before.reserved)
        before.reserved -= 0.5  # just enough: not short
        for check in checks_for(PRIMARY, self.instance, ALL_LIMITS):
            if check.fails(before, after, self.instance):
                return check.numbers(before, after, self.instance)
        return ""

    def slack(self, state: State, index: int) -> tuple[float, float, float]:
        """Return the free MiB now, with all instances running, and cpus beside the reserve.

        Negative where it has less than the reserve.  Moves keep the sums over all nodes.
        """
        node, columns = state.cluster.nodes[index], state.columns
        needed = self.instance.memory + 1
        cpus = node.vcpu_ratio * node.total_cpus - columns[CPUS][index] - self.instance.vcpus
        return columns[MEMORY][index] - needed, columns[MEMORY_LATER][index] - needed, cpus + AMOUNT

    def shortage(self, state: State, scope: Iterable[int]) -> float:
        """Return the total shortage of the online nodes in `scope`: MiB plus virtual cpus."""
        total, nodes = 0.0, state.cluster.nodes
        for index in scope:
            if nodes[index].online:
                memory, later, cpus = self.slack(state, index)
                memory -= state.reserved[index]
                total -= min(memory, 0.0) + min(later, 0.0) + min(cpus, 0.0)
        return total

    def missing(self, state: State, scope: Iterable[int]) -> dict[int, str]:
        """Return the online nodes in `scope` that cannot hold the reserve, and why."""
        nodes = state.cluster.nodes
        lacking = {index: self.lacks(state, index) for index in scope if nodes[index].online}
        return {index: reason for index, reason in lacking.items() if reason}


SHARED, DRBD, ALL = range(3)
"""Instances that may be moved: on shared storage; drbd, too; all that can be moved."""


@dataclass(slots=True)
class SqueezeOptions:
    """The options of `squeeze`.

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
        Name or uuid of the only group to squeeze; "": every group.
    tag_prefix:
        The prefix of this program's own tags.
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

    @property
    def behaviour(self) -> Behaviour:
        """Return the differences between this program and htools."""
        return self.settings.behaviour

    def n1_of(self, group: Group) -> str:
        """Return the mode of global N+1 in `group`."""
        return self.settings.plan_n1(group.index)

    def searches(self, group: Group) -> bool:
        """Return whether exact search may be used in `group`."""
        return self.settings.by_group.get(group.index, self.settings).searches

    def ignores_soft(self, group: Group) -> bool:
        """Return whether soft limits are ignored in `group`."""
        return self.settings.by_group.get(group.index, self.settings).ignore_soft_errors
