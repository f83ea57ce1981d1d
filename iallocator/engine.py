"""From the bytes of a request to the reply: read, place, answer."""

from __future__ import annotations

from iallocator.context import Context
from iallocator.handlers import handler_for
from iallocator.requests import (
    Allocate,
    ChangeGroup,
    MultiAllocate,
    MultiEvacuate,
    NodeEvacuate,
)
from iallocator.wire.document import Reading, read_cluster
from iallocator.wire.read import decode
from iallocator.wire.request import read_request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
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
    """About how many placements the request scores: one per node, or per pair, and instance."""
    instances: Sequence[Instance]
    if isinstance(request, MultiAllocate):
        instances = [wanted.instance for wanted in request.wanted]
    elif isinstance(request, NodeEvacuate | ChangeGroup):
        instances = request.instances
    elif isinstance(request, MultiEvacuate):
        return sum(1 for i in cluster.instances if i.nodes[-1] in request.nodes) * len(cluster.nodes)
    elif isinstance(request, Allocate):
        instances = [request.instance]
    else:
        return len(cluster.nodes)
    sizes = [len(group.nodes) for group in cluster.groups]
    return sum(size**i.required_nodes for i in instances for size in sizes)
