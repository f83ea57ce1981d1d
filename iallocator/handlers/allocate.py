"""``allocate``: where should a new instance go?"""

from __future__ import annotations

from iallocator.filters.group import lacks_network
from iallocator.handlers.placing import eligible_nodes, place_in_group
from iallocator.reply import GroupSolution, Reply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from iallocator.context import Context
    from iallocator.model.cluster import Group
    from iallocator.requests import Allocate

__all__ = ["allocate"]

POLICY_RANK = {"preferred": 0, "last_resort": 1, "unallocable": 2}


def allocate(context: Context, request: Allocate) -> Reply:
    """Rank the groups for a new instance, and the placements in each.

    Groups are ranked by allocation policy, then by score.  A group that is
    unallocable is used only if it is named.
    """
    groups = context.cluster.groups
    if request.group_name is not None:
        groups = [group for group in groups if group.name == request.group_name]
        if not groups:
            return Reply(False, f"Group {request.group_name} does not exist", [], [])
    named = request.group_name is not None
    scope: Sequence[int] = groups[0].nodes if named else context.all_nodes()
    groups = [group for group in groups if group.nodes or named]
    losses = _ranked_by_losses(context, groups, named)
    offers = [
        (group, _offer(context, request, group, scope, named, group in losses))
        for group in groups
    ]
    return _reply(context, offers, named)


def _ranked_by_losses(
    context: Context, groups: Sequence[Group], named: bool
) -> list[Group]:
    """The groups where lost allocations decide: those with exclusive storage throughout.

    hail does so only if all groups that may be used are of that kind.
    """
    if not context.settings.like_hail:
        return [g for g in groups if g.exclusive and context.cluster.dedicated(g)]
    usable = [g for g in groups if named or g.alloc_policy != "unallocable"]
    return list(groups) if all(context.cluster.dedicated(g, online=False) for g in usable) else []


def _offer(
    context: Context, request: Allocate, group: Group, scope: Sequence[int], named: bool, losses: bool
) -> GroupSolution:
    """What `group` offers, ranked by score or by lost allocations."""
    instance = request.instance
    offer = GroupSolution(group.name, group.uuid, group.alloc_policy)
    if lacks_network(group, instance):
        offer.obstacle = (
            f"group {group.name} is not connected to a network "
            f"required by instance {instance.name}"
        )
        return offer
    if group.alloc_policy == "unallocable" and not named and not context.settings.like_hail:
        offer.obstacle = (
            f"Group {group.name} (unallocable): not used, its allocation policy is unallocable"
        )
        return offer
    option = context.settings.restrict_allocation_to
    allowed = request.restrict_to if option is None else option
    nodes = eligible_nodes(context, group, allowed)
    if len(nodes) < instance.required_nodes:
        lack = "Not enough online nodes" if instance.required_nodes == 2 else "No online nodes"
        offer.obstacle = lack if named else f"Group {group.name}: error {lack}"
        return offer
    found = place_in_group(
        context, context.kernel(scope), context.judge(scope), group, instance, nodes, losses
    )
    offer.placements = [
        (found.score(placement), context.cluster.node_names(placement[1]))
        for placement in found.best
    ]
    offer.successes = found.successes
    offer.failures = found.failures
    if found.best:
        offer.key = found.best[0][0]
        if losses:
            from iallocator.strategies.lost_allocations import shown

            offer.shown_score = shown(offer.key)
        else:
            offer.shown_score = f"{offer.key:.8f}"
    return offer


def _reply(
    context: Context, offers: Sequence[tuple[Group, GroupSolution]], named: bool
) -> Reply:
    lines = ", ".join(offer.line() for _, offer in offers)
    usable = [
        position
        for position, (group, offer) in enumerate(offers)
        if offer.placements and (named or group.alloc_policy != "unallocable")
    ]
    if context.settings.like_hail:
        usable.reverse()  # the last of equals wins
    alike = len({isinstance(offers[position][1].key, tuple) for position in usable}) < 2
    usable.sort(key=lambda position: _rank(offers[position][1], alike))
    order = usable + [position for position in range(len(offers)) if position not in usable]
    solutions = [offers[position][1].document(context.settings.top) for position in order]
    if not usable:
        return Reply(False, lines or "no group has nodes", [], solutions)
    best = offers[order[0]][1]
    selected = "" if named else f"Selected group: {best.group}, "
    warning = ""
    if best.alloc_policy == "unallocable":
        warning = f"; warning: the allocation policy of group {best.group} is unallocable"
    return Reply(True, selected + lines + warning, best.placements[0][1], solutions)


def _rank(offer: GroupSolution, alike: bool) -> tuple[int, Any]:
    """The rank of a group: lost allocations decide between groups only if all go by them."""
    key = offer.key if alike else offer.placements[0][0]
    return POLICY_RANK[offer.alloc_policy], round(key, 8) if isinstance(key, float) else key
