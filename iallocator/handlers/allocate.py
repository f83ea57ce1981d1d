"""Answer ``allocate``: choose the nodes of a new instance."""

from __future__ import annotations

from iallocator.placement.groups import collect_offers
from iallocator.placement.results import AllocationRequest
from iallocator.reply import Reply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.placement.context import Context
    from iallocator.placement.results import GroupSolution, RankedGroups
    from iallocator.requests import Allocate

__all__ = ["allocate", "allocation_request", "policy_warning", "why_nowhere"]


def allocate(context: Context, request: Allocate) -> Reply:
    """Answer with the best placements of a new instance in each group, groups ranked.

    Groups are ranked by allocation policy, then by score. An unallocable group is used only if the
    request names it.
    """
    allocation = allocation_request(context, request)
    if allocation is None:
        return Reply(False, f"Group {request.group_name} does not exist", [], [])
    if request.recreated is not None and context.settings.behaviour.recreates_in_place:
        context.leaving = request.recreated
        context.state.remove(request.recreated, request.recreated.nodes)
    if context.settings.behaviour.checks_n1_by_namesake and allocation.named:
        # hail confuses the new instance with an existing one: its position, from the end of the
        # list of instances, is the number of instances in the group
        cluster, group = context.cluster, allocation.groups[0]
        count = sum(1 for one in cluster.instances if cluster.group_of(one) is group)
        if count < len(cluster.instances):
            one = cluster.instances[-1 - count]
            context.namesake = one if cluster.group_of(one) is group else None
    offers = collect_offers(context, allocation)
    solutions = [offer.document(context.settings.top) for offer in offers.ranked]
    best = offers.best
    if best is None:
        return Reply(False, why_nowhere(context, allocation, offers), [], solutions)
    selected = "" if allocation.named else f"Selected group: {best.group}, "
    info = selected + offers.line + policy_warning(best)
    return Reply(True, info, best.placements[0][1], solutions)


def why_nowhere(context: Context, allocation: AllocationRequest, offers: RankedGroups) -> str:
    """Return why no group accepts a new instance, with the nearest candidate."""
    from iallocator.placement.nearest import nearest_new

    why = (offers.line or "no group has nodes") + nearest_new(context, allocation, offers)
    unkept = context.affinity.unsatisfiable(allocation.instance)
    return f"{why}; it {unkept}" if unkept else why


def policy_warning(best: GroupSolution) -> str:
    """Return the text for ``info`` if the group is used against its allocation policy."""
    if best.alloc_policy != "unallocable":
        return ""
    return f"; warning: the allocation policy of group {best.group} is unallocable"


def allocation_request(context: Context, request: Allocate) -> AllocationRequest | None:
    """Return the instance, and the groups and nodes where it may be placed.

    The result is None if the group of `request` is unknown. The option that restricts nodes has
    precedence over the request. An existing instance with disks to be created anew stays in its
    group.
    """
    option = context.settings.restrict_allocation_to
    allowed = request.restrict_to if option is None else option
    groups = context.cluster.groups
    if request.group_name is not None:
        groups = [group for group in groups if group.name == request.group_name]
        if not groups:
            return None
    elif request.recreated is not None and context.settings.behaviour.recreates_in_place:
        groups = [context.cluster.group_of(request.recreated)]
    else:
        return AllocationRequest(request.instance, groups, allowed=allowed)
    return AllocationRequest(request.instance, groups, named=True, allowed=allowed)
