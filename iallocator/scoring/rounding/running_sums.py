"""The score to its last digit, added up as hail does it.

Where nodes differ and scores do not, hail decides by what rounding leaves in the sixteenth
decimal: numbers of nodes are quotients, statistics run over the nodes in the order of the
document, and a new pair of nodes changes what was added up before, first by its primary.
"""

from __future__ import annotations

from math import sqrt

from iallocator.scoring.metrics import STATISTICS
from iallocator.scoring.rounding.placed import Placed, counting
from iallocator.scoring.score_delta import DOMAINS, scope_group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.scoring.rounding.placed import Sums, Values

__all__ = ["RunningSums"]

MANY = 50_000
"""Values to add up from which on arrays are quicker, loading them included."""


class RunningSums:
    """Scores of placements of `instance`, which is off `state`, over the nodes in `scope`.

    The state must stay as it is while they are asked for.
    """

    def __init__(self, state: State, scope: Sequence[int], instance: Instance) -> None:
        self._placed = Placed(state, instance, scope_group(state.cluster, scope))
        nodes = state.cluster.nodes
        document = sorted(scope, reverse=True)  # in the model, the last of the document is first
        self._values = {index: self._placed.before(index) for index in document}
        self._over = [
            [i for i in document if counting(k, nodes[i])] for k in range(len(STATISTICS))
        ]
        self._sums = [_added_up(k, over, self._values) for k, over in enumerate(self._over)]
        self._known: dict[tuple[Values, ...], float] = {}

    def moved(self, places: Sequence[Nodes]) -> list[float]:
        """The score for each of `places` once the instance is there, all added up anew."""
        if len(places) * len(self._values) > MANY:
            from iallocator.scoring.rounding.arrays import all_added_up

            columns = [
                all_added_up(k, over, self._values, [self._placed.after(p) for p in places])
                for k, over in enumerate(self._over)
            ]
            sums: Iterable[Sequence[Sums]] = zip(*columns)
        else:
            sums = (self._anew(self._placed.after(place)) for place in places)
        return [self._score(one, place) for one, place in zip(sums, places)]

    def created(self, places: Sequence[Nodes]) -> list[float]:
        """The same for a new instance: for a pair, what was added up before is changed."""
        if len(places[0]) == 1:
            return self.moved(places)
        return [self._created(place) for place in places]

    def _created(self, place: Nodes) -> float:
        after = self._placed.after(place)
        key = tuple(values for index in place for values in (self._values[index], after[index]))
        known = None if self._placed.by_domain else self._known.get(key)
        if known is None:
            sums = self._sums
            for index in place:
                sums = self._changed(sums, index, after[index])
            known = self._known[key] = self._score(sums, place)
        return known

    def _anew(self, after: dict[int, Values]) -> list[Sums]:
        """The statistics with the values `after`; those that do not change are known."""
        values = self._values | after
        return [
            _added_up(k, over, values)
            if any(values[index][k] != self._values[index][k] for index in after)
            else self._sums[k]
            for k, over in enumerate(self._over)
        ]

    def _changed(self, sums: list[Sums], index: int, after: Values) -> list[Sums]:
        """`sums` once node `index` has the values `after`."""
        node, before = self._placed.node(index), self._values[index]
        return [
            _replaced(k, sums[k], before[k], after[k]) if node.online and counting(k, node)
            else sums[k]
            for k in range(len(sums))
        ]  # fmt: skip

    def _score(self, sums: Sequence[Sums], place: Nodes) -> float:
        """The terms added up."""
        score = 0.0
        for k, (statistic, (_, total, variance)) in enumerate(zip(STATISTICS, sums)):
            value = sqrt(variance) if statistic.spread else total
            if k == DOMAINS:
                value = self._placed.domain_conflicts(place)
            score += value * statistic.weight
        return score


def _added_up(k: int, over: Sequence[int], values: dict[int, Values]) -> Sums:
    """Statistic `k` over the nodes `over`, one after the other.

    `sum` will not do: it may carry along what rounding lost.
    """
    total = 0.0
    for index in over:
        total += values[index][k]
    if not STATISTICS[k].spread or not over:
        return len(over), total, 0.0
    mean, squares = total / len(over), 0.0
    for index in over:
        away = values[index][k] - mean
        squares += away * away
    return len(over), total, squares / len(over)


def _replaced(k: int, sums: Sums, old: float, new: float) -> Sums:
    """Statistic `k` with one value instead of another."""
    count, total, variance = sums
    if not STATISTICS[k].spread:
        return count, total + new - old, 0.0
    more, more_square = new - old, new * new - old * old
    change = (count * more_square - 2 * total * more) - more * more
    return count, total + more, max(0.0, variance + change / (count * count))
