"""Placing a new instance in one group: shared by every request that allocates."""

from __future__ import annotations

from iallocator.filters.group import refused_by_policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from typing import Any

    from iallocator.context import Context, Workbench
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.scoring.candidates import Candidates, Placement

    Accepts = Callable[[Instance, tuple[int, ...]], bool]

__all__ = ["GroupPlacements", "eligible_nodes", "place_in_group"]


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
    refused:
        The first placement, by row and then by rank, that global N+1 refused, if any.
    """

    __slots__ = ("_scores", "best", "failures", "refused", "successes")

    def __init__(
        self,
        best: list[Placement],
        successes: int,
        failures: dict[str, int],
        refused: Placement | None,
        scores: dict[tuple[int, ...], float],
    ) -> None:
        self.best = best
        self.successes = successes
        self.failures = failures
        self.refused = refused
        self._scores = scores

    def score(self, placement: Placement) -> float:
        """The cluster score of a placement, whatever it was ranked by."""
        return float(self._scores[placement[1]] if self._scores else placement[0])


def eligible_nodes(
    context: Context, group: Group, allowed: Collection[str] | None
) -> list[int]:
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
) -> GroupPlacements:
    """Rank the placements of `instance` on `nodes` of `group`.

    For pairs `nodes` are the primaries, and the secondaries unless those are given.
    N+1 looks at `instance`, unless `judged` is to be taken for it.

    The best that keeps N+1 is taken for every row (for pairs: for every primary);
    those that come before it count as FailN1.  With `by_losses` the rank is that of
    `iallocator.strategies.lost_allocations` instead of the score.
    """
    settings = context.settings
    kernel, judge, limits = bench.kernel, bench.judge, context.limits
    refusals = refused_by_policy(context.cluster, group, instance)
    if instance.required_nodes == 2:
        seconds = nodes if secondaries is None else secondaries
        candidates = kernel.pairs(
            instance, nodes, seconds, refusals, limits, context.mirror_limits
        )
    else:
        candidates = kernel.singles(instance, nodes, refusals, limits)
    scores: dict[tuple[int, ...], float] = {}
    if by_losses:
        from iallocator.strategies import lost_allocations

        candidates, scores = lost_allocations.rank(context.state, group, instance, candidates)
    accepts = judge.accepts
    if by_losses and settings.like_hail:  # where losses decide, hail tests no N+1
        accepts = _anything
    best: list[Placement] = []
    failures = dict(candidates.failures)
    not_redundant = 0
    refused: Placement | None = None
    for number in range(candidates.rows()):
        for placement in candidates.row(number):
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
    return GroupPlacements(
        best, candidates.feasible - not_redundant, failures, refused, scores
    )


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
