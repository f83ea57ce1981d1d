"""The ``request`` member of a document."""

from __future__ import annotations

from iallocator.errors import RequestError
from iallocator.requests import Allocate
from iallocator.wire.document import new_instance
from iallocator.wire.fields import child, integer, names, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from iallocator.model.cluster import Cluster
    from iallocator.requests import Request
    from iallocator.wire.document import Reading
    from iallocator.wire.fields import Raw

__all__ = ["read_request"]


def read_request(document: Raw, cluster: Cluster, reading: Reading) -> Request:
    """The request in `document`, about `cluster`.

    Raises
    ------
    RequestError
        If it is not understood, or names something that `cluster` does not have.
    """
    raw = child(document, "request")
    try:
        kind = text(raw, "type")
        if kind not in READERS:
            known = ", ".join(f'"{name}"' for name in READERS)
            raise RequestError("type", f'expected one of {known}, got "{kind}"')
        return READERS[kind](raw, cluster, reading)
    except RequestError as error:
        raise error.below("request") from None


def _allocate(raw: Raw, cluster: Cluster, reading: Reading) -> Allocate:
    instance = new_instance(raw, reading, cluster)
    required = integer(raw, "required_nodes", instance.required_nodes)
    if required != instance.required_nodes:
        raise RequestError(
            "required_nodes",
            f"expected {instance.required_nodes} for {instance.template}, got {required}",
        )
    restrict_to = None
    if raw.get("restrict-to-nodes") is not None:
        restrict_to = names(raw, "restrict-to-nodes")
        _known_nodes(restrict_to, cluster, "restrict-to-nodes")
    return Allocate(instance, text(raw, "group_name", None), restrict_to)


def _known_nodes(found: list[str], cluster: Cluster, key: str) -> None:
    known = {node.name for node in cluster.nodes}
    for position, name in enumerate(found):
        if name not in known:
            raise RequestError(
                f"{key}/{position}", f'expected a node of the document, got "{name}"'
            )


READERS: dict[str, Callable[[Raw, Cluster, Reading], Request]] = {
    "allocate": _allocate,
}
"""Request type -> reader."""
