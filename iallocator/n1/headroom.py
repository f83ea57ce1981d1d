"""Headroom: how many more equal instances the nodes can take while N+1 holds."""

from __future__ import annotations

from iallocator.n1.counting import GroupHeadroom, Trials
from iallocator.n1.slot_counts import ANY_NUMBER
from iallocator.n1.speculation import Speculation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.rules import Rules
    from iallocator.scoring import Kernels

__all__ = ["Headroom"]


class Headroom:
    """Judges placements of instances on one node on `state`, which may go on changing.

    `failing` are the nodes whose failure has to be survived.  `placed` must hear of each
    instance that comes.  Failures in doubt are played through with `kernels`; without,
    they stay in doubt.
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
            group.index: GroupHeadroom(state, rules, group, watched)
            for group in state.cluster.groups
        }
        self._trials: dict[int, Trials] = {}
        self._speculations: dict[int, Speculation] = {}
        if kernels is not None:
            self._trials = {
                index: Trials(state, kernels, rules, group) for index, group in self._groups.items()
            }

    def count(self, instance: Instance, groups: Sequence[int]) -> int:
        """How many more like `instance` may come to any nodes of `groups`, for certain."""
        counts = [
            group.count(instance) if index in groups else ANY_NUMBER * (group.healthy() is True)
            for index, group in self._groups.items()
        ]
        return min(counts, default=ANY_NUMBER)

    def accepts(self, instance: Instance, node: int) -> bool | None:
        """Whether `instance` on `node` keeps N+1; None: counting does not tell."""
        own = self._state.cluster.nodes[node].group.index
        verdicts = [
            group.accepts(instance, node) if index == own else group.healthy()
            for index, group in self._groups.items()
        ]
        return False if False in verdicts else None if None in verdicts else True

    def keeps(self, instance: Instance, node: int) -> bool | None:
        """Whether `instance` may come to `node` by the rules; None: it cannot be told here.

        Without ``strict``, only what was survived before has to be, and in its group.
        """
        own = self._state.cluster.nodes[node].group.index
        verdict = self._trials[own].keeps(instance, node)
        if self._rules.strict and verdict is not False:
            others = {one.sound() for index, one in self._trials.items() if index != own}
            verdict = False if False in others else None if None in others else verdict
        return verdict

    def certainly_lost(self, instance: Instance, node: int) -> bool:
        """Whether a failure is lost for certain with `instance`, or a larger one, on `node`."""
        own = self._state.cluster.nodes[node].group.index
        return any(
            one.certainly_lost(instance, node) if index == own else one.healthy() is False
            for index, one in self._groups.items()
        )

    def rejected_down(self, instances: Sequence[Instance], nodes: Sequence[int]) -> int:
        """How many of `instances`, from the first on, are rejected on all of `nodes` for certain.

        They are ever smaller in one amount.
        """
        cluster = self._state.cluster
        if all(self.certainly_lost(instances[-1], node) for node in nodes):
            return len(instances)
        found = len(instances)
        for index, trials in self._trials.items():
            mine = [node for node in nodes if cluster.nodes[node].group.index == index]
            if mine and found:
                found = trials.rejected_down(instances[:found], mine)
        return found

    def foresee(self, instances: Sequence[Instance]) -> None:
        """Prepare to be asked where each of `instances` may come, the state as it is."""
        for trials in self._trials.values():
            trials.foresee(instances)

    def speculation(self, group: int) -> Speculation | None:
        """What judges several placements in `group` at once; None where this cannot be told.

        Only with ``strict``, and only if all other groups keep N+1 for certain.
        """
        others = [one for index, one in self._groups.items() if index != group]
        if not self._rules.strict or not all(other.healthy() for other in others):
            return None
        if group not in self._speculations:
            trials, counting = self._trials[group], self._groups[group]
            self._speculations[group] = Speculation(trials, counting)
        return self._speculations[group]

    def placed(self, arrivals: Sequence[tuple[Instance, Nodes]]) -> None:
        """Each instance has come to its node; they differ in name and order only."""
        nodes = self._state.cluster.nodes
        for index, group in self._groups.items():
            mine = [one for one in arrivals if nodes[one[1][0]].group.index == index]
            if mine:
                group.placed_alike(mine)
