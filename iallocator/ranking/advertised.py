"""Memory overcommit of nodes, by the strategy or by the memory ratio of their group.

With placement keys, a node can have a contention ratio.  With the Pacemaker strategies that use
capacities, a node can advertise more memory than it has.  Both assume that instances do not use all
of their memory.  All limits of a node use the advertised memory.  Each new instance must also fit
into the memory that is really free.

With the setting ``memory-ratio``, every limit allows that ratio of the memory that a node has for
instances: its total memory, less what the node itself uses. The memory ratio has no effect on nodes
for which a strategy sets a ratio above 1.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State

    class AdvertisingSettings(Protocol):
        """The settings of a group that determine how much memory its nodes may allocate."""

        memory_ratio: float
        strategy: str


__all__ = ["advertise", "memory_lack", "really_free"]

CAPACITY_STRATEGIES = ("pacemaker-utilization", "pacemaker-balanced", "pacemaker-minimal")
"""The strategies that use the capacities that nodes advertise."""

MEMORY_ATTRIBUTE = "memory"
"""The utilization attribute for memory, in MiB."""


def advertise(
    cluster: Cluster, settings_of: Callable[[Group], AdvertisingSettings], prefix: str
) -> None:
    """Set the ratios by which the memory of each node may be overcommitted.

    The ratios are `Node.memory_ratio` and `Node.allocation_ratio`. Call this function before a
    state of `cluster` is made. `settings_of` returns the settings of a group; `prefix` begins the
    tags of this program.
    """
    capacity: list[dict[str, float]] | None = None
    for node in cluster.nodes:
        settings = settings_of(node.group)
        strategy = settings.strategy
        ratio: float = 1
        if strategy == "affinity":
            from iallocator.tags.placement_keys import NodeTags

            ratio = NodeTags(prefix, node, []).ram_contention or 1
        elif strategy in CAPACITY_STRATEGIES and node.total_memory:
            if capacity is None:
                from iallocator.tags.pacemaker import PacemakerTags

                capacity = PacemakerTags(cluster, (), [], prefix).capacity
            ratio = capacity[node.index].get(MEMORY_ATTRIBUTE, 0) / node.total_memory
        node.memory_ratio = max(1, ratio)
        node.allocation_ratio = settings.memory_ratio if node.memory_ratio == 1 else 1


def memory_lack(
    state: State, index: int, instance: Instance, overhead: int = 0, waiting: int = 0
) -> str:
    """Return why an overcommitted node cannot start `instance`; "" if it can.

    Ganeti checks the memory that is really free when it starts an instance.  `overhead`: memory
    that must stay free in addition, MiB.  `waiting`: memory of instances that are placed on the
    node but not in `state` yet, MiB.
    """
    if state.cluster.nodes[index].memory_ratio <= 1 or not instance.uses_memory:
        return ""
    ratio = state.cluster.nodes[index].memory_ratio
    free, needed = really_free(state, index) - waiting / ratio, instance.memory + overhead
    return f"needs {needed} MiB, {free:.12g} MiB really free" if free <= needed else ""


def really_free(state: State, index: int) -> float:
    """Return an estimate of the memory that is really free on node `index`, MiB.

    It is the free memory that the node reports, less the memory of instances added since.  Added
    instances use the share of their memory that the node's memory ratio assumes.
    """
    cluster = state.cluster
    node = cluster.nodes[index]
    now = sum(i.memory for i in state.primaries[index].values() if i.uses_memory)
    then = sum(i.memory for i in cluster.instances if i.uses_memory and i.nodes[:1] == (index,))
    return node.reported_memory - (now - then) / node.memory_ratio
