"""Place many equal instances by incremental scores, with N+1 in the mode of each group.

Scores and N+1 are kept from one instance to the next. If counting proves that N+1 allows a number
of further instances, these are placed at once. Otherwise, several placements are simulated in
advance.
"""

from __future__ import annotations

from iallocator.deadline import check
from iallocator.n1 import ANY_NUMBER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.instance import Instance
    from iallocator.model.state import State, Trial
    from iallocator.n1 import Failure
    from iallocator.n1.counting import Speculation
    from iallocator.n1.tolerance import FailureTolerance
    from iallocator.scoring.incremental import IncrementalScores

__all__ = ["GroupTolerances", "NextPlace", "Unchecked"]

MOST_AHEAD = 64
"""The largest number of placements that are simulated in advance."""

UNCERTAIN_PLACEMENTS = 16
"""The largest number of placements after which counting is tried again, if it proved none."""

FEW_AHEAD = 4
"""The least number of placements simulated in advance after a wrong guess; about as fast as one."""

NODES_AFTER_WRONG_GUESS = 32
"""The number of nodes that are checked at once after a wrong guess."""


class NextPlace:
    """Finds the next nodes of equal instances, as long as scores and N+1 are certain.

    `newcomers` returns the instance at a position of the sequence; 0 is the next instance.
    """

    def __init__(
        self,
        state: State,
        scores: IncrementalScores,
        n1: GroupTolerances,
        groups: Sequence[int],
        newcomers: Callable[[int], Instance],
    ) -> None:
        self._state = state
        self._scores = scores
        self._n1 = n1
        self._groups = groups
        self._newcomers = newcomers
        self._certain = 0
        self._ahead = 1
        self._pause, self._patience = 0, 1  # the number of calls until counting is tried again

    def path(self, instance: Instance, best_only: bool = False) -> Sequence[Nodes]:
        """Return the nodes of `instance` and of the next ones like it; [] if scores or N+1 are
        uncertain.

        `best_only`: the path ends before an instance for which N+1 rejects the best nodes.
        """
        if self._certain <= 0:
            self._pause -= 1
            if self._pause <= 0:
                self._certain = self._n1.headroom(instance, self._groups)
                self._patience = (
                    1 if self._certain else min(2 * self._patience, UNCERTAIN_PLACEMENTS)
                )
                self._pause = self._patience
        if self._certain > 0:
            return self._scores.path(self._certain)
        alone = len(self._groups) == 1
        speculation = self._n1.speculation(instance, self._groups[0]) if alone else None
        if speculation is not None:
            # A simulation of several placements confirms some of them. If two nodes have almost
            # equal scores, simulations can contradict each other: a wrong guess then comes again
            wrong: set[object] = set()
            while True:
                check()
                assumed = speculation.assumptions()
                if assumed in wrong:
                    return []
                guessed, exhausted = self._guess(speculation, best_only)
                known = speculation.confirmed() if guessed else 0
                if known is None or (not guessed and exhausted):
                    return []
                if known == len(guessed):
                    self._ahead = min(2 * self._ahead, MOST_AHEAD)
                else:
                    self._ahead = max(FEW_AHEAD, known + 1)
                    speculation.refute_on_other_nodes(self._scores.nearest(NODES_AFTER_WRONG_GUESS))
                if known:
                    return [(node,) for node in guessed[:known]]
                wrong.add(assumed)
        best = self._scores.best()
        return [best] if best and self._n1.accepts(instance, best, False) else []

    def placed(self, path: Sequence[Nodes]) -> None:
        """Record that the next instances have been placed on the nodes `path`."""
        self._certain -= len(path)
        self._scores.placed_along(path)

    def _guess(self, speculation: Speculation, best_only: bool) -> tuple[list[int], bool]:
        """Return the predicted nodes of the next instances, and whether N+1 of a further node is
        undecided.

        `best_only`: see `path`.
        """
        path: list[int] = []
        exhausted = False
        instance = self._newcomers(0)
        speculation.start()
        scores = self._scores.copy()
        with self._state.trial():
            for number in range(min(self._ahead, scores.left + 1)):
                if number:
                    self._state.place(instance, (path[-1],))
                    speculation.placed(instance, path[-1])
                    scores.placed((path[-1],))
                    instance = self._newcomers(number)
                best, rejected = scores.best_but(speculation.rejected())
                exhausted = best is None or (best_only and bool(rejected))
                if best is None or exhausted or not speculation.expect(instance, best, rejected):
                    break
                path.append(best)
        speculation.end()
        return path, exhausted


class Unchecked:
    """Context manager in which `n1` checks nothing; it returns a trial of `state`.

    All changes in the block are undone at its end, unless the trial keeps them.
    """

    def __init__(self, state: State, n1: GroupTolerances) -> None:
        self._state = state
        self._n1 = n1
        self._trial = state.trial()
        self._version = state.version
        self._paused = n1.paused
        self._counts = {one: one.exchange_counts(None) for one in n1.modes()}

    def __enter__(self) -> Trial:
        self._n1.paused = True
        self._trial.__enter__()
        return self._trial

    def __exit__(self, *_: object) -> None:
        self._trial.__exit__()
        self._n1.paused = self._paused
        undone = self._state.version == self._version
        for one, counts in self._counts.items():
            one.exchange_counts(counts if undone else None)


class GroupTolerances:
    """Checks N+1 while `state` is filled, by the mode of the group of each instance.

    For drbd instances, N+1 is only checked in the groups `pairs`.  In the other groups, the memory
    that their secondaries reserve is enough. With `every`, N+1 is checked for them in all groups.
    Each placement must be reported to `placed`.

    Parameters
    ----------
    of:
        Index of a group -> its N+1; groups with one mode have one object.

    Attributes
    ----------
    paused:
        Whether N+1 is not checked for any instance at present.
    """

    def __init__(
        self, state: State, of: Mapping[int, FailureTolerance], pairs: Collection[int]
    ) -> None:
        self._state = state
        self._of = of
        self._pairs = pairs
        self.paused = False

    def checked(self, instance: Instance, group: int, every: bool = False) -> bool:
        """Return whether N+1 is checked for `instance` in the group with index `group`."""
        own = every or instance.required_nodes == 1 or group in self._pairs
        return own and not self.paused and self._of[group].rules.mode != "off"

    def required(self, instance: Instance) -> Iterator[tuple[FailureTolerance, list[Failure]]]:
        """Yield the failures that must be tolerated with `instance` in any group, for each mode."""
        cluster = self._state.cluster
        scope = range(len(cluster.nodes))
        failing: dict[FailureTolerance, dict[Failure, None]] = {}
        for group, tolerance in self._of.items():
            if self.checked(instance, group):
                group_failures = tolerance.rules.failing(cluster, cluster.groups[group], scope)
                failing.setdefault(tolerance, {}).update(dict.fromkeys(group_failures))
        for tolerance, some in failing.items():
            yield tolerance, [*some]

    def tolerated(self, instance: Instance) -> bool:
        """Return whether all failures that `required` yields are tolerated in the present state."""
        required = self.required(instance)
        return all(one.first_not_tolerated(failing) is None for one, failing in required)

    def accepts(self, instance: Instance, nodes: Nodes, every: bool) -> bool:
        """Return whether N+1 allows `instance` on `nodes`, or is not checked for it."""
        group = self._group(nodes[0])
        return not self.checked(instance, group, every) or self._of[group].accepts(instance, nodes)

    def rejects(self, instance: Instance, node: int, every: bool) -> bool:
        """Return whether N+1 certainly rejects `instance`, and every larger one, on `node`."""
        group = self._group(node)
        if instance.required_nodes > 1 or not self.checked(instance, group, every):
            return False
        return self._of[group].certainly_rejects(instance, node)

    def rejects_pairs(self, instance: Instance, every: bool) -> bool:
        """Return whether N+1 certainly rejects `instance` on every pair of nodes."""
        return instance.required_nodes > 1 and all(
            self.checked(instance, group, every)
            and tolerance.rejects_all(self._state.cluster.groups[group])
            for group, tolerance in self._of.items()
        )

    def compares_sizes(self, instance: Instance, nodes: Sequence[int], every: bool) -> bool:
        """Return whether `rejected_down` can decide anything for sizes of `instance` on `nodes`."""
        groups = {self._group(node) for node in nodes}
        modes = {self._of[group] for group in groups}
        if instance.required_nodes > 1 or len(modes) > 1:
            return False
        useful = all(one.rules.strict and not one.rules.exact and one.counts() for one in modes)
        return useful and all(self.checked(instance, group, every) for group in groups)

    def rejected_down(self, instances: Sequence[Instance], nodes: Sequence[int]) -> int:
        """Return how many instances at the start of `instances` N+1 certainly rejects on all
        `nodes`.

        One amount decreases from each instance to the next. `compares_sizes` must be true.
        """
        return self._of[self._group(nodes[0])].rejected_down(instances, nodes)

    def prepare(self, instances: Sequence[Instance], every: bool) -> None:
        """Simulate in one batch what `accepts` needs for `instances`, which have one template."""
        if instances[0].required_nodes > 1:
            return
        for group, tolerance in self._of.items():
            if self.checked(instances[0], group, every):
                tolerance.prepare(instances)

    def headroom(self, instance: Instance, groups: Sequence[int]) -> int:
        """Return how many more instances equal to `instance` certainly keep N+1, on any nodes of
        `groups`.
        """
        checked = [self._of[group] for group in groups if self.checked(instance, group)]
        counts = [one.headroom(instance, groups) for one in dict.fromkeys(checked)]
        return min(counts, default=ANY_NUMBER)

    def speculation(self, instance: Instance, group: int) -> Speculation | None:
        """Return a checker of several equal instances in `group`; None if impossible."""
        if instance.required_nodes > 1 or not self.checked(instance, group):
            return None
        return self._of[group].speculation(instance, group)

    def placed(self, arrivals: Sequence[tuple[Instance, Nodes]]) -> None:
        """Record `arrivals`: new instances with their nodes, equal except for name and order."""
        if self.paused:
            return  # counts are made again when N+1 is checked next
        for tolerance in self.modes():
            tolerance.placed(arrivals)

    def modes(self) -> Collection[FailureTolerance]:
        """Return the N+1 of each mode."""
        return dict.fromkeys(self._of.values())

    def _group(self, node: int) -> int:
        return self._state.cluster.nodes[node].group.index
