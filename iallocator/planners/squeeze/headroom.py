"""The reserve: one more instance that every online node of a cluster must be able to take."""

from __future__ import annotations

from iallocator.limits.node import ALL_LIMITS, PRIMARY, checks_for
from iallocator.model.columns import CPUS, MEMORY, MEMORY_LATER
from iallocator.model.instance import Backend, Disks, Instance
from iallocator.model.node_view import NodeView, capacities
from iallocator.tolerances import AMOUNT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from iallocator.model.policy import Spec
    from iallocator.model.state import State

__all__ = ["Headroom"]


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
            Disks("plain" if local else "ext", disk, [disk], spindles),
        )

    def lacks(self, state: State, index: int) -> str:
        """Why the node cannot take it, as things are; "" if it can.

        A node that is short of memory for failovers already is not judged by that.
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
        """What a node would have left: MiB of memory, now and with all its instances; cpus.

        Negative where it has less than the reserve.  Moves keep the sums over all nodes.
        """
        node, columns = state.cluster.nodes[index], state.columns
        wanted = self.instance.memory + 1
        cpus = node.vcpu_ratio * node.total_cpus - columns[CPUS][index] - self.instance.vcpus
        return columns[MEMORY][index] - wanted, columns[MEMORY_LATER][index] - wanted, cpus + AMOUNT

    def shortage(self, state: State, scope: Iterable[int]) -> float:
        """How much the online nodes in `scope` lack in all, in MiB of memory and virtual cpus."""
        total, nodes = 0.0, state.cluster.nodes
        for index in scope:
            if nodes[index].online:
                memory, later, cpus = self.slack(state, index)
                memory -= state.reserved[index]
                total -= min(memory, 0.0) + min(later, 0.0) + min(cpus, 0.0)
        return total

    def missing(self, state: State, scope: Iterable[int]) -> dict[int, str]:
        """The online nodes in `scope` that cannot take it, and why."""
        nodes = state.cluster.nodes
        found = {index: self.lacks(state, index) for index in scope if nodes[index].online}
        return {index: reason for index, reason in found.items() if reason}
