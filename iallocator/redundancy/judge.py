"""Whether a placement keeps the N+1 that is asked for.

Three steps, each only where the one before was not conclusive: the slack of every
node's failure, computed once for all candidates; the cheap test with the
candidate in place; the simulation.
"""

from __future__ import annotations

from iallocator.redundancy.margin import LOST, SAFE, UNKNOWN, demand_of, verdict
from iallocator.redundancy.simulation import Simulation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.redundancy.rules import Rules
    from iallocator.redundancy.simulation import Stranded
    from iallocator.scoring import Kernels

__all__ = ["Judge"]


class Judge:
    """Judges placements of one instance on `state`, which it leaves as it is.

    `scope` are the nodes over which the allocation's score runs.
    """

    def __init__(
        self, state: State, kernels: Kernels, rules: Rules, scope: Sequence[int]
    ) -> None:
        self._state = state
        self._rules = rules
        self._scope = scope
        self._simulation = Simulation(state, kernels, rules, scope)
        self._targets: dict[int, list[int]] = {}
        self._before: dict[int, tuple[int, float]] = {}
        self._survived: dict[int, bool] = {}
        self._watched: dict[int, list[tuple[float, int]]] = {}

    def accepts(self, instance: Instance, nodes: tuple[int, ...]) -> bool:
        """Whether `instance` may be put on `nodes`, primary first."""
        return self._rules.mode == "off" or self._refuter(instance, nodes) is None

    def stranded(self, instance: Instance, nodes: tuple[int, ...]) -> Stranded | None:
        """Which failure this placement makes unsurvivable, and who finds no place."""
        node = None if self._rules.mode == "off" else self._refuter(instance, nodes)
        if node is None:
            return None
        with self._state.trial():
            self._state.place(instance, nodes)
            return self._simulation.fail(node)

    def _refuter(self, instance: Instance, nodes: tuple[int, ...]) -> int | None:
        """A node whose failure could not be survived with the candidate in place."""
        group = self._state.cluster.nodes[nodes[0]].group
        for node in self._critical(group, instance, nodes[0]):
            if self._lost_with(node, instance, nodes) and (
                self._rules.strict or self._survived_before(node)
            ):
                self._watched[group.index].insert(0, (-1, node))
                return node
        return None

    def _critical(self, group: Group, instance: Instance, primary: int) -> list[int]:
        """The nodes whose failure has to be looked at with the candidate in place."""
        watched = self._watched.get(group.index)
        if watched is None:
            watched = self._watched[group.index] = self._watch(group)
        taken = instance.memory if instance.uses_memory else 0
        critical = []
        for slack, node in watched:
            if slack >= taken:
                break
            critical.append(node)
        if primary not in critical:
            critical.append(primary)
        failing = set(self._rules.failing(self._state.cluster, group, self._scope))
        return [node for node in dict.fromkeys(critical) if node in failing]

    def _watch(self, group: Group) -> list[tuple[float, int]]:
        """(slack, node) of every failure to be survived, the most critical first."""
        watched = []
        for node in self._rules.failing(self._state.cluster, group, self._scope):
            kind, slack = self._cheap_before(node)
            if kind == LOST and not self._rules.strict:
                continue
            watched.append((slack if kind == SAFE else -1, node))
        return sorted(watched)

    def _cheap(self, node: int) -> tuple[int, float]:
        group = self._state.cluster.nodes[node].group
        targets = self._targets.get(group.index)
        if targets is None:
            targets = self._rules.targets(self._state.cluster, group)
            self._targets[group.index] = targets
        demand = demand_of(self._state, node, self._rules)
        return verdict(self._state, node, demand, self._rules, targets)

    def _cheap_before(self, node: int) -> tuple[int, float]:
        found = self._before.get(node)
        if found is None:
            found = self._before[node] = self._cheap(node)
        return found

    def _lost_with(self, node: int, instance: Instance, nodes: tuple[int, ...]) -> bool:
        with self._state.trial():
            self._state.place(instance, nodes)
            kind, _ = self._cheap(node)
            return kind == LOST or (
                kind == UNKNOWN and self._simulation.fail(node) is not None
            )

    def _survived_before(self, node: int) -> bool:
        """Whether the failure of `node` could be survived without the candidate."""
        survived = self._survived.get(node)
        if survived is None:
            kind, _ = self._cheap_before(node)
            survived = kind == SAFE or (
                kind == UNKNOWN and self._simulation.fail(node) is None
            )
            self._survived[node] = survived
        return survived
