"""The placements that a node group offers for an instance, and the rank of each of its nodes."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, NamedTuple

from iallocator.explain.facts import PENALTY, GroupReport, NodeRank, Placed, Term
from iallocator.placement.results import penalty_in
from iallocator.ranking.lost_allocations import words_of_losses
from iallocator.scoring.candidates import keep_best
from iallocator.scoring.metrics import STATISTICS, terms

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.explain.survey import Survey
    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance
    from iallocator.placement.results import (
        AllocationRequest,
        GroupPlacements,
        MoveResult,
        NodeQuery,
        RankedGroups,
        RankedMoves,
    )
    from iallocator.ranking.base import NodeRanking
    from iallocator.ranking.pairs import OrderedCandidates
    from iallocator.scoring.candidates import Candidates, NodeBest, Placement
    from iallocator.scoring.scalar import ScalarKernel

__all__ = [
    "MANY_PLACEMENTS",
    "Choice",
    "Contributions",
    "GroupResponse",
    "best_of_nodes",
    "between_groups",
    "node_ranks",
    "note_order",
    "placed_by",
    "present_terms",
]


def present_terms(kernel: ScalarKernel) -> list[Term]:
    """Return the present statistics of `kernel` as terms with equal values before and after."""
    return [
        Term(s.name, s.weight, value / s.weight, value / s.weight)
        for s, value in zip(STATISTICS, terms(kernel.totals, (), sqrt))
    ]


class Contributions:
    """Computes the statistics of the score before and after a placement of `instance`.

    `before` has the statistics before the instance was removed from the state. `kernel` computes
    those after the placement.
    """

    def __init__(self, kernel: ScalarKernel, instance: Instance, before: list[Term]) -> None:
        self._kernel = kernel
        self._instance = instance
        self._before = before

    def of(self, nodes: tuple[int, ...]) -> list[Term]:
        """Return every term of the score after placing the instance on `nodes`."""
        after = self._kernel.terms_of(self._instance, nodes)
        return [
            Term(old.name, old.weight, old.before, new / old.weight)
            for old, new in zip(self._before, after)
        ]

    def score(self, nodes: tuple[int, ...]) -> float:
        """Return the score after placing the instance on `nodes`; lower is better."""
        return float(sum(self._kernel.terms_of(self._instance, nodes)))


class GroupResponse:
    """The response of a group to the query for nodes that can host an instance.

    Attributes
    ----------
    number:
        The number of the record; later records have higher numbers.
    best:
        The nodes of the best placement; () if there is none.
    penalty_before:
        The penalty of the soft constraints that the instance violates on its present nodes.
    """

    def __init__(self, number: int, query: NodeQuery, group: Group) -> None:
        self.number = number
        self.kind = query.kind
        self.instance = query.instance
        self.group = group
        self.report = GroupReport(group.name, group.uuid, group.alloc_policy)
        self.scores: Contributions | None = None
        self.best: Nodes = ()
        self.penalty_before = 0.0
        self.survey: Survey | None = None
        self._unrejected: tuple[Candidates, dict[int, NodeBest]] | None = None

    def note(
        self,
        cluster: Cluster,
        outcome: GroupPlacements | RankedMoves,
        best: Sequence[Placement],
        candidates: Candidates,
        rejected: Collection[Nodes],
        unchecked: Collection[Nodes] = (),
        best_of: dict[int, NodeBest] | None = None,
    ) -> None:
        """Record the `best` placements of the instance in the group, and the rank of every node.

        `outcome`: the result of the search. `rejected`, `unchecked`: the placements that N+1
        rejects, and those that were not checked for N+1. `best_of`: the best placement that uses
        each node, if it is known already.
        """
        report, order = self.report, outcome.order
        assert self.scores is not None
        ways = [(place[1], outcome.score(place), outcome.penalty(place)) for place in best]
        self.best = ways[0][0] if ways else ()
        if order is not None:
            note_order(report, order, cluster)
        else:
            first = next(candidates.ranked(), None)
            report.by_losses = first is not None and isinstance(first[0], tuple)
        scored = [(nodes, score, self.scores.of(nodes)) for nodes, score, _ in ways]
        if best_of is None and rejected:
            best_of = best_of_nodes(candidates, rejected)
        elif best_of is None:
            if self._unrejected is None or self._unrejected[0] is not candidates:
                self._unrejected = candidates, best_of_nodes(candidates, ())
            best_of = self._unrejected[1]
        alone = candidates.feasible - len(rejected) < 2
        report.node_ranks = node_ranks(cluster, best_of, alone, outcome, unchecked)
        if order is not None:
            report.placements = placed_by(order, cluster, report.name, scored)
            return
        penalties = [penalty for _, _, penalty in ways]
        if any(penalties):
            for (_, _, terms), penalty in zip(scored, penalties):
                terms.append(Term(PENALTY, 1.0, self.penalty_before, penalty))
        ranks: dict[Nodes, str] = {}
        if report.by_losses:
            ranks = {nodes: words_of_losses(lost) for lost, nodes in candidates.everything()}
        report.placements = [
            Placed(
                report.name,
                cluster.node_names(nodes),
                score,
                terms,
                {},
                ranks[nodes] if ranks else "",
                penalty,
            )
            for (nodes, score, terms), penalty in zip(scored, penalties)
        ]

    def led_to(self, outcome: MoveResult) -> bool:
        """Return whether `outcome`, the result of a move, follows from this response."""
        if self.kind == "new":  # such a query only chooses a group
            return False
        if outcome.best is not None:
            return self.best == outcome.best.after
        return self.report.failures == outcome.failures


class Choice(NamedTuple):
    """A comparison of groups for an instance: their offers and responses, best first."""

    number: int
    allocation: AllocationRequest
    offers: RankedGroups
    group_responses: list[GroupResponse | None]


MANY_PLACEMENTS = 100_000
"""The number of placements above which only the best one of each primary is considered."""


def node_ranks(
    cluster: Cluster,
    best: dict[int, NodeBest],
    alone: bool,
    outcome: GroupPlacements | RankedMoves,
    unchecked: Collection[Nodes],
) -> dict[str, NodeRank]:
    """Return name of a node -> the rank of the node by its best placement.

    Nodes without a feasible placement have no entry. If `outcome` has the order of a strategy, the
    criteria of the strategy decide the rank, not the score. `best` is the best placement of each
    node. `alone`: N+1 rejects all placements but one. The `unchecked` placements were not checked
    for N+1.
    """
    alone = alone and len({nodes for _, _, nodes in best.values()}) < 2
    order, ranked_by_score = outcome.order, not outcome.scores
    names = cluster.node_names(list(best))
    result = {}
    for name, (index, (lost, rank, nodes)) in zip(names, best.items()):
        score, penalty, words = None, 0.0, ""
        if order is not None:
            ranked = order.first if index == nodes[0] else order.second(nodes[0])
            criteria = [] if ranked is None else ranked.criteria(index)
            words = ", ".join(f"{rule} {value}" for rule, value in criteria if rule != "name")
        elif isinstance(rank, tuple):
            words = f"lost allocations {words_of_losses(rank)}"
        elif alone:
            words = "the only placement possible"
        elif ranked_by_score:
            score = rank
        else:
            score = outcome.score((rank, nodes))
            penalty = penalty_in(rank, score)
        result[name] = NodeRank(cluster, nodes, lost, score, penalty, words, nodes in unchecked)
    return result


def best_of_nodes(candidates: Candidates, rejected: Collection[Nodes]) -> dict[int, NodeBest]:
    """Return index of a node -> its best placement, preferably one that is not in `rejected`.

    Of more than `MANY_PLACEMENTS`, only the best placement of each primary is considered.
    """
    if candidates.feasible <= MANY_PLACEMENTS:
        return candidates.best_of_nodes(rejected)
    best: dict[int, NodeBest] = {}
    keep_best(best, candidates.best(), rejected)
    return best


def note_order(report: GroupReport, order: OrderedCandidates, cluster: Cluster) -> None:
    """Record in `report` how the strategy ranked the nodes, and which nodes it rejected."""
    report.strategy = order.name
    report.ranking = (
        [(cluster.nodes[index].name, order.criteria((index,))) for index in order.primaries]
        if order.first is not None
        else []
    )
    report.rejected_by_strategy = {
        cluster.nodes[index].name: why for index, why in order.rejections().items()
    }


def placed_by(
    order: OrderedCandidates,
    cluster: Cluster,
    group: str,
    scored: Sequence[tuple[Nodes, float, list[Term]]],
) -> list[Placed]:
    """Return the placements in `scored` (nodes, score, terms) with the criteria of the strategy.

    The first placement also has the criterion that puts it before each other placement.
    """
    names = ["/".join(cluster.node_names(nodes)) for nodes, _, _ in scored]
    over = {
        name: order.decided(scored[0][0], nodes)
        for name, (nodes, _, _) in zip(names[1:], scored[1:])
    }
    return [
        Placed(
            group,
            cluster.node_names(nodes),
            score,
            terms,
            over if k == 0 else {},
            ", ".join(f"{name} {value}" for name, value in order.criteria(nodes)),
        )
        for k, (nodes, score, terms) in enumerate(scored)
    ]


def between_groups(
    order: NodeRanking | None, cluster: Cluster, groups: Sequence[GroupReport]
) -> Mapping[str, str]:
    """Return UUID of a group -> why a strategy prefers the first of `groups` to it.

    The result is empty unless a strategy has compared the groups.
    """
    if order is None:
        return {}
    index = {node.name: node.index for node in cluster.nodes}
    first, *others = [(g.uuid, index[g.placements[0].nodes[0]]) for g in groups]
    return {uuid: order.decided(first[1], node) for uuid, node in others}
