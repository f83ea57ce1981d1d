"""Explaining the answer to a request, whatever its type."""

from __future__ import annotations

from iallocator.engine import decide, read
from iallocator.explain.decisions import decisions_of, left_by
from iallocator.explain.explanation import Explanation
from iallocator.explain.facts import Json
from iallocator.explain.recorder import Recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.options import Settings

__all__ = ["explain"]


def explain(raw: bytes, settings: Settings) -> Explanation:
    """Why the answer to the request document `raw` is what it is.

    The request is answered once, as without explanation, with a trace that notes why.

    Raises
    ------
    RequestError
        If the document cannot be understood.
    """
    cluster, request = read(raw, settings)
    noted = Recorder(left_by(request))
    reply = decide(cluster, request, settings, noted)
    response = reply.document()
    decisions = decisions_of(request, noted, response)
    remarks = list(reply.remarks)
    if not decisions:
        remarks.append("No instance is concerned: nothing is to be done.")
    chosen = _chosen(noted.context.settings)
    return Explanation(request.kind, response, chosen, decisions, remarks)


def _chosen(settings: Settings) -> Json:
    """The settings that an answer depends on."""
    return {
        "strategy": settings.strategy,
        "n1": settings.n1,
        "compat": settings.compat,
        "ignore_soft_errors": settings.ignore_soft_errors,
        "ignore_dynu": settings.ignore_dynu,
        "inter_group": settings.inter_group,
        "restrict_allocation_to": settings.restrict_allocation_to,
        "static_kvm_node_memory": settings.static_kvm_node_memory,
    }
