"""Test the free amounts for steps, the amounts of instances, and changes by steps."""

from __future__ import annotations

from typing import Any

import pytest

from iallocator.model.cluster import Cluster
from iallocator.model.state import State
from iallocator.transition.resources import (
    HARD_DIMENSIONS,
    SOFT_DIMENSIONS,
    Place,
    change,
    describe_amount,
    footprint,
    room,
)
from iallocator.wire.document import read_cluster
from iallocator.wire.reading import Reading
from tests import builders

FAST = "space in internal/fast"

OWN = {"exclusive_storage": True, "spindle_count": 1}


@pytest.fixture
def cluster() -> Cluster:
    """Return three nodes, one with a pool, one with exclusive storage, and all instance kinds."""
    instances = {
        "drbd": builders.instance("node1", "node2", memory=1000, vcpus=2, spindle_use=3),
        "rbd": builders.rbd("node1", memory=500),
        "fast": builders.instance("node1", memory=0, storage_pool="fast"),
        "own": builders.instance("node3", memory=700, disks=[{"size": 9872, "spindles": 2}]),
    }
    pools = [
        {"type": "internal", "name": "fast", "total": 90000, "free": 50000},
        {"type": "internal", "name": "lvm", "total": None, "free": None},
    ]
    changes: dict[str, Any] = {
        "node1": {"storage_pools": pools},
        "node3": {"ndparams": OWN, "total_spindles": 8, "free_spindles": 6},
    }
    document = builders.cluster(3, instances=instances, changes=changes)
    return read_cluster(document, Reading(static_kvm_memory=0))


def test_available_memory_is_the_free_memory_less_one_mib(cluster: Cluster) -> None:
    """The available memory, disk and pool space is 1 MiB less than what is free.

    Cpus and spindles end at their ratio.
    """
    state = State(cluster)
    disk = {one.name: one.as_primary for one in cluster.instances}
    assert all(disk.values())
    found = room(state, (*HARD_DIMENSIONS, *SOFT_DIMENSIONS))
    assert {name: amount for (index, name), amount in found.items() if index == 0} == {
        "memory": 8192 - 1000 - 500 - 1,
        "disk": cluster.nodes[0].reported_disk - 1,
        "cpus": 4 * 8 - 2 - 1 - 1,
        "shared spindles": 32 - 3 - 1,
        FAST: 50000 - 1,
    }
    assert {name: amount for (index, name), amount in found.items() if index == 2} == {
        "memory": 8192 - 700 - 1,
        "disk": cluster.nodes[2].reported_disk - 1,
        "cpus": 4 * 8 - 1,
        "own spindles": 6,
    }
    assert {name for index, name in room(state) if index == 2} == {"memory", "disk", "own spindles"}


def held(cluster: Cluster, name: str, nodes: tuple[int, ...], running: bool = True) -> Any:
    """Return the amounts of an instance on `nodes`, without cpus and spindles."""
    instance = cluster.instance_named(name)
    assert instance is not None
    found = footprint(instance, Place(nodes, running))
    return {key: amount for key, amount in found.items() if key[1] not in SOFT_DIMENSIONS}


def test_instance_allocates_memory_where_it_runs_and_disk_on_all_its_nodes(
    cluster: Cluster,
) -> None:
    """An instance uses memory where it runs, and disk or pool space on all its nodes."""
    drbd = next(one for one in cluster.instances if one.name == "drbd")
    disk = drbd.own_disk
    assert held(cluster, "drbd", (0, 1)) == {
        (0, "memory"): 1000, (0, "disk"): disk, (1, "disk"): disk,
        (0, "own spindles"): 1, (1, "own spindles"): 1,
    }  # fmt: skip
    assert held(cluster, "drbd", (0, 1), running=False)[0, "memory"] == 0
    assert held(cluster, "rbd", (0,)) == {(0, "memory"): 500}
    fast = next(one for one in cluster.instances if one.name == "fast")
    assert held(cluster, "fast", (0,))[0, FAST] == fast.draws[0][1] > 1000
    assert held(cluster, "own", (2,))[2, "own spindles"] == 2
    assert footprint(drbd, None) == {}
    assert footprint(drbd, Place((1, 0), True))[1, "cpus"] == 2
    assert (0, "cpus") not in footprint(drbd, Place((1, 0), True))


def test_step_allocates_what_is_added_and_releases_what_is_removed(cluster: Cluster) -> None:
    """A step uses what it adds to a node, and frees what it removes."""
    drbd = next(one for one in cluster.instances if one.name == "drbd")
    here, over = Place((0, 1), True), Place((1, 0), True)
    takes, frees = change(drbd, here, over)
    assert (takes[1, "memory"], frees[0, "memory"]) == (1000, 1000)
    assert not any(name == "disk" for _, name in (*takes, *frees))
    takes, frees = change(drbd, here, Place((0, 2), True))
    assert (takes[2, "disk"], frees[1, "disk"]) == (drbd.own_disk, drbd.own_disk)
    assert not any(name == "memory" for _, name in (*takes, *frees))
    assert change(drbd, here, Place((0, 1), False)) == ({}, {(0, "memory"): 1000})
    assert change(drbd, None, here)[0] == footprint(drbd, here)
    assert change(drbd, here, None) == ({}, {k: v for k, v in footprint(drbd, here).items() if v})


def test_new_role_on_a_node_is_an_allocation_of_zero(cluster: Cluster) -> None:
    """A stopped instance that moves to a node uses 0 MiB of memory on it."""
    rbd = next(one for one in cluster.instances if one.name == "rbd")
    takes, _ = change(rbd, Place((0,), False), Place((1,), False))
    assert takes[1, "memory"] == 0


def test_amounts_are_described_with_their_units() -> None:
    """Amounts in MiB are printed with the unit; spindles and cpus are numbers."""
    assert describe_amount("memory", 2048.0) == "2048 MiB memory"
    assert describe_amount(FAST, 1) == f"1 MiB {FAST}"
    assert describe_amount("own spindles", 2) == "2 own spindles"
    assert describe_amount("cpus", 1.5) == "1.5 cpus"


def test_places_are_equal_by_nodes_and_running() -> None:
    """Two places with equal nodes and states are equal."""
    assert Place((1, 2), True) == Place((1, 2), True)
    assert len({Place((1,), True), Place((1,), True), Place((1,), False), Place((2,), True)}) == 3
    assert Place((1,), True) != (1,)
