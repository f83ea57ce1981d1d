"""Test moves between groups: values that are kept from move to move do not change results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest

from iallocator.model.cluster import Group
from iallocator.model.instance import Instance
from iallocator.model.state import State
from iallocator.options.settings import Settings
from iallocator.planners.intergroup.context import IntergroupContext, Peers
from iallocator.planners.intergroup.infeasibility_proofs import Proofs
from iallocator.planners.intergroup.moving import Mover
from iallocator.planners.node_orders import BestFit, NodeOrder, WorstFit
from tests.model.make import model_of

from .scenarios import random_super_cluster


def mover_on(seed: int, arrays: bool) -> Mover:
    """Return the mover of a generated cluster, which moves instances between groups."""
    settings = Settings()
    settings.n1 = ("no-new", "no-worse", "strict")[seed % 3]
    cluster = model_of(random_super_cluster(seed))
    mover = Mover(IntergroupContext(cluster, settings))
    mover.context.kernels.arrays = arrays
    return mover


def made_anew(mover: Mover, seed: int, arrays: bool) -> Mover:
    """Return a new mover without kept values that has the placement of `mover`."""
    fresh = mover_on(seed, arrays)
    for one in fresh.context.cluster.instances:
        fresh.put(one, mover.context.state.where[one.name])
    return fresh


def way(mover: Mover, instance: Instance, targets: Sequence[Group]) -> str:
    """Return the target and the kind of the move of `instance`, or why the instance cannot move."""
    found = mover.relocate(instance, targets)
    return found.message if found.best is None else f"{found.best.nodes} {found.best.steps}"


def proof(mover: Mover, proofs: Proofs, group: Group) -> str:
    """Return why `group` cannot be emptied, as proved by sums; "" without a proof."""
    peers, state = Peers(mover.context.cluster), mover.context.state
    leaving = [i for k in group.nodes for i in state.instances_on(k) if not mover.immovable(i)]
    return proofs.against(list(dict.fromkeys(leaving)), lambda one: peers.of(one, group))


@pytest.mark.parametrize("seed", [2, 3, 36, 55])
def test_mover_equals_a_new_one_while_instances_move(seed: int) -> None:
    """After good and bad moves, a mover finds the moves and proofs that a new mover finds."""
    arrays, rng = bool(seed % 2), Random(seed)
    kept = mover_on(seed, arrays)
    context, peers, proofs = kept.context, Peers(kept.context.cluster), Proofs(kept)
    free = [one for one in context.cluster.instances if not kept.immovable(one)]
    for _ in range(4 if free else 0):
        fresh = made_anew(kept, seed, arrays)
        same = {one.name: one for one in fresh.context.cluster.instances}
        for one in rng.sample(free, min(2, len(free))):
            targets = peers.of(one, context.cluster.group_of(one))
            again = [fresh.context.cluster.groups[group.index] for group in targets]
            assert way(kept, one, targets) == way(fresh, same[one.name], again)
        group = rng.choice(context.cluster.groups)
        twin = fresh.context.cluster.groups[group.index]
        assert proof(kept, proofs, group) == proof(fresh, Proofs(fresh), twin)
        moved = rng.choice(free)
        home = context.cluster.nodes[context.state.where[moved.name][0]].group
        place = rng.choice([home, *peers.of(moved, home)])
        if len(place.nodes) >= moved.required_nodes:
            kept.put(moved, tuple(rng.sample(list(place.nodes), moved.required_nodes)))


@pytest.mark.parametrize("make", [lambda s: WorstFit(s, True), lambda s: BestFit(s, ())])
def test_kept_order_of_nodes_equals_a_new_order(
    make: Callable[[State], NodeOrder],
) -> None:
    """After each reported move, the order of nodes that is kept equals a new sorting."""
    cluster = model_of(random_super_cluster(2))
    state, rng = State(cluster), Random(2)
    kept, nodes = make(state), range(len(cluster.nodes))
    for _ in range(20):
        moved = rng.choice(cluster.instances)
        before = state.where[moved.name]
        after = tuple(rng.sample(nodes, len(before)))
        state.remove(moved, before)
        state.place(moved, after)
        kept.came(moved, before, after)
        assert list(kept.in_order()) == list(make(state).in_order())
