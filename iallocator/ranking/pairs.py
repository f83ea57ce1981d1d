"""Rank placements by the order in which a strategy ranks nodes.

For pairs, the best primary with an acceptable secondary is selected first. Then the strategy
selects the best secondary for this primary.
"""

from __future__ import annotations

from iallocator.ranking.base import STRATEGY_REJECTION, RankQuery, strategy_module
from iallocator.scoring.candidates import Candidates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from iallocator.aliases import Nodes
    from iallocator.model.instance import Instance
    from iallocator.ranking.base import NodeRanking, Strategy, WorkingSet
    from iallocator.scoring.candidates import Placement


__all__ = ["OrderedCandidates", "order_candidates"]


class _Scores(dict["Nodes", float]):
    """The cluster scores of `candidates`; `rows`: first node -> number of its row."""

    def __init__(self, candidates: Candidates, rows: dict[int, int]) -> None:
        super().__init__()
        self._candidates = candidates
        self._rows = rows

    def __missing__(self, nodes: Nodes) -> float:
        score = self[nodes] = self._candidates.score_of(self._rows[nodes[0]], nodes[-1])
        return score

    def __bool__(self) -> bool:
        return bool(self._rows)


class OrderedCandidates(Candidates):
    """Placements in the order of a strategy, one row per primary, the best first.

    The score of a placement is a pair of positions in this order: of the primary, of the secondary.

    Attributes
    ----------
    scores:
        Placement -> cluster score, computed on access.
    """

    def __init__(
        self, query: RankQuery, strategy: Strategy, candidates: Candidates, fixed: bool
    ) -> None:
        self._query = query
        self._strategy = strategy
        self._seconds: dict[int, list[int]] = {}
        self._second_orders: dict[int, NodeRanking] = {}
        rows: dict[int, int] = {}
        for number in range(candidates.rows()):
            prefix, nodes = candidates.open(number)
            if prefix and nodes:
                rows[prefix[0]] = number
                self._seconds[prefix[0]] = nodes
            elif not prefix:
                rows |= dict.fromkeys(nodes, number)
                self._seconds |= {index: [] for index in nodes}
        self.scores = _Scores(candidates, rows)
        firsts = sorted(self._seconds)
        self.first = strategy.order(query, firsts) if firsts and not fixed else None
        # The nodes that the strategy rejects as secondaries of every primary
        seconds = sorted(set().union(*self._seconds.values()))
        self._rejected_seconds: set[int] = set()
        if seconds:
            self._rejected_seconds = {*seconds} - {*strategy.order(query.second(), seconds).ranked}
        self.primaries = [
            p
            for p in (list(self._seconds) if self.first is None else self.first.ranked)
            if self._count(p) > 0
        ]
        left = sum(self._count(p) for p in self.primaries)
        rejected = candidates.feasible - left
        self.failures = dict(candidates.failures)
        if rejected:
            self.failures[STRATEGY_REJECTION] = self.failures.get(STRATEGY_REJECTION, 0) + rejected
        self.feasible = left

    @property
    def name(self) -> str:
        """Return the name of the strategy."""
        return self._query.strategy

    def _count(self, primary: int) -> int:
        """Return the number of placements with this primary."""
        seconds = self._seconds[primary]
        if not seconds:
            return 1
        if not self._rejected_seconds:
            return len(seconds)
        return len(seconds) - sum(map(self._rejected_seconds.__contains__, seconds))

    def rows(self) -> int:
        return len(self.primaries)

    def row(self, number: int) -> Iterator[Placement]:
        primary = self.primaries[number]
        if not self._seconds[primary]:
            yield (number, 0), (primary,)
            return
        for position, index in enumerate(self.second(primary).ranked):
            yield (number, position), (primary, index)

    def ranked(self) -> Iterator[Placement]:
        for number in range(self.rows()):
            yield from self.row(number)

    def second(self, primary: int) -> NodeRanking:
        """Return the order of the secondaries for `primary`."""
        order = self._second_orders.get(primary)
        if order is None:
            nodes = sorted(
                index for index in self._seconds[primary] if index not in self._rejected_seconds
            )
            order = self._strategy.order(self._query.second(primary), nodes)
            self._second_orders[primary] = order
        return order

    def extra(self, nodes: Nodes) -> dict[str, Any]:
        """Return additional members of the entry in ``solutions`` for the chosen `nodes`."""
        return {} if self.first is None else self.first.extra(nodes[0])

    def criteria(self, nodes: Nodes) -> list[tuple[str, str]]:
        """Return the criteria of the nodes; those of a secondary begin with its role."""
        rows = [] if self.first is None else list(self.first.criteria(nodes[0]))
        if len(nodes) > 1:
            rows += [
                (f"secondary: {name}", value)
                for name, value in self.second(nodes[0]).criteria(nodes[1])
            ]
        return rows

    def decided(self, one: Nodes, other: Nodes) -> str:
        """Return why placement `one` comes before `other`: the first rule at which they differ."""
        if one[0] != other[0] and self.first is not None:
            return self.first.decided(one[0], other[0])
        if len(one) > 1 and one[1] != other[1]:
            return f"as secondary: {self.second(one[0]).decided(one[1], other[1])}"
        return "they are the same"

    def rejections(self) -> dict[int, str]:
        """Return node -> the reason why the strategy rejects it as the first node."""
        return {} if self.first is None else dict(self.first.rejected)


def order_candidates(
    name: str,
    context: WorkingSet,
    instance: Instance,
    candidates: Candidates,
    present: Nodes = (),
    fixed: bool = False,
) -> OrderedCandidates:
    """Return `candidates` in the order of the strategy `name`, in the current state.

    `present`: the current nodes of the instance; the state must not contain it.  `fixed`: the first
    node is given, so only secondaries are ranked.  Cost: each placement is read once.  The strategy
    is called once for each role, and once for each primary with secondaries that are read.
    """
    query = RankQuery(name, context, instance, present)
    return OrderedCandidates(query, strategy_module(name), candidates, fixed)
