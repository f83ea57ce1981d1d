"""Bounds of N+1 for instances that can run on some nodes only, because of their storage pool.

A share is the part of a failure's demand that can go to one set of nodes. Shares can overlap: an
instance placed on a node of one share takes capacity from the others. The argument of
`iallocator.n1.bounds` holds for each share if the capacity that the other shares may use on its
nodes is subtracted. Another share uses there at most its whole demand, and at most the capacity of
the nodes that both shares can use.

Cost: O(s^2) for *s* shares, and O(s n) for shares with a pool and *n* targets; O(s^2 n log n) for
the first failure. Loaded only for documents with storage pools or labels.
"""

from __future__ import annotations

from math import inf

from iallocator.model.columns import DISK, MEMORY
from iallocator.model.storage import LVM, pools_of
from iallocator.n1 import PROVED_LOST, PROVED_SAFE, UNPROVED, sum_of_shares

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Protocol

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance, Pool
    from iallocator.model.state import State
    from iallocator.n1 import Failure

    class TargetCapacity(Protocol):
        """The free memory of the nodes that may take over; `iallocator.n1.bounds` has the class."""

        members: frozenset[int]

        def among(self, nodes: frozenset[int]) -> TargetCapacity:
            """Return the free memory of the targets that are in `nodes`."""

        def count_without(self, failure: Failure) -> int:
            """Return the number of targets outside `failure`."""

        def total_without(self, failure: Failure, memory_taken: Mapping[int, float]) -> float:
            """Return the sum of the free memory of all targets outside `failure`, in MiB."""

        def without(
            self, failure: Failure, need: float, memory_taken: Mapping[int, float]
        ) -> tuple[float, float, float]:
            """Return the largest free memory, the sum, and the MiB that close all targets."""


__all__ = ["Share", "check_shares", "shares_of"]


class Share:
    """Instances that need a new node, can use the same nodes, and need space in the same pool.

    Attributes
    ----------
    reach:
        The nodes that the instances can use; None: all.
    pool:
        The pool that they need space in; `LVM` for the free disk of nodes; None: no pool.
    moved, largest:
        MiB of memory of all of them, and of the largest.
    space, largest_space:
        MiB that they need in the pool, and the largest of them.
    """

    __slots__ = ("largest", "largest_space", "moved", "pool", "reach", "space")

    def __init__(self, reach: frozenset[int] | None, pool: Pool | None) -> None:
        self.reach = reach
        self.pool = pool
        self.moved = 0
        self.largest = 0
        self.space = 0
        self.largest_space = 0

    def add(self, instance: Instance, space: int) -> None:
        """Add `instance`, which needs `space` MiB in the pool, to the share."""
        memory = instance.memory if instance.uses_memory else 0
        self.moved += memory
        self.largest = max(self.largest, memory)
        self.space += space
        self.largest_space = max(self.largest_space, space)


def shares_of(cluster: Cluster, movers: Iterable[Instance]) -> list[Share] | None:
    """Divide the instances `movers` into shares; return None if one of them needs several pools."""
    shares: dict[tuple[frozenset[int] | None, Pool | None], Share] = {}
    for instance in movers:
        pool, space = _space(instance)
        if space is None:
            return None
        key = (cluster.reach(instance) if instance.restricted else None), pool
        if key not in shares:
            shares[key] = Share(*key)
        shares[key].add(instance, space)
    return list(shares.values())


def _space(instance: Instance) -> tuple[Pool | None, int | None]:
    """Return the pool that `instance` needs, and the MiB; (None, 0) if it needs no pool, (None,
    None) if it needs several.
    """
    if not instance.draws:
        return (LVM, instance.own_disk) if instance.local else (None, 0)
    if len(instance.draws) > 1 or len(pools_of(instance)) > 1:
        return None, None
    return instance.draws[0]


def check_shares(
    state: State,
    shares: Sequence[Share],
    failure: Failure,
    failovers: Mapping[int, float],
    targets: TargetCapacity,
) -> tuple[int, float]:
    """Check by sums whether the instances of `shares` can be placed on `targets` outside `failure`.

    Return `PROVED_SAFE` or `PROVED_LOST` if sums prove it, else `UNPROVED`; and with `PROVED_SAFE`
    the MiB that any single target can lose (-1 or infinite where disk matters). `failovers`: node
    -> MiB that fail over to it.
    """
    parts = [targets if one.reach is None else targets.among(one.reach) for one in shares]
    counts = [part.count_without(failure) for part in parts]
    spare = inf
    unknown = False
    for share, part in zip(shares, parts):
        need = share.largest
        largest, room, closing = part.without(failure, need, failovers)
        if need > largest:
            return PROVED_LOST, 0
        budget = min(share.moved - need, room)
        inside = 0  # MiB of the shares that can only go to nodes of this one
        for other, its, count in zip(shares, parts, counts):
            common = part if its is part else part.among(its.members)
            both = common.count_without(failure)
            if both == count:
                inside += other.moved
            if both and other is not share:
                budget += min(other.moved, common.total_without(failure, failovers))
        if room < inside:
            return PROVED_LOST, 0
        if share.pool is None:
            left = closing - budget - 1
            unknown |= left < 0
        else:
            memory = state.columns[MEMORY]
            own = part.members.difference(failure)
            spaces = sum(other.space for other in shares if other.pool == share.pool)
            free: Mapping[int, float] = {t: state.columns[DISK][t] for t in own}
            if share.pool != LVM and state.access is not None:
                free = {t: state.access.free[t].get(share.pool, inf) for t in own}
            kind, left = sum_of_shares(
                (
                    (memory[t] - failovers.get(t, 0) - need, free[t] - share.largest_space, inf)
                    for t in own
                ),
                budget,
                spaces - share.largest_space,
            )
            unknown |= kind != PROVED_SAFE
        spare = min(spare, left)
    return (UNPROVED, 0) if unknown else (PROVED_SAFE, spare)
