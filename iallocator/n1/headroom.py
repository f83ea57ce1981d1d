"""Headroom: how many more equal instances the nodes accept while N+1 holds.

Counting decides most placements (`iallocator.n1.counting`), and says how many more instances keep
N+1 wherever they are placed.  The placements it leaves undecided are simulated in batches, and what
counting does not know (instances on two nodes) is checked by `iallocator.n1.tolerance`.

Cost: O(n) for a placement of *n* nodes that counting decides, whatever the number of instances.
"""

from __future__ import annotations

from iallocator.model.moves import Move
from iallocator.model.state import derived
from iallocator.n1.counting import GroupChecks, GroupCounting
from iallocator.n1.rules import Rules
from iallocator.n1.slot_counts import ANY_NUMBER
from iallocator.n1.speculation import Speculation
from iallocator.n1.tolerance import FailureCache, FailureTolerance

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import Kept, State
    from iallocator.scoring import Kernels

__all__ = ["CountedTolerance", "FillRules", "Headroom"]


class FillRules(Rules):
    """The rules of N+1 while a cluster is filled with new instances.

    Parameters
    ----------
    mode:
        One of `iallocator.n1.rules.MODES`.
    pairs:
        Whether N+1 is checked for drbd instances. The memory that their secondaries reserve counts
        in any case.
    watched:
        With ``strict``, the nodes that must be able to fail.
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

    def check(self, instance: Instance) -> bool:
        """Return whether N+1 is checked for placements of `instance`."""
        return self.mode != "off" and (self._pairs or instance.required_nodes == 1)

    def failing(self, cluster: Cluster, group: Group, scope: Sequence[int]) -> Sequence[int]:
        """Return the nodes that must be able to fail."""
        return self._watched if self.strict else super().failing(cluster, group, scope)


class Headroom:
    """N+1 while `state` is filled, by the rules of the group that an instance is placed in.

    `rules_of` has the rules by the index of the group.  Each placement must be reported to
    `placed`.  With `every`, N+1 is also checked where `FillRules.check` says no.
    """

    def __init__(self, state: State, kernels: Kernels, rules_of: Mapping[int, FillRules]) -> None:
        self._state = state
        self._kernels = kernels
        self._rules_of = rules_of
        self._scope = range(len(state.cluster.nodes))
        self._counted: dict[FillRules, CountedTolerance] = {}
        self._tolerances: Kept[FillRules, FailureTolerance] = {}
        self._caches: dict[FillRules, FailureCache] = {}

    def allows(self, instance: Instance, nodes: Nodes, every: bool) -> bool:
        """Return whether N+1 holds with `instance` on `nodes`, as far as it is checked."""
        group = self._state.cluster.nodes[nodes[0]].group.index
        if not self._checked(instance, group, every):
            return True
        rules = self._rules_of[group]
        if len(nodes) == 1:
            counted = self._counting(rules)
            allowed = (counted.tolerates if rules.exact else counted.allows)(instance, nodes[0])
            if allowed or (allowed is False and not rules.exact):
                return allowed
        return self._tolerance(rules).allows(Move(instance, (), nodes))

    def rejects(self, instance: Instance, node: int, every: bool) -> bool:
        """Return whether `node` certainly rejects `instance`, and every larger one."""
        group = self._state.cluster.nodes[node].group.index
        if instance.required_nodes > 1 or not self._checked(instance, group, every):
            return False
        rules = self._rules_of[group]
        return rules.strict and self._counting(rules).certainly_lost(instance, node)

    def rejects_pairs(self, instance: Instance, every: bool) -> bool:
        """Return whether every pair of nodes certainly rejects `instance`."""
        return instance.required_nodes > 1 and all(
            self._checked(instance, group, every)
            and self._tolerance(rules).rejects_all(self._state.cluster.groups[group])
            for group, rules in self._rules_of.items()
        )

    def compares_sizes(self, instance: Instance, nodes: Sequence[int], every: bool) -> bool:
        """Return whether `rejected_down` can decide anything for sizes of `instance`."""
        cluster = self._state.cluster
        groups = {cluster.nodes[node].group.index for node in nodes}
        rules = {self._rules_of[group] for group in groups}
        if instance.required_nodes > 1 or len(rules) > 1:
            return False
        strict = all(one.strict for one in rules)
        return strict and all(self._checked(instance, group, every) for group in groups)

    def rejected_down(self, instances: Sequence[Instance], nodes: Sequence[int]) -> int:
        """Return how many of `instances`, from the first, all of `nodes` certainly reject.

        One amount of the instances decreases from one to the next; see `compares_sizes`.
        """
        group = self._state.cluster.nodes[nodes[0]].group.index
        return self._counting(self._rules_of[group]).rejected_down(instances, nodes)

    def prepare(self, instances: Sequence[Instance], every: bool) -> None:
        """Simulate in one batch what `allows` will need for `instances` of one template."""
        if instances[0].required_nodes > 1:
            return
        for group, rules in self._rules_of.items():
            if not rules.exact and self._checked(instances[0], group, every):
                self._counting(rules).prepare(instances)

    def count(self, instance: Instance, groups: Sequence[int]) -> int:
        """Return how many more equal instances keep N+1, wherever in `groups` they are placed."""
        count = ANY_NUMBER
        for rules in dict.fromkeys(self._rules_of[group] for group in groups):
            if rules.check(instance):
                if instance.required_nodes > 1:
                    return 0
                count = min(count, self._counting(rules).count(instance, groups))
        return count

    def speculation(self, instance: Instance, group: int) -> Speculation | None:
        """Return what checks several equal instances in `group` at once; None if nothing can."""
        rules = self._rules_of[group]
        if instance.required_nodes > 1 or not rules.check(instance):
            return None
        speculation = self._counting(rules).speculation(group)
        return speculation if speculation is not None and speculation.suits(instance) else None

    def placed(self, arrivals: Sequence[tuple[Instance, Nodes]]) -> None:
        """Count instances that were placed on their nodes, equal except for names and orders."""
        if any(len(nodes) > 1 for _, nodes in arrivals):
            self._counted.clear()
        for counted in self._counted.values():
            counted.placed(arrivals)

    def _checked(self, instance: Instance, group: int, every: bool) -> bool:
        """Return whether N+1 is checked for `instance` in `group`."""
        rules = self._rules_of[group]
        return rules.check(instance) or (every and rules.mode != "off")

    def _counting(self, rules: FillRules) -> CountedTolerance:
        counted = self._counted.get(rules)
        if counted is None:
            cluster = self._state.cluster
            failing = {i for group in cluster.groups for i in rules.failing(cluster, group, ())}
            counted = CountedTolerance(self._state, rules, failing, self._kernels)
            self._counted[rules] = counted
        return counted

    def _tolerance(self, rules: FillRules) -> FailureTolerance:
        cache = self._caches.setdefault(rules, FailureCache())

        def make() -> FailureTolerance:
            return FailureTolerance(self._state, self._kernels, rules, self._scope, cache=cache)

        return derived(self._tolerances, rules, self._state.version, make)


class CountedTolerance:
    """N+1 of all groups by counting, for instances on one node, by one set of rules.

    `failing` are the nodes that must be able to fail.  Each placement must be reported to
    `placed`.  Undecided failures are simulated with `kernels`; without, they stay undecided.
    """

    def __init__(
        self,
        state: State,
        rules: Rules,
        failing: Collection[int],
        kernels: Kernels | None = None,
    ) -> None:
        self._state = state
        self._rules = rules
        watched = set(failing)
        self._groups = {
            group.index: GroupCounting(state, rules, group, watched)
            for group in state.cluster.groups
        }
        self._checks: dict[int, GroupChecks] = {}
        self._speculations: dict[int, Speculation] = {}
        if kernels is not None:
            self._checks = {
                index: GroupChecks(state, kernels, rules, group)
                for index, group in self._groups.items()
            }

    def count(self, instance: Instance, groups: Sequence[int]) -> int:
        """Return how many more equal instances `groups` certainly take, wherever they go."""
        counts = [
            group.count(instance)
            if index in groups
            else ANY_NUMBER * (group.tolerates_all() is True)
            for index, group in self._groups.items()
        ]
        return min(counts, default=ANY_NUMBER)

    def tolerates(self, instance: Instance, node: int) -> bool | None:
        """Return whether all failures are tolerated with `instance` on `node`; None: undecided."""
        own = self._state.cluster.nodes[node].group.index
        results = [
            group.tolerates(instance, node) if index == own else group.tolerates_all()
            for index, group in self._groups.items()
        ]
        return False if False in results else None if None in results else True

    def allows(self, instance: Instance, node: int) -> bool | None:
        """Return whether the rules allow `instance` on `node`; None: undecided.

        Without ``strict``, only failures of the group that were tolerated before must be tolerated.
        """
        own = self._state.cluster.nodes[node].group.index
        result = self._checks[own].allows(instance, node)
        if self._rules.strict and result is not False:
            others = {one.tolerates_all() for index, one in self._checks.items() if index != own}
            result = False if False in others else None if None in others else result
        return result

    def certainly_lost(self, instance: Instance, node: int) -> bool:
        """Return whether a failure is certainly intolerable with `instance` on `node`.

        It then is with a larger instance as well.
        """
        own = self._state.cluster.nodes[node].group.index
        return any(
            one.certainly_lost(instance, node) if index == own else one.tolerates_all() is False
            for index, one in self._groups.items()
        )

    def rejected_down(self, instances: Sequence[Instance], nodes: Sequence[int]) -> int:
        """Return how many of `instances`, from the first, all of `nodes` certainly reject.

        One amount of the instances decreases from one to the next.
        """
        cluster = self._state.cluster
        if all(self.certainly_lost(instances[-1], node) for node in nodes):
            return len(instances)
        count = len(instances)
        for index, checks in self._checks.items():
            mine = [node for node in nodes if cluster.nodes[node].group.index == index]
            if mine and count:
                count = checks.rejected_down(instances[:count], mine)
        return count

    def prepare(self, instances: Sequence[Instance]) -> None:
        """Simulate in one batch what `allows` will need for each of `instances`."""
        for checks in self._checks.values():
            checks.prepare(instances)

    def speculation(self, group: int) -> Speculation | None:
        """Return what checks several placements in `group` at once; None if nothing can.

        It works with ``strict``, and if all other groups certainly keep N+1.
        """
        others = [one for index, one in self._groups.items() if index != group]
        if not self._rules.strict or not all(other.tolerates_all() for other in others):
            return None
        if group not in self._speculations:
            checks, counting = self._checks[group], self._groups[group]
            self._speculations[group] = Speculation(checks, counting)
        return self._speculations[group]

    def placed(self, arrivals: Sequence[tuple[Instance, Nodes]]) -> None:
        """Count instances that were placed on one node each, equal except for names and orders."""
        nodes = self._state.cluster.nodes
        for index, group in self._groups.items():
            mine = [one for one in arrivals if nodes[one[1][0]].group.index == index]
            if mine:
                group.placed(mine)
