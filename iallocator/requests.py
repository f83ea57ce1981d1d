"""What Ganeti can ask for."""

from __future__ import annotations

from iallocator.model.templates import DRBD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, Self

    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance

__all__ = [
    "EVAC_MODES", "Allocate", "AllocateSecondary", "ChangeGroup", "MultiAllocate",
    "MultiEvacuate", "NodeEvacuate", "Relocate", "Request",
]  # fmt: skip

EVAC_MODES = ("primary-only", "secondary-only", "all")

NAMED = 3
"""How many instances of a request its summary names."""


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
    considers_other_groups:
        Whether an existing instance may be offered to groups other than its own.
    all_or_nothing:
        Whether one instance without a place fails the request for all of its instances.
    """

    __slots__ = ("asked",)

    asked: dict[str, Any]

    may_be_partial = False
    scores_pairs = False
    stays_in_group = False
    leaves_primaries = False
    considers_other_groups = False
    all_or_nothing = False

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

    def reserved(self, cluster: Cluster) -> Sequence[Instance]:
        """Return the instances that must not move to make the request possible."""
        return self.concerned(cluster)

    def evacuated_nodes(self) -> set[int]:
        """Return the nodes that the request takes instances off, and that none may move to."""
        return set()

    def target_groups(self, cluster: Cluster) -> Sequence[Group] | None:
        """Return the groups to which the instances must move; None if they may keep their own."""
        return None

    def may_leave_group(self, instance: Instance) -> bool:
        """Return whether another group may take `instance` if its own group cannot."""
        return False

    def summary(self, cluster: Cluster) -> str:
        """Return the request in a few words, without its type: instances, nodes and groups."""
        raise NotImplementedError

    def placements(self, cluster: Cluster, result: Any) -> Iterator[tuple[Instance, Sequence[str]]]:
        """Yield each instance that gets nodes, with the names of all its nodes, primary first.

        `result` is the member ``result`` of a successful response to the request.
        """
        raise NotImplementedError


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

    def summary(self, cluster: Cluster) -> str:
        """Return the size of the instance, and its group if the request names one."""
        new = self.instance
        return (
            f"{new.name}: {new.template}, {new.memory} MiB memory, {new.disk} MiB disk, "
            f"{new.vcpus} vcpus{_in_groups(self.group_name)}"
        )

    def placements(self, cluster: Cluster, result: Any) -> Iterator[tuple[Instance, Sequence[str]]]:
        """Yield the new instance."""
        yield self.instance, result


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

    def summary(self, cluster: Cluster) -> str:
        """Return the names of the instances."""
        return _names(self.coming)

    def placements(self, cluster: Cluster, result: Any) -> Iterator[tuple[Instance, Sequence[str]]]:
        """Yield the instances that are placed."""
        new = {instance.name: instance for instance in self.coming}
        yield from ((new[name], nodes) for name, nodes in result[0])


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

    def summary(self, cluster: Cluster) -> str:
        """Return the name of the instance."""
        return self.instance.name

    def placements(self, cluster: Cluster, result: Any) -> Iterator[tuple[Instance, Sequence[str]]]:
        """Yield the instance as drbd, with its new secondary."""
        primary = cluster.nodes[self.instance.nodes[0]].name
        yield self.instance.as_template(DRBD), [primary, result]


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

    def summary(self, cluster: Cluster) -> str:
        """Return the names of the instance and of the node that it leaves."""
        return f"{self.instance.name} from {cluster.nodes[self.source].name}"

    def placements(self, cluster: Cluster, result: Any) -> Iterator[tuple[Instance, Sequence[str]]]:
        """Yield the instance with the nodes that it keeps, and the new one."""
        kept = cluster.node_names(self.instance.nodes[:-1])
        yield self.instance, [*kept, *result]


class NodeEvacuate(_AnyRequest):
    """Move instances off their primaries, their secondaries, or both."""

    __slots__ = ("instances", "leaves_primaries", "mode", "scores_pairs")

    kind = "node-evacuate"
    may_be_partial = True
    considers_other_groups = True

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

    def may_leave_group(self, instance: Instance) -> bool:
        """Return whether the evacuation takes `instance` off one of its nodes."""
        return self.leaves_primaries or len(instance.nodes) > 1

    def summary(self, cluster: Cluster) -> str:
        """Return the names of the instances and the mode."""
        return f"{_names(self.instances)}; {self.mode}"

    def placements(self, cluster: Cluster, result: Any) -> Iterator[tuple[Instance, Sequence[str]]]:
        """Yield the instances that move."""
        known = {instance.name: instance for instance in self.instances}
        yield from ((known[name], nodes) for name, _, nodes in result[0])


class ChangeGroup(_AnyRequest):
    """Move instances to one of ``targets``; None: any group but their present ones."""

    __slots__ = ("instances", "targets")

    kind = "change-group"
    may_be_partial = True
    scores_pairs = True
    leaves_primaries = True
    considers_other_groups = True

    def __init__(self, instances: Sequence[Instance], targets: Sequence[Group] | None) -> None:
        self.instances = instances
        self.targets = targets

    def existing(self, cluster: Cluster) -> Sequence[Instance]:
        """Return the instances that are named."""
        return self.instances

    def target_groups(self, cluster: Cluster) -> Sequence[Group]:
        """Return the groups that the request allows and that hold none of its instances."""
        present = {cluster.group_of(instance).index for instance in self.instances}
        allowed = cluster.groups if self.targets is None else self.targets
        return [group for group in allowed if group.index not in present]

    def summary(self, cluster: Cluster) -> str:
        """Return the names of the instances, and of the groups if the request names some."""
        groups = ", ".join(group.name for group in self.targets or ())
        return _names(self.instances) + _in_groups(groups)

    def placements(self, cluster: Cluster, result: Any) -> Iterator[tuple[Instance, Sequence[str]]]:
        """Yield the instances that move."""
        known = {instance.name: instance for instance in self.instances}
        yield from ((known[name], nodes) for name, _, nodes in result[0])


class MultiEvacuate(_AnyRequest):
    """Ganeti 2.4 and older: new secondaries for all drbd instances mirrored to ``nodes``."""

    __slots__ = ("nodes",)

    kind = "multi-evacuate"
    all_or_nothing = True

    def __init__(self, nodes: Sequence[int]) -> None:
        self.nodes = nodes

    def existing(self, cluster: Cluster) -> Sequence[Instance]:
        """Return the instances that have their secondary on one of the nodes."""
        return [i for i in cluster.instances if len(i.nodes) > 1 and i.nodes[1] in self.nodes]

    def reserved(self, cluster: Cluster) -> Sequence[Instance]:
        """Return all instances that have their primary or secondary on one of the nodes."""
        return [one for one in cluster.instances if not set(self.nodes).isdisjoint(one.nodes)]

    def evacuated_nodes(self) -> set[int]:
        """Return the nodes that are named."""
        return set(self.nodes)

    def summary(self, cluster: Cluster) -> str:
        """Return the names of the nodes."""
        return ", ".join(cluster.node_names(tuple(self.nodes)))

    def placements(self, cluster: Cluster, result: Any) -> Iterator[tuple[Instance, Sequence[str]]]:
        """Yield the instances that move, with their primaries and new secondaries."""
        known = {instance.name: instance for instance in cluster.instances}
        for name, secondaries in result:
            yield known[name], [*cluster.node_names(known[name].nodes[:1]), *secondaries]


def _names(instances: Sequence[Instance]) -> str:
    """Return the names of the first few instances, and how many more there are."""
    names = [instance.name for instance in instances]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more or "nobody"


def _in_groups(groups: str | None) -> str:
    return f" in {groups}" if groups else ""


Request = (
    Allocate
    | MultiAllocate
    | AllocateSecondary
    | Relocate
    | NodeEvacuate
    | ChangeGroup
    | MultiEvacuate
)
