"""The placement of several instances with the lowest cost, and the proof that it is.

The cost is the score in the end and the prices of all places.  Branch and bound: instances
are placed one after the other, best places first, and a branch is left when even its
lower bound is not below what is found already.  The bound: what is still to come can
change each statistic by so much at most, and in one direction only, so its standard
deviation cannot fall below that of the same values with the extreme ones cut off by that
much in all; and no price is negative.  Instances that are alike are placed in one order
only.
"""

from __future__ import annotations

from math import sqrt

from iallocator.deadline import PLACEMENTS, Deadline, check
from iallocator.model.node_view import NodeView, capacities
from iallocator.scoring.metrics import DOMAINS, STATISTICS
from iallocator.scoring.score_delta import NO_CENTRES, after_primary, counting, values
from iallocator.tolerances import SCORE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.instance import Instance
    from iallocator.model.state import State

    Places = Callable[[], Iterable[tuple[float, float, Nodes]]]
    Check = Callable[[Mapping[str, Nodes]], bool]

__all__ = ["Item", "Optimum", "lowest_cost"]


class Item:
    """An instance to place.

    ``places`` lists what it may have on the state as it is then: the score after it, its
    price (0 or more), and the nodes; ``kind`` is equal for items that are alike.
    """

    __slots__ = ("instance", "kind", "places")

    def __init__(self, instance: Instance, places: Places, kind: Hashable) -> None:
        self.instance = instance
        self.places = places
        self.kind = kind


class Optimum:
    """The best that was found.

    ``score``, ``price`` and ``nodes`` are those it began with if nothing is better;
    ``proved`` says whether nothing is.
    """

    __slots__ = ("nodes", "price", "proved", "score")

    def __init__(self, score: float, price: float, nodes: Mapping[str, Nodes]) -> None:
        self.score = score
        self.price = price
        self.nodes = dict(nodes)
        self.proved = True

    @property
    def cost(self) -> float:
        """What is made small."""
        return self.score + self.price


def lowest_cost(
    state: State,
    scope: Sequence[int],
    items: Sequence[Item],
    known: Optimum,
    check: Check,
    budget: Deadline,
) -> Optimum:
    """The placement of all `items` with the lowest cost, its score over `scope`.

    `known` is a placement to begin with (or one with an infinite score), `check` says
    whether a whole placement keeps the rules that single places do not show.  The
    state, which the items are not in, is left as it is.
    """
    ordered = sorted(items, key=lambda item: str(item.kind))
    branching = _Branching(state, scope, ordered, known, check, budget)
    if ordered:
        branching.place(0, (), 0.0)
    return branching.best


class _Branching:
    """A search under way; ``best`` is what is found so far."""

    def __init__(
        self,
        state: State,
        scope: Sequence[int],
        items: Sequence[Item],
        known: Optimum,
        check: Check,
        budget: Deadline,
    ) -> None:
        self.best = Optimum(known.score, known.price, known.nodes)
        self._state = state
        self._items = items
        self._check = check
        self._budget = budget
        self._bound = _Bound(state, scope, [item.instance for item in items])
        self._taken: dict[str, Nodes] = {}

    def place(self, position: int, last: Nodes, paid: float) -> None:
        """Place the item at `position` and all after it.

        `last` is where its twin went, `paid` the price of those before it.
        """
        item = self._items[position]
        twin = position > 0 and self._items[position - 1].kind == item.kind
        final = position == len(self._items) - 1
        places = list(item.places())
        self._budget.spend(1 + len(places), PLACEMENTS)
        # The cheapest first; of equally cheap places, those with the lower score first
        for score, price, nodes in sorted(places, key=lambda one: (one[0] + one[1], one)):
            if self._budget.must_end:
                self.best.proved = False
                return
            if twin and nodes < last:
                continue
            if final and score + paid + price >= self.best.cost - SCORE:
                return  # the others are no better
            self._taken[item.instance.name] = nodes
            if not final:
                due = paid + price
                self._state.place(item.instance, nodes)
                try:
                    if self._bound.of(position + 1) + due < self.best.cost - SCORE:
                        self.place(position + 1, nodes, due)
                finally:
                    self._state.remove(item.instance, nodes)
            elif self._accepted():
                self.best.score, self.best.price = score, paid + price
                self.best.nodes = dict(self._taken)
                return

    def _accepted(self) -> bool:
        """Check the whole placement; for that the state is cleared of it."""
        items = [i for i in self._items if i.instance.name in self._state.where]
        for item in reversed(items):
            self._state.remove(item.instance, self._taken[item.instance.name])
        accepted = self._check(self._taken)
        for item in items:
            self._state.place(item.instance, self._taken[item.instance.name])
        return accepted


class _Bound:
    """Lower bounds of the score after the instances from some position on."""

    def __init__(self, state: State, scope: Sequence[int], instances: Sequence[Instance]) -> None:
        self._state = state
        self._scope = scope
        nodes = state.cluster.nodes
        self._fixed = {index: capacities(nodes[index]) for index in scope}
        views = [self._view(index) for index in scope]
        self._counts = [[bool(counting(k, view)) for view in views] for k in range(len(STATISTICS))]
        self._changes: list[list[float]] = []
        total = [0.0] * len(STATISTICS)
        for instance in reversed(instances):
            self._changes.append(total)
            total = [a + b for a, b in zip(total, self._largest(instance, views))]
        self._changes.append(total)
        self._changes.reverse()  # at a position: what those from there on change at most

    def _view(self, index: int) -> NodeView:
        return NodeView.of(self._state, index, self._fixed[index])

    def _largest(self, instance: Instance, views: Sequence[NodeView]) -> list[float]:
        """Per statistic the most that `instance` changes over all nodes, with its sign."""
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
        """A score that placing the instances from `position` on cannot come below."""
        rows = [values(self._view(index), NO_CENTRES) for index in self._scope]
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
    """The least standard deviation after changes in one direction that add up to `change`.

    Negative: the highest values fall to a common level; positive: the lowest rise.
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
