"""Test fast packing: each of its moves passes the checks for single moves between groups."""

from __future__ import annotations

from functools import partial

import pytest

from iallocator.model.moves import replay
from iallocator.n1 import ENTERED, plan_rules
from iallocator.n1.tolerance import FailureTolerance
from iallocator.options.settings import Settings
from iallocator.planners.intergroup.context import IntergroupContext, Peers
from iallocator.planners.intergroup.moving import Mover
from iallocator.planners.intergroup.packing import pack
from iallocator.planners.node_orders import BestFit, NodeOrder, ReserveFirst, WorstFit
from tests.builders import cluster, rbd
from tests.model.make import model_of
from tests.seeds import seeds

from .scenarios import drbd_super_cluster, random_super_cluster


def _mover(seed: int, mode: str) -> Mover:
    """Return an object that moves instances between the groups of a random cluster."""
    settings = Settings()
    settings.n1 = mode
    return Mover(IntergroupContext(model_of(random_super_cluster(seed)), settings))


@pytest.mark.parametrize("mode", ["no-new", "strict", "no-worse", "off"])
def test_packed_moves_are_each_allowed_when_they_are_made(mode: str) -> None:
    """Each move of a packing passes limits, global N+1 and step checks.

    A failed packing moves nothing.
    """
    found = 0
    for seed in seeds(25, 250):
        mover = _mover(seed, mode)
        cluster, peers = mover.context.cluster, Peers(mover.context.cluster)
        for group in cluster.groups:
            state = mover.context.state
            held = {i.name: i for index in group.nodes for i in state.instances_on(index)}
            if any(map(mover.immovable, held.values())):
                continue
            before = dict(state.where)
            made = pack(mover, list(held.values()), partial(peers.of, source=group))
            assert state.where == before
            with state.trial():
                for move in made or ():
                    way = mover.only(move.instance, move.after).best
                    assert way is not None, (seed, group.name)
                    assert way.steps == move.steps
                    way.apply(state)
                    found += 1
                emptied = not any(any(state.instances_on(index)) for index in group.nodes)
                assert made is None or emptied
    assert found > 20


@pytest.mark.parametrize("mode", ["no-new", "no-worse"])
def test_packing_without_a_required_room_loses_no_more(mode: str) -> None:
    """Packing without reserved failover memory makes no failure lose more instances than before."""
    found = lost = 0
    for seed in seeds(40, 2000, 7000):
        settings = Settings()
        settings.n1 = mode
        context = IntergroupContext(model_of(drbd_super_cluster(seed)), settings)
        mover, state, peers = Mover(context), context.state, Peers(context.cluster)
        source, *others = context.cluster.groups
        held = {i.name: i for index in source.nodes for i in state.instances_on(index)}
        before = [FailureTolerance(state, plan_rules(mode), group=group) for group in others]
        for one in before:
            one.measure()
        made = pack(mover, list(held.values()), partial(peers.of, source=source), careful=False)
        if made is None:
            continue
        replay(mover.context.state, made)
        assert [one.comparison.broken(ENTERED) for one in before] == [[] for _ in before], seed
        found += 1
        lost += any(one.not_tolerated(one.failing()) for one in before)
    assert found > 10
    assert lost > 5


def test_packing_spares_the_node_with_most_free_memory_for_failovers() -> None:
    """All instances fit into the other group if no instance goes to its emptiest node.

    That node takes over from each of the others. Sums prove that each failure is tolerated; they
    would not if it received an instance.
    """
    sizes = {
        "node1": (300, 200, 100, 100), "node2": (300, 100, 100, 100), "node3": (200,),
        "node4": (100, 200),
    }  # fmt: skip
    held = {
        f"{name}-{number}": rbd(name, memory=size)
        for name, some in sizes.items()
        for number, size in enumerate(some)
    }
    document = cluster({"a": 1, "b": 3}, memory=1000, cpus=64, instances=held)
    settings = Settings()
    settings.n1 = "no-new"
    mover = Mover(IntergroupContext(model_of(document), settings))
    known = mover.context.cluster
    leaving = [one for one in known.instances if one.name.startswith("node1")]
    made = pack(mover, leaving, partial(Peers(known).of, source=known.groups[0]))
    assert made is not None
    to = {move.instance.name: known.node_names(move.after) for move in made}
    assert to == {
        "node1-0": ["node2"], "node1-1": ["node4"], "node1-2": ["node4"], "node1-3": ["node4"],
    }  # fmt: skip


def test_updated_order_of_nodes_equals_a_new_order() -> None:
    """After each move, the order of nodes with updates of the affected nodes equals a new order."""
    mover = _mover(3, "off")
    state, count = mover.context.state, len(mover.context.cluster.nodes)

    def made() -> list[NodeOrder]:
        return [
            WorstFit(state, True),
            BestFit(state, ()),
            ReserveFirst(state, ()),
            ReserveFirst(state, {0}),
        ]

    kept = made()
    for instance in mover.context.cluster.instances:
        target = (instance.nodes[0] + 1) % count
        after = (target, *(n for n in instance.nodes[1:] if n != target))
        mover.put(instance, ())
        mover.put(instance, after)
        for rooms in kept:
            rooms.renew((*instance.nodes, *after))
        for rooms, fresh in zip(kept, made()):
            assert list(rooms.ranked(instance)) == list(fresh.ranked(instance))
