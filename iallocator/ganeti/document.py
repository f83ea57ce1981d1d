"""Transitions as plain data, with the opcodes and jobs that carry them out."""

from __future__ import annotations

from iallocator.ganeti.jobs import jobs_of
from iallocator.ganeti.step_opcodes import opcodes_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.aliases import Json
    from iallocator.model.cluster import Cluster
    from iallocator.transition.resources import Place
    from iallocator.transition.transition import ScheduledStep, Transition


__all__ = ["transition_document"]


def transition_document(transition: Transition) -> Json:
    """A transition as responses and plans hold it; see ``schemas/plan.schema.json``."""
    return {
        "steps": [_step(step, transition.cluster) for step in transition.steps],
        "waits": transition.waits,
        "longest": transition.longest,
        "left": [{"name": name, "reason": reason} for name, reason in transition.left],
        "remarks": transition.remarks,
        "jobs": jobs_of(transition),
    }


def _step(step: ScheduledStep, cluster: Cluster) -> Json:
    action = step.action
    entry: Json = {"number": step.number, "kind": action.kind}
    if action.instance is not None:
        entry["instance"] = action.instance.name
        entry["from"] = _names(cluster, action.before)
        entry["to"] = _names(cluster, action.after)
    if action.node is not None:
        entry["node"] = cluster.nodes[action.node].name
    if action.tags:
        entry["tags"] = list(action.tags)
    return entry | {
        "after": step.after,
        "because": step.because,
        "opcodes": opcodes_of(cluster, action),
    }


def _names(cluster: Cluster, place: Place | None) -> list[str]:
    return cluster.node_names(place.nodes) if place else []
