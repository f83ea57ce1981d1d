"""Test soft constraints under every strategy: as penalties of scores, or as tie-breaks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from iallocator.commands.start import run_command
from tests import builders
from tests.builders import Json
from tests.command import respond
from tests.constraints.scenarios import respond_without_n1

PACEMAKER = tuple(f"pacemaker-{kind}" for kind in ("default", "utilization", "balanced", "minimal"))
STRATEGIES = ("score", "lost-allocations", "affinity", *PACEMAKER)

APART = "iallocator:separate:should:web"


def _scenario(nodes: int = 3, **members: Any) -> Json:
    """Return equal nodes; the first one runs `old`, and the others run other instances."""
    instances = {
        name: builders.rbd(
            f"node{k}", memory=1024, tags=[APART] if name == "old" else [],
            **members,
        )
        for k, name in enumerate(["old", "b", "c", "d"][:nodes], start=1)
    }  # fmt: skip
    return builders.cluster(nodes, memory=16384, instances=instances)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_should_decides_among_equals_under_every_strategy(strategy: str) -> None:
    """Under every strategy, a soft separation decides between equal nodes."""
    new = builders.allocate_rbd(_scenario(), memory=512)
    option = f"--strategy={strategy}"
    assert respond_without_n1(new, option)["result"] == ["node1"]
    new["request"]["tags"] = [APART]
    assert respond_without_n1(new, option)["result"] == ["node2"]
    assert "broken" not in respond_without_n1(new, option)["solutions"][0]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_should_that_every_node_violates_rejects_none_and_is_reported(strategy: str) -> None:
    """A soft constraint that all nodes violate rejects none, and is reported."""
    new = builders.allocate_rbd(_scenario(1), memory=512, tags=[APART])
    response = respond_without_n1(new, f"--strategy={strategy}")
    assert response["result"] == ["node1"]
    (broken,) = response["solutions"][0]["broken"]
    assert broken.startswith("apart from old")


@pytest.mark.parametrize("strategy", PACEMAKER)
@pytest.mark.parametrize(("penalty", "expected"), [(4, "node1"), (6, "node2")])
def test_should_is_weighed_against_scores_of_pacemaker(
    strategy: str, penalty: int, expected: str
) -> None:
    """Pacemaker's strategies choose a node with the score 5 unless a penalty exceeds 5."""
    document = _scenario()
    document["nodes"]["node1"]["tags"] = ["iallocator:score:5"]
    document["instances"]["old"]["tags"] = [f"{APART}:{penalty}"]
    tags = [f"{APART}:{penalty}"]
    new = builders.allocate_rbd(document, memory=512, tags=tags)
    assert respond_without_n1(new, f"--strategy={strategy}")["result"] == [expected]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_should_counts_for_moves(strategy: str) -> None:
    """After an evacuation, an instance is on a node without the one it should avoid."""
    document = _scenario(4)
    document["instances"]["d"]["tags"] = [APART]
    document["request"] = {"type": "node-evacuate", "evac_mode": "all", "instances": ["d"]}
    response = respond_without_n1(document, f"--strategy={strategy}")
    assert response["result"][0][0][2] == ["node2"]


@pytest.mark.parametrize("strategy", PACEMAKER)
def test_should_counts_in_place(
    strategy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`place` moves one of two instances on a node that should be separated."""
    instances = {name: builders.rbd("node1", tags=[f"{APART}:9"]) for name in ("a", "b")}
    path = tmp_path / "document.json"
    path.write_bytes(builders.as_bytes(builders.cluster(2, instances=instances)))
    assert run_command("place", ["place", "--json", f"--strategy={strategy}", str(path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["placement"] == {"a": "node1", "b": "node2"}


def test_should_that_place_violates_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`place` reports soft constraints that it violates, also orders of starts."""
    tags = {"a": [APART], "b": [APART, "iallocator:order:should-after:absent"]}
    document = builders.cluster(1)
    request = builders.allocate_rbd(document, memory=512)["request"]
    del request["type"]
    wanted = [request | {"name": name, "tags": tags[name]} for name in tags]
    document["request"] = {"type": "multi-allocate", "instances": wanted}
    path = tmp_path / "document.json"
    path.write_bytes(builders.as_bytes(document))
    words = ["place", "--json", "--strategy=minimal", "--n1=off", str(path)]
    assert run_command("place", words) == 0
    found = {e["instance"]: e for e in json.loads(capsys.readouterr().out)["instances"]}
    assert [text.split(" (")[0] for text in found["a"]["broken"]] == ["apart from b"]
    assert [text.split(" (")[0] for text in found["b"]["broken"]] == [
        "apart from a", "starts after absent",
    ]  # fmt: skip


@pytest.mark.parametrize("strategy", ["score", "pacemaker-minimal"])
@pytest.mark.parametrize(
    ("base", "why"),
    [("absent", "there is no absent"), ("down", "down does not run"), ("big", "big has no place")],
)
def test_should_start_after_a_stopped_instance_is_reported(
    strategy: str, base: str, why: str
) -> None:
    """An instance that should start after one that cannot run is placed, with a report."""
    instances = {"down": builders.rbd("node1", admin_state="down")}
    document = builders.cluster(2, instances=instances)
    request = builders.allocate_rbd(document, memory=512)["request"]
    del request["type"]
    tags = [f"iallocator:order:should-after:{base}"]
    wanted = [
        request | {"name": "app", "tags": [*tags, "iallocator:priority:9"]},
        request | {"name": "big", "memory": 99999},
    ]
    document["request"] = {"type": "multi-allocate", "instances": wanted}
    response = respond_without_n1(document, f"--strategy={strategy}")
    entry = next(e for e in response["solutions"] if e["instance"] == "app")
    assert entry["nodes"]
    (broken,) = entry["broken"]
    assert broken.endswith(why)


def test_should_with_a_weight_counts_between_groups() -> None:
    """A group where a soft constraint is violated ranks behind one with a worse score."""
    preference = "iallocator:separate:should:web:1000"
    document = builders.cluster({"default": 1, "far": 1})
    document["instances"] = {
        "web": builders.rbd("node1", memory=128, tags=[preference]),
        "load": builders.rbd("node2", memory=4096),
    }
    new = builders.allocate_rbd(document, memory=128, tags=[preference])
    found = respond(new, "--n1=off")
    assert found["result"] == ["node2"]
    assert [solution["group"] for solution in found["solutions"]] == ["far", "default"]
