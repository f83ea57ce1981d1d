"""Test evacuations and group changes that cannot be complete: the most instances move."""

from __future__ import annotations

from typing import Any

import pytest

from tests import builders
from tests.command import respond
from tests.seeds import seeds

from .moving import PROOF, Everything, counts_of, evacuation, group_change

pytest.importorskip("highspy")


@pytest.mark.parametrize("make", [evacuation, group_change])
@pytest.mark.parametrize("template", ["rbd", "drbd"])
def test_all_instances_are_moved_if_and_only_if_possible(make: Any, template: str) -> None:
    """All instances move if and only if a complete plan exists."""
    searched = 0
    for seed in seeds(6, 16) if template == "rbd" else seeds(6, 8):
        document = make(seed, template, "all", more=2048)
        response = respond(document)
        moved, failed, jobs = response["result"]
        assert len(moved) == len(jobs)
        assert len(moved) + len(failed) == len(document["instances"])
        searched += "exact search" in response["info"]
        everything = Everything(document)
        assert (not failed) == (everything.run() == everything.all), response["info"]
    assert searched > 1


@pytest.mark.parametrize(
    ("make", "template", "mode"),
    [
        (evacuation, "rbd", "all"),
        (evacuation, "rbd", "primary-only"),
        (evacuation, "drbd", "primary-only"),
        (evacuation, "drbd", "secondary-only"),
        (evacuation, "drbd", "all"),
        (group_change, "rbd", ""),
        (group_change, "drbd", ""),
    ],
)
def test_as_many_moves_as_possible_are_made_if_not_all_fit(
    make: Any, template: str, mode: str
) -> None:
    """If not all fit, as many instances move as in the best sequence of moves, by priority."""
    proved = 0
    for seed in seeds(5, 12) if template == "rbd" else range(8):
        document = make(seed, template, mode)
        response = respond(document)
        greedy = respond(document, "--exact-search=no")
        moved = {name for name, *_ in response["result"][0]}
        failed = {name for name, _ in response["result"][1]}
        assert moved | failed == set(document["instances"])
        assert not moved & failed
        counts = counts_of(document, moved)
        assert counts >= counts_of(document, {name for name, *_ in greedy["result"][0]})
        assert counts == Everything(document).run(), f"seed {seed}: {response['info']}"
        proof = PROOF.search(response["info"])
        proved += proof is not None
        assert proof is None or int(proof[1]) == len(moved)
    assert proved


def test_multi_evacuate_succeeds_if_and_only_if_all_can_move() -> None:
    """`multi-evacuate` succeeds if and only if all instances can move."""
    together = 0
    for seed in range(40):
        document = evacuation(seed, "drbd", "secondary-only")
        every = respond(document)
        document["request"] = {"type": "multi-evacuate", "evac_nodes": ["node1"]}
        response = respond(document)
        assert response["success"] == (not every["result"][1]), response["info"]
        together += "placed together by exact search" in response["info"] and response["success"]
    assert together


def test_instances_without_a_secondary_need_no_search() -> None:
    """For drbd instances without a secondary, no search is made."""
    document = builders.cluster({"default": 3, "far": 3})
    for number in (1, 2, 3):
        document["instances"][f"x{number}"] = builders.instance(
            f"node{number}", disk_template="drbd", memory=512
        )
    document["request"] = {
        "type": "change-group", "instances": ["x1", "x2", "x3"], "target_groups": ["uuid-far"],
    }  # fmt: skip
    found = respond(document)
    assert [name for name, _ in found["result"][1]] == ["x1", "x2", "x3"]
    assert "exact search" not in found["info"]


def test_one_instance_alone_needs_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """For one instance alone, no search is made, as all its placements have been tried."""
    monkeypatch.setattr(
        "iallocator.placement.several.moves.move_most", lambda *_: pytest.fail("searched")
    )
    instances = {"web": builders.rbd("node1", memory=4000)}
    document = builders.cluster(2, memory=8192, instances=instances)
    document["nodes"]["node2"]["free_memory"] = 100
    document["request"] = {
        "type": "node-evacuate", "instances": ["web"], "evac_mode": "primary-only",
    }  # fmt: skip
    found = respond(document)
    assert found["result"][1][0][0] == "web"
