"""Collect the offer of each group for a new instance, and rank the offers."""

from __future__ import annotations

from iallocator.constraints.table import group_obstacle
from iallocator.placement.new import place_new
from iallocator.placement.results import GroupSolution, RankedGroups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context
    from iallocator.placement.evaluator import Evaluator
    from iallocator.placement.results import AllocationRequest, GroupPlacements
    from iallocator.ranking.base import NodeRanking

__all__ = [
    "collect_offers",
    "fill_offer",
    "may_offer",
    "offer_of",
    "ranked_by_losses",
    "words_of_rank",
]


def collect_offers(context: Context, allocation: AllocationRequest) -> RankedGroups:
    """Return the best placements of every group of `allocation`, as ranked offers."""
    scope = allocation.scope(context.all_nodes())
    by_losses = ranked_by_losses(context, allocation)
    offers = [
        offer_of(context, allocation, context.evaluator(group, scope), group in by_losses)
        for group in allocation.groups
    ]
    if context.settings.behaviour.decides_by_rounding and len(offers) > 1:
        # Compute the scores of offers exactly to the last digit if they are nearly equal
        from iallocator.scoring.rounding import exactly

        scored = [offer for offer in offers if offer.nodes and offer.ranked_by == "score"]
        best = [(offer.key, offer.nodes[0]) for offer in scored]
        for offer, score in zip(scored, exactly(context.state, scope, allocation.instance, best)):
            offer.exactly = score
    order = _order_of_best(context, allocation, offers)
    ranked = RankedGroups(
        offers, allocation.named, context.settings.behaviour.prefers_last_group, order
    )
    if context.trace is not None:
        context.trace.compared(allocation, ranked)
    return ranked


def _order_of_best(
    context: Context, allocation: AllocationRequest, offers: Sequence[GroupSolution]
) -> Callable[[Sequence[GroupSolution]], NodeRanking] | None:
    """Return the function by which a strategy ranks the best node of each group, or None.

    The result is None if no group was ranked by a strategy that ranks nodes, or if the strategies
    differ. Groups are then compared by their scores.
    """
    names = {offer.ranked_by for offer in offers if offer.placements}
    if names <= {"score", "lost-allocations"} or len(names) > 1:
        return None
    from iallocator.ranking.base import RankQuery, strategy_module

    (name,) = names
    task = RankQuery(name, context, allocation.instance)

    def order(usable: Sequence[GroupSolution]) -> NodeRanking:
        return strategy_module(name).order(task, sorted(o.nodes[0][0] for o in usable))

    return order


def ranked_by_losses(context: Context, allocation: AllocationRequest) -> list[Group]:
    """Return the groups that are ranked by lost allocations: all their nodes have exclusive
    storage.

    The list is empty, as in hail, unless all groups of `allocation` are of this kind.
    """
    if not allocation.new:
        return []
    dedicated = context.cluster.dedicated
    if context.settings.behaviour.ranks_losses_per_group:
        return [g for g in allocation.groups if g.exclusive and dedicated(g)]
    usable = [g for g in allocation.groups if allocation.named or g.alloc_policy != "unallocable"]
    return list(allocation.groups) if all(dedicated(g, online=False) for g in usable) else []


def offer_of(
    context: Context,
    allocation: AllocationRequest,
    evaluator: Evaluator,
    by_losses: bool = False,
    only: Sequence[int] = (),
) -> GroupSolution:
    """Return the offer of the evaluator's group for `allocation`.

    `by_losses`: rank by lost allocations instead of the score. `only`: the nodes to use; (): all.
    """
    instance, group = allocation.instance, evaluator.group
    offer = GroupSolution(group.name, group.uuid, group.alloc_policy)
    nodes = evaluator.online_nodes(allocation.allowed)
    offer.obstacle = _obstacle(context, allocation, group, len(nodes))
    if offer.obstacle or not set(only).issubset(nodes):
        return offer
    placements = place_new(
        evaluator,
        instance,
        only[:1] or nodes,
        by_losses,
        secondaries=only[1:] or None,
        counted=allocation.counted,
    )
    fill_offer(offer, context, evaluator, placements)
    offer.query = placements.query
    offer.order = placements.order
    offer.nodes = [placement[1] for placement in placements.best]
    if placements.others is not None:
        offer.secondaries = context.cluster.node_names(placements.others)
    offer.rejected = placements.rejected[1] if placements.rejected else None
    if placements.best:
        offer.key, best = placements.best[0]
        if evaluator.settings.behaviour.decides_by_rounding and offer.shown_score and offer.key:
            offer.shown_score = _exactly_shown(context, evaluator, instance, offer)
        offer.ranked_by = placements.ranked_by
        broken = context.affinity.broken(instance, best[0])
        if broken:
            offer.extra["broken"] = broken
        if placements.order is None and offer.ranked_by != "score":
            offer.shown_score = words_of_rank(offer.key)
        elif placements.order is not None:
            offer.extra |= placements.order.extra(best)
    return offer


def _exactly_shown(
    context: Context, evaluator: Evaluator, instance: Instance, offer: GroupSolution
) -> str:
    """Return as text the score of the best placement of `offer`, with hail's rounding errors.

    If a strategy other than ``score`` ranked the placements, the text of the offer is returned.
    """
    if evaluator.settings.strategy != "score" or not isinstance(offer.key, float):
        return offer.shown_score
    from iallocator.scoring.rounding import RunningSums

    sums = RunningSums(context.state, evaluator.scope.nodes, instance)
    return words_of_rank(sums.created([offer.nodes[0]])[0])


def fill_offer(
    offer: GroupSolution, context: Context, evaluator: Evaluator, placements: GroupPlacements
) -> None:
    """Record in `offer` the `placements` of its group, their ranks, and the rejections."""
    names, settings = context.cluster.node_names, evaluator.settings
    offer.placements = [(placements.score(placed), names(placed[1])) for placed in placements.best]
    offer.penalties = [placements.penalty(placed) for placed in placements.best]
    offer.successes, offer.failures = placements.successes, placements.failures
    offer.top = settings.top
    if settings.strategy != "score":
        offer.extra = {"strategy": settings.strategy}
    if placements.best:
        offer.shown_score = words_of_rank(placements.score(placements.best[0]))


def may_offer(context: Context, allocation: AllocationRequest, group: Group, nodes: int) -> bool:
    """Return whether `group`, with `nodes` candidate nodes, may offer any placement."""
    unallocable = group.alloc_policy == "unallocable" and not allocation.named
    return not unallocable and not _obstacle(context, allocation, group, nodes)


def _obstacle(context: Context, allocation: AllocationRequest, group: Group, nodes: int) -> str:
    """Return why `group` as a whole rejects the instance; "" if it does not.

    `nodes`: the number of candidate nodes in the group.
    """
    obstacle = group_obstacle(context.cluster, group, allocation.instance, named=True)
    if obstacle:
        return obstacle
    unallocable = group.alloc_policy == "unallocable"
    if unallocable and not allocation.named and context.settings.behaviour.names_unallocable:
        return f"Group {group.name} (unallocable): not used, its allocation policy is unallocable"
    if nodes < allocation.instance.required_nodes:
        pair = allocation.instance.required_nodes == 2
        lack = "Not enough online nodes" if pair else "No online nodes"
        return lack if allocation.named else f"Group {group.name}: error {lack}"
    return ""


def words_of_rank(key: Any) -> str:
    """Return a score, or lost allocations, in the words of the ``info`` line of hail.

    The result is "" if the strategy ranks nodes by neither of them.
    """
    if isinstance(key, float):
        return f"{key:.8f}"
    if isinstance(key[0], int):
        return ""
    from iallocator.ranking import lost_allocations

    return lost_allocations.words_of_losses(key)
