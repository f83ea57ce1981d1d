"""What Ganeti can ask for."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Self

    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance

__all__ = [
    "EVAC_MODES", "SETTINGS", "Allocate", "AllocateSecondary", "ChangeGroup", "MultiAllocate",
    "MultiEvacuate", "NodeEvacuate", "Relocate", "Request",
]  # fmt: skip

EVAC_MODES = ("primary-only", "secondary-only", "all")

SETTINGS = frozenset({
    "strategy", "stickiness", "n1", "ignore-soft-errors", "inter-group", "exact-search",
    "time-limit", "top", "affinity-overhead", "initial-msav", "final-msav", "msav-steps", "seed",
})  # fmt: skip
"""Options that keys of a request, and tags of the cluster and its groups, may set."""


class _Asking:
    """What every request has: ``asked``, the settings that its keys name, with their values."""

    __slots__ = ("asked",)

    asked: dict[str, Any]

    def __new__(cls, *_: Any, **__: Any) -> Self:
        self = object.__new__(cls)
        self.asked = {}
        return self


class Allocate(_Asking):
    """Place one new instance.

    ``group_name`` None: any group; ``restrict_to`` None: any node of it.
    ``recreated`` is the instance of the same name, if it exists: its disks are to be
    created anew, and what it uses now is free for it.
    """

    __slots__ = ("group_name", "instance", "recreated", "restrict_to")

    kind = "allocate"

    def __init__(
        self,
        instance: Instance,
        group_name: str | None = None,
        restrict_to: Sequence[str] | None = None,
        recreated: Instance | None = None,
    ) -> None:
        self.instance = instance
        self.group_name = group_name
        self.restrict_to = restrict_to
        self.recreated = recreated


class MultiAllocate(_Asking):
    """Place several new instances, one after the other."""

    __slots__ = ("wanted",)

    kind = "multi-allocate"

    def __init__(self, wanted: Sequence[Allocate]) -> None:
        self.wanted = wanted


class AllocateSecondary(_Asking):
    """Find a secondary for an instance without one, which becomes drbd."""

    __slots__ = ("instance",)

    kind = "allocate-secondary"

    def __init__(self, instance: Instance) -> None:
        self.instance = instance


class Relocate(_Asking):
    """Move an instance off a node: its secondary (drbd), or its primary (shared storage)."""

    __slots__ = ("instance", "source")

    kind = "relocate"

    def __init__(self, instance: Instance, source: int) -> None:
        self.instance = instance
        self.source = source


class NodeEvacuate(_Asking):
    """Move instances off their primaries, their secondaries, or both."""

    __slots__ = ("instances", "mode")

    kind = "node-evacuate"

    def __init__(self, instances: Sequence[Instance], mode: str) -> None:
        self.instances = instances
        self.mode = mode

    def leaves_a_node(self, instance: Instance) -> bool:
        """Return whether the evacuation takes `instance` off one of its nodes."""
        return self.mode != "secondary-only" or len(instance.nodes) > 1


class ChangeGroup(_Asking):
    """Move instances to one of ``targets``; None: any group but their present ones."""

    __slots__ = ("instances", "targets")

    kind = "change-group"

    def __init__(self, instances: Sequence[Instance], targets: Sequence[Group] | None) -> None:
        self.instances = instances
        self.targets = targets


class MultiEvacuate(_Asking):
    """Ganeti 2.4 and older: new secondaries for all drbd instances mirrored to ``nodes``."""

    __slots__ = ("nodes",)

    kind = "multi-evacuate"

    def __init__(self, nodes: Sequence[int]) -> None:
        self.nodes = nodes


Request = (
    Allocate
    | MultiAllocate
    | AllocateSecondary
    | Relocate
    | NodeEvacuate
    | ChangeGroup
    | MultiEvacuate
)
