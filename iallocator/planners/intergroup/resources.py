"""What groups use, have, and have free: memory, disk and virtual cpus."""

from __future__ import annotations

from iallocator.model.columns import CPUS, DISK, MEMORY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.model.cluster import Group
    from iallocator.model.state import State

__all__ = ["KINDS", "Resources", "free_of", "plus", "total_of", "used_by"]

KINDS = ("memory", "disk", "cpu")
"""MiB, MiB, virtual cpus."""

Resources = tuple[float, float, float]
"""An amount of each of `KINDS`."""


def plus(*amounts: Resources) -> Resources:
    """The sum."""
    memory, disk, cpu = (sum(column) for column in zip((0.0, 0.0, 0.0), *amounts))
    return memory, disk, cpu


def used_by(state: State, group: Group) -> Resources:
    """What the instances in `group` take: memory if they run, disk on the nodes' own storage."""
    memory = disk = cpu = 0
    for index in group.nodes:
        for instance in state.primaries[index].values():
            memory += instance.memory if instance.uses_memory else 0
            cpu += 0 if instance.admin_offline else instance.vcpus
        disk += sum(instance.own_disk for instance in state.instances_on(index))
    return memory, disk, cpu


def free_of(state: State, group: Group) -> Resources:
    """What the online nodes of `group` have left; virtual cpus up to the policy's ratio."""
    memory = disk = cpu = 0.0
    for index in group.nodes:
        node = state.cluster.nodes[index]
        if node.online:
            memory += max(0.0, state.columns[MEMORY][index])
            disk += max(0.0, state.columns[DISK][index]) if node.has_internal else 0.0
            cpu += max(0.0, node.vcpu_ratio * node.total_cpus - state.columns[CPUS][index])
    return memory, disk, cpu


def total_of(state: State, group: Group) -> Resources:
    """What the online nodes of `group` have in all."""
    nodes = [state.cluster.nodes[i] for i in group.nodes if state.cluster.nodes[i].online]
    return (
        sum(node.total_memory for node in nodes),
        sum(node.total_disk for node in nodes if node.has_internal),
        sum(node.vcpu_ratio * node.total_cpus for node in nodes),
    )
