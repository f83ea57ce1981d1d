"""Test the traffic of plans (data copied between nodes), and the limit of traffic."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import Json, cluster, instance, rbd
from tests.command import plan_of, printed

COPIED = 10 * 1024 + 128
"""MiB that one disk of an instance with a secondary takes on each of its nodes."""


def _heap(count: int, template: str, **members: Any) -> Json:
    """Return a cluster with `count` instances, all on the first nodes."""
    nodes = ("node1", "node2") if template == "drbd" else ("node1",)
    held = {
        f"i{k}": instance(*nodes, memory=512, disk=10240, disk_template=template, **members)
        for k in range(count)
    }
    return cluster(4, instances=held)


@pytest.mark.parametrize("command", ["balance", "squeeze", "reboot", "place"])
def test_forthcoming_instances_are_moved_without_copying_anything(command: str) -> None:
    """Moves of forthcoming instances count as no traffic, because these have no disks."""
    options = {
        "balance": ("--n1=off",),
        "squeeze": ("--n1=off", "--drbd", "--prefer=node1,node2", "--master-node=node4"),
        "reboot": ("--n1=off", "--master-node=node4"),
        "place": ("--n1=off", "--strategy=pacemaker-balanced"),
    }[command]
    document = _heap(4, "drbd", forthcoming=True)
    plan = plan_of(command, document, *options)
    assert {move["copied_mib"] for move in plan["moves"]} <= {0}
    if command in ("balance", "squeeze"):
        assert plan["moves"]
        assert ", 0.0 GiB traffic" in printed(command, *options, document=document)


def test_cost_limits_no_moves_that_copy_nothing() -> None:
    """With a traffic limit of 0, `balance` still moves forthcoming instances."""
    document = _heap(4, "drbd", forthcoming=True)
    free = plan_of("balance", document, "--n1=off")
    limited = plan_of("balance", document, "--n1=off", "--cost=0")
    assert free["moves"]
    assert [one["move"] for one in limited["moves"]] == [one["move"] for one in free["moves"]]


def test_existing_disks_that_are_copied_still_count() -> None:
    """A move that copies existing disks to a new secondary counts as traffic."""
    plan = plan_of("balance", _heap(2, "drbd"), "--n1=off")
    copies = {move["copied_mib"] for move in plan["moves"] if "r:" in move["move"]}
    assert copies
    assert min(copies) >= COPIED


@pytest.mark.parametrize("tags", [[], ["iallocator:colocate:must:web"]])
@pytest.mark.parametrize("template", ["drbd", "rbd"])
def test_balance_names_the_cost_limit_if_only_that_prevents_moves(
    template: str, tags: list[str]
) -> None:
    """`balance` names the traffic limit as the reason only if a move helps without it."""
    document = _heap(2, template, tags=tags)
    if tags:
        other = instance("node1", *(["node2"] if template == "drbd" else []), memory=256)
        document["instances"]["other"] = other | {"disk_template": template}
        document["nodes"]["node1"]["free_memory"] -= 256
    options = ("--n1=off", "--no-instance-moves") if template == "drbd" else ("--n1=off",)
    plan = plan_of("balance", document, *options, "--cost=0")
    assert plan["moves"] == []
    assert plan["groups"][0]["reason"] == "no move that helps is within --cost"
    even = {f"i{k}": rbd(f"node{1 + k % 2}") for k in range(3)}
    level = cluster(2, instances=even)
    plan = plan_of("balance", level, "--n1=off", "--cost=0")
    assert plan["groups"][0]["reason"].startswith("no move lowers the score")
