"""Test that plans copy disks from an online primary only, as Ganeti requires."""

from __future__ import annotations

from pathlib import Path

import pytest

from iallocator.model.state import State
from iallocator.sources.writer import write_text
from tests.builders import Json, cluster, instance
from tests.command import json_of, plan_of, respond
from tests.model.make import model_of

OFFLINE = {"offline": True}
REJECTED = "Its disks cannot be copied: its primary node1 is offline"


def scenario(**changes: Json) -> Json:
    """Return a cluster of four nodes with a drbd instance on the first two."""
    return cluster(4, instances={"web": instance("node1", "node2")}, changes=changes)


def moves_of(document: Json, *args: str) -> list[str]:
    """Return the moves of a plan of balance in the form that the text shows."""
    return [move["move"] for move in plan_of("balance", document, *args)["moves"]]


@pytest.mark.parametrize(
    ("secondary", "kind"),
    [(OFFLINE, None), ({"drained": True}, None), ({}, "f r")],
    ids=["offline", "drained", "online"],
)
def test_balance_off_an_offline_primary_begins_with_a_failover_or_not_at_all(
    secondary: Json, kind: str | None
) -> None:
    """`balance` moves an instance off an offline primary only if it can fail over first."""
    made = moves_of(scenario(node1=OFFLINE, node2=secondary))
    assert [move[: len(kind or "")] for move in made[:1]] == ([kind] if kind else [])


def test_balance_with_compat_hail_copies_off_an_offline_primary_that_has_amounts(
    tmp_path: Path,
) -> None:
    """With --compat hail, `balance` copies disks off an offline primary as hbal does.

    A text file must have amounts of the offline node; in documents, such amounts are ignored.
    """
    given = scenario(node1=OFFLINE, node2=OFFLINE)
    cluster_ = model_of(given)
    file = tmp_path / "cluster.data"
    file.write_text(write_text(cluster_, State(cluster_)), encoding="utf-8")
    made = json_of("balance", "--compat=hail", f"--text-data={file}")["moves"]
    assert made[0]["move"].startswith("r:")
    assert moves_of(given, "--compat=hail") == []


def test_balance_off_a_drained_primary_may_copy_its_disks_first() -> None:
    """If the secondary is offline, `balance` may copy disks from a drained primary."""
    made = moves_of(scenario(node1={"drained": True}, node2=OFFLINE))
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
def test_new_secondary_of_an_offline_primary_is_rejected_with_the_reason(request_: Json) -> None:
    """A new secondary is rejected with the reason if the primary is offline."""
    document = scenario(node1=OFFLINE) | {"request": request_}
    found = respond(document)
    assert REJECTED in found["info"]
