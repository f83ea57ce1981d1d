"""Enforce hard location scores and the maintenance of nodes.

A score of minus infinity keeps an instance off a node in either role. It is a tag of the node, or
a tag of the instance that names the node. A node in maintenance receives no instances, and its
running instances stay. These are hard constraints with every strategy, in requests and in plans.
"""

from __future__ import annotations

from iallocator.model.constraints import EVERY, LOCATION, MUST, Constraint
from iallocator.tags.pacemaker_scores import INFINITY, add

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.tags.pacemaker import PacemakerTags

__all__ = ["Locations", "locations_of"]


def locations_of(cluster: Cluster, new: Iterable[Instance], prefix: str) -> Locations | None:
    """Return the hard location constraints that tags express; None if there are none.

    Without such tags, no module is loaded.
    """
    instances = [*cluster.instances, *new]
    maintenance, score = f"{prefix}maintenance", f"{prefix}score:"
    nodes = (node.tags for node in cluster.nodes if node.tags)
    owned = (instance.tags for instance in instances if instance.tags)
    if not (
        any(tag == maintenance or tag.startswith(score) for tags in nodes for tag in tags)
        or any(tag.startswith(score) for tags in owned for tag in tags)
    ):
        return None
    from iallocator.tags.pacemaker import PacemakerTags

    locations = Locations(cluster, instances, PacemakerTags(cluster, new, [], prefix), prefix)
    return locations if locations else None


class Locations:
    """The hard location constraints of the instances of a cluster, and of new ones.

    Attributes
    ----------
    closed:
        Node index -> the constraint that keeps all instances off the node.
    """

    __slots__ = ("_homes", "_known", "_maintained", "_own", "_prefix", "closed")

    def __init__(
        self,
        cluster: Cluster,
        instances: Iterable[Instance],
        facts: PacemakerTags,
        prefix: str,
    ) -> None:
        self._prefix = prefix
        names = {node.index: node.name for node in cluster.nodes}
        self._maintained = {i: names[i] for i in names if facts.maintenance[i]}
        self.closed: dict[int, Constraint] = {
            index: self._must(EVERY, f"not on {name}", f"score:-INFINITY of {name}")
            for index, name in names.items()
            if facts.weights[index] <= -INFINITY
        }
        for index, name in self._maintained.items():
            self.closed.setdefault(
                index, self._must(EVERY, f"not on {name}", f"maintenance of {name}")
            )
        self._own: dict[str, dict[int, Constraint]] = {}
        self._homes: dict[str, int] = {}
        for instance in instances:
            own = {
                index: self._must(
                    instance.name, f"not on {names[index]}", f"score:{names[index]}:-INFINITY"
                )
                for index, score in facts.of(instance).scores.items()
                if add(score, facts.weights[index]) <= -INFINITY and index not in self.closed
            }
            if own:
                self._own[instance.name] = own
            home = instance.nodes[0] if instance.nodes and instance.running else None
            if home in self._maintained and not cluster.nodes[home].offline:
                self._homes[instance.name] = home
        self._known: dict[str, Mapping[int, Constraint]] = {}

    def __bool__(self) -> bool:
        return bool(self.closed or self._own)

    def _must(self, instance: str, what: str, tag: str) -> Constraint:
        return Constraint(LOCATION, MUST, instance, what, f"tag {self._prefix}{tag}")

    def forbidden(self, instance: str) -> Mapping[int, Constraint]:
        """Return the nodes that `instance` must not use in any role, with the constraint."""
        own = self._own.get(instance)
        if own is None:
            return self.closed
        if instance not in self._known:
            self._known[instance] = self.closed | own
        return self._known[instance]

    def pin(self, instance: str) -> Constraint | None:
        """Return the constraint that keeps the primary of `instance` in place, or None."""
        home = self._homes.get(instance)
        if home is None:
            return None
        name = self._maintained[home]
        return self._must(instance, f"on {name}", f"maintenance of {name}")

    @property
    def pinned(self) -> Collection[str]:
        """Return the instances with a primary that must stay in place."""
        return self._homes.keys()

    def broken(self, instance: str, node: int) -> list[Constraint]:
        """Return the constraints that are violated if the primary of `instance` is on `node`."""
        pin = self.pin(instance)
        if pin is not None:
            return [] if node == self._homes[instance] else [pin]
        must = self.forbidden(instance).get(node)
        return [] if must is None else [must]
