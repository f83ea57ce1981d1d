"""The quantities of a node that instances change, and what an instance adds to each.

An instance in a role (primary or secondary) is a vector of amounts, one per
column; placing it adds the vector to the node's row, removing it subtracts it.
That vector is the whole arithmetic of a placement: the state applies it to lists,
the scoring kernel to arrays of candidates.  Only the memory reserved for
failovers (a maximum) and the tag counters (which depend on what else is there)
are not sums and are kept beside it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.model.instance import Instance

__all__ = ["COLUMNS", "primary_vector", "secondary_vector"]

COLUMNS = (
    "memory",  # free memory, MiB
    "disk",  # free local disk, MiB
    "free_spindles",  # free spindles (exclusive storage)
    "spindles",  # spindle_use of instances with local disks (shared spindles)
    "cpus",  # virtual cpus in use
    "primaries",  # number of primary instances
    "secondaries",  # number of secondary instances
    "cpu_load",  # dynamic utilisation, no unit
    "memory_load",
    "disk_load",
    "net_load",
    "memory_later",  # the same quantities once forthcoming instances exist
    "disk_later",
    "free_spindles_later",
    "spindles_later",
    "cpus_later",
    "conflicts",  # exclusion-tag conflicts among primaries
    "misplaced",  # location points: domains shared with secondaries, desired ones missed
)
"""Names of the columns, in the order of every vector and row."""

(
    MEMORY, DISK, FREE_SPINDLES, SPINDLES, CPUS, PRIMARIES, SECONDARIES,
    CPU_LOAD, MEMORY_LOAD, DISK_LOAD, NET_LOAD,
    MEMORY_LATER, DISK_LATER, FREE_SPINDLES_LATER, SPINDLES_LATER, CPUS_LATER,
    CONFLICTS, MISPLACED,
) = range(len(COLUMNS))  # fmt: skip


def primary_vector(i: Instance) -> tuple[float, ...]:
    """Amounts that instance `i` adds to its primary, in the order of `COLUMNS`."""
    disk = i.own_disk
    spindles = i.spindle_use if i.local else 0
    own_spindles = i.spindles or 0
    cpus = 0 if i.admin_offline else i.vcpus
    now = 0 if i.forthcoming else 1
    cpu_load, memory_load, disk_load, net_load = i.load
    return (
        -i.memory if i.uses_memory else 0,
        -disk * now,
        -own_spindles * now,
        spindles * now,
        cpus * now,
        now,
        0,
        cpu_load * now,
        memory_load * now,
        disk_load * now,
        net_load * now,
        -i.memory,
        -disk,
        -own_spindles,
        spindles,
        cpus,
        0,
        0,
    )


def secondary_vector(i: Instance) -> tuple[float, ...]:
    """Amounts that instance `i` adds to its secondary, in the order of `COLUMNS`."""
    disk = i.own_disk
    spindles = i.spindle_use if i.local else 0
    own_spindles = i.spindles or 0
    now = 0 if i.forthcoming else 1
    return (
        0,
        -disk * now,
        -own_spindles * now,
        spindles * now,
        0,
        0,
        now,
        0,
        0,
        i.load[2] * now,
        0,
        0,
        -disk,
        -own_spindles,
        spindles,
        0,
        0,
        0,
    )
