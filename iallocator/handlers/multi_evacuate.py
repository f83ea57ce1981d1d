"""``multi-evacuate``: new secondaries, as Ganeti 2.4 and older ask for them."""

from __future__ import annotations

from iallocator.handlers.move_reply import move_entry
from iallocator.model.moves import apply_steps
from iallocator.placement.moves import move_secondary
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
    result: list[list[Any]] = []
    solutions: list[dict[str, Any]] = []
    affected = [i for i in cluster.instances if len(i.nodes) > 1 and i.nodes[1] in request.nodes]
    for instance in affected:
        evaluator = context.evaluator(cluster.group_of(instance))
        targets = [i for i in evaluator.online_nodes() if i not in request.nodes]
        outcome = move_secondary(context, evaluator, instance, targets)
        solutions.append(move_entry(context, instance, outcome))
        if outcome.best is None:
            return Reply(False, f"{instance.name}: {outcome.message}", [], solutions)
        apply_steps(context.state, instance, outcome.best.steps)
        result.append([instance.name, cluster.node_names(outcome.best.nodes[1:])])
    info = f"0 instances failed to move and {len(result)} were moved successfully"
    return Reply(True, info, result, solutions)
