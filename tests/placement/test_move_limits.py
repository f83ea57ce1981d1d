"""Which limits a move between two pairs of nodes is held to: those of roles that are new."""

from __future__ import annotations

from random import Random

import pytest

from iallocator.model.moves import Move
from iallocator.options.settings import Settings
from iallocator.placement.context import Context
from iallocator.placement.limit_policy import limit_policies_for
from iallocator.placement.move_limits import MoveLimits
from iallocator.wire.document import read_cluster
from iallocator.wire.reading import Reading
from tests.builders import Json, cluster, instance

NO_MEMORY, NO_DISK = {"free_memory": 100}, {"free_disk": 100}


def allowed(after: tuple[int, ...], **changes: Json) -> bool:
    """Whether web, on node1 with its mirror on node2, may be on the nodes `after`."""
    made = cluster(4, instances={"web": instance("node1", "node2")}, changes=changes)
    context = Context(read_cluster(made, Reading()), Settings())
    web = context.cluster.instance_named("web")
    assert web is not None
    before = context.state.where["web"]
    context.state.remove(web, before)
    limit_policies = limit_policies_for(context.settings)
    return MoveLimits(context.state, context.kernels.fixed, limit_policies).allow(
        web, before, after
    )


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
def test_move_is_not_held_to_limits_of_a_role_that_stays(
    after: tuple[int, ...], changes: dict[str, Json]
) -> None:
    """The node that keeps its role may be as full, or as dead, as it is."""
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
def test_move_is_held_to_limits_of_each_role_that_is_new(
    after: tuple[int, ...], changes: dict[str, Json]
) -> None:
    """Memory and disk of the primary, disk of the mirror, and disks that can be copied."""
    assert not allowed(after, **changes)
    assert allowed(after)


@pytest.mark.parametrize(("free", "stands"), [(1001, True), (1000, False), (500, True)])
def test_mirror_that_stays_keeps_memory_for_the_new_primary(free: int, stands: bool) -> None:
    """With db, whose primary is node3, it keeps 1000 MiB, not 500; one that lacks them may."""
    instances = {
        "web": instance("node1", "node2", memory=500), "db": instance("node3", "node2", memory=500),
    }  # fmt: skip
    changes = {"node2": {"free_memory": free}}
    made = cluster(4, instances=instances, changes=changes)
    settings = Settings()
    settings.n1 = "off"
    context = Context(read_cluster(made, Reading()), settings)
    web = context.cluster.instance_named("web")
    assert web is not None
    rejection = context.evaluator(context.cluster.groups[0]).check(Move(web, (0, 1), (2, 1)))
    assert (rejection is None) == stands
    assert context.evaluator(context.cluster.groups[0]).check(Move(web, (0, 1), (3, 1))) is None


def test_nodes_open_after_moves_are_those_of_limits_made_anew() -> None:
    """Best first; each has come to another node before the next one asks."""
    names = [f"node{k}" for k in range(1, 5)]
    made = {f"i{k}": instance(names[k % 4], memory=900, disk_template="rbd") for k in range(24)}
    context = Context(read_cluster(cluster(4, instances=made), Reading()), Settings())
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
