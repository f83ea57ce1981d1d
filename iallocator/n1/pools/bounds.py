"""The cheap test of N+1 where instances may not go to every node: storage pools.

A share is what a failing node has to give to one set of nodes.  Shares may overlap: what
goes to the nodes of one takes room from the others.  The argument of
`iallocator.n1.bounds` holds for each share by itself, as soon as everything is
counted against it that the other shares could put on its nodes: of each no more than
it has, and no more than the nodes that they have in common can hold.

Loaded only where a document tells which nodes reach which pools.
"""

from __future__ import annotations

from iallocator.model.columns import DISK, MEMORY
from iallocator.model.storage import LVM, pools_of
from iallocator.n1.pools.share import Share
from iallocator.n1.verdicts import INFINITE, LOST, SAFE, UNKNOWN, share_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance, Pool
    from iallocator.model.state import State

__all__ = ["judge_shares", "shares_of"]


def shares_of(cluster: Cluster, movers: Iterable[Instance]) -> list[Share] | None:
    """What `movers` ask of which nodes; None if only the simulation can tell."""
    shares: dict[tuple[frozenset[int] | None, Pool | None], Share] = {}
    for instance in movers:
        pool, space = _space(instance)
        if space is None:
            return None
        key = cluster.reach(instance), pool
        if key not in shares:
            shares[key] = Share(*key)
        shares[key].add(instance, space)
    return list(shares.values())


def _space(instance: Instance) -> tuple[Pool | None, int | None]:
    """The pool that an instance needs room in and how much; None: in several."""
    if not instance.draws:
        return (LVM, instance.own_disk) if instance.local else (None, 0)
    if len(instance.draws) > 1 or len(pools_of(instance)) > 1:
        return None, None
    return instance.draws[0]


def judge_shares(
    state: State, shares: Sequence[Share], failovers: Mapping[int, float], targets: Sequence[int]
) -> tuple[int, float]:
    """As `iallocator.n1.bounds.verdict`, of a demand in `shares`.

    `failovers`: node -> MiB that fail over to it.  Cost: the square of the number of
    shares times the targets.
    """
    memory = state.columns[MEMORY]
    capacity = {t: memory[t] - failovers.get(t, 0) - 1 for t in targets}
    nodes = [
        frozenset(targets) if share.reach is None else share.reach.intersection(targets)
        for share in shares
    ]
    spare = INFINITE
    unknown = False
    for share, own in zip(shares, nodes):
        need = share.largest
        if need > max((capacity[t] for t in own), default=-INFINITE):
            return LOST, 0
        room = _room(capacity, own)
        if room < sum(other.moved for other, where in zip(shares, nodes) if where <= own):
            return LOST, 0
        budget = min(share.moved - need, room)
        for other, where in zip(shares, nodes):
            if other is not share and not own.isdisjoint(where):
                budget += min(other.moved, _room(capacity, own & where))
        if share.pool is None:
            left = sum(c - need + 1 for t in own if (c := capacity[t]) >= need) - budget - 1
            unknown |= left < 0
            spare = min(spare, left)
        else:
            unknown |= not _space_suffices(state, share, shares, own, capacity, budget)
            spare = -1
    return (UNKNOWN, 0) if unknown else (SAFE, spare)


def _room(capacity: Mapping[int, float], nodes: Iterable[int]) -> float:
    """How much memory the nodes can take together."""
    return sum(c for t in nodes if (c := capacity[t]) > 0)


def _space_suffices(
    state: State,
    share: Share,
    shares: Sequence[Share],
    nodes: Iterable[int],
    capacity: Mapping[int, float],
    budget: float,
) -> bool:
    """Whether memory and disk budgets together cannot close every one of `nodes`."""
    spaces = sum(other.space for other in shares if other.pool == share.pool)
    disk_budget = spaces - share.largest_space
    found = 0.0
    for target in nodes:
        closing = max(0.0, capacity[target] - share.largest + 1)
        closing_disk = max(0.0, _free(state, share, target) - share.largest_space)
        found += min(share_of(closing, budget), share_of(closing_disk, disk_budget))
    return found > 2


def _free(state: State, share: Share, node: int) -> float:
    """MiB free on a node for disks of `share`."""
    if share.pool == LVM or state.pools is None or share.pool is None:
        return state.columns[DISK][node]
    return state.pools.free[node].get(share.pool, INFINITE)
