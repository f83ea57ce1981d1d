"""``multi-evacuate``: new secondaries, as Ganeti 2.4 and older ask for them."""

from __future__ import annotations

from iallocator.handlers.move_reply import move_entry
from iallocator.handlers.node_evacuate import evacuation_task
from iallocator.placement.several.move_all import move_all
from iallocator.reply import Reply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iallocator.placement.context import Context
    from iallocator.requests import MultiEvacuate

__all__ = ["multi_evacuate"]


def multi_evacuate(context: Context, request: MultiEvacuate) -> Reply:
    """Give every instance mirrored to one of the nodes a secondary elsewhere.

    The protocol knows no partial answer: the first that fails, fails the request.
    """
    cluster = context.cluster
    tasks = [
        evacuation_task(context, instance, "secondary-only", request.nodes)
        for instance in request.existing(cluster)
    ]
    note, made = move_all(context, tasks)
    result: list[list[Any]] = []
    solutions: list[dict[str, Any]] = []
    for instance, outcome in made:
        solutions.append(move_entry(context, instance, outcome))
        if outcome.best is None:
            why = outcome.message + (outcome.nearest or "")
            return Reply(False, f"{instance.name}: {why}{note}", [], solutions)
        result.append([instance.name, cluster.node_names(outcome.best.after[1:])])
    info = f"0 instances failed to move and {len(result)} were moved successfully{note}"
    return Reply(True, info, result, solutions)
