"""Explaining the answer to a request, whatever its type."""

from __future__ import annotations

from importlib import import_module

from iallocator.engine import read, respond
from iallocator.report.explanation import Explanation
from iallocator.report.facts import Json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.options import Settings

__all__ = ["EXPLAINERS", "explain"]

EXPLAINERS = {
    "allocate": "iallocator.report.allocation",
}
"""Request type -> module, in which

``explain(cluster, request, settings, response) -> list[Decision]``

says of every instance where it goes and why.  `cluster` is as the document has it
and belongs to the explainer alone; `response` is what Ganeti would be told, and is
not to be changed.  A type without explainer gets the response and a remark.
"""


def explain(raw: bytes, settings: Settings) -> Explanation:
    """Why the answer to the request document `raw` is what it is.

    Raises
    ------
    RequestError
        If the document cannot be understood.
    """
    response = respond(raw, settings).document()
    cluster, request = read(raw, settings)
    name = EXPLAINERS.get(request.kind)
    explanation = Explanation(request.kind, response, _chosen(settings), [])
    if name is None:
        explanation.remarks.append(f"Requests of type {request.kind} cannot be explained yet.")
    else:
        explainer = import_module(name)
        explanation.decisions += explainer.explain(cluster, request, settings, response)
    return explanation


def _chosen(settings: Settings) -> Json:
    """The settings that an answer depends on."""
    return {
        "n1": settings.n1,
        "compat": settings.compat,
        "ignore_soft_errors": settings.ignore_soft_errors,
        "ignore_dynu": settings.ignore_dynu,
        "restrict_allocation_to": settings.restrict_allocation_to,
        "static_kvm_node_memory": settings.static_kvm_node_memory,
    }
