"""What groups said when they were asked to take an instance, and how they were compared."""

from __future__ import annotations

from dataclasses import dataclass

from iallocator.explain.facts import PENALTY, Placed, Term
from iallocator.explain.record.standings import standings
from iallocator.explain.strategy import note_order, placed_by
from iallocator.ranking.lost_allocations import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from typing import Any

    from iallocator.aliases import Nodes
    from iallocator.explain.contributions import Contributions
    from iallocator.explain.group_report import GroupReport
    from iallocator.explain.record.survey import Survey
    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance
    from iallocator.placement.results import AllocationRequest, MoveResult, RankedGroups
    from iallocator.ranking.pairs import OrderedCandidates
    from iallocator.scoring.candidates import Candidates

__all__ = ["Asked", "Choice"]


@dataclass(slots=True)
class Asked:
    """What a group said when it was asked to take an instance.

    `turn` counts what was noted; `best` are the nodes that come first, () for none;
    `penalty_before` is what the instance violates where it was.
    """

    turn: int
    kind: str
    instance: Instance
    group: Group
    report: GroupReport
    survey: Survey
    scores: Contributions | None = None
    best: Nodes = ()
    penalty_before: float = 0.0

    def note(
        self,
        cluster: Cluster,
        ways: Sequence[tuple[Nodes, float, float]],
        order: OrderedCandidates | None,
        candidates: Candidates,
        rejected: Collection[Nodes],
        score_of: Callable[[Any, Nodes], float],
        unchecked: Collection[Nodes] = (),
    ) -> None:
        """Note the best placements (nodes, score, penalty), and how every node stands."""
        report = self.report
        assert self.scores is not None
        self.best = ways[0][0] if ways else ()
        if order is not None:
            note_order(report, order, cluster)
        else:
            first = next(candidates.ranked(), None)
            report.by_losses = first is not None and isinstance(first[0], tuple)
        scored = [(nodes, score, self.scores.of(nodes)) for nodes, score, _ in ways]
        report.standings = standings(cluster, candidates, score_of, order, rejected, unchecked)
        if order is not None:
            report.placements = placed_by(order, cluster, report.name, scored)
            return
        penalties = [penalty for _, _, penalty in ways]
        if any(penalties):
            for (_, _, terms), penalty in zip(scored, penalties):
                terms.append(Term(PENALTY, 1.0, self.penalty_before, penalty))
        report.placements = [
            Placed(report.name, cluster.node_names(nodes), score, terms, rank, {}, penalty)
            for (nodes, score, terms), rank, penalty in zip(
                scored, _ranks(candidates, report, [one[0] for one in ways]), penalties
            )
        ]

    def led_to(self, outcome: MoveResult) -> bool:
        """Whether `outcome` is made of this."""
        if self.kind == "new":  # that was to choose a group
            return False
        if outcome.best is not None:
            return self.best == outcome.best.after
        return self.report.failures == outcome.failures


@dataclass(slots=True)
class Choice:
    """The groups that were compared for an instance, each with what it said, best first."""

    turn: int
    allocation: AllocationRequest
    offers: RankedGroups
    said: list[Asked | None]


def _ranks(candidates: Candidates, report: GroupReport, ways: Sequence[Nodes]) -> list[str]:
    """What placements are ranked by where lost allocations decide, else "" for each."""
    if not report.by_losses:
        return [""] * len(ways)

    keys = {nodes: shown(lost) for lost, nodes in candidates.everything()}
    return [keys[nodes] for nodes in ways]
