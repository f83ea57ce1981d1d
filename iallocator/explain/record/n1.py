"""What global N+1 refused, and which failure stood in the way."""

from __future__ import annotations

from iallocator.explain.facts import Unsurvived
from iallocator.n1.check import N1Check
from iallocator.n1.effort import UndecidedError
from iallocator.n1.simulation import Simulation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.rules import Rules
    from iallocator.n1.simulation import UnsurvivedFailure
    from iallocator.scoring import Kernels

__all__ = ["RecordingN1Check"]

SHOWN = 3
"""How many refused placements are explained."""


class RecordingN1Check(N1Check):
    """A check that remembers what it refused."""

    def __init__(self, state: State, kernels: Kernels, rules: Rules, *more: Any) -> None:
        super().__init__(state, kernels, rules, *more)
        self._cluster = state.cluster
        self._replay = Simulation(state, kernels, rules, more[0])
        self._verdicts: dict[tuple[str, tuple[int, ...]], bool] = {}

    def accepts(self, instance: Instance, nodes: tuple[int, ...]) -> bool:
        """As `N1Check.accepts`; every placement is judged once."""
        key = instance.name, nodes
        verdict = self._verdicts.get(key)
        if verdict is None:
            verdict = self._verdicts[key] = super().accepts(instance, nodes)
        return verdict

    def refused(self, instance: Instance) -> set[tuple[int, ...]]:
        """The placements of `instance` that were refused so far."""
        return {
            nodes
            for (name, nodes), accepted in self._verdicts.items()
            if not accepted and name == instance.name
        }

    def obstacles(
        self, instance: Instance, group: Group, score: Callable[[tuple[int, ...]], float]
    ) -> list[Unsurvived]:
        """What stood in the way of the best placements in `group` that it refused."""
        refused = [n for n in self.refused(instance) if self._cluster.nodes[n[0]].group is group]
        scored = sorted((score(nodes), nodes) for nodes in refused)[:SHOWN]
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
            self._lost_already(stranded),
        )

    def _lost_already(self, stranded: UnsurvivedFailure) -> bool:
        """Whether the same instance finds no place as things are."""
        name = stranded.instance.name
        try:
            return any(one.instance.name == name for one in self._replay.all_lost(stranded.node))
        except UndecidedError:
            return False
