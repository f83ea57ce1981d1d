"""Counting for instances on one node, in all groups at once: which placements keep N+1.

Counting decides most placements (`iallocator.n1.counting`), and says how many more instances keep
N+1 wherever they are placed.  The placements it leaves undecided are simulated in batches.

Several placements of equal instances, one after the other, are checked at once by speculation.  The
next nodes are predicted: each instance is expected on the best node that is not known to reject it.
All failures that counting leaves undecided are simulated together, which takes little longer than
one of them.  The first wrong prediction ends the accepted sequence, and is remembered.

Cost: O(n) for a placement of *n* nodes that counting decides, whatever the number of instances.
"""

from __future__ import annotations

from iallocator.n1.counting import GroupChecks, GroupCounting
from iallocator.n1.slot_counts import ANY_NUMBER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.batched_simulation import Arrivals
    from iallocator.n1.counting import Undecided
    from iallocator.n1.queues import Queue
    from iallocator.n1.rules import Failure, Rules
    from iallocator.scoring import Kernels

__all__ = ["CountedTolerance", "Speculation"]


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


RECENT = 16
"""The number of failures that rejected an instance and are simulated first."""


AT_ONCE = 160
"""So many failures take at most twice as long to simulate as a few."""


class _Prediction:
    """A failure that must be simulated, and the expected result.

    Attributes
    ----------
    undecided, coming:
        See `GroupChecks.lost`.
    node:
        The node of the last instance of `coming`.
    rejected:
        Whether the failure is expected to reject it.
    """

    __slots__ = ("coming", "node", "rejected", "undecided")

    def __init__(self, undecided: Undecided, coming: Arrivals, rejected: bool) -> None:
        self.undecided = undecided
        self.coming = coming
        self.node = coming[1][-1]
        self.rejected = rejected


class Speculation:
    """Checks of several placements in the group of `counting`, with ``strict``.

    Between `start` and `end`, around a trial of the state, call `expect` and `placed` in turn.
    `confirmed` then returns how many of the placements hold.
    """

    def __init__(self, checks: GroupChecks, counting: GroupCounting) -> None:
        self._checks = checks
        self._counting = counting
        self._predictions: list[list[_Prediction]] = []
        self._path: tuple[int, ...] = ()
        self._queues: dict[int, Queue] = {}
        self._recent: list[int] = []  # failures that showed a prediction to be wrong, the last ones
        self._wrong: _Prediction | None = None  # the one that ended what is believed

    def suits(self, instance: Instance) -> bool:
        """Return whether `instance` can be checked here."""
        counting = self._counting
        return not counting.intricate and self._checks.plain and counting.counts(instance)

    def rejected(self) -> Collection[int]:
        """Return the nodes that reject every instance, as far as is known."""
        return self._checks.refuters.keys()

    def start(self) -> None:
        """Forget all predictions."""
        self._predictions = []
        self._path = ()
        self._queues = {}

    def expect(self, instance: Instance, node: int, rejected: Sequence[int]) -> bool:
        """Predict the next instance on `node`, because the nodes in `rejected` reject it.

        Returns False if that is known to be wrong; the reason is remembered.
        """
        predictions: list[_Prediction] = []
        asked = [(self._checks.refuters[other], other) for other in rejected]
        uncertain, results = self._counting.not_tolerated_with(instance, node, asked)
        for (failing, other), tolerated in zip(asked, results):
            if tolerated:
                self._checks.learn(other, None)
            elif tolerated is None:
                predictions.append(self._predict(failing, instance, other, True))
        if True in results:
            return False
        for failing, tolerated in uncertain.items():
            if tolerated is False:
                self._checks.learn(node, failing)
                return False
            predictions.append(self._predict(failing, instance, node, False))
        self._predictions.append(predictions)
        return True

    def _predict(self, failing: int, instance: Instance, node: int, rejected: bool) -> _Prediction:
        undecided = failing, self._counting.leaving(failing, instance, node)
        return _Prediction(undecided, (instance, (*self._path, node)), rejected)

    def placed(self, instance: Instance, node: int) -> None:
        """Count an instance that was placed on `node` in the trial."""
        queues = self._counting.queues
        if node in queues and node not in self._queues:
            self._queues[node] = queues[node]
            queues[node] = queues[node].copy()
        self._path = *self._path, node
        self._counting.placed([(instance, (node,))])

    def end(self) -> None:
        """Restore the counting at the end of the trial."""
        for node in set(self._path):
            self._counting.restore(node, self._queues.get(node))

    def confirmed(self) -> int | None:
        """Return how many predictions hold, from the first; None if that stays undecided.

        If there are many, the failures that have rejected an instance are simulated first. Mostly
        one of them disproves a prediction, and the others need no simulation.
        """
        if sum(map(len, self._predictions)) <= AT_ONCE:
            return self._so(len(self._predictions), lambda one: True)
        likely = {*self._checks.refuters.values(), *self._recent}
        known = self._so(
            len(self._predictions), lambda one: one.rejected or one.undecided[0] in likely
        )
        if not known:
            return known
        return self._so(known, lambda one: not (one.rejected or one.undecided[0] in likely))

    def look_around(self, nodes: Collection[int]) -> None:
        """Find the other nodes on which the failure of the last wrong prediction rejects.

        A failure that rejects an instance on one node mostly rejects it on many nodes.
        """
        wrong, self._wrong = self._wrong, None
        if wrong is None or wrong.node == wrong.undecided[0]:
            return
        failing, leaving = wrong.undecided
        others = [node for node in nodes if node not in (failing, wrong.node)]
        instance, path = wrong.coming
        coming = [(instance, (*path[:-1], node)) for node in others]
        lost = self._checks.lost([(failing, leaving)] * len(others), coming)
        for node, gone in zip(others, lost or ()):
            if gone:
                self._checks.learn(node, failing)
            elif self._checks.refuters.get(node) == failing:
                self._checks.learn(node, None)

    def _so(self, count: int, asked: Callable[[_Prediction], bool]) -> int | None:
        """Return how many of the first `count` predictions hold for failures that are `asked`."""
        chosen = [
            [one for one in predictions if asked(one)] for predictions in self._predictions[:count]
        ]
        every = [one for predictions in chosen for one in predictions]
        lost = self._checks.lost([one.undecided for one in every], [one.coming for one in every])
        if lost is None:
            return None
        found = iter(lost)
        for number, predictions in enumerate(chosen):
            wrong = [one for one, gone in zip(predictions, found) if gone is not one.rejected]
            for prediction in wrong:
                self._learn(prediction)
            if wrong:
                return number
        return count

    def _learn(self, wrong: _Prediction) -> None:
        """Remember the result of a failure that was predicted wrongly."""
        self._wrong = wrong
        self._checks.learn(wrong.node, None if wrong.rejected else wrong.undecided[0])
        if not wrong.rejected:
            self._recent = [*self._recent, wrong.undecided[0]][-RECENT:]
