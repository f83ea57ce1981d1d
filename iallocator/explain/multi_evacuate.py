"""Why mirrors go where they go: the explanation of ``multi-evacuate``."""

from __future__ import annotations

from iallocator.explain.context import WitnessedContext, limit_notes, order_note, scope_note
from iallocator.explain.moving import tell_secondary
from iallocator.model.moves import apply_steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.explain.explanation import Decision
    from iallocator.explain.facts import Json
    from iallocator.model.cluster import Cluster
    from iallocator.options import Settings
    from iallocator.requests import MultiEvacuate

__all__ = ["explain"]


def explain(
    cluster: Cluster, request: MultiEvacuate, settings: Settings, response: Json
) -> list[Decision]:
    """One decision for each instance mirrored to the nodes, up to the first that fails."""
    affected = [i for i in cluster.instances if len(i.nodes) > 1 and i.nodes[1] in request.nodes]
    context = WitnessedContext(cluster, settings, affected)
    decisions: list[Decision] = []
    moved: list[str] = []
    for instance in affected:
        evaluator = context.evaluator(cluster.group_of(instance))
        decision, move = tell_secondary(context, instance, evaluator, request.nodes)
        decision.notes += limit_notes(context, instance) + scope_note(context, instance)
        decision.notes += order_note(moved)
        decisions.append(decision)
        if move is None:
            decision.notes.append(
                "The whole request fails with it: the protocol knows no partial answer."
            )
            break
        apply_steps(context.state, instance, move.steps)
        moved.append(instance.name)
    return decisions
