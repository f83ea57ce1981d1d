"""Placement keys of instances, and the keys and free memory of nodes that follow from them.

The keys of a node are those of the instances that run there.
"""

from __future__ import annotations

from iallocator.model.keys import LEVELS, in_force
from iallocator.tags.placement_keys import NodeTags, ResourceTags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iallocator.model.cluster import Node
    from iallocator.model.instance import Instance
    from iallocator.model.keys import PlacementKey
    from iallocator.ranking.base import WorkingSet

__all__ = ["Compiled", "Compiler", "Ledger", "NodeKeys"]

Wanted = dict[str, tuple[float, float]]
"""Name -> value and weight."""


class Compiled:
    """The keys of an instance that count: per class and name that of the lowest level."""

    __slots__ = ("customer", "system")

    def __init__(self, system: Wanted, customer: Wanted) -> None:
        self.system = system
        self.customer = customer


class Compiler:
    """Compiles the keys of the instances of one cluster."""

    def __init__(self, context: WorkingSet) -> None:
        cluster, prefix = context.cluster, context.settings.tag_prefix
        tags = ResourceTags(prefix, LEVELS.index("cluster"), context.remarks)
        self._tags = ResourceTags(prefix, LEVELS.index("server"), context.remarks)
        self._above_tags = tags.of_cluster(cluster)
        self._above = tuple(cluster.placement_keys)

    def compiled(self, instance: Instance, asked: bool) -> Compiled:
        """The keys of `instance`, with those of the request if `asked`."""
        keys = self._keys(instance, asked)
        return Compiled(_chosen(keys, system=True), _chosen(keys, system=False))

    def customer(self, instance: Instance, asked: bool) -> Wanted:
        """Only its customer keys."""
        keys = self._keys(instance, asked)
        return _chosen(keys, system=False) if keys else {}

    def _keys(self, instance: Instance, asked: bool) -> list[PlacementKey]:
        """All its keys: where two have one level and name, the one that wins comes later."""
        keys = [*self._above_tags, *self._tags.of_instance(instance)]
        keys += self._above
        keys += instance.placement_keys
        if asked:
            keys += instance.asked_keys
        return keys


def _chosen(keys: Iterable[PlacementKey], system: bool) -> Wanted:
    """Value and weight of the keys of one class that count, by name."""
    return {name: (key.value, key.weight) for name, key in in_force(keys, system).items()}


if TYPE_CHECKING:
    Found = dict[str, dict[float, int]]

    """Name -> value -> how often."""


class NodeKeys:
    """What one node has while certain instances are there.

    Attributes
    ----------
    present:
        The names of its primaries then, running or not.
    uncontended:
        Total memory times contention ratio, less what running instances are allocated, MiB.
    contended:
        Memory that is really free: what the node reports, and what has come or gone since.
    system, customer:
        Its compiled keys.
    """

    __slots__ = ("contended", "customer", "present", "system", "uncontended")

    def __init__(
        self,
        present: tuple[str, ...],
        uncontended: float,
        contended: float,
        system: Found,
        customer: Found,
    ) -> None:
        self.present = present
        self.uncontended = uncontended
        self.contended = contended
        self.system = system
        self.customer = customer


class _Standard:
    """What does not change about a node: its own keys, ratios, and memory not given away."""

    __slots__ = ("cpus", "memory", "reported", "reserved", "sticky", "system")

    def __init__(self, context: WorkingSet, node: Node, allocated: float) -> None:
        prefix = context.settings.tag_prefix
        tags = NodeTags(prefix, node, context.remarks)
        self.memory = node.total_memory * (tags.ram_contention or 1.0)
        self.cpus = node.total_cpus * (tags.cpu_contention or node.vcpu_ratio)
        self.reported = node.reported_memory + allocated
        self.sticky = tags.sticky
        self.reserved: Found = {}
        self.system: Found = {"#LOAD": {min(1.0, node.load): 1}}
        for name, value in tags.keys:
            if not name.startswith("#"):
                _count(self.reserved if name.startswith("_") else self.system, name, value)


class Ledger:
    """Keys of instances and nodes for one request; what did not change is not counted again."""

    def __init__(self, context: WorkingSet) -> None:
        self._state = context.state
        self._compiler = Compiler(context)
        self._customer: dict[tuple[str, bool], Sequence[tuple[str, float]]] = {}
        cluster = context.cluster
        allocated = [0] * len(cluster.nodes)
        for instance in cluster.instances:
            if instance.uses_memory and instance.nodes:
                allocated[instance.nodes[0]] += instance.memory
        self._standard = [
            _Standard(context, node, allocated[index]) for index, node in enumerate(cluster.nodes)
        ]
        self._nodes: list[NodeKeys | None] = [None] * len(cluster.nodes)

    def subject(self, instance: Instance) -> Compiled:
        """The compiled keys of an instance that needs a place."""
        return self._compiler.compiled(instance, asked=True)

    def sticky(self, index: int) -> Sequence[str]:
        """The sticky keys of a node, as tags for an instance."""
        return self._standard[index].sticky

    def node(self, index: int) -> NodeKeys:
        """The keys of a node as the state is now."""
        present = tuple(self._state.primaries[index])
        known = self._nodes[index]
        if known is None or known.present != present:
            standard = self._standard[index]
            memory = vcpus = 0
            customer: Found = {name: dict(values) for name, values in standard.reserved.items()}
            for instance in self._state.primaries[index].values():
                if instance.uses_memory:
                    memory += instance.memory
                    vcpus += instance.vcpus
                    for name, value in self._keys_running(instance, index):
                        _count(customer, name, value)
            system = dict(standard.system)
            system["#RAM"] = {_share(memory, standard.memory): 1}
            system["#CPU"] = {_share(vcpus, standard.cpus): 1}
            known = self._nodes[index] = NodeKeys(
                present, standard.memory - memory, standard.reported - memory, system, customer
            )
        return known

    def _keys_running(self, instance: Instance, index: int) -> Sequence[tuple[str, float]]:
        """The customer keys that an instance has on a node: as it was started there.

        Those of the request count only where the request brought it.
        """
        moved = instance.nodes[:1] != (index,)
        found = self._customer.get((instance.name, moved))
        if found is None:
            compiled = self._compiler.customer(instance, asked=moved)
            found = [(name, value) for name, (value, _) in compiled.items()]
            self._customer[instance.name, moved] = found
        return found


def _count(found: Found, name: str, value: float) -> None:
    values = found.get(name)
    if values is None:
        found[name] = {value: 1}
    else:
        values[value] = values.get(value, 0) + 1


def _share(allocated: float, capacity: float) -> float:
    """How much of `capacity` is allocated, from 0 to 1; of nothing, everything."""
    return min(1.0, allocated / capacity) if capacity > 0 else 1.0
