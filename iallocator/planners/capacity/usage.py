"""Add up the resources that a cluster has, uses and has free, over all its nodes."""

from __future__ import annotations

from iallocator.model.columns import CPUS, DISK, FREE_SPINDLES, MEMORY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.model.state import State

__all__ = ["Figures", "Totals"]


class Totals:
    """The capacities of all nodes together, online or not; `state` is the initial state.

    Attributes
    ----------
    nodes:
        The number of nodes.
    memory, disk:
        MiB. Memory includes what may be allocated beyond it (`Node.lent_memory`).
    overhead:
        MiB of memory that nodes use themselves, or that is neither free nor used by known
        instances; less if nodes report more free memory than their instances leave.
    own_cpus:
        Virtual cpus that the nodes use themselves.
    cpus, vcpus:
        Cpus, and virtual cpus that the policies allow.
    spindles:
        The number of spindles of all nodes.
    """

    __slots__ = ("cpus", "disk", "memory", "nodes", "overhead", "own_cpus", "spindles", "vcpus")

    def __init__(self, state: State) -> None:
        nodes = state.cluster.nodes
        self.nodes = len(nodes)
        self.memory = sum(node.total_memory + node.lent_memory for node in nodes)
        self.overhead = int(
            sum(node.reserved_memory + state.missing(node.index)[0] for node in nodes)
        )
        self.disk = sum(node.total_disk for node in nodes)
        self.own_cpus = sum(node.reserved_cpus for node in nodes)
        self.cpus = sum(node.total_cpus for node in nodes)
        self.vcpus = sum(_whole(node.vcpu_ratio * node.total_cpus) for node in nodes)
        self.spindles = sum(
            node.total_spindles if node.exclusive_storage else node.spindle_count for node in nodes
        )


def _whole(amount: float) -> int:
    """Return `amount` without its fraction; the least 64-bit number if it has more bits or is NaN.

    Source: htools count so.
    """
    return int(amount) if abs(amount) < 2.0**63 else -(2**63)


class Figures:
    """The resources that are used and free in one state.

    Attributes
    ----------
    instances, score:
        The number of instances, and the score of all nodes.
    free_memory, free_disk:
        MiB of memory, and of disk, that are free.
    free_spindles:
        The number of free spindles.
    available_memory, available_disk:
        Free MiB without the memory reserved for failovers, and without the larger of ``--min-disk``
        and the disk reserve.
    most_memory, most_disk:
        The most MiB available on one node.
    used_memory:
        MiB of running instances.
    used_cpus, used_cores:
        Virtual cpus in use, with those that nodes use themselves; and their number divided by
        the ratio of virtual cpus per cpu of each node.
    """

    __slots__ = (
        "available_disk", "available_memory", "free_disk", "free_memory", "free_spindles",
        "instances", "most_disk", "most_memory", "score", "used_cores", "used_cpus",
        "used_memory",
    )  # fmt: skip

    def __init__(self, state: State, score: float, min_disk: float) -> None:
        nodes, columns = state.cluster.nodes, state.columns
        memory = [
            0
            if state.fails_n1(node.index)
            else columns[MEMORY][node.index] - state.reserved[node.index]
            for node in nodes
        ]
        disk = [
            max(0, columns[DISK][node.index] - int(max(min_disk * node.total_disk, kept)))
            for node, kept in zip(nodes, [node.disk_reserve for node in nodes])
        ]
        self.score = score
        self.instances = len(state.where)
        self.free_memory = int(sum(columns[MEMORY]))
        self.free_disk = int(sum(columns[DISK]))
        self.free_spindles = int(
            sum(
                columns[FREE_SPINDLES][node.index] if node.exclusive_storage else node.free_spindles
                for node in nodes
            )
        )
        self.available_memory = int(sum(memory))
        self.available_disk = int(sum(disk))
        self.most_memory = int(max(memory, default=0))
        self.most_disk = int(max(disk, default=0))
        self.used_memory = sum(
            instance.memory
            for held in state.primaries
            for instance in held.values()
            if instance.uses_memory
        )
        self.used_cpus = int(sum(columns[CPUS]))
        self.used_cores = sum(
            columns[CPUS][node.index] / node.vcpu_ratio
            for node in reversed(nodes)
            if node.vcpu_ratio
        )
