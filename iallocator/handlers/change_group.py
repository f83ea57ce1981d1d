"""``change-group``: instances to other groups, with both their nodes."""

from __future__ import annotations

from iallocator.handlers.groups import Wish, collect_offers
from iallocator.handlers.moving import Outcome, move_anywhere, move_pair
from iallocator.handlers.placing import eligible_nodes
from iallocator.handlers.report import MoveReport, move_entry
from iallocator.model.moves import apply_steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.context import Context
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.reply import Reply
    from iallocator.requests import ChangeGroup

__all__ = ["change_group", "move_to_group"]


def change_group(context: Context, request: ChangeGroup) -> Reply:
    """Move each instance to the best of the target groups, less those the instances are in."""
    cluster = context.cluster
    present = {cluster.group_of(instance).index for instance in request.instances}
    targets = cluster.groups if request.targets is None else request.targets
    groups = [group for group in targets if group.index not in present]
    report = MoveReport(context)
    for instance in request.instances:
        outcome = move_to_group(context, instance, groups)
        entry = move_entry(context, instance, outcome)
        if outcome.best is None:
            report.failed(instance, outcome.message, entry)
        else:
            apply_steps(context.state, instance, outcome.best.steps)
            report.moved(instance, outcome.best, entry)
    return report.reply()


def move_to_group(context: Context, instance: Instance, groups: Sequence[Group]) -> Outcome:
    """Choose the group as for a new instance, then move the instance there.

    If the moves there cannot be made, the next group is tried; hail gives up then.
    """
    if not instance.mirrored:
        return Outcome(message=f"Instances of type {instance.template} cannot be relocated")
    if not groups:
        return Outcome(message="no groups for evacuation: no group is left to move to")
    offers = collect_offers(context, Wish(instance, groups, new=False))
    if offers.best is None:
        return Outcome(message=offers.line or "no groups for evacuation: they have no nodes")
    usable = offers.usable[:1] if context.settings.like_hail else offers.usable
    outcomes = (_move_into(context, instance, groups, offer.uuid) for offer in usable)
    first = next(outcomes)
    return first if first.best else next((o for o in outcomes if o.best), first)


def _move_into(
    context: Context, instance: Instance, groups: Sequence[Group], uuid: str
) -> Outcome:
    """Move the instance to the best nodes of one of `groups`."""
    group = next(group for group in groups if group.uuid == uuid)
    targets = eligible_nodes(context, group, None)
    move = move_pair if instance.template == "drbd" else move_anywhere
    asked = context.ignore_soft
    if context.settings.like_hail:  # it ignores soft errors for the choice of the group only
        context.ignore_soft = False
    outcome = move(context, instance, targets)
    context.ignore_soft = asked
    return outcome
