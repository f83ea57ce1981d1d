"""What nodes, their pools, scores and capacities ask of instances, as constraints to be listed."""

from __future__ import annotations

from iallocator.model.constraints import (
    CAPACITY,
    EVERY,
    LOCATION,
    MUST,
    ORDER,
    SHOULD,
    Constraint,
)
from iallocator.model.storage import pool_name, pools_of
from iallocator.tags.pacemaker import PacemakerTags
from iallocator.tags.pacemaker_scores import INFINITY, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from iallocator.constraints.in_force import InForce, ListedSettings
    from iallocator.model.cluster import Cluster, Node
    from iallocator.model.instance import Instance

__all__ = ["Listed"]


class Listed:
    """The constraints of nodes and of single instances that are no relations."""

    def __init__(
        self, cluster: Cluster, facts: PacemakerTags, settings: ListedSettings, force: InForce
    ) -> None:
        self._force = force
        self._cluster = cluster
        self._facts = facts
        self._settings = settings
        self._prefix = settings.tag_prefix

    def of_node(self, node: Node) -> Iterator[Constraint]:
        """What holds for every instance on `node`."""
        name, facts = node.name, self._facts
        if not node.online:
            state = "offline" if node.offline else "drained" if node.drained else "not vm_capable"
            yield Constraint(
                LOCATION, MUST, EVERY, f"nothing new on {name}", f"node {name}: {state}"
            )
        elif facts.maintenance[node.index]:
            yield Constraint(
                LOCATION, MUST, EVERY, f"nothing new on {name}, what is there stays",
                self._tag(f"maintenance of {name}"),
            )  # fmt: skip
        weight = facts.weights[node.index]
        if weight and (weight <= -INFINITY or self._force.scores(node.group)):
            yield self._score(EVERY, weight, name, self._tag(f"score:{shown(weight)} of {name}"))
        heeded = self._force.capacities(node.group)
        for attribute, amount in facts.capacity[node.index].items() if heeded else ():
            yield Constraint(
                CAPACITY, MUST, EVERY, f"at most {amount:g} of {attribute} on {name}",
                self._tag(f"utilization:{attribute}:{amount:g} of {name}"),
            )  # fmt: skip

    def of_instance(self, instance: Instance) -> Iterator[Constraint]:
        """What holds for `instance` alone."""
        name = instance.name
        yield from self._pools(instance)
        facts = self._facts.of(instance)
        heeded = self._facts.tagged and self._force.capacities(instance=instance)
        for attribute, amount in facts.needs.items() if heeded else ():
            yield Constraint(
                CAPACITY, MUST, name, f"needs {amount:g} of {attribute}",
                self._tag(f"utilization:{attribute}:{amount:g}"),
            )  # fmt: skip
        scored = self._force.scores(instance=instance)
        for index, score in facts.scores.items():
            if score > -INFINITY and not scored:
                continue
            node = self._cluster.nodes[index].name
            yield self._score(name, score, node, self._tag(f"score:{node}:{shown(score)}"))
        yield from self._stays(instance, facts.stickiness)
        yield from self._fencing(instance)

    def _pools(self, instance: Instance) -> Iterator[Constraint]:
        storage = self._cluster.storage
        if storage is None or storage.nodes_for(instance) is None:
            return
        for pool in pools_of(instance):
            if (tag := self._tag(f"pool:{pool_name(pool).replace('/', ':')}"))[4:] in instance.tags:
                origin = tag
            else:
                origin = "member storage_pool or disks, see storage pools"
            what = f"on nodes that reach {pool_name(pool)}"
            yield Constraint(LOCATION, MUST, instance.name, what, origin)

    def _stays(self, instance: Instance, stickiness: int | None) -> Iterator[Constraint]:
        if not instance.nodes:
            return
        home = self._cluster.nodes[instance.nodes[0]]
        if self._facts.maintenance[home.index] and instance.running and not home.offline:
            yield Constraint(
                LOCATION, MUST, instance.name, f"stays on {home.name}",
                self._tag(f"maintenance of {home.name}"),
            )  # fmt: skip
        if stickiness is None:
            weight, origin = self._settings.stickiness, "setting stickiness"
        else:
            weight, origin = stickiness, self._tag(f"stickiness:{shown(stickiness)}")
        if weight and self._force.scores(instance=instance):
            yield Constraint(
                LOCATION, SHOULD, instance.name, f"stays on {home.name}, score {shown(weight)}",
                origin, weight=float(weight),
            )  # fmt: skip

    def _fencing(self, instance: Instance) -> Iterator[Constraint]:
        """An offline node must be fenced before what ran there starts elsewhere."""
        if not (instance.nodes and instance.uses_memory and instance.mirrored):
            return
        home = self._cluster.nodes[instance.nodes[0]]
        if home.offline:
            yield Constraint(
                ORDER, MUST, instance.name, f"starts elsewhere after the fencing of {home.name}",
                f"node {home.name}: offline",
            )  # fmt: skip

    def _score(self, name: str, score: int, node: str, origin: str) -> Constraint:
        if score <= -INFINITY:
            return Constraint(LOCATION, MUST, name, f"not on {node}", origin)
        what = f"on {node}, score {shown(score)}"
        return Constraint(LOCATION, SHOULD, name, what, origin, weight=float(score))

    def _tag(self, text: str) -> str:
        return f"tag {self._prefix}{text}"
