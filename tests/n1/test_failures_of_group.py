"""Test N+1 of one group: the failures that are not tolerated, and sums that decide most of them."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from iallocator.model.columns import MEMORY
from iallocator.model.state import State
from iallocator.n1 import Rules
from iallocator.n1.bounds import TargetCapacity
from iallocator.n1.counting import CountedTolerance
from iallocator.n1.slots import NOTHING, slots_of_node, slots_of_nodes
from iallocator.n1.tolerance import FailureTolerance
from tests.builders import cluster, instance, rbd
from tests.model.make import model_of

from .tight import alone, tight, tolerates


@pytest.mark.parametrize(("mode", "first"), [("no-new", 0), ("strict", 1090)])
def test_failures_not_tolerated_are_those_of_the_simulation(mode: str, first: int) -> None:
    """The result for a group has all requested failures that are not tolerated, and no others."""
    reported = set()
    for seed in range(first, first + 30):
        case = tight(seed, mode)
        for group in case.cluster.groups:
            asked = alone(i for i in group.nodes if case.cluster.nodes[i].online)
            lost = [one for one in asked if not tolerates(case, *one)]
            tolerance = FailureTolerance(case.state, case.rules, group=group)
            assert tolerance.not_tolerated(asked) == lost, seed
            tolerance = FailureTolerance(case.state, case.rules, group=group)
            assert tolerance.not_tolerated(lost[:1]) == lost[:1]
            assert tolerance.not_tolerated([]) == []
            reported.add(bool(lost))
    assert reported == {True, False}


def test_sums_over_all_targets_but_one_are_those_of_the_others() -> None:
    """The largest and the total free capacity are correct after one node is left out."""
    for seed in range(20):
        case, rng = tight(seed, "no-new"), Random(seed)
        memory, nodes = case.state.columns[MEMORY], range(len(case.cluster.nodes))
        room = TargetCapacity(case.state, nodes)
        for node in nodes:
            apart = [i for i in nodes if i != node]
            taken = {i: rng.randrange(8) for i in apart if seed % 2 and rng.random() < 0.5}
            others = [memory[i] - 1 - taken.get(i, 0) for i in apart]
            for need in (1, 2, 5, 20):
                closing = sum(one - need + 1 for one in others if one >= need)
                total = sum(one for one in others if one > 0)
                found = room.without((node,), need, taken)
                assert found == (max(others), total, closing), (seed, node)
                assert room.closing(need, {node}, taken) == closing


def test_sums_over_some_targets_are_those_of_a_sort_of_these_targets() -> None:
    """The free memory of the targets among some nodes is that of these targets alone."""
    for seed in range(20):
        case, rng = tight(seed, "no-new"), Random(seed)
        nodes = range(len(case.cluster.nodes))
        room = TargetCapacity(case.state, rng.sample(nodes, max(1, len(nodes) - 1)))
        for node in nodes:
            some = frozenset(rng.sample(nodes, rng.randint(0, len(nodes))))
            part, alone_there = room.among(some), TargetCapacity(case.state, room.members & some)
            assert room.among(some) is part
            assert part.members == alone_there.members
            taken = {i: rng.randrange(8) for i in nodes if i != node and rng.random() < 0.5}
            for need in (1, 5, 20):
                found = part.without((node,), need, taken)
                assert found == alone_there.without((node,), need, taken), (seed, node)
                assert found[1] == part.total_without((node,), taken)
            assert part.count_without((node,)) == len(part.members - {node})


def test_headroom_of_one_group_requires_proved_n1_of_the_others() -> None:
    """The headroom of a group is 0 if N+1 of another group is not proved by counting."""
    counts = {True: 0, False: 0}
    for seed in range(120):
        case = tight(seed, "strict")
        groups = case.cluster.groups
        if len(groups) < 2 or case.new.required_nodes > 1:
            continue
        online = [i for i, node in enumerate(case.cluster.nodes) if node.online]
        headroom = CountedTolerance(case.state, case.rules, alone(online))
        for group in groups:
            some = headroom.count(case.new, [group.index]) > 0
            counts[some] += 1
            if some:
                assert all(tolerates(case, i) for i in online if i not in group.nodes), seed
    assert min(counts.values()) > 5


def test_slots_decrease_by_what_a_node_loses() -> None:
    """The slots of nodes decrease by what one node loses.

    Nodes with 10 MiB free have three slots of 3 MiB each; after 4 MiB are used, one has two slots.
    """
    state = State(model_of(cluster(4, memory=10)))
    assert slots_of_nodes(state, (3, 0, 0), (0, 1)) == (6, 2 * 7)
    assert slots_of_node(state, (3, 0, 0), 1, NOTHING) == (3, 7)
    assert slots_of_node(state, (3, 0, 0), 1, (4, 0, 0)) == (1, 3)


def on_fast(count: int) -> dict[str, Any]:
    """Return two nodes, and `count` instances in a storage pool.

    One more fits on the second node.
    """

    def pools(free: int) -> list[dict[str, Any]]:
        listed = {"type": "internal", "name": "lvm", "total": None, "free": None}
        return [listed, listed | {"name": "fast", "total": 9000, "free": free}]

    disks = [{"size": 600, "vg": "fast", "spindles": 1}]
    held = {
        f"i{k}": instance("node1", memory=10, disk_template="plain", disks=disks)
        for k in range(count)
    }
    changes = {"node1": {"storage_pools": pools(5000)}, "node2": {"storage_pools": pools(1000)}}
    return cluster(2, instances=held, changes=changes)


@pytest.mark.parametrize(("count", "saved"), [(1, True), (2, False)])
def test_loss_counts_a_full_pool_before_disk_and_memory(count: int, saved: bool) -> None:
    """The loss of a failure counts a full storage pool, though memory and disk suffice.

    A packing by memory and disk is used only if all limits accept it.
    """
    state = State(model_of(on_fast(count)))
    group, rules = state.cluster.groups[0], Rules("no-new")
    assert (FailureTolerance(state, rules, group=group).losses([(0,)])[0,].instances == 0) is saved
    assert FailureTolerance(state, rules, group=group).not_tolerated([(0,)]) == (
        [] if saved else [(0,)]
    )


@pytest.mark.parametrize(("tag", "lost"), [("cpu:old", []), ("cpu:new", ["vm"])])
def test_joint_failure_loses_instances_without_a_permitted_target(
    tag: str, lost: list[str]
) -> None:
    """If two nodes fail, instances without a node with a compatible migration tag are lost."""
    held = {"vm": rbd("node1", memory=10)}
    changes = {f"node{k}": {"tags": ["cpu:old"]} for k in (2, 3, 4)} | {"node1": {"tags": [tag]}}
    document = cluster(4, instances=held, changes=changes, tags=("htools:migration:cpu",))
    joint = FailureTolerance(State(model_of(document)), Rules("no-new"))
    assert [one.name for one in joint.unrestarted((0, 1))] == lost
