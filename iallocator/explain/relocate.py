"""Why an instance leaves one node for another: the explanation of ``relocate``."""

from __future__ import annotations

from iallocator.explain.context import WitnessedContext, limit_notes, scope_note
from iallocator.explain.move_report import refused
from iallocator.explain.moving import tell_anywhere, tell_secondary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.explain.explanation import Decision
    from iallocator.explain.facts import Json
    from iallocator.model.cluster import Cluster
    from iallocator.options import Settings
    from iallocator.requests import Relocate

__all__ = ["explain"]


def explain(
    cluster: Cluster, request: Relocate, settings: Settings, response: Json
) -> list[Decision]:
    """The one decision of a ``relocate``."""
    instance = request.instance
    context = WitnessedContext(cluster, settings, [])
    if not instance.mirrored:
        reason = f"Can't relocate non-mirrored instances: it is of type {instance.template}"
        return [refused(context, instance, reason)]
    tell = tell_secondary if instance.template == "drbd" else tell_anywhere
    decision, _ = tell(context, instance, context.evaluator(cluster.group_of(instance)))
    decision.notes += limit_notes(context, instance) + scope_note(context, instance)
    return [decision]
