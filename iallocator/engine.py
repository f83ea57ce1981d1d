"""From the bytes of a request to the reply: read, place, answer."""

from __future__ import annotations

from iallocator.context import Context
from iallocator.handlers import handler_for
from iallocator.wire.document import Reading, read_cluster
from iallocator.wire.read import decode
from iallocator.wire.request import read_request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.model.cluster import Cluster
    from iallocator.options import Settings
    from iallocator.reply import Reply
    from iallocator.requests import Request

__all__ = ["read", "respond"]


def reading_for(settings: Settings) -> Reading:
    """How `settings` want documents to be read."""
    return Reading(
        like_hail=settings.like_hail,
        static_kvm_memory=settings.static_kvm_node_memory,
        ignore_load=settings.ignore_dynu,
    )


def read(raw: bytes, settings: Settings) -> tuple[Cluster, Request]:
    """Cluster and request of a document."""
    document = decode(raw)
    reading = reading_for(settings)
    cluster = read_cluster(document, reading)
    return cluster, read_request(document, cluster, reading)


def respond(raw: bytes, settings: Settings) -> Reply:
    """The reply to the request document `raw`."""
    cluster, request = read(raw, settings)
    context = Context(cluster, settings, _candidates(cluster, request))
    return handler_for(request.kind)(context, request)


def _candidates(cluster: Cluster, request: Request) -> int:
    """About how many placements the request scores."""
    return sum(len(group.nodes) ** request.instance.required_nodes for group in cluster.groups)
