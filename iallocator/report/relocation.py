"""Why an instance leaves one node for another: the explanation of ``relocate``."""

from __future__ import annotations

from iallocator.report.journey import refused
from iallocator.report.moving import tell_anywhere, tell_secondary
from iallocator.report.witnessed import WitnessedContext, limit_notes, scope_note

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.model.cluster import Cluster
    from iallocator.options import Settings
    from iallocator.report.explanation import Decision
    from iallocator.report.facts import Json
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
    decision, _ = tell(context, instance, cluster.group_of(instance))
    decision.notes += limit_notes(context, instance) + scope_note(context, instance)
    return [decision]
