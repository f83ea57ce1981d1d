"""Explaining the answer to a request, whatever its type."""

from __future__ import annotations

from importlib import import_module

from iallocator.engine import read, respond, settle
from iallocator.explain.explanation import Explanation
from iallocator.explain.facts import Json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.options import Settings

__all__ = ["EXPLAINERS", "explain"]

EXPLAINERS = {
    "allocate": "iallocator.explain.allocate",
    "multi-allocate": "iallocator.explain.multi_allocate",
    "allocate-secondary": "iallocator.explain.allocate_secondary",
    "relocate": "iallocator.explain.relocate",
    "node-evacuate": "iallocator.explain.node_evacuate",
    "change-group": "iallocator.explain.change_group",
    "multi-evacuate": "iallocator.explain.multi_evacuate",
}
"""Request type -> module, in which

``explain(cluster, request, settings, response) -> list[Decision]``

says of every instance where it goes and why.  `cluster` is as the document has it
and belongs to the explainer alone; `response` is what Ganeti would be told, and is
not to be changed.
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
    remarks: list[str] = []
    settings = settle(cluster, request.asked, settings, remarks)
    explainer = import_module(EXPLAINERS[request.kind])
    decisions = explainer.explain(cluster, request, settings, response)
    if not decisions:
        remarks.append("No instance is concerned: nothing is to be done.")
    return Explanation(request.kind, response, _chosen(settings), decisions, remarks)


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
