"""The placement of several instances with the lowest cost, and the proof that none costs less.

The cost is the score after all placements, plus the penalties of all placements.  The search places
one instance after the other, on the best nodes first.  It leaves a branch if even the lower bound
of its cost does not improve on the best placement.

The lower bound: the instances that are not placed yet can change each statistic by a limited
amount, in one direction.  So the standard deviation of a statistic cannot fall below that of the
present values with the extremes cut off by this amount.  Penalties are not negative.  Instances
that are alike are placed in one order only.

The score is a sum of standard deviations, which is not linear.  Outer approximation (an integer
program with tangents, solved again with new tangents until its bound meets the score) takes 2.6 s
where this search takes 12 ms: `docs/design/exact-search.md` has the measurement.
"""

from __future__ import annotations

from math import inf, sqrt

from iallocator.deadline import PLACEMENTS, Deadline, check
from iallocator.model.node_view import NodeView, after_primary, capacities
from iallocator.scoring.metrics import DOMAINS, NO_CENTRES, STATISTICS, counting, values
from iallocator.solver.branch_and_bound import BranchAndBound
from iallocator.tolerances import SCORE_TOLERANCE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.instance import Instance
    from iallocator.model.state import State

    Places = Callable[[], Iterable[tuple[float, float, Nodes]]]
    Check = Callable[[Mapping[str, Nodes]], bool]

__all__ = ["Item", "Optimum", "lowest_cost"]


class Item:
    """An instance to place.

    Attributes
    ----------
    places:
        Lists the possible placements of the instance on the present state: the score afterwards,
        the penalty (at least 0), and the nodes.
    kind:
        A key that is equal for interchangeable items.
    """

    __slots__ = ("instance", "kind", "places")

    def __init__(self, instance: Instance, places: Places, kind: Hashable) -> None:
        self.instance = instance
        self.places = places
        self.kind = kind


class Optimum:
    """The best placement that was found.

    Attributes
    ----------
    score, penalty, nodes:
        The score, the penalty and the nodes of the best placement; at first, of the known
        placement.
    proved:
        Whether it is proved that no placement costs less.
    """

    __slots__ = ("nodes", "penalty", "proved", "score")

    def __init__(self, score: float, penalty: float, nodes: Mapping[str, Nodes]) -> None:
        self.score = score
        self.penalty = penalty
        self.nodes = dict(nodes)
        self.proved = True

    @property
    def cost(self) -> float:
        """Return the sum of score and penalty, which the search minimises."""
        return self.score + self.penalty


def lowest_cost(
    state: State,
    scope: Sequence[int],
    items: Sequence[Item],
    known: Optimum,
    check: Check,
    budget: Deadline,
) -> Optimum:
    """Return the placement of all `items` with the lowest cost.

    Parameters
    ----------
    state:
        The state without the items; it is not changed.
    scope:
        The indices of the nodes that the score includes.
    items:
        The instances to place.
    known:
        A placement to begin with, or one with an infinite score.
    check:
        Returns whether a placement of all items meets the constraints between them.
    budget:
        The most placements that may be listed.
    """
    best = Optimum(known.score, known.penalty, known.nodes)
    if items:
        branching = _Branching(state, scope, items, best, check, budget)
        branching.search()
        best.proved = branching.proved
    return best


class _Branching(BranchAndBound):
    """The search: each decision places one item; `best` receives the best placement."""

    def __init__(
        self,
        state: State,
        scope: Sequence[int],
        items: Sequence[Item],
        best: Optimum,
        check: Check,
        budget: Deadline,
    ) -> None:
        super().__init__(len(items), best.cost, -inf)
        self._best = best
        self._state = state
        self._items = sorted(items, key=lambda item: str(item.kind))
        self._check = check
        self._budget = budget
        self._bound = _Bound(state, scope, [item.instance for item in self._items])
        self._taken: list[tuple[float, float, Nodes]] = []  # score, all penalties so far, nodes

    def must_end(self) -> bool:
        return self._budget.must_end

    def improves(self, bound: float) -> bool:
        return bool(bound < self.cost - SCORE_TOLERANCE)

    def branches(self, depth: int) -> Iterator[tuple[float, tuple[float, float, Nodes]]]:
        item = self._items[depth]
        twin = depth > 0 and self._items[depth - 1].kind == item.kind
        _, paid, last = self._taken[-1] if self._taken else (0.0, 0.0, ())
        places = list(item.places())
        self._budget.spend(1 + len(places), PLACEMENTS)
        # The lowest cost first; at equal cost, the lower score first
        for score, penalty, nodes in sorted(places, key=lambda one: (one[0] + one[1], one)):
            if not twin or nodes >= last:
                final = depth == len(self._items) - 1
                bound = score + paid + penalty if final else -inf
                yield bound, (score, paid + penalty, nodes)

    def enter(self, depth: int, choice: tuple[float, float, Nodes]) -> None:
        self._state.place(self._items[depth].instance, choice[2])
        self._taken.append(choice)

    def leave(self, depth: int, choice: tuple[float, float, Nodes]) -> None:
        self._taken.pop()
        self._state.remove(self._items[depth].instance, choice[2])

    def promises(self, depth: int) -> bool:
        return self.improves(self._bound.of(depth + 1) + self._taken[-1][1])

    def accept(self, cost: float) -> bool:
        placed = [(i.instance, nodes) for i, (_, _, nodes) in zip(self._items, self._taken)]
        for instance, nodes in reversed(placed):
            self._state.remove(instance, nodes)
        whole = {instance.name: nodes for instance, nodes in placed}
        accepted = self._check(whole)
        for instance, nodes in placed:
            self._state.place(instance, nodes)
        if accepted:
            self._best.score, self._best.penalty, _ = self._taken[-1]
            self._best.nodes = whole
        return accepted


class _Bound:
    """Lower bounds of the score after the instances from some position on are placed."""

    def __init__(self, state: State, scope: Sequence[int], instances: Sequence[Instance]) -> None:
        self._state = state
        self._scope = scope
        nodes = state.cluster.nodes
        self._fixed = {index: capacities(nodes[index]) for index in scope}
        views = [NodeView.of(state, index, self._fixed[index]) for index in scope]
        self._counts = [[bool(counting(k, view)) for view in views] for k in range(len(STATISTICS))]
        self._changes: list[list[float]] = []
        total = [0.0] * len(STATISTICS)
        for instance in reversed(instances):
            self._changes.append(total)
            total = [a + b for a, b in zip(total, self._largest(instance, views))]
        self._changes.append(total)
        self._changes.reverse()  # by position: the largest change by the instances from there on

    def _largest(self, instance: Instance, views: Sequence[NodeView]) -> list[float]:
        """Return, for each statistic, the largest change by `instance` on any node."""
        raise_by = instance.memory if instance.reserves else 0
        roles: list[Callable[[NodeView], NodeView]] = [lambda view: after_primary(view, instance)]
        if instance.required_nodes > 1:
            roles.append(lambda view: view.plus(instance.as_secondary, view.reserved + raise_by))
        total = [0.0] * len(STATISTICS)
        for role in roles:
            largest = [0.0] * len(STATISTICS)
            for view in views:
                pairs = zip(values(view, NO_CENTRES), values(role(view), NO_CENTRES))
                for k, (before, after) in enumerate(pairs):
                    if abs(after - before) > abs(largest[k]):
                        largest[k] = after - before
            total = [a + b for a, b in zip(total, largest)]
        return total

    def of(self, position: int) -> float:
        """Return a lower bound of the score once the instances from `position` on are placed."""
        views = (NodeView.of(self._state, index, self._fixed[index]) for index in self._scope)
        rows = [values(view, NO_CENTRES) for view in views]
        changes = self._changes[position]
        score = 0.0
        for k, statistic in enumerate(STATISTICS):
            if k == DOMAINS:
                continue  # known only relative to the present
            column = [row[k] for row, counts in zip(rows, self._counts[k]) if counts]
            if not column:
                continue
            if statistic.spread:
                score += statistic.weight * _least_spread(column, changes[k])
            else:
                score += statistic.weight * (sum(column) + min(0.0, changes[k]))
        return score


def _least_spread(column: Sequence[float], change: float) -> float:
    """Return the least standard deviation after changes in one direction that add up to `change`.

    If `change` is negative, the highest values fall to a common level; else the lowest rise.
    """
    ordered = sorted(column) if change > 0 else sorted(-value for value in column)
    left = abs(change)
    count = len(ordered)
    reached, level = 1, ordered[0]
    while left > 0 and reached < count:
        check()
        step = ordered[reached] - level
        if step * reached > left:
            level += left / reached
            left = 0
        else:
            left -= step * reached
            level = ordered[reached]
            reached += 1
    raised = [max(value, level) for value in ordered]
    mean = sum(raised) / count
    return sqrt(sum((value - mean) ** 2 for value in raised) / count)
