"""Compute the amounts that a step takes from a node, and that it frees.

A `Place` has the nodes of an instance, and whether the instance runs. The footprint of an instance
at a place is one amount per node and dimension. At its beginning, a step takes the amounts by which
the new footprint is larger. At its end, it frees the amounts by which the new footprint is smaller.
During the step the instance holds both.
"""

from __future__ import annotations

from functools import lru_cache

from iallocator.constraints.checks import UNLIMITED, amount_in
from iallocator.constraints.words import quantity
from iallocator.limits.node import FORCED_LIMITS, RESOURCES, resources_of
from iallocator.model.columns import DISK, MEMORY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from iallocator.model.holdings import Row
    from iallocator.model.instance import Instance, Pool
    from iallocator.model.state import State

    Key = tuple[int, str]
    """The index of a node, and a dimension."""

    Amounts = dict[Key, float]

__all__ = [
    "HARD_DIMENSIONS",
    "OWN_SPINDLE_DIMENSION",
    "SOFT_DIMENSIONS",
    "Place",
    "change",
    "describe_amount",
    "footprint",
    "room",
]

OWN_SPINDLE_DIMENSION = "own spindles"

HARD_DIMENSIONS = tuple(resource.name for resource in resources_of(FORCED_LIMITS))
"""The dimensions that no step may overcommit.

The free space of each storage pool that nodes report, in MiB, is another such dimension.
"""

SOFT_DIMENSIONS = tuple(
    resource.name for resource in RESOURCES if resource.name not in HARD_DIMENSIONS
)
"""The dimensions that only the policy limits: virtual cpus and spindle use."""


class Place:
    """The place of an instance: its nodes, primary first, and whether it runs."""

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


def room(state: State, names: Collection[str] = HARD_DIMENSIONS) -> Amounts:
    """Return the free amounts of every node; negative if a node is overcommitted.

    1 MiB of memory, of disk and of each pool stays free, as the limits of nodes require. `names`
    are the dimensions that are enforced.
    """
    free: Amounts = {}
    enforced = [resource for resource in RESOURCES if resource.name in names]
    for index, node in enumerate(state.cluster.nodes):
        row = state.row(index)
        for resource in enforced:
            amount = resource.spare(amount_in(row, resource.columns), node)
            if amount != UNLIMITED:
                free[index, resource.name] = amount
        if state.access is not None:
            for pool, amount in state.access.free[index].items():
                free[index, _pool_name(pool)] = amount - 1
    return free


def _pool_name(pool: Pool) -> str:
    return f"space in {'/'.join(pool)}"


def footprint(instance: Instance, place: Place | None) -> Amounts:
    """Return the amounts that `instance` holds at `place`; none if `place` is None."""
    held: Amounts = {}
    if place is None or instance.forthcoming:
        return held
    for role, index in enumerate(place.nodes):
        vector = instance.as_secondary if role else instance.as_primary
        for name, amount in _held(vector, not role, instance.local, instance.counts_disk):
            if amount is not None:
                held[index, name] = amount
            else:
                held[index, name] = instance.memory if place.running else 0
        for pool, space in instance.draws:
            held[index, _pool_name(pool)] = space
    return held


@lru_cache(maxsize=1024)
def _held(
    vector: Row, primary: bool, local: bool, counts_disk: bool
) -> Sequence[tuple[str, float | None]]:
    """Return the names and amounts of the resources that an instance with `vector` holds on a node.

    The amount of memory of a primary is None: it depends on whether the instance runs. `local`,
    `counts_disk`: as those of `Instance`. Many steps of a transition have equal arguments.
    """
    held: list[tuple[str, float | None]] = []
    for resource in RESOURCES:
        if resource.columns == (MEMORY,):
            held += [(resource.name, None)] if primary else []
        elif resource.name != OWN_SPINDLE_DIMENSION or local:  # else without a limit
            taken = resource.taken(vector)
            if taken or (resource.columns == (DISK,) and counts_disk):
                held.append((resource.name, taken))
    return held


def change(
    instance: Instance, before: Place | None, after: Place | None
) -> tuple[Amounts, Amounts]:
    """Return the amounts that a change of place takes at its beginning, and frees at its end.

    The amounts taken include each dimension of a node on which the instance gets a new role, even
    if the amount is 0: no role must be added to an overcommitted node.
    """
    old, new = footprint(instance, before), footprint(instance, after)
    takes = {key: amount - old.get(key, 0) for key, amount in new.items()}
    takes = {key: more for key, more in takes.items() if more > 0 or key not in old}
    frees = {key: amount - new.get(key, 0) for key, amount in old.items()}
    return takes, {key: less for key, less in frees.items() if less > 0}


def describe_amount(dimension: str, amount: float) -> str:
    """Return an amount as text, for example ``2048 MiB memory``."""
    units = {resource.name: resource.unit for resource in RESOURCES}
    return quantity(amount, units.get(dimension, f"MiB {dimension}"))
