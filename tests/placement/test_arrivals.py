"""Test that checks of many target nodes at once equal checks of single nodes."""

from __future__ import annotations

from random import Random

import pytest

from iallocator.model.cluster import Group
from iallocator.model.instance import Instance
from iallocator.model.moves import Move
from iallocator.options.settings import Settings
from iallocator.placement.context import Context
from tests.matrix.documents import tagged
from tests.model.make import model_of
from tests.storage.scenarios import super_cluster


def one_by_one(context: Context, group: Group, instance: Instance) -> dict[int, str]:
    """Return the rejections of nodes for `instance`, each by a new evaluator."""
    found = {}
    for index in group.nodes:
        fresh = context.evaluator(group).with_normal_limits().enforcing_soft_limits()
        rejection = fresh.check(Move(instance, instance.nodes, (index,)))
        if rejection is not None:
            found[index] = str(rejection)
    return found


def secondaries_one_by_one(
    context: Context, group: Group, instance: Instance, primary: int
) -> dict[int, str]:
    """Return the rejections of secondaries with the primary `primary`, one by one."""
    found = {}
    for index in group.nodes:
        fresh = context.evaluator(group).with_normal_limits().enforcing_soft_limits()
        pair = (primary, index)
        rejection = None if index == primary else fresh.check(Move(instance, instance.nodes, pair))
        if rejection is not None:
            found[index] = str(rejection)
    return found


@pytest.mark.parametrize("seed", range(24))
def test_arrivals_checked_at_once_are_rejected_as_one_by_one(seed: int) -> None:
    """Nodes that are checked at once are rejected as when checked one by one.

    Instances leave and arrive meanwhile; some have tags or pools.
    """
    document = tagged(seed) if seed % 4 else super_cluster(Random(seed))
    context = Context(model_of(document), Settings())
    cluster, state, rng = context.cluster, context.state, Random(seed)
    kept = {
        g: context.evaluator(g).with_normal_limits().enforcing_soft_limits() for g in cluster.groups
    }
    for _ in range(30):
        moved = rng.choice(cluster.instances)
        where = state.where[moved.name]
        state.remove(moved, where)
        for group in cluster.groups:
            once = kept[group].rejections(moved, moved.nodes, group.nodes)
            reported = {index: str(rejection) for index, rejection in once.items()}
            assert reported == one_by_one(context, group, moved)
            free = [index for index in group.nodes if index not in once]
            for primary in free[:2] if moved.required_nodes == 2 else ():
                others = [index for index in group.nodes if index != primary]
                pairs = kept[group].rejections(moved, moved.nodes, others, primary)
                reported = {index: str(rejection) for index, rejection in pairs.items()}
                assert reported == secondaries_one_by_one(context, group, moved, primary)
        state.place(moved, where if len(where) > 1 else (rng.randrange(len(cluster.nodes)),))
