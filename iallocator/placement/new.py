"""Place a new instance in one group; every request that allocates uses it."""

from __future__ import annotations

from itertools import islice

from iallocator.deadline import check
from iallocator.placement.results import GroupPlacements
from iallocator.ranking import ranks_nodes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from iallocator.model.instance import Instance
    from iallocator.placement.evaluator import Evaluator
    from iallocator.ranking.pairs import OrderedCandidates
    from iallocator.scoring.candidates import Candidates, Placement

    Accepts = Callable[[Instance, tuple[int, ...]], bool]

__all__ = ["other_nodes", "place_new"]


def place_new(
    evaluator: Evaluator,
    instance: Instance,
    nodes: Sequence[int],
    by_losses: bool = False,
    secondaries: Sequence[int] | None = None,
    checked: Instance | None = None,
    primary_given: bool = False,
    counted: bool = True,
) -> GroupPlacements:
    """Rank the placements of `instance` on `nodes` of the evaluator's group, and check N+1.

    From every row of candidates (for pairs, one row for each primary), the result has the best
    placement that keeps N+1. Better placements of the row are counted as ``FailN1``.

    Parameters
    ----------
    evaluator:
        Decides in the group.
    instance:
        The new instance, which must not be placed.
    nodes, secondaries:
        The nodes to use; for pairs the primaries, and the secondaries, which are `nodes` by
        default.
    by_losses:
        Whether to rank by `iallocator.ranking.lost_allocations` instead of the score, unless the
        settings of the group name another strategy.
    checked:
        The instance for which N+1 is checked; None: `instance`.
    primary_given:
        Whether the primary stays where it is, so that a strategy ranks only secondaries.
    counted:
        Whether to count all placements that N+1 rejects; otherwise the check ends at the best
        placement that keeps N+1.
    """
    settings, strategy = evaluator.settings, evaluator.settings.strategy
    context = evaluator.context
    checked = checked or instance
    candidates = evaluator.candidates(
        instance, "new", (), nodes, secondaries, bound=not primary_given
    )
    query = context.last_query

    # Rank the candidates by a strategy that ranks nodes, by lost allocations, or by the score
    accepts: Accepts = evaluator.keeps_n1
    ordered: OrderedCandidates | None = None
    scores: Mapping[tuple[int, ...], float]
    if ranks_nodes(strategy):
        from iallocator.ranking.pairs import order_candidates

        candidates = ordered = order_candidates(
            strategy, context, instance, candidates, fixed=primary_given
        )
        scores, ranked_by = ordered.scores, ordered.name
    elif by_losses or strategy != "score":
        from iallocator.ranking import lost_allocations

        candidates, scores = lost_allocations.rank(
            context.state, evaluator.group, instance, candidates, context.affinity
        )
        ranked_by = "lost-allocations"
        if not settings.behaviour.asks_n1_by_losses:
            accepts = _accept_all
    else:
        candidates, scores = context.with_soft_costs(instance, candidates)
        candidates = evaluator.decided(instance, candidates)
        ranked_by = "score"

    # Check N+1, the best first: of each row up to the first that keeps it
    rows: Iterable[Iterator[Placement]] = map(candidates.row, range(candidates.rows()))
    if ordered is not None or not counted:
        rows = (candidates.ranked(),)
    enough = settings.top if ordered is not None else 1
    best, rejected, lost = _keeping_n1(rows, accepts, checked, enough)
    if ordered is None:
        best = candidates.in_order(best)
        if settings.top > 1 and best:
            keeping = (p for p in candidates.ranked() if accepts(checked, p[1]))
            best = list(islice(keeping, settings.top))

    failures = dict(candidates.failures)
    if lost:
        failures["FailN1"] = lost
    placements = GroupPlacements(
        best, candidates.feasible - lost, failures, rejected, scores, ranked_by, ordered
    )
    placements.query = query[1] if query else None
    if best and instance.external:
        placements.others = other_nodes(candidates, best[0][1])
    if context.trace is not None:
        context.trace.placed(evaluator, checked, candidates, accepts, placements)
    return placements


def _keeping_n1(
    rows: Iterable[Iterator[Placement]], accepts: Accepts, checked: Instance, enough: int
) -> tuple[list[Placement], Placement | None, int]:
    """Return the first `enough` placements of each row that N+1 accepts, and what it rejects.

    The other results are the first rejected placement, and the number of rejected placements.
    """
    best: list[Placement] = []
    rejected: Placement | None = None
    lost = 0
    for row in rows:
        accepted = 0
        for placement in row:
            check()
            if accepts(checked, placement[1]):
                best.append(placement)
                accepted += 1
                if accepted >= enough:
                    break
            else:
                lost += 1
                rejected = rejected or placement
    return best, rejected, lost


def other_nodes(candidates: Candidates, chosen: tuple[int, ...]) -> list[int]:
    """Return the nodes of one-node `candidates` that are not in `chosen`, best first."""
    return [nodes[0] for _, nodes in candidates.ranked() if nodes != chosen]


def _accept_all(instance: Instance, nodes: tuple[int, ...]) -> bool:
    return True
