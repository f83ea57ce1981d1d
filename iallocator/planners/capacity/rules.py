"""Which failures must be survivable while a cluster is filled, and where it may be filled."""

from __future__ import annotations

from iallocator.n1.rules import Rules
from iallocator.n1.simulation import Simulation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.scoring import Kernels

__all__ = ["CapacityRules", "failing_nodes", "unhealthy_groups"]


class CapacityRules(Rules):
    """The rules of one filling.

    Parameters
    ----------
    mode:
        One of `iallocator.n1.rules.MODES`.
    pairs:
        Whether global N+1 is asked of drbd instances, too; the memory that their
        secondaries reserve counts in any case.
    watched:
        With ``strict``, the nodes whose failure has to be survived.
    units:
        As in `iallocator.n1.rules.Rules`.
    """

    __slots__ = ("_pairs", "_watched")

    def __init__(
        self,
        mode: str,
        pairs: bool,
        watched: Sequence[int],
        units: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        super().__init__(mode, units)
        self._pairs = pairs
        self._watched = watched

    def judges(self, instance: Instance) -> bool:
        """Whether placements of `instance` are judged at all."""
        return self.mode != "off" and (self._pairs or instance.required_nodes == 1)

    def failing(self, cluster: Cluster, group: Group, scope: Sequence[int]) -> Sequence[int]:
        """The nodes whose failure has to be survived."""
        return self._watched if self.strict else super().failing(cluster, group, scope)


def failing_nodes(state: State) -> list[int]:
    """The nodes that cannot take over the instances of their worst peer, as they report it."""
    return [
        node.index
        for node in state.cluster.nodes
        if node.online and node.reported_memory < state.reserved[node.index]
    ]


def unhealthy_groups(
    state: State, kernels: Kernels, units: Mapping[str, Sequence[str]] | None = None
) -> Collection[int]:
    """The indices of groups that are not N+1: by a node's memory, or by a failure not survived."""
    cluster = state.cluster
    found = {cluster.nodes[index].group.index for index in failing_nodes(state)}
    rules = Rules("strict", units)
    for group in cluster.groups:
        simulation = Simulation(state, kernels, rules, group.nodes)
        if group.index not in found and simulation.lost(group.nodes):
            found.add(group.index)
    return found
