"""Disks are copied off a primary that is there: Ganeti refuses anything else."""

from __future__ import annotations

import json

import pytest

from iallocator.cli import answer
from tests.builders import Json, cluster, instance
from tests.command import plan_of

OFFLINE = {"offline": True}
REFUSED = "Its disks cannot be copied: its primary node1 is offline"


def world(**changes: Json) -> Json:
    """Four nodes, and a drbd instance on the first two."""
    return cluster(4, instances={"web": instance("node1", "node2")}, changes=changes)


def moves_of(document: Json, *args: str) -> list[str]:
    """Return the moves of a balancing plan, each as people write it."""
    return [move["move"] for move in plan_of("balance", document, *args)["moves"]]


@pytest.mark.parametrize(
    ("mirror", "options", "kind"),
    [
        (OFFLINE, (), None),
        (OFFLINE, ("--compat=hail",), "r"),
        ({"drained": True}, (), None),
        ({}, (), "f r"),
    ],
    ids=["both offline", "as hbal", "mirror drained", "mirror online"],
)
def test_balance_off_an_offline_primary_begins_with_a_failover_or_not_at_all(
    mirror: Json,
    options: tuple[str, ...],
    kind: str | None,
) -> None:
    """Where the mirror cannot take over there is no move; hbal makes one all the same."""
    made = moves_of(world(node1=OFFLINE, node2=mirror), *options)
    assert [move[: len(kind or "")] for move in made[:1]] == ([kind] if kind else [])


def test_balance_off_a_drained_primary_may_copy_its_disks_first() -> None:
    """A drained node is there: with its mirror offline this is the only way to save it."""
    made = moves_of(world(node1={"drained": True}, node2=OFFLINE))
    assert made[0].startswith("r:")


@pytest.mark.parametrize(
    "request_",
    [
        {"type": "node-evacuate", "instances": ["web"], "evac_mode": "secondary-only"},
        {"type": "relocate", "name": "web", "relocate_from": ["node2"], "required_nodes": 1,
         "disk_space_total": 1024},
    ],
    ids=["evacuate", "relocate"],
)  # fmt: skip
def test_new_secondary_of_an_offline_primary_is_refused_with_the_reason(request_: Json) -> None:
    """Nobody could copy the disks to it."""
    document = world(node1=OFFLINE) | {"request": request_}
    found = json.loads(answer(json.dumps(document).encode(), ()))
    assert REFUSED in found["info"]
