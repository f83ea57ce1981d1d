"""The quantities of a node that instances change, and what an instance adds to each.

An instance in a role (primary or secondary) is a vector of amounts, one per column. Placing the
instance adds the vector to the node's row; removing the instance subtracts the vector. The state
applies vectors to lists, the scoring kernel to arrays of candidates. Only the memory reserved for
failovers (a maximum) and the tag counters (which depend on the other instances of the node) are not
sums; they are kept separately.
"""

from __future__ import annotations

__all__ = ["COLUMNS"]

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
"""The names of the columns, in the order of every vector and row."""

(
    MEMORY, DISK, FREE_SPINDLES, SPINDLES, CPUS, PRIMARIES, SECONDARIES,
    CPU_LOAD, MEMORY_LOAD, DISK_LOAD, NET_LOAD,
    MEMORY_LATER, DISK_LATER, FREE_SPINDLES_LATER, SPINDLES_LATER, CPUS_LATER,
    CONFLICTS, MISPLACED,
) = range(len(COLUMNS))  # fmt: skip
