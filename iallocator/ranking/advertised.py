"""How much memory nodes promise beyond what they have, by the strategy of their group.

Placement keys know contention ratios, Pacemaker's strategies that heed capacities know
nodes that advertise more than they have, both on the assumption that instances do not use
all that they are allocated.  The limits of nodes follow that promise, whoever asks them;
what is really free has to do for each instance that comes.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State

__all__ = ["advertise", "memory_lack", "really_free"]

ENFORCING = ("pacemaker-utilization", "pacemaker-balanced", "pacemaker-minimal")
"""The strategies that look at the capacities that nodes advertise."""

MEMORY = "memory"
"""The utilization attribute that is memory in MiB."""


def advertise(cluster: Cluster, strategy_of: Callable[[Group], str], prefix: str) -> None:
    """Set `Node.memory_ratio` of every node; call it before a state is made of `cluster`."""
    capacity: list[dict[str, float]] | None = None
    for node in cluster.nodes:
        strategy = strategy_of(node.group)
        ratio: float = 1
        if strategy == "affinity":
            from iallocator.tags.placement_keys import NodeTags

            ratio = NodeTags(prefix, node, []).ram_contention or 1
        elif strategy in ENFORCING and node.total_memory:
            if capacity is None:
                from iallocator.tags.pacemaker import PacemakerTags

                capacity = PacemakerTags(cluster, (), [], prefix).capacity
            ratio = capacity[node.index].get(MEMORY, 0) / node.total_memory
        node.memory_ratio = max(1, ratio)


def memory_lack(
    state: State, index: int, instance: Instance, overhead: int = 0, waiting: int = 0
) -> str:
    """Why a node that promises more memory than it has cannot start `instance`; "" if it can.

    Ganeti looks at the memory that is really free when it starts an instance.  `overhead`: MiB
    that must stay free besides; `waiting`: of instances that are there, though not in `state`.
    """
    if state.cluster.nodes[index].memory_ratio <= 1 or not instance.uses_memory:
        return ""
    ratio = state.cluster.nodes[index].memory_ratio
    free, needed = really_free(state, index) - waiting / ratio, instance.memory + overhead
    return f"needs {needed} MiB, {free:.12g} MiB really free" if free <= needed else ""


def really_free(state: State, index: int) -> float:
    """MiB of memory that are really free on node `index`, as far as that can be told.

    What the node reports, less what has come since; that uses of its memory what the
    node's promise assumes.
    """
    cluster = state.cluster
    node = cluster.nodes[index]
    now = sum(i.memory for i in state.primaries[index].values() if i.uses_memory)
    then = sum(i.memory for i in cluster.instances if i.uses_memory and i.nodes[:1] == (index,))
    return node.reported_memory - (now - then) / node.memory_ratio
