"""Global N+1 while a cluster is filled: by counting where it decides, else one failure at a time.

The rules say which failures must be tolerated, and which nodes may be filled.
"""

from __future__ import annotations

from iallocator.n1.headroom import Headroom
from iallocator.n1.rules import Rules
from iallocator.n1.simulation import Simulation
from iallocator.n1.tolerance import FailureTolerance, N1Cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.speculation import Speculation
    from iallocator.scoring import Kernels

__all__ = ["CapacityRules", "FillingSurvival", "failing_nodes", "unhealthy_groups"]

ANY_NUMBER = 1 << 40


class FillingSurvival:
    """Judges new instances on `state` by the rules of the group that they come to.

    `rules_of` holds the rules by the index of the group.  `placed` must hear of each
    instance that has come.
    """

    def __init__(
        self, state: State, kernels: Kernels, rules_of: Mapping[int, CapacityRules]
    ) -> None:
        self._state = state
        self._kernels = kernels
        self._rules_of = rules_of
        self._scope = range(len(state.cluster.nodes))
        self._headroom: dict[CapacityRules, Headroom] = {}
        self._judges: dict[CapacityRules, FailureTolerance] = {}
        self._known: dict[CapacityRules, N1Cache] = {}

    def judges(self, instance: Instance, group: int, every: bool) -> bool:
        """Whether N+1 is asked where `instance` comes to `group`; see `CapacityState.probe`."""
        rules = self._rules_of[group]
        return rules.judges(instance) or (every and rules.mode != "off")

    def accepts(self, instance: Instance, nodes: tuple[int, ...], every: bool) -> bool:
        """Whether `instance` on `nodes` keeps N+1 as far as that is asked."""
        group = self._state.cluster.nodes[nodes[0]].group.index
        if not self.judges(instance, group, every):
            return True
        rules = self._rules_of[group]
        if len(nodes) == 1:
            counting = self._counting(rules)
            judged = counting.accepts if rules.exact else counting.keeps
            verdict = judged(instance, nodes[0])
            if verdict or (verdict is False and not rules.exact):
                return verdict
        return self._judge(rules).accepts(instance, nodes)

    def rejects_pairs(self, instance: Instance, every: bool) -> bool:
        """Whether N+1 certainly rejects `instance` on whatever two nodes."""
        return instance.required_nodes > 1 and all(
            self.judges(instance, group, every)
            and self._judge(rules).lost(self._state.cluster.groups[group])
            for group, rules in self._rules_of.items()
        )

    def rejects(self, instance: Instance, node: int, every: bool) -> bool:
        """Whether N+1 certainly rejects `instance` on `node`, and there all that is larger."""
        group = self._state.cluster.nodes[node].group.index
        if instance.required_nodes > 1 or not self.judges(instance, group, every):
            return False
        rules = self._rules_of[group]
        return rules.strict and self._counting(rules).certainly_lost(instance, node)

    def tells_down(self, instance: Instance, nodes: Sequence[int], every: bool) -> bool:
        """Whether `rejected_down` may tell anything of instances like that."""
        cluster = self._state.cluster
        groups = {cluster.nodes[node].group.index for node in nodes}
        rules = {self._rules_of[group] for group in groups}
        if instance.required_nodes > 1 or len(rules) > 1:
            return False
        strict = all(one.strict for one in rules)
        return strict and all(self.judges(instance, group, every) for group in groups)

    def rejected_down(self, instances: Sequence[Instance], nodes: Sequence[int]) -> int:
        """How many of `instances`, from the first on, N+1 certainly rejects on all of `nodes`.

        They are ever smaller in one amount; see `tells_down`.
        """
        group = self._state.cluster.nodes[nodes[0]].group.index
        return self._counting(self._rules_of[group]).rejected_down(instances, nodes)

    def foresee(self, instances: Sequence[Instance], every: bool) -> None:
        """Prepare to be asked for each of these, which are of one kind, the state as it is."""
        if instances[0].required_nodes > 1:
            return
        for group, rules in self._rules_of.items():
            if not rules.exact and self.judges(instances[0], group, every):
                self._counting(rules).foresee(instances)

    def certain(self, instance: Instance, groups: Sequence[int]) -> int:
        """How many more like `instance` certainly keep N+1, wherever in `groups` they come to."""
        found = ANY_NUMBER
        for rules in dict.fromkeys(self._rules_of[group] for group in groups):
            if rules.judges(instance):
                if instance.required_nodes > 1:
                    return 0
                found = min(found, self._counting(rules).count(instance, groups))
        return found

    def speculation(self, instance: Instance, group: int) -> Speculation | None:
        """What judges several more like `instance` in `group` at once, if there is anything."""
        rules = self._rules_of[group]
        if instance.required_nodes > 1 or not rules.judges(instance):
            return None
        found = self._counting(rules).speculation(group)
        return found if found is not None and found.judges(instance) else None

    def placed(self, arrivals: Sequence[tuple[Instance, Nodes]]) -> None:
        """Each instance has come to its nodes; they differ in name and order only."""
        self._judges.clear()
        if any(len(nodes) > 1 for _, nodes in arrivals):
            self._headroom.clear()
        for headroom in self._headroom.values():
            headroom.placed(arrivals)

    def _counting(self, rules: CapacityRules) -> Headroom:
        found = self._headroom.get(rules)
        if found is None:
            cluster = self._state.cluster
            failing = {i for group in cluster.groups for i in rules.failing(cluster, group, ())}
            found = self._headroom[rules] = Headroom(self._state, rules, failing, self._kernels)
        return found

    def _judge(self, rules: CapacityRules) -> FailureTolerance:
        found = self._judges.get(rules)
        if found is None:
            known = self._known.setdefault(rules, N1Cache())
            found = self._judges[rules] = FailureTolerance(
                self._state, self._kernels, rules, self._scope, remembered=known
            )
        return found


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
