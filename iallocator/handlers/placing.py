"""Placing a new instance in one group: shared by every request that allocates."""

from __future__ import annotations

from iallocator.filters.group import refused_by_policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from iallocator.context import Context
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.redundancy.judge import Judge
    from iallocator.scoring import Kernel
    from iallocator.scoring.candidates import Candidates, Placement

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
    """

    __slots__ = ("best", "failures", "refused", "successes")

    def __init__(
        self,
        best: list[Placement],
        successes: int,
        failures: dict[str, int],
        refused: Placement | None,
    ) -> None:
        self.best = best
        self.successes = successes
        self.failures = failures
        self.refused = refused


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
    kernel: Kernel,
    judge: Judge,
    group: Group,
    instance: Instance,
    nodes: Sequence[int],
) -> GroupPlacements:
    """Rank the placements of `instance` on `nodes` of `group`.

    The best that keeps N+1 is taken for every row (for pairs: for every primary);
    those that come before it count as FailN1.
    """
    settings = context.settings
    refusals = refused_by_policy(context.cluster, group, instance)
    if instance.required_nodes == 2:
        candidates = kernel.pairs(instance, nodes, nodes, refusals, settings.ignore_soft_errors)
    else:
        candidates = kernel.singles(instance, nodes, refusals, settings.ignore_soft_errors)
    best: list[Placement] = []
    failures = dict(candidates.failures)
    not_redundant = 0
    refused: Placement | None = None
    for number in range(candidates.rows()):
        for placement in candidates.row(number):
            if judge.accepts(instance, placement[1]):
                best.append(placement)
                break
            not_redundant += 1
            refused = refused or placement
    best.sort(key=_score)
    if not_redundant:
        failures["FailN1"] = not_redundant
    if settings.top > 1 and best:
        best = list(_top(candidates, judge, instance, settings.top))
    return GroupPlacements(best, candidates.feasible - not_redundant, failures, refused)


def _top(
    candidates: Candidates, judge: Judge, instance: Instance, count: int
) -> Iterator[Placement]:
    """The `count` best placements that keep N+1."""
    for placement in candidates.ranked():
        if judge.accepts(instance, placement[1]):
            yield placement
            count -= 1
            if not count:
                return


def _score(placement: Placement) -> float:
    return placement[0]
