"""Requests for new instances, and the properties that all types of requests have.

Every process loads this module; only processes that answer another type of request load
`iallocator.requests.existing`.
"""

from __future__ import annotations

from iallocator.errors import FEW_NAMES, named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, Self

    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance

__all__ = ["Allocate", "AnyRequest", "MultiAllocate", "first_names", "in_groups"]


class AnyRequest:
    """A request of any type, with the properties that all types have.

    Attributes
    ----------
    asked:
        The settings in the request: name -> value.
    may_be_partial:
        Whether an answer may leave out some of the instances.
    scores_pairs:
        Whether an instance with two nodes may get two new nodes.
    stays_in_group:
        Whether only one group is considered.
    leaves_primaries:
        Whether existing instances leave their primaries.
    considers_other_groups:
        Whether an existing instance may move to groups other than its own.
    all_or_nothing:
        Whether the request fails if one of its instances cannot be placed.
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
        """Return the requests for single new instances that this request consists of."""
        return ()

    @property
    def coming(self) -> Sequence[Instance]:
        """Return the instances that the request creates."""
        return [one.instance for one in self.new]

    def existing(self, cluster: Cluster) -> Sequence[Instance]:
        """Return the instances of `cluster` that the request moves."""
        return ()

    def concerned(self, cluster: Cluster) -> Sequence[Instance]:
        """Return all instances that the request is about, new or existing."""
        return [*self.coming, *self.existing(cluster)]

    def reserved(self, cluster: Cluster) -> Sequence[Instance]:
        """Return the instances that must not be moved to free capacity for the request."""
        return self.concerned(cluster)

    def evacuated_nodes(self) -> set[int]:
        """Return the nodes that the request evacuates; no instance may move to them."""
        return set()

    def target_groups(self, cluster: Cluster) -> Sequence[Group] | None:
        """Return the groups to which the instances must move; None: they may keep theirs."""
        return None

    def may_leave_group(self, instance: Instance) -> bool:
        """Return whether `instance` may move to another group if its own group has no node."""
        return False

    def summary(self, cluster: Cluster) -> str:
        """Return the request in a few words, without its type: instances, nodes and groups."""
        raise NotImplementedError

    def placements(self, cluster: Cluster, result: Any) -> Iterator[tuple[Instance, Sequence[str]]]:
        """Yield each instance that gets nodes, with the names of all its nodes, primary first.

        `result` is the member ``result`` of a successful response to the request.
        """
        raise NotImplementedError


class Allocate(AnyRequest):
    """A request to place one new instance.

    Attributes
    ----------
    group_name:
        The name of the group; None: any group.
    restrict_to:
        The names of the nodes that may be used; None: any node of the groups.
    recreated:
        The existing instance of this name, if its disks must be created anew: the capacity that it
        uses now is free for it. None for other instances.
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
        """Return the request itself."""
        return (self,)

    def summary(self, cluster: Cluster) -> str:
        """Return the size of the instance, and its group if the request names one."""
        new = self.instance
        return (
            f"{new.name}: {new.template}, {new.memory} MiB memory, {new.disk} MiB disk, "
            f"{new.vcpus} vcpus{in_groups(self.group_name)}"
        )

    def placements(self, cluster: Cluster, result: Any) -> Iterator[tuple[Instance, Sequence[str]]]:
        """Yield the new instance, with the names of its nodes."""
        yield self.instance, result


class MultiAllocate(AnyRequest):
    """A request to place several new instances, one after the other."""

    __slots__ = ("wanted",)

    kind = "multi-allocate"
    may_be_partial = True
    scores_pairs = True

    def __init__(self, wanted: Sequence[Allocate]) -> None:
        self.wanted = wanted

    @property
    def new(self) -> Sequence[Allocate]:
        """Return one request for each instance."""
        return self.wanted

    def summary(self, cluster: Cluster) -> str:
        """Return the names of the instances."""
        return first_names(self.coming)

    def placements(self, cluster: Cluster, result: Any) -> Iterator[tuple[Instance, Sequence[str]]]:
        """Yield each instance that is placed, with the names of its nodes."""
        new = {instance.name: instance for instance in self.coming}
        yield from ((new[name], nodes) for name, nodes in result[0])


def first_names(instances: Sequence[Instance]) -> str:
    """Return the names of the first few instances, and the number of others, as text."""
    return named([instance.name for instance in instances], FEW_NAMES) or "no instance"


def in_groups(groups: str | None) -> str:
    return f" in {groups}" if groups else ""
