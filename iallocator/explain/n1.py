"""What global N+1 refused, and which failure stood in the way."""

from __future__ import annotations

from iallocator.explain.facts import Unsurvived
from iallocator.n1.check import N1Check
from iallocator.n1.simulation import Simulation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.rules import Rules
    from iallocator.scoring import Kernels

__all__ = ["RecordingN1Check"]

SHOWN = 3
"""How many refused placements are explained."""


class RecordingN1Check(N1Check):
    """A judge that remembers what it refused."""

    def __init__(self, state: State, kernels: Kernels, rules: Rules, scope: Sequence[int]) -> None:
        super().__init__(state, kernels, rules, scope)
        self._cluster = state.cluster
        self._replay = Simulation(state, kernels, rules, scope)
        self._verdicts: dict[tuple[int, ...], bool] = {}

    def accepts(self, instance: Instance, nodes: tuple[int, ...]) -> bool:
        """As `N1Check.accepts`; every placement is judged once."""
        verdict = self._verdicts.get(nodes)
        if verdict is None:
            verdict = self._verdicts[nodes] = super().accepts(instance, nodes)
        return verdict

    def refused_in(self, group: Group) -> list[tuple[int, ...]]:
        """The placements in `group` that it refused so far."""
        return [
            nodes
            for nodes, accepted in self._verdicts.items()
            if not accepted and self._cluster.nodes[nodes[0]].group is group
        ]

    def obstacles(
        self, instance: Instance, group: Group, score: Callable[[tuple[int, ...]], float]
    ) -> list[Unsurvived]:
        """What stood in the way of the best placements in `group` that it refused."""
        scored = sorted((score(nodes), nodes) for nodes in self.refused_in(group))[:SHOWN]
        found = [self._unsurvived(instance, value, nodes) for value, nodes in scored]
        return [one for one in found if one is not None]

    def _unsurvived(
        self, instance: Instance, score: float, nodes: tuple[int, ...]
    ) -> Unsurvived | None:
        stranded = self.stranded(instance, nodes)
        if stranded is None:
            return None
        return Unsurvived(
            self._cluster.node_names(nodes),
            score,
            self._cluster.nodes[stranded.node].name,
            stranded.instance.name,
            stranded.instance.memory,
            stranded.why,
            self._replay.fail(stranded.node) is not None,
        )
