"""Requests that move existing instances, and the union of all types of requests."""

from __future__ import annotations

from iallocator.model.templates import DRBD
from iallocator.requests import Allocate, AnyRequest, MultiAllocate, first_names, in_groups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance

__all__ = [
    "EVAC_MODES", "AllocateSecondary", "ChangeGroup", "MultiEvacuate", "NodeEvacuate", "Relocate",
    "Request",
]  # fmt: skip

EVAC_MODES = ("primary-only", "secondary-only", "all")


class AllocateSecondary(AnyRequest):
    """A request for a secondary of an instance without one, which becomes a drbd instance."""

    __slots__ = ("instance",)

    kind = "allocate-secondary"
    stays_in_group = True

    def __init__(self, instance: Instance) -> None:
        self.instance = instance

    def existing(self, cluster: Cluster) -> Sequence[Instance]:
        """Return the instance that the request names."""
        return (self.instance,)

    def summary(self, cluster: Cluster) -> str:
        """Return the name of the instance."""
        return self.instance.name

    def placements(self, cluster: Cluster, result: Any) -> Iterator[tuple[Instance, Sequence[str]]]:
        """Yield the instance as drbd, with the names of its primary and its new secondary."""
        primary = cluster.nodes[self.instance.nodes[0]].name
        yield self.instance.as_template(DRBD), [primary, result]


class Relocate(AnyRequest):
    """A request to move the secondary (drbd) or primary (shared storage) of an instance."""

    __slots__ = ("instance", "source")

    kind = "relocate"
    stays_in_group = True

    def __init__(self, instance: Instance, source: int) -> None:
        self.instance = instance
        self.source = source

    def existing(self, cluster: Cluster) -> Sequence[Instance]:
        """Return the instance that the request names."""
        return (self.instance,)

    def summary(self, cluster: Cluster) -> str:
        """Return the names of the instance and of the node that it leaves."""
        return f"{self.instance.name} from {cluster.nodes[self.source].name}"

    def placements(self, cluster: Cluster, result: Any) -> Iterator[tuple[Instance, Sequence[str]]]:
        """Yield the instance with the nodes that it keeps, and the new one."""
        kept = cluster.node_names(self.instance.nodes[:-1])
        yield self.instance, [*kept, *result]


class NodeEvacuate(AnyRequest):
    """A request to move instances off their primaries, their secondaries, or both."""

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
        """Return the instances of `cluster` that the request names."""
        return self.instances

    def evacuated_nodes(self) -> set[int]:
        """Return the primaries, the secondaries, or both, of the instances, by the mode."""
        roles = {"primary-only": slice(0, 1), "secondary-only": slice(1, None)}
        role = roles.get(self.mode, slice(None))
        return {node for instance in self.instances for node in instance.nodes[role]}

    def may_leave_group(self, instance: Instance) -> bool:
        """Return whether the evacuation takes `instance` off one of its nodes."""
        return self.leaves_primaries or len(instance.nodes) > 1

    def summary(self, cluster: Cluster) -> str:
        """Return the names of the instances and the mode."""
        return f"{first_names(self.instances)}; {self.mode}"

    def placements(self, cluster: Cluster, result: Any) -> Iterator[tuple[Instance, Sequence[str]]]:
        """Yield each instance that moves, with the names of its new nodes."""
        known = {instance.name: instance for instance in self.instances}
        yield from ((known[name], nodes) for name, _, nodes in result[0])


class ChangeGroup(AnyRequest):
    """A request to move instances to one of ``targets``; None: any group but their own."""

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
        """Return the instances that the request names."""
        return self.instances

    def target_groups(self, cluster: Cluster) -> Sequence[Group]:
        """Return the groups that the request allows and that hold none of its instances."""
        present = {cluster.group_of(instance).index for instance in self.instances}
        allowed = cluster.groups if self.targets is None else self.targets
        return [group for group in allowed if group.index not in present]

    def summary(self, cluster: Cluster) -> str:
        """Return the names of the instances, and of the groups if the request names some."""
        groups = ", ".join(group.name for group in self.targets or ())
        return first_names(self.instances) + in_groups(groups)

    def placements(self, cluster: Cluster, result: Any) -> Iterator[tuple[Instance, Sequence[str]]]:
        """Yield each instance that moves, with the names of its new nodes."""
        known = {instance.name: instance for instance in self.instances}
        yield from ((known[name], nodes) for name, _, nodes in result[0])


class MultiEvacuate(AnyRequest):
    """A request of Ganeti 2.4 and older for new secondaries of drbd instances.

    The instances are those with their secondary on one of ``nodes``.
    """

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
        """Return the nodes that the request names."""
        return set(self.nodes)

    def summary(self, cluster: Cluster) -> str:
        """Return the names of the nodes that the request names."""
        return ", ".join(cluster.node_names(tuple(self.nodes)))

    def placements(self, cluster: Cluster, result: Any) -> Iterator[tuple[Instance, Sequence[str]]]:
        """Yield the instances that move, with their primaries and new secondaries."""
        known = {instance.name: instance for instance in cluster.instances}
        for name, secondaries in result:
            yield known[name], [*cluster.node_names(known[name].nodes[:1]), *secondaries]


Request = (
    Allocate
    | MultiAllocate
    | AllocateSecondary
    | Relocate
    | NodeEvacuate
    | ChangeGroup
    | MultiEvacuate
)
