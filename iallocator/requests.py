"""What Ganeti can ask for."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Self

    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance

__all__ = [
    "EVAC_MODES", "Allocate", "AllocateSecondary", "ChangeGroup", "MultiAllocate",
    "MultiEvacuate", "NodeEvacuate", "Relocate", "Request",
]  # fmt: skip

EVAC_MODES = ("primary-only", "secondary-only", "all")


class _AnyRequest:
    """The facts that every request states about itself.

    Attributes
    ----------
    asked:
        The settings that the keys of the request name, with their values.
    may_be_partial:
        Whether an answer may leave out some of the instances.
    scores_pairs:
        Whether a mirrored instance may get both of its nodes anew.
    stays_in_group:
        Whether only one group is asked.
    leaves_primaries:
        Whether existing instances are to leave their primaries.
    """

    __slots__ = ("asked",)

    asked: dict[str, Any]

    may_be_partial = False
    scores_pairs = False
    stays_in_group = False
    leaves_primaries = False

    def __new__(cls, *_: Any, **__: Any) -> Self:
        self = object.__new__(cls)
        self.asked = {}
        return self

    @property
    def new(self) -> Sequence[Allocate]:
        """The requests for one new instance that this one consists of."""
        return ()

    @property
    def coming(self) -> Sequence[Instance]:
        """The new instances."""
        return [one.instance for one in self.new]

    def existing(self, cluster: Cluster) -> Sequence[Instance]:
        """Return the instances of `cluster` that the request moves."""
        return ()

    def concerned(self, cluster: Cluster) -> Sequence[Instance]:
        """Return all instances that the request is about, new or existing."""
        return [*self.coming, *self.existing(cluster)]

    def evacuated_nodes(self) -> set[int]:
        """Return the nodes that the request takes instances off, and that none may move to."""
        return set()


class Allocate(_AnyRequest):
    """Place one new instance.

    ``group_name`` None: any group; ``restrict_to`` None: any node of it.
    ``recreated`` is the instance of the same name, if it exists: its disks are to be
    created anew, and what it uses now is free for it.
    """

    __slots__ = ("group_name", "instance", "recreated", "restrict_to")

    kind = "allocate"
    scores_pairs = True

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

    @property
    def new(self) -> Sequence[Allocate]:
        """The request itself."""
        return (self,)


class MultiAllocate(_AnyRequest):
    """Place several new instances, one after the other."""

    __slots__ = ("wanted",)

    kind = "multi-allocate"
    may_be_partial = True
    scores_pairs = True

    def __init__(self, wanted: Sequence[Allocate]) -> None:
        self.wanted = wanted

    @property
    def new(self) -> Sequence[Allocate]:
        """One request for each instance."""
        return self.wanted


class AllocateSecondary(_AnyRequest):
    """Find a secondary for an instance without one, which becomes drbd."""

    __slots__ = ("instance",)

    kind = "allocate-secondary"
    stays_in_group = True

    def __init__(self, instance: Instance) -> None:
        self.instance = instance

    def existing(self, cluster: Cluster) -> Sequence[Instance]:
        """Return the one instance."""
        return (self.instance,)


class Relocate(_AnyRequest):
    """Move an instance off a node: its secondary (drbd), or its primary (shared storage)."""

    __slots__ = ("instance", "source")

    kind = "relocate"
    stays_in_group = True

    def __init__(self, instance: Instance, source: int) -> None:
        self.instance = instance
        self.source = source

    def existing(self, cluster: Cluster) -> Sequence[Instance]:
        """Return the one instance."""
        return (self.instance,)


class NodeEvacuate(_AnyRequest):
    """Move instances off their primaries, their secondaries, or both."""

    __slots__ = ("instances", "leaves_primaries", "mode", "scores_pairs")

    kind = "node-evacuate"
    may_be_partial = True

    def __init__(self, instances: Sequence[Instance], mode: str) -> None:
        self.instances = instances
        self.mode = mode
        self.scores_pairs = mode == "all"
        self.leaves_primaries = mode != "secondary-only"

    def existing(self, cluster: Cluster) -> Sequence[Instance]:
        """Return the instances that are named."""
        return self.instances

    def evacuated_nodes(self) -> set[int]:
        """Return the primaries, the secondaries, or both, by the mode."""
        roles = {"primary-only": slice(0, 1), "secondary-only": slice(1, None)}
        role = roles.get(self.mode, slice(None))
        return {node for instance in self.instances for node in instance.nodes[role]}

    def leaves_a_node(self, instance: Instance) -> bool:
        """Return whether the evacuation takes `instance` off one of its nodes."""
        return self.leaves_primaries or len(instance.nodes) > 1


class ChangeGroup(_AnyRequest):
    """Move instances to one of ``targets``; None: any group but their present ones."""

    __slots__ = ("instances", "targets")

    kind = "change-group"
    may_be_partial = True
    scores_pairs = True
    leaves_primaries = True

    def __init__(self, instances: Sequence[Instance], targets: Sequence[Group] | None) -> None:
        self.instances = instances
        self.targets = targets

    def existing(self, cluster: Cluster) -> Sequence[Instance]:
        """Return the instances that are named."""
        return self.instances


class MultiEvacuate(_AnyRequest):
    """Ganeti 2.4 and older: new secondaries for all drbd instances mirrored to ``nodes``."""

    __slots__ = ("nodes",)

    kind = "multi-evacuate"

    def __init__(self, nodes: Sequence[int]) -> None:
        self.nodes = nodes

    def existing(self, cluster: Cluster) -> Sequence[Instance]:
        """Return the instances that have their secondary on one of the nodes."""
        return [i for i in cluster.instances if len(i.nodes) > 1 and i.nodes[1] in self.nodes]

    def evacuated_nodes(self) -> set[int]:
        """Return the nodes that are named."""
        return set(self.nodes)


Request = (
    Allocate
    | MultiAllocate
    | AllocateSecondary
    | Relocate
    | NodeEvacuate
    | ChangeGroup
    | MultiEvacuate
)
