"""What a request asks for, in a few words."""

from __future__ import annotations

from iallocator.requests import (
    Allocate,
    AllocateSecondary,
    ChangeGroup,
    MultiAllocate,
    MultiEvacuate,
    NodeEvacuate,
    Relocate,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.requests import Request

__all__ = ["asked"]

NAMED = 3
"""Instances of a request whose names are told."""


def asked(cluster: Cluster, request: Request) -> str:
    """What `request` is about, without its type."""
    if isinstance(request, Allocate):
        return _new(request.instance) + _where(request.group_name)
    if isinstance(request, MultiAllocate):
        return _names([one.instance for one in request.wanted])
    if isinstance(request, AllocateSecondary):
        return request.instance.name
    if isinstance(request, Relocate):
        return f"{request.instance.name} from {cluster.nodes[request.source].name}"
    if isinstance(request, NodeEvacuate):
        return f"{_names(request.instances)}; {request.mode}"
    if isinstance(request, ChangeGroup):
        targets = [group.name for group in request.targets or ()]
        return _names(request.instances) + _where(", ".join(targets))
    assert isinstance(request, MultiEvacuate)
    return ", ".join(cluster.node_names(tuple(request.nodes)))


def _new(instance: Instance) -> str:
    return (
        f"{instance.name}: {instance.template}, {instance.memory} MiB memory, "
        f"{instance.disk} MiB disk, {instance.vcpus} vcpus"
    )


def _names(instances: Sequence[Instance]) -> str:
    names = [instance.name for instance in instances]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more or "nobody"


def _where(groups: str | None) -> str:
    return f" in {groups}" if groups else ""
