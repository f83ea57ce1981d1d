"""Speculation: placements of equal instances, one after the other, checked at once.

The next nodes are predicted: each instance is expected on the best node that is not known to reject
it.  All failures that counting leaves undecided are simulated together, which takes little longer
than one of them.  The first wrong prediction ends the accepted sequence, and is remembered.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from iallocator.model.instance import Instance
    from iallocator.n1.batched_simulation import Arrivals
    from iallocator.n1.counting import GroupChecks, GroupCounting, Undecided
    from iallocator.n1.queues import Queue

__all__ = ["Speculation"]


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
