"""Placing a new instance in one group: shared by every request that allocates."""

from __future__ import annotations

from iallocator.limits.group import refused_by_policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from typing import Any

    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.n1.check import N1Check
    from iallocator.options import Settings
    from iallocator.placement.context import Context, Workbench
    from iallocator.ranking.pairs import OrderedCandidates
    from iallocator.scoring.candidates import Candidates, Placement

    Accepts = Callable[[Instance, tuple[int, ...]], bool]

__all__ = [
    "GroupPlacements", "candidates_in_group", "eligible_nodes", "other_nodes", "place_in_group",
]  # fmt: skip


class GroupPlacements:
    """The acceptable placements of an instance in a group.

    Attributes
    ----------
    best:
        The best ones, best first, as many as were asked for.
    successes:
        How many placements passed all checks, global N+1 as far as it was looked at.
    failures:
        Reason -> how many it refused.
    others:
        Of an instance on shared storage that has a place, the other nodes that it could
        be on, best first; else None.
    refused:
        The first placement, by row and then by rank, that global N+1 refused, if any.
    """

    __slots__ = ("_order", "_scores", "best", "failures", "others", "refused", "successes")

    def __init__(
        self,
        best: list[Placement],
        successes: int,
        failures: dict[str, int],
        refused: Placement | None,
        scores: dict[tuple[int, ...], float],
        order: OrderedCandidates | None = None,
    ) -> None:
        self._order = order
        self.best = best
        self.successes = successes
        self.failures = failures
        self.refused = refused
        self.others: list[int] | None = None
        self._scores = scores

    @property
    def ranked_by(self) -> str:
        """The name of the strategy that ranked them."""
        if self._order is not None:
            return self._order.name
        return "lost-allocations" if self._scores else "score"

    @property
    def order(self) -> OrderedCandidates | None:
        """How a strategy ranked the placements, if one did."""
        return self._order

    def score(self, placement: Placement) -> float:
        """The cluster score of a placement, whatever it was ranked by."""
        return float(self._scores[placement[1]] if self._scores else placement[0])


def eligible_nodes(context: Context, group: Group, allowed: Collection[str] | None) -> list[int]:
    """Online nodes of `group`, of those in `allowed` if that is given."""
    nodes = context.cluster.nodes
    return [
        i for i in group.nodes if nodes[i].online and (allowed is None or nodes[i].name in allowed)
    ]


def place_in_group(
    context: Context,
    bench: Workbench,
    group: Group,
    instance: Instance,
    nodes: Sequence[int],
    by_losses: bool = False,
    secondaries: Sequence[int] | None = None,
    judged: Instance | None = None,
    primary_given: bool = False,
    counted: bool = True,
) -> GroupPlacements:
    """Rank the placements of `instance` on `nodes` of `group`.

    For pairs `nodes` are the primaries, and the secondaries unless those are given.
    `primary_given`: the primary is where it is, a strategy has no say in that.
    N+1 looks at `instance`, unless `judged` is to be taken for it.
    `counted`: if not, N+1 is asked no further than to the best placement that keeps it.

    The best that keeps N+1 is taken for every row (for pairs: for every primary);
    those that come before it count as FailN1.  With `by_losses` the rank is that of
    `iallocator.ranking.lost_allocations` instead of the score, unless the group's
    settings name another strategy.
    """
    settings = context.settings_of(group)
    context.look_at(group)
    judge = bench.judge
    candidates = candidates_in_group(
        context, bench, group, instance, nodes, secondaries, bound=not primary_given
    )
    if settings.strategy != "score":
        from iallocator.ranking import ranks_nodes

        if ranks_nodes(settings.strategy):
            return _place_in_order(
                context, judge, settings, instance, candidates, primary_given, judged
            )
        by_losses = True
    scores: dict[tuple[int, ...], float] = {}
    if by_losses:
        from iallocator.ranking import lost_allocations

        candidates, scores = lost_allocations.rank(context.state, group, instance, candidates)
    else:
        candidates, scores = context.bonds.priced(instance, candidates)
    accepts = judge.accepts
    if by_losses and settings.like_hail:  # where losses decide, hail tests no N+1
        accepts = _anything
    best: list[Placement] = []
    failures = dict(candidates.failures)
    not_redundant = 0
    refused: Placement | None = None
    rows: Iterable[Iterator[Placement]] = map(candidates.row, range(candidates.rows()))
    for row in rows if counted else (candidates.ranked(),):
        for placement in row:
            if accepts(judged or instance, placement[1]):
                best.append(placement)
                break
            not_redundant += 1
            refused = refused or placement
    best.sort(key=_score)
    if not_redundant:
        failures["FailN1"] = not_redundant
    if settings.top > 1 and best:
        best = list(_top(candidates, accepts, judged or instance, settings.top))
    found = GroupPlacements(best, candidates.feasible - not_redundant, failures, refused, scores)
    if best and instance.external:
        found.others = other_nodes(candidates, best[0][1])
    return found


def _place_in_order(
    context: Context,
    judge: N1Check,
    settings: Settings,
    instance: Instance,
    candidates: Candidates,
    fixed: bool,
    judged: Instance | None,
) -> GroupPlacements:
    """The best placements in the order of a strategy that keep N+1; see `place_in_group`.

    `fixed`: the primary is given.
    """
    from iallocator.ranking.pairs import order_candidates

    ordered = order_candidates(settings.strategy, context, instance, candidates, fixed=fixed)
    best: list[Placement] = []
    failures = dict(ordered.failures)
    refused: Placement | None = None
    not_redundant = 0
    for placement in ordered.ranked():
        if judge.accepts(judged or instance, placement[1]):
            best.append(placement)
            if len(best) >= settings.top:
                break
        else:
            not_redundant += 1
            refused = refused or placement
    if not_redundant:
        failures["FailN1"] = not_redundant
    found = GroupPlacements(
        best, ordered.feasible - not_redundant, failures, refused, ordered.scores, ordered
    )
    if best and instance.external:
        found.others = other_nodes(ordered, best[0][1])
    return found


def other_nodes(candidates: Candidates, taken: tuple[int, ...]) -> list[int]:
    """The nodes of one-node `candidates` but for the one that is taken, best first."""
    return [nodes[0] for _, nodes in candidates.ranked() if nodes != taken]


def candidates_in_group(
    context: Context,
    bench: Workbench,
    group: Group,
    instance: Instance,
    nodes: Sequence[int],
    secondaries: Sequence[int] | None = None,
    bound: bool = True,
) -> Candidates:
    """The placements of `instance` on `nodes` of `group` that every node can take, scored.

    N+1 is not looked at.  For pairs `nodes` are the primaries, and the secondaries
    unless those are given.  `bound`: its bonds to other instances count.
    """
    kernel, limits = bench.kernel, context.limits
    refusals = context.bonds.refused(instance, nodes) if bound else {}
    refusals |= refused_by_policy(context.cluster, group, instance)
    if instance.required_nodes == 2:
        seconds = nodes if secondaries is None else secondaries
        return kernel.pairs(instance, nodes, seconds, refusals, limits, context.mirror_limits)
    return kernel.singles(instance, nodes, refusals, limits)


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


def _score(placement: Placement) -> Any:
    return placement[0]
