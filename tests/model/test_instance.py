"""Test the amounts that an instance adds to its nodes."""

from __future__ import annotations

from typing import Any

import pytest

from iallocator.model.columns import COLUMNS
from iallocator.model.instance import NO_LOAD, Instance

from .make import instance


def added(vector: tuple[float, ...]) -> dict[str, float]:
    """Return the amounts that are not zero, by the name of the column."""
    return {name: amount for name, amount in zip(COLUMNS, vector, strict=True) if amount}


LATER = {"memory_later": -1000, "disk_later": -1152, "free_spindles_later": -3,
         "spindles_later": 1, "cpus_later": 2}  # fmt: skip
NOW = {"memory": -1000, "disk": -1152, "free_spindles": -3, "spindles": 1, "cpus": 2,
       "primaries": 1}  # fmt: skip
OF_DISKS = {
    "disk",
    "disk_later",
    "spindles",
    "spindles_later",
    "free_spindles",
    "free_spindles_later",
}
LOAD = {"cpu_load": 1, "memory_load": 1, "disk_load": 1, "net_load": 1}


def test_primary_of_a_running_instance_allocates_every_resource() -> None:
    """A running instance adds memory, disk, spindles, cpus and load to its primary."""
    assert added(instance().as_primary) == NOW | LOAD | LATER


@pytest.mark.parametrize(
    ("members", "without"),
    [
        ({"admin_state": "down"}, {"memory"}),
        ({"admin_state": "offline"}, {"memory", "cpus", "cpus_later"}),
        ({"load": NO_LOAD}, set(LOAD)),
        ({"template": "rbd"}, OF_DISKS),
        (
            {"template": "rbd", "spindles_anywhere": True},
            OF_DISKS - {"free_spindles", "free_spindles_later"},
        ),
        ({"template": "file"}, OF_DISKS),
        ({"forthcoming": True}, set(NOW) | set(LOAD)),
        ({"spindles": None}, {"free_spindles", "free_spindles_later"}),
    ],
)
def test_primary_of_a_stopped_or_forthcoming_instance_allocates_less(
    members: dict[str, Any], without: set[str]
) -> None:
    """A stopped, offline, shared or forthcoming instance adds less to its primary."""
    everything = added(instance(disk=1152).as_primary)
    less = added(instance(**{"disk": 1152, **members}).as_primary)
    assert less == {name: n for name, n in everything.items() if name not in without}


def test_secondary_allocates_disk_spindles_and_disk_load_only() -> None:
    """An instance adds disk, spindles and disk load to its secondary, and no memory and cpus."""
    assert added(instance().as_secondary) == {
        "disk": -1152, "free_spindles": -3, "spindles": 1, "secondaries": 1, "disk_load": 1,
        "disk_later": -1152, "free_spindles_later": -3, "spindles_later": 1,
    }  # fmt: skip


def test_secondary_of_a_forthcoming_instance_allocates_only_later() -> None:
    """A forthcoming instance adds only to the later amounts of its secondary."""
    assert added(instance(forthcoming=True).as_secondary) == {
        "disk_later": -1152, "free_spindles_later": -3, "spindles_later": 1,
    }  # fmt: skip


@pytest.mark.parametrize("members", [{}, {"template": "rbd"}, {"admin_state": "offline"}])
def test_twin_of_an_instance_differs_in_name_and_order_only(members: dict[str, Any]) -> None:
    """The copy that `twin` makes of an instance differs from it in name and order only."""
    one = instance(**members, tags=("a",), networks=("n",), forthcoming=True, auto_balance=False)
    one.exclusion, one.desired, one.asked = ("x",), frozenset("y"), {"os": "debian"}
    one.keep_in((("lvm", "ssd"),), ((("lvm", "ssd"), 100),), True)
    twin = one.twin("other", 7)
    assert (twin.name, twin.order) == ("other", 7)
    rest = set(Instance.__slots__) - {"name", "order"}
    assert all(getattr(twin, name) is getattr(one, name) for name in rest)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, True),
        ({"admin_state": "down"}, True),
        ({"admin_state": "offline"}, False),
        ({"forthcoming": True}, False),
        ({"auto_balance": False}, False),
    ],
)
def test_instance_reserves_memory_on_its_secondary_unless_marked_so(
    members: dict[str, Any], expected: bool
) -> None:
    """An instance reserves memory on its secondary unless it is marked offline."""
    assert instance(**members).reserves is expected


@pytest.mark.parametrize(
    ("template", "moves", "nodes"),
    [("drbd", True, 2), ("plain", False, 1), ("file", False, 1), ("rbd", True, 1),
     ("ext", True, 1), ("sharedfile", True, 1), ("gluster", True, 1), ("blockdev", True, 1),
     ("diskless", True, 1)],
)  # fmt: skip
def test_instance_of_a_template_needs_its_nodes_and_moves_if_they_have_its_data(
    template: str, moves: bool, nodes: int
) -> None:
    """Only drbd needs two nodes; plain and file instances cannot leave their node."""
    one = instance(template)
    kind = one.kind
    assert (one.required_nodes, one.needs_secondary) == (nodes, nodes == 2)
    meanings = kind.relocatable, kind.migrates, kind.survives_failure, kind.planners_move
    assert meanings == (moves,) * 4


def test_instance_as_another_template_keeps_all_else() -> None:
    """A plain instance that becomes drbd keeps its size, tags and order."""
    plain = instance("plain", tags=("a:b",), networks=("n",), admin_state="down", nodes=(4,))
    plain.exclusion, plain.desired, plain.order = ("a:b",), frozenset({"c:d"}), 7
    twin = plain.as_template("drbd")
    changed = {
        "template", "kind", "needs_secondary", "nodes", "local", "shared", "as_primary",
        "as_secondary",
    }  # fmt: skip
    for name in set(type(plain).__slots__) - changed:
        assert getattr(twin, name) == getattr(plain, name), name
    assert (twin.template, twin.nodes) == ("drbd", ())
