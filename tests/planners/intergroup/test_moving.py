"""Test moves between groups: their targets equal the answers to Ganeti's allocation requests."""

from __future__ import annotations

import pytest

from iallocator.options.settings import Settings
from iallocator.placement.groups import collect_offers
from iallocator.placement.results import AllocationRequest
from iallocator.planners.intergroup.context import IntergroupContext, Peers
from iallocator.planners.intergroup.moving import Mover
from tests.builders import Json, cluster
from tests.model.make import model_of
from tests.seeds import seeds

from .scenarios import on_shared, plan_of, random_super_cluster


def mover_on(document: Json, arrays: bool = False) -> Mover:
    """Return a mover on the document's cluster.

    With `arrays`, it computes like for a large cluster.
    """
    mover = Mover(IntergroupContext(model_of(document), Settings()))
    mover.context.kernels.arrays = arrays
    return mover


@pytest.mark.parametrize("arrays", [False, True])
@pytest.mark.parametrize("seed", seeds(10, 30))
def test_relocation_is_the_best_offer_of_an_allocation(seed: int, arrays: bool) -> None:
    """An instance that changes its group gets the group and nodes that an allocation would get."""
    mover = mover_on(random_super_cluster(seed), arrays)
    context, peers = mover.context, Peers(mover.context.cluster)
    for instance in context.cluster.instances[:12]:
        if mover.immovable(instance):
            continue
        targets = peers.of(instance, context.cluster.group_of(instance))
        outcome = mover.relocate(instance, targets)
        offers = collect_offers(context, AllocationRequest(instance, targets, new=False))
        if outcome.best is None:
            # There is no offer, or it cannot be reached step by step
            assert offers.best is None or instance.template == "drbd"
            continue
        assert offers.best is not None
        if instance.template != "drbd":  # the best pair may be out of reach
            assert outcome.best.after == offers.best.nodes[0]
        outcome.best.apply(context.state)


def test_equal_instances_share_a_ranking_without_breaking_limits() -> None:
    """If equal instances share a ranking of nodes, their moves still keep memory and N+1."""
    seeds = [seed for seed in range(60) if len(random_super_cluster(seed)["instances"]) > 12]
    moved = 0
    for seed in seeds[:15]:
        mover = mover_on(random_super_cluster(seed), arrays=True)
        mover.ranking.shares_rankings = True
        context, peers = mover.context, Peers(mover.context.cluster)
        for instance in context.cluster.instances:
            if mover.immovable(instance):
                continue
            group = context.cluster.group_of(instance)
            outcome = mover.relocate(instance, peers.of(instance, group))
            if outcome.best is None:
                continue
            nodes = outcome.best.after
            held = [not context.state.fails_n1(index) for index in nodes]
            outcome.best.apply(context.state)
            moved += 1
            assert all(not context.state.fails_n1(i) for i, held_n1 in zip(nodes, held) if held_n1)
            assert all(context.state.columns[0][index] > 0 for index in nodes[:1])
    assert moved > 30


@pytest.mark.parametrize("command", ["redistribute", "compress", "balance-groups"])
def test_planner_between_groups_leaves_instances_that_cannot_be_stopped(command: str) -> None:
    """A planner between groups leaves out an instance that cannot be stopped."""
    tags = ["iallocator:cannot-stop", "iallocator:no-force-stop"]
    instances = {"stuck": on_shared("node1", memory=1024, tags=tags)}
    instances |= {f"free{n}": on_shared("node1", memory=1024) for n in range(3)}
    changes = {"node2": {"offline": True}}
    document = cluster({"east": 2, "west": 3}, instances=instances, changes=changes)
    plan = plan_of(command, document)
    assert "stuck" not in {move["instance"] for move in plan["moves"]}
