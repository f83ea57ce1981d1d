"""Placing a new instance in one group: shared by every request that allocates."""

from __future__ import annotations

from iallocator.placement.results import GroupPlacements
from iallocator.ranking import ranks_nodes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context
    from iallocator.placement.evaluator import Evaluator
    from iallocator.scoring.candidates import Candidates, Placement

    Accepts = Callable[[Instance, tuple[int, ...]], bool]

__all__ = ["other_nodes", "place_new"]


def place_new(
    context: Context,
    evaluator: Evaluator,
    instance: Instance,
    nodes: Sequence[int],
    by_losses: bool = False,
    secondaries: Sequence[int] | None = None,
    judged: Instance | None = None,
    primary_given: bool = False,
    counted: bool = True,
) -> GroupPlacements:
    """Rank the placements of `instance` on `nodes` of the evaluator's group.

    For pairs `nodes` are the primaries, and the secondaries unless those are given.
    `primary_given`: the primary is where it is, a strategy has no say in that.
    N+1 looks at `instance`, unless `judged` is to be taken for it.
    `counted`: if not, N+1 is asked no further than to the best placement that keeps it.

    The best that keeps N+1 is taken for every row (for pairs: for every primary);
    those that come before it count as FailN1.  With `by_losses` the rank is that of
    `iallocator.ranking.lost_allocations` instead of the score, unless the group's
    settings name another strategy.
    """
    settings = evaluator.settings
    judged = judged or instance
    candidates = evaluator.candidates(
        instance, "new", (), nodes, secondaries, bound=not primary_given
    )
    if settings.strategy != "score":
        if ranks_nodes(settings.strategy):
            return _place_in_order(context, evaluator, instance, candidates, primary_given, judged)
        by_losses = True
    candidates, scores = _scored(context, evaluator, instance, candidates, by_losses)
    accepts: Accepts = evaluator.keeps_n1
    if by_losses and not settings.behaviour.asks_n1_by_losses:
        accepts = _anything
    rows: Iterable[Iterator[Placement]] = map(candidates.row, range(candidates.rows()))
    ranked = rows if counted else (candidates.ranked(),)
    best, rejected, lost = _keeping_n1(ranked, accepts, judged)
    failures = dict(candidates.failures)
    best = candidates.in_order(best)
    if lost:
        failures["FailN1"] = lost
    if settings.top > 1 and best:
        best = list(_top(candidates, accepts, judged, settings.top))
    found = GroupPlacements(
        best,
        candidates.feasible - lost,
        failures,
        rejected,
        scores,
        "lost-allocations" if by_losses else "score",
    )
    if best and instance.external:
        found.others = other_nodes(candidates, best[0][1])
    if context.trace is not None:
        context.trace.placed(evaluator, judged, candidates, accepts, found)
    return found


def _scored(
    context: Context,
    evaluator: Evaluator,
    instance: Instance,
    candidates: Candidates,
    by_losses: bool,
) -> tuple[Candidates, dict[tuple[int, ...], float]]:
    """`candidates` by what they lose, or by score and prices; scores where these are others."""
    if not by_losses:
        found, scores = context.bonds.with_soft_costs(instance, candidates)
        return evaluator.decided(instance, found), scores
    from iallocator.ranking import lost_allocations

    return lost_allocations.rank(
        context.state, evaluator.group, instance, candidates, context.bonds
    )


def _keeping_n1(
    rows: Iterable[Iterator[Placement]], accepts: Accepts, judged: Instance
) -> tuple[list[Placement], Placement | None, int]:
    """The first of every row that `accepts` takes `judged` for; the first rejected, how many."""
    best: list[Placement] = []
    rejected: Placement | None = None
    lost = 0
    for row in rows:
        for placement in row:
            if accepts(judged, placement[1]):
                best.append(placement)
                break
            lost += 1
            rejected = rejected or placement
    return best, rejected, lost


def _place_in_order(
    context: Context,
    evaluator: Evaluator,
    instance: Instance,
    candidates: Candidates,
    fixed: bool,
    judged: Instance,
) -> GroupPlacements:
    """The best placements in the order of a strategy that keep N+1; see `place_new`.

    `fixed`: the primary is given.
    """
    from iallocator.ranking.pairs import order_candidates

    settings = evaluator.settings
    ordered = order_candidates(settings.strategy, context, instance, candidates, fixed=fixed)
    best: list[Placement] = []
    failures = dict(ordered.failures)
    rejected: Placement | None = None
    not_redundant = 0
    for placement in ordered.ranked():
        if evaluator.keeps_n1(judged, placement[1]):
            best.append(placement)
            if len(best) >= settings.top:
                break
        else:
            not_redundant += 1
            rejected = rejected or placement
    if not_redundant:
        failures["FailN1"] = not_redundant
    found = GroupPlacements(
        best,
        ordered.feasible - not_redundant,
        failures,
        rejected,
        ordered.scores,
        ordered.name,
        ordered,
    )
    if best and instance.external:
        found.others = other_nodes(ordered, best[0][1])
    if context.trace is not None:
        context.trace.placed(evaluator, judged, ordered, evaluator.keeps_n1, found)
    return found


def other_nodes(candidates: Candidates, taken: tuple[int, ...]) -> list[int]:
    """The nodes of one-node `candidates` but for the one that is taken, best first."""
    return [nodes[0] for _, nodes in candidates.ranked() if nodes != taken]


def _top(
    candidates: Candidates, accepts: Accepts, instance: Instance, count: int
) -> Iterator[Placement]:
    """The `count` best placements that keep N+1."""
    for placement in candidates.ranked():
        if accepts(instance, placement[1]):
            yield placement
            count -= 1
            if not count:
                return


def _anything(instance: Instance, nodes: tuple[int, ...]) -> bool:
    return True
