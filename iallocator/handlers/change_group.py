"""Answer ``change-group``: move instances, with both of their nodes, to other groups."""

from __future__ import annotations

from iallocator.handlers.move_reply import MoveReport, move_entry
from iallocator.placement.groups import collect_offers
from iallocator.placement.moves import move_anywhere, move_pair
from iallocator.placement.results import AllocationRequest, MoveResult
from iallocator.placement.several.move_all import move_all
from iallocator.placement.several.sequence import RequiredMove

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context
    from iallocator.placement.evaluator import Evaluator
    from iallocator.reply import Reply
    from iallocator.requests.existing import ChangeGroup

__all__ = ["change_group", "move_to_group", "mover_into"]


def change_group(context: Context, request: ChangeGroup) -> Reply:
    """Move each instance to the best target group; groups with an instance of the request are
    excluded.
    """
    groups = request.target_groups(context.cluster)
    tasks = [_task(context, instance, groups) for instance in request.instances]
    note, made = move_all(context, tasks)
    report = MoveReport(context)
    for instance, outcome in made:
        entry = move_entry(context, instance, outcome)
        if outcome.best is None:
            report.failed(instance, outcome.message, entry, outcome.nearest or "")
        else:
            report.moved(outcome.best, entry)
    return report.reply(note)


def _task(context: Context, instance: Instance, groups: Sequence[Group]) -> RequiredMove:
    """Return the task to move one instance to the best of `groups`."""

    def exactly(nodes: tuple[int, ...]) -> MoveResult:
        group = context.cluster.nodes[nodes[0]].group
        if not collect_offers(
            context, AllocationRequest(instance, [group], new=False, counted=False)
        ).usable:
            return MoveResult(message=f"group {group.name} cannot take it")
        if instance.needs_secondary:
            return move_pair(context, mover_into(context, group), instance, nodes[:1], nodes[1:])
        return move_anywhere(context, mover_into(context, group), instance, nodes)

    return RequiredMove(
        instance,
        lambda: move_to_group(context, instance, groups),
        lambda: _places(context, instance, groups),
        exactly,
    )


def _places(
    context: Context, instance: Instance, groups: Sequence[Group]
) -> Iterator[tuple[float, tuple[int, ...]]]:
    """Yield score and nodes of the possible placements of `instance`, which is not placed, in
    `groups`.
    """
    if not instance.kind.relocatable or len(instance.nodes) < instance.required_nodes:
        return  # a drbd instance without its secondary cannot be moved
    for offer in collect_offers(
        context, AllocationRequest(instance, groups, new=False, counted=False)
    ).usable:
        group = next(group for group in groups if group.uuid == offer.uuid)
        evaluator = mover_into(context, group)
        targets = evaluator.online_nodes()
        if instance.needs_secondary:
            candidates = evaluator.candidates(instance, "any pair", instance.nodes, targets)
        else:
            candidates = evaluator.candidates(instance, "moved", instance.nodes, targets)
        yield from candidates.everything()


def move_to_group(
    context: Context, instance: Instance, groups: Sequence[Group], names_nearest: bool = True
) -> MoveResult:
    """Return the move of `instance` to the best of `groups`, chosen as for a new instance.

    If the move to a group is impossible, the next group is tried; hail gives up. `names_nearest`:
    report the nearest candidate if the instance cannot be placed.
    """
    settings = context.settings
    fixed = f"Instances of type {instance.template} cannot be relocated"
    if not (instance.kind.relocatable or settings.behaviour.lists_rejections):
        return MoveResult(message=fixed)
    if not groups:
        return MoveResult(message="no groups for evacuation: no group is left to move to")
    allowed = None if settings.behaviour.restricts_new_only else settings.restrict_allocation_to
    allocation = AllocationRequest(instance, groups, allowed=allowed, new=False, counted=False)
    offers = collect_offers(context, allocation)
    if offers.best is None:
        outcome = MoveResult(message=offers.line or "no groups for evacuation: they have no nodes")
        if names_nearest:
            from iallocator.placement.nearest import nearest_new

            outcome.nearest = nearest_new(context, allocation, offers)
        return outcome
    if not instance.kind.relocatable:
        return MoveResult(message=fixed)

    def into(uuid: str) -> MoveResult:
        group = next(group for group in groups if group.uuid == uuid)
        move = move_pair if instance.needs_secondary else move_anywhere
        evaluator = mover_into(context, group)
        return move(context, evaluator, instance, evaluator.online_nodes())

    usable = offers.usable if settings.behaviour.tries_other_groups else offers.usable[:1]
    outcomes = (into(offer.uuid) for offer in usable)
    context.last_query = None
    first = next(outcomes)
    queried = context.last_query
    outcome = first if first.best else next((o for o in outcomes if o.best), first)
    if outcome.best is None and outcome.nearest is None and names_nearest:
        from iallocator.placement.nearest import nearest_move

        outcome.nearest = nearest_move(context, queried)
    return outcome


def mover_into(context: Context, group: Group) -> Evaluator:
    """Return the evaluator of moves into `group`.

    With ``--compat hail``, it always enforces soft limits.
    """
    evaluator = context.evaluator(group)
    spares = context.settings.behaviour.spares_soft_limits_after_group
    return evaluator if spares else evaluator.enforcing_soft_limits()
