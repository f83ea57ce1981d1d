"""What steps take of a node and give back, by amounts.

A `Place` says where an instance is and whether it runs; its footprint there is one
amount per node and dimension.  A step from one place to another takes what the second
footprint has more, before it begins, and gives back what it has less, when it is done:
in between the instance holds both.
"""

from __future__ import annotations

from iallocator.model import columns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from iallocator.model.instance import Instance, Pool
    from iallocator.model.state import State

    Key = tuple[int, str]
    """The index of a node, and a dimension."""

    Amounts = dict[Key, float]

__all__ = [
    "HARD",
    "OWN_SPINDLES",
    "SOFT",
    "Place",
    "change",
    "describe_amount",
    "footprint",
    "room",
]

MEMORY, DISK, OWN_SPINDLES = "memory", "disk", "own spindles"
CPUS, SHARED_SPINDLES = "cpus", "shared spindles"

HARD = (MEMORY, DISK, OWN_SPINDLES)
"""The dimensions that no step may overdraw: MiB, MiB, spindles where storage is exclusive.

So is the space in a storage pool of which nodes say what is free: a dimension by itself,
with the name of the pool, in MiB.
"""

SOFT = (CPUS, SHARED_SPINDLES)
"""Those that are policy: virtual cpus and spindle use against the ratios."""

_COLUMNS = (
    (DISK, columns.DISK, -1),  # free amounts fall, used ones rise
    (OWN_SPINDLES, columns.FREE_SPINDLES, -1),
    (CPUS, columns.CPUS, 1),
    (SHARED_SPINDLES, columns.SPINDLES, 1),
)


class Place:
    """Where an instance is: its nodes, primary first, and whether it runs there."""

    __slots__ = ("nodes", "running")

    def __init__(self, nodes: tuple[int, ...], running: bool) -> None:
        self.nodes = nodes
        self.running = running

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and (self.nodes, self.running) == (
            other.nodes,
            other.running,
        )

    def __hash__(self) -> int:
        return hash((self.nodes, self.running))


def room(state: State, names: Collection[str] = HARD) -> Amounts:
    """What the steps may take of every node; negative where too much is in use already.

    Of memory, disk and pools 1 MiB stays free, as the limits of placements want it.
    `names`: the dimensions that count.
    """
    found: Amounts = {}
    for index, node in enumerate(state.cluster.nodes):
        row = state.row(index)
        left = {
            MEMORY: row[columns.MEMORY] - 1,
            DISK: row[columns.DISK] - 1,
            CPUS: node.vcpu_ratio * node.total_cpus - row[columns.CPUS],
        }
        if node.exclusive_storage:
            left[OWN_SPINDLES] = row[columns.FREE_SPINDLES]
        else:
            left[SHARED_SPINDLES] = node.high_spindles - row[columns.SPINDLES]
        found |= {(index, name): amount for name, amount in left.items() if name in names}
        if state.pools is not None:
            for pool, amount in state.pools.free[index].items():
                found[index, _pool_name(pool)] = amount - 1
    return found


def _pool_name(pool: Pool) -> str:
    return f"space in {'/'.join(pool)}"


def footprint(instance: Instance, place: Place | None) -> Amounts:
    """What `instance` holds at `place` (None: it does not exist there)."""
    held: Amounts = {}
    if place is None or instance.forthcoming:
        return held
    for role, index in enumerate(place.nodes):
        vector = instance.as_secondary if role else instance.as_primary
        if not role:
            held[index, MEMORY] = instance.memory if place.running else 0
        for name, column, sign in _COLUMNS:
            if name == OWN_SPINDLES and not instance.local:
                continue  # no limit asks them of others
            if vector[column] or (name == DISK and instance.counts_disk):
                held[index, name] = sign * vector[column]
        for pool, amount in instance.draws:
            held[index, _pool_name(pool)] = amount
    return held


def change(
    instance: Instance, before: Place | None, after: Place | None
) -> tuple[Amounts, Amounts]:
    """What going from one place to another takes first and gives back in the end.

    A role that is new to a node appears in the first even if it takes nothing: it must
    not come to a node where too much is in use.
    """
    old, new = footprint(instance, before), footprint(instance, after)
    takes = {key: amount - old.get(key, 0) for key, amount in new.items()}
    takes = {key: more for key, more in takes.items() if more > 0 or key not in old}
    frees = {key: amount - new.get(key, 0) for key, amount in old.items()}
    return takes, {key: less for key, less in frees.items() if less > 0}


def describe_amount(dimension: str, amount: float) -> str:
    """``2048 MiB memory``."""
    from iallocator.limits.words import quantity

    counted = dimension in (OWN_SPINDLES, *SOFT)
    return quantity(amount, dimension if counted else f"MiB {dimension}")
