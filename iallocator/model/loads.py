"""How busy instances are: their dynamic utilisation, as far as somebody measured it."""

from __future__ import annotations

from iallocator.model.instance import primary_vector, secondary_vector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance

    Load = tuple[float, float, float, float]
    """Of cpu, memory, disk, net."""

__all__ = ["set_cpu_loads", "set_loads"]


def set_loads(cluster: Cluster, loads: Mapping[str, Load]) -> None:
    """Give the instances of these names their dynamic utilisation; before a state is made."""
    for instance in cluster.instances:
        if instance.name in loads:
            _set(instance, loads[instance.name])


def set_cpu_loads(cluster: Cluster, loads: Mapping[str, float]) -> None:
    """Give the instances of these names the cpu part of it."""
    for instance in cluster.instances:
        if instance.name in loads:
            _set(instance, (loads[instance.name], *instance.load[1:]))


def _set(instance: Instance, load: Load) -> None:
    instance.load = load
    instance.as_primary = primary_vector(instance)
    instance.as_secondary = secondary_vector(instance)
