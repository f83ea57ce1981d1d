"""Test the texts of amounts and limits."""

from __future__ import annotations

import pytest

from iallocator.constraints import words
from iallocator.constraints.words import quantity
from iallocator.limits.node import ALL_LIMITS, PRIMARY, SECONDARY, checks_for
from tests.builders import cluster
from tests.builders import instance as instance_of
from tests.command import respond
from tests.model.make import instance

ROLES = (PRIMARY, SECONDARY)


@pytest.mark.parametrize(
    ("amount", "output"),
    [(1, "1 virtual cpu"), (0, "0 virtual cpus"), (0.5, "0.5 virtual cpus"), (2, "2 virtual cpus")],
)
def test_quantity_of_one_is_singular(amount: float, output: str) -> None:
    """A quantity of one has its noun in the singular; all others, also halves, in the plural."""
    assert quantity(amount, "virtual cpus") == output


@pytest.mark.parametrize(
    ("unit", "output"),
    [
        ("spindles of its own", "1 spindle of its own"),
        ("spindles under the policy's ratio", "1 spindle under the policy's ratio"),
        ("places in its storage pool", "1 place in its storage pool"),
        ("MiB disk", "1 MiB disk"),
        ("own spindles", "1 own spindle"),
        ("the number of spindles of a disk", "the number of spindles of a disk"),
    ],
)
def test_quantity_of_one_changes_the_noun_only(unit: str, output: str) -> None:
    """A quantity of one changes only the noun of the unit."""
    assert quantity(1, unit) == output


def test_disk_without_spindles_is_what_the_closest_node_lacks() -> None:
    """A disk without spindles is reported without a number."""
    document = cluster(3, instances={"db": instance_of("node1", "node2")})
    for one in document["nodes"].values():
        one["ndparams"]["exclusive_storage"] = True
        one |= {"total_spindles": 4, "free_spindles": 4}
    for disk in document["instances"]["db"]["disks"]:
        disk.pop("spindles", None)
    asked = {"type": "relocate", "name": "db", "relocate_from": ["node2"], "required_nodes": 1}
    info = respond({**document, "request": asked})["info"]
    assert "node3 lacks the number of spindles of a disk" in info


def test_disk_space_with_all_disks_in_pools_is_not_checked() -> None:
    """A node's free disk does not limit an instance with all disks in storage pools."""
    pooled = instance("plain")
    pooled.draws = ((("lvm-vg", "vg"), 1024),)
    without, with_disk = (
        {
            (check.words, check.later)
            for role in ROLES
            for check in checks_for(role, one, ALL_LIMITS)
        }
        for one in (pooled, instance("plain"))
    )
    assert with_disk - without == {
        (name, later) for name in ("disk", "disk_reserve") for later in (False, True)
    }


def test_every_limit_has_a_message() -> None:
    """Every limit has a message for its violation."""
    assert {check.words for role in ROLES for check in role.checks if not check.access} <= set(
        dir(words)
    )
