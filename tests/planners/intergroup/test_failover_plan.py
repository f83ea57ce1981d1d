"""Test packing on shared storage that keeps all failovers."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import TYPE_CHECKING

from iallocator.model.columns import MEMORY
from iallocator.model.moves import replay
from iallocator.options.settings import Settings
from iallocator.planners.intergroup.context import IntergroupContext, Peers
from iallocator.planners.intergroup.moving import Mover
from iallocator.planners.intergroup.packing import pack
from iallocator.planners.node_orders import FailoverSafe
from tests.model.make import model_of
from tests.seeds import seeds

from .scenarios import Json, drbd_super_cluster, on_shared

if TYPE_CHECKING:
    from iallocator.model.cluster import Group
    from iallocator.model.state import State


def _shared_super_cluster(seed: int) -> Json:
    """Return a cluster of several groups on shared storage with failures that are not tolerated.

    If `seed` is a multiple of 3, half of the instances use a pool that one node in four cannot
    access.
    """
    document = drbd_super_cluster(seed)
    nodes = document["nodes"]
    pooled = [] if seed % 3 else [*nodes]
    for number, name in enumerate(pooled):
        pools = ["nas", *(["other"] if number % 4 else [])]
        nodes[name]["storage_pools"] = [{"type": "external", "name": pool} for pool in pools]
    for number, (name, one) in enumerate(document["instances"].items()):
        home = one["nodes"][0]
        far = number % 2 and pooled and pooled.index(home) % 4
        pool = ("other" if far else "nas") if pooled else ""
        made = on_shared(home, pool, memory=one["memory"])
        document["instances"][name] = made | {"admin_state": one["admin_state"]}
    return document


def _mover(seed: int) -> Mover:
    settings = Settings()
    settings.n1 = "no-worse"
    document = _shared_super_cluster(seed)
    document["cluster_tags"] = [] if seed % 2 else document["cluster_tags"]
    return Mover(IntergroupContext(model_of(document), settings))


def _lost(state: State, node: int) -> tuple[int, int]:
    """Return the smallest number and MiB of instances that cannot be restarted if `node` fails."""
    nodes = state.cluster.nodes
    others = [
        k
        for k in nodes[node].group.nodes
        if k != node and nodes[k].online and set(nodes[node].migration) <= set(nodes[k].migration)
    ]
    movers = [one for one in state.primaries[node].values() if one.uses_memory]
    leaving = [one.memory for one in movers]
    reaches = [state.cluster.reach(one) for one in movers]
    lost: list[tuple[int, int]] = []
    for places in product((None, *others), repeat=len(leaving)):
        if any(k is not None and reach and k not in reach for k, reach in zip(places, reaches)):
            continue
        asked = {k: sum(m for m, p in zip(leaving, places) if p == k) for k in {*places}}
        if all(k is None or state.columns[MEMORY][k] > amount for k, amount in asked.items()):
            left = [m for m, p in zip(leaving, places) if p is None]
            lost.append((len(left), sum(left)))
    return min(count for count, _ in lost), min(amount for _, amount in lost)


def _losses(state: State, groups: list[Group]) -> dict[int, tuple[int, int]]:
    online = [k for group in groups for k in group.nodes if state.cluster.nodes[k].online]
    return {k: _lost(state, k) for k in online}


def test_packing_on_shared_storage_loses_no_more_than_brute_force() -> None:
    """Packing on shared storage makes no node failure lose more instances or memory than before.

    Brute force computes the losses. Some failures lose instances already before the packing.
    """
    found = lossy = 0
    for seed in seeds(30, 1000, 4000):
        mover = _mover(seed)
        state, peers = mover.context.state, Peers(mover.context.cluster)
        source, *others = mover.context.cluster.groups
        held = {i.name: i for index in source.nodes for i in state.instances_on(index)}
        before = _losses(state, others)
        made = pack(mover, list(held.values()), partial(peers.of, source=source), careful=False)
        replay(state, made or ())
        after = _losses(state, others)
        assert all(n <= before[k][0] and m <= before[k][1] for k, (n, m) in after.items()), seed
        found += made is not None
        lossy += made is not None and any(n for n, _ in before.values())
    assert found > 10
    assert lossy > 1


def test_failover_plan_after_arrivals_keeps_the_memory_that_each_failure_requires() -> None:
    """After each move, the updated failover plan reserves as much memory as a new plan."""
    came = 0
    for seed in seeds(20, 100, 5000):
        mover = _mover(seed)
        state = mover.context.state
        source, group, _ = mover.context.cluster.groups
        own = mover.tolerance(group).failover_plan(group)
        assert own is not None
        rooms = FailoverSafe(state, {group.index: own})
        for instance in [i for k in source.nodes for i in state.instances_on(k)]:
            place = next(rooms.ranked(instance), None)
            if place is None:
                continue
            before = state.where[instance.name]
            mover.put(instance, ())
            mover.put(instance, (place,))
            rooms.came(instance, before, (place,))
            came += 1
            assert list(rooms.in_order()) == list(
                FailoverSafe(state, {group.index: own}).in_order()
            )
            assert all(state.columns[MEMORY][k] > own.kept[k] for k in own.kept)
            needed = [some for both in own._failovers.values() for _, some in both]
            worst = {k: max(some.get(k, 0) for some in needed) for k in own.kept}
            assert own.kept == worst
    assert came > 10
