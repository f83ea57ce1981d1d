"""Test that a move between pairs of nodes is checked only for new roles."""

from __future__ import annotations

from random import Random

import pytest

from iallocator.model.instance import Instance
from iallocator.model.moves import Move
from iallocator.options.settings import Settings
from iallocator.placement.context import Context
from iallocator.placement.limit_policy import limit_policies_for
from iallocator.placement.move_limits import MoveLimits
from tests.builders import Json, cluster, instance, rbd
from tests.model.make import model_of

NO_MEMORY, NO_DISK = {"free_memory": 100}, {"free_disk": 100}


def allowed(after: tuple[int, ...], **changes: Json) -> bool:
    """Return whether web may move from node1 and node2 to the nodes `after`."""
    made = cluster(4, instances={"web": instance("node1", "node2")}, changes=changes)
    context = Context(model_of(made), Settings())
    web = context.cluster.instance_named("web")
    assert web is not None
    before = context.state.where["web"]
    context.state.remove(web, before)
    limit_policies = limit_policies_for(context.settings)
    return MoveLimits(context.state, context.kernels.fixed, limit_policies).allow(
        web, before, after
    )


def without_n1(instances: dict[str, Json], changes: dict[str, Json]) -> tuple[Context, Instance]:
    """Return a context of four nodes with N+1 off, and its instance web."""
    settings = Settings()
    settings.n1 = "off"
    made = cluster(4, instances=instances, changes=changes)
    context = Context(model_of(made), settings)
    web = context.cluster.instance_named("web")
    assert web is not None
    return context, web


@pytest.mark.parametrize(
    ("after", "changes"),
    [
        ((0, 2), {"node1": {"free_disk": 0}}),
        ((2, 1), {"node2": {"free_disk": 0}}),
        ((1, 2), {"node1": {"offline": True}}),
        ((0, 1), {"node1": {"offline": True}}),
        ((0, 1), {"node1": {"free_disk": 0}, "node2": {"free_disk": 0}}),
    ],
)
def test_move_does_not_check_limits_of_an_unchanged_role(
    after: tuple[int, ...], changes: dict[str, Json]
) -> None:
    """A move does not check the limits of a node that keeps its role."""
    assert allowed(after, **changes)


@pytest.mark.parametrize(
    ("after", "changes"),
    [
        ((2, 1), {"node3": NO_MEMORY}),
        ((2, 3), {"node3": NO_DISK}),
        ((0, 2), {"node3": NO_DISK}),
        ((2, 3), {"node4": NO_DISK}),
        ((0, 2), {"node1": {"offline": True}}),
    ],
)
def test_move_checks_limits_of_each_new_role(
    after: tuple[int, ...], changes: dict[str, Json]
) -> None:
    """A move checks the limits of each node with a new role."""
    assert not allowed(after, **changes)
    assert allowed(after)


@pytest.mark.parametrize(
    ("after", "lacking", "placed"),
    [((1, 2), "node3", True), ((1, 2), "node3", False), ((2, 1), "node2", False)],
)
def test_soft_limits_of_the_secondary_are_ignored_off_an_offline_primary(
    after: tuple[int, ...], lacking: str, placed: bool
) -> None:
    """If the primary is offline, a secondary beside a new primary may lack memory for it."""
    instances = {"web": instance("node1", "node2", memory=500)}
    for offline in (True, False):
        changes: dict[str, Json] = {
            lacking: {"free_memory": 100}, "node1": {"offline": offline},
        }  # fmt: skip
        context, web = without_n1(instances, changes)
        if not placed:
            context.state.remove(web, (0, 1))
        evaluator = context.evaluator(context.cluster.groups[0])
        rejection = evaluator.check(Move(web, (0, 1), after))
        assert (rejection is None) == offline


@pytest.mark.parametrize(("free", "stands"), [(1001, True), (1000, False), (500, True)])
def test_secondary_that_stays_keeps_memory_for_the_new_primary(free: int, stands: bool) -> None:
    """A secondary that stays must have the memory to fail over from the new primary."""
    instances = {
        "web": instance("node1", "node2", memory=500), "db": instance("node3", "node2", memory=500),
    }  # fmt: skip
    changes = {"node2": {"free_memory": free}}
    context, web = without_n1(instances, changes)
    rejection = context.evaluator(context.cluster.groups[0]).check(Move(web, (0, 1), (2, 1)))
    assert (rejection is None) == stands
    assert context.evaluator(context.cluster.groups[0]).check(Move(web, (0, 1), (3, 1))) is None


def test_permitted_nodes_after_moves_equal_those_of_new_limits() -> None:
    """After moves, the permitted nodes and their order equal those by new limits."""
    names = [f"node{k}" for k in range(1, 5)]
    made = {f"i{k}": rbd(names[k % 4], memory=900) for k in range(24)}
    context = Context(model_of(cluster(4, instances=made)), Settings())
    state, every, rng = context.state, range(4), Random(3)
    limit_policies = limit_policies_for(context.settings)
    kept = MoveLimits(state, context.kernels.fixed, limit_policies, every)
    seen = set()
    for one in context.cluster.instances:
        (home,) = state.where[one.name]
        state.remove(one, (home,))
        fresh = MoveLimits(state, context.kernels.fixed, limit_policies, every)
        found = kept.open_to(one, home, every, {})
        assert found == fresh.open_to(one, home, every, {})
        seen.add(tuple(found))
        state.place(one, (rng.choice(found),))
    assert len(seen) > 4


@pytest.mark.parametrize("seed", range(6))
def test_permitted_nodes_of_an_instance_follow_the_state(seed: int) -> None:
    """After moves of others, the permitted nodes of an instance have the order of new scores."""
    rng = Random(seed)
    held = {f"i{k}": rbd("node1", memory=100 + k) for k in range(12)}
    context = Context(model_of(cluster(6, instances=held)), Settings())
    state, limit_policies = context.state, limit_policies_for(context.settings)
    first, *others = context.cluster.instances
    state.remove(first, first.nodes)
    scope = range(6)
    kept = MoveLimits(state, context.kernels.fixed, limit_policies, scope)
    orders = set()
    for _ in range(8):
        fresh = MoveLimits(state, context.kernels.fixed, limit_policies, scope)
        found = kept.open_to(first, 0, scope, {})
        assert found == fresh.open_to(first, 0, scope, {})
        orders.add(tuple(found))
        for moved in rng.sample(others, 3):
            state.remove(moved, state.where[moved.name])
            state.place(moved, (rng.randrange(6),))
    assert len(orders) > 1
