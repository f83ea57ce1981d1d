"""The options of `squeeze`, and the reserve that each online node keeps."""

from __future__ import annotations

from iallocator.light import ValueObject
from iallocator.limits.node import ALL_LIMITS, PRIMARY, checks_for
from iallocator.model.columns import CPUS, MEMORY, MEMORY_LATER
from iallocator.model.instance import Backend, Disks, Instance
from iallocator.model.node_view import NodeView, capacities
from iallocator.model.templates import EXT, PLAIN
from iallocator.tolerances import AMOUNT_TOLERANCE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from iallocator.compat import Behaviour
    from iallocator.model.cluster import Group
    from iallocator.model.policy import Spec
    from iallocator.model.state import State
    from iallocator.options.settings import Settings
    from iallocator.planners.plan_limits import StopCriteria

__all__ = ["MOVE_ALL", "MOVE_DRBD", "MOVE_SHARED", "Headroom", "SqueezeOptions"]


class Headroom:
    """The reserve of a node: one instance for which the node must have free capacity.

    The instance has `factor` times the size `standard`, rounded down. Its disks are on shared
    storage; with `local`, they are on the node.
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
        """Return the limit that prevents the reserve on node `index` in `state`; "" if none does.

        The limits are those of a primary instance. A lack of memory for failovers is no reason if
        the node has it already without the reserve.
        """
        node = state.cluster.nodes[index]
        before = NodeView.of(state, index, capacities(node))
        after = before.plus(self.instance.as_primary, before.reserved)
        for check in checks_for(PRIMARY, self.instance, ALL_LIMITS):
            if check.fails(before, after, self.instance):
                return check.numbers(before, after, self.instance)
        return ""

    def slack(self, state: State, index: int) -> tuple[float, float, float]:
        """Return the free capacity of node `index` without the reserve: three amounts.

        They are the MiB of memory now, the MiB with all instances running, and virtual cpus. An
        amount is negative if the node has less than the reserve.  Moves between nodes do not change
        the sum of an amount over all nodes.
        """
        node, columns = state.cluster.nodes[index], state.columns
        needed = self.instance.memory + 1
        cpus = node.vcpu_ratio * node.total_cpus - columns[CPUS][index] - self.instance.vcpus
        return (
            columns[MEMORY][index] - needed,
            columns[MEMORY_LATER][index] - needed,
            cpus + AMOUNT_TOLERANCE,
        )

    def shortage(self, state: State, scope: Iterable[int]) -> float:
        """Return the sum of the amounts that the online nodes of `scope` lack of the reserve.

        The sum adds MiB of memory and virtual cpus. It is 0 or more.
        """
        total, nodes = 0.0, state.cluster.nodes
        for index in scope:
            if nodes[index].online:
                memory, later, cpus = self.slack(state, index)
                memory -= state.reserved[index]
                total -= min(memory, 0.0) + min(later, 0.0) + min(cpus, 0.0)
        return total

    def missing(self, state: State, scope: Iterable[int]) -> dict[int, str]:
        """Return node -> why the node lacks the reserve, for online nodes of `scope` without it."""
        nodes = state.cluster.nodes
        lacking = {index: self.lacks(state, index) for index in scope if nodes[index].online}
        return {index: reason for index, reason in lacking.items() if reason}


MOVE_SHARED, MOVE_DRBD, MOVE_ALL = range(3)
"""The instances that may be moved.

`MOVE_SHARED`: instances on shared storage. `MOVE_DRBD`: also drbd instances. `MOVE_ALL`: all
instances that can be moved, also those that are not auto-balanced.
"""


class SqueezeOptions(ValueObject):
    """The options of `squeeze`.

    Attributes
    ----------
    limits:
        When balancing stops, and when the run ends.
    settings:
        The settings for global N+1, soft limits and exact search, including those of groups that
        have their own tags.
    target:
        The reserve of every online node after nodes are powered down, in standard instances.
    minimal:
        The reserve of every online node, in standard instances, below which further nodes are
        powered on.  It should not exceed `target`.
    masters:
        Names of the master nodes, which stay online. Usually, there is one; none if it is unknown.
    prefer, avoid:
        Names of the nodes to switch first, and of those to switch last.
    kinds:
        The instances that may be moved: `MOVE_SHARED`, `MOVE_DRBD` or `MOVE_ALL`.
    group:
        Name or uuid of the only group to squeeze; "": every group.
    tag_prefix:
        The prefix of the tags of this program.
    """

    limits: StopCriteria
    settings: Settings
    target: float = 2.0
    minimal: float = 2.0
    masters: Collection[str] = ()
    prefer: Collection[str] = ()
    avoid: Collection[str] = ()
    kinds: int = MOVE_SHARED
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
