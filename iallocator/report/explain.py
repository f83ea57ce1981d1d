"""Explaining the answer to a request, whatever its type."""

from __future__ import annotations

from importlib import import_module

from iallocator.engine import read, respond, settle
from iallocator.report.explanation import Explanation
from iallocator.report.facts import Json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.options import Settings

__all__ = ["EXPLAINERS", "explain"]

EXPLAINERS = {
    "allocate": "iallocator.report.allocation",
    "multi-allocate": "iallocator.report.batch",
    "allocate-secondary": "iallocator.report.mirroring",
    "relocate": "iallocator.report.relocation",
    "node-evacuate": "iallocator.report.evacuation",
    "change-group": "iallocator.report.group_change",
    "multi-evacuate": "iallocator.report.multi_evacuation",
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
