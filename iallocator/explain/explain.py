"""Explaining the answer to a request, whatever its type."""

from __future__ import annotations

from iallocator.aliases import Json
from iallocator.engine import decide, read
from iallocator.explain.explanation import Explanation
from iallocator.explain.record.decisions import decisions_of
from iallocator.explain.record.narrow import narrow_to_instance, narrow_to_node
from iallocator.explain.record.recorder import Recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.model.cluster import Cluster
    from iallocator.options.settings import Settings
    from iallocator.requests import Request

__all__ = ["explain", "explain_request"]


LATE = "There is no decision to explain: time was up before there was an answer."


def explain(
    raw: bytes, settings: Settings, instance: str | None = None, node: str | None = None
) -> Explanation:
    """Why the answer to the request document `raw` is what it is.

    The request is answered once, as without explanation, with a trace that notes why.
    Of `instance` only, if that is given; with only what `node` said, if that is given.

    Raises
    ------
    RequestError
        If the document cannot be understood.
    UsageError
        If the request is not about `instance`, or has no `node`.
    """
    cluster, request = read(raw, settings)
    return explain_request(cluster, request, settings, instance, node)


def explain_request(
    cluster: Cluster,
    request: Request,
    settings: Settings,
    instance: str | None = None,
    node: str | None = None,
) -> Explanation:
    """Why the answer to `request` about `cluster` is what it is; see `explain`."""
    noted = Recorder(request.evacuated_nodes())
    reply = decide(cluster, request, settings, noted)
    response = reply.document()
    remarks = list(reply.remarks)
    if noted.late:
        return Explanation(request.kind, response, _chosen(settings), [], [*remarks, LATE])
    decisions = decisions_of(request, noted, response)
    if not decisions:
        remarks.append("No instance is concerned: nothing is to be done.")
    chosen = _chosen(noted.context.settings)
    found = Explanation(request.kind, response, chosen, decisions, remarks)
    if instance is not None:
        narrow_to_instance(found, instance)
    if node is not None:
        narrow_to_node(found, cluster, node)
    return found


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
