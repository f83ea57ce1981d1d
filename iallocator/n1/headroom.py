"""Counting for instances on one node, in all groups at once: which placements keep N+1.

Counting decides most placements (`iallocator.n1.counting`), and says how many more instances keep
N+1 wherever they are placed.  The placements it leaves undecided are simulated in batches.

Cost: O(n) for a placement of *n* nodes that counting decides, whatever the number of instances.
"""

from __future__ import annotations

from iallocator.n1.counting import GroupChecks, GroupCounting
from iallocator.n1.slot_counts import ANY_NUMBER
from iallocator.n1.speculation import Speculation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.rules import Failure, Rules
    from iallocator.scoring import Kernels

__all__ = ["CountedTolerance"]


class CountedTolerance:
    """N+1 of all groups by counting, for instances on one node, by one set of rules.

    `failing` are the failures that must be tolerated.  Each placement must be reported to
    `placed`.  Undecided failures are simulated with `kernels`; without, they stay undecided.
    """

    def __init__(
        self,
        state: State,
        rules: Rules,
        failing: Collection[Failure],
        kernels: Kernels | None = None,
    ) -> None:
        self._state = state
        self._rules = rules
        self._groups = {
            group.index: GroupCounting(state, rules, group, failing)
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
