"""Answer ``relocate``: move an instance from one node to the best other node of its group."""

from __future__ import annotations

from iallocator.handlers.move_reply import move_entry, starts_in_vain
from iallocator.placement.moves import (
    MOST_LOSSES_COMPARED,
    move_anywhere,
    move_secondary,
    with_nearest,
)
from iallocator.placement.several.move_all import growth_notes
from iallocator.reply import Reply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.placement.context import Context
    from iallocator.requests.existing import Relocate

__all__ = ["relocate"]


def relocate(context: Context, request: Relocate) -> Reply:
    """Choose another secondary for a drbd instance, or another primary on shared storage."""
    instance = request.instance
    if not instance.kind.relocatable:
        return Reply(
            False,
            "Can't relocate non-mirrored instances: "
            f"{instance.name} is of type {instance.template}",
            [],
            [],
        )
    evaluator = context.evaluator(context.cluster.group_of(instance))
    move = move_secondary if instance.needs_secondary else move_anywhere
    nodes = evaluator.online_nodes()
    outcome = with_nearest(context, lambda: move(context, evaluator, instance, nodes))
    solutions = [move_entry(context, instance, outcome)]
    if outcome.best is None:
        unmet = "" if instance.needs_secondary else context.affinity.unsatisfiable(instance)
        message = outcome.message + (outcome.nearest or "") + (f"; it {unmet}" if unmet else "")
        return Reply(False, message, [], solutions)
    names = context.cluster.node_names(outcome.best.after)
    info = "success"
    if evaluator.rules.exact:  # report failures that the move makes worse
        group = evaluator.group
        with context.state.trial():
            outcome.best.apply(context.state)
            info += growth_notes(
                context, [group], [group] if len(group.nodes) <= MOST_LOSSES_COMPARED else []
            )
    info += starts_in_vain(context, [instance])
    return Reply(True, info, [names[-1]], solutions)
