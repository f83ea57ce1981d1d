"""Room is made on a running cluster, and then the request fits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iallocator.cli import main
from tests.builders import Json
from tests.live.worlds import instance

from .running import Running, running, shared_cluster

Capture = pytest.CaptureFixture[str]

HOMES = {"a": ("node1", 6144), "b": ("node2", 6144), "c": ("node3", 9216), "d": ("node4", 12288)}

QUESTIONS = (
    "allocate --memory 12G --disk 1G --template rbd --group one",
    "evacuate node3",
    "change-group d --to one",
)


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks of a test in its own folder; no pauses."""
    monkeypatch.setattr("iallocator.execution.lock.run_directory", lambda: str(tmp_path / "run"))
    monkeypatch.setattr("iallocator.execution.session.Orders.pause", staticmethod(lambda _: None))
    monkeypatch.setattr("iallocator.execution.session.PAUSES", (0, 0))


def crowded() -> Json:
    """Return what a cluster answers with room for nobody else in its first group."""
    answers = shared_cluster()
    answers["nodes"][0]["offline"] = answers["nodes"][3]["offline"] = False
    answers["instances"] = [
        {**instance(name, home, memory=memory, disk_template="rbd"), "nic.networks": []}
        for name, (home, memory) in HOMES.items()
    ]
    return answers


def count_memory(world: Running) -> None:
    """Have every node report what is free beside its instances."""
    for node in world.answers["nodes"]:
        taken = [
            size for name, (_, size) in HOMES.items() if world.places()[name] == [node["name"]]
        ]
        node["mfree"] = node["mtotal"] - node["mnode"] - sum(taken)


def fits(world: Running, question: str, capsys: Capture) -> bool:
    """Whether the running cluster could satisfy the request."""
    count_memory(world)
    main(["ask", *question.split(), f"-L{world.path}", "--n1=off", "--json"])
    response = json.loads(capsys.readouterr().out)["response"]
    left_out = [] if question.startswith("allocate") else response["result"][1]
    return bool(response["success"]) and not left_out


@pytest.mark.parametrize("question", QUESTIONS)
def test_room_is_told_drawn_and_made_and_then_the_request_fits(
    question: str, tmp_path: Path, capsys: Capture
) -> None:
    """By one migration; what is only printed changes nothing."""
    with running(tmp_path, crowded()) as world:
        assert not fits(world, question, capsys)
        words = ["make-room", f"-L{world.path}", "--n1=off", f"--request={question}"]
        assert main([*words, f"--graph={tmp_path / 'steps.svg'}"]) == 0
        assert "would fit after 1 migration: " in capsys.readouterr().out
        assert "<svg" in (tmp_path / "steps.svg").read_text()
        assert world.places() == {name: [home] for name, (home, _) in HOMES.items()}
        assert main([*words, "-X", "--json", "--journal", str(tmp_path / "journal")]) == 0
        found = json.loads(capsys.readouterr().out)
        (move,) = found["moves"]
        assert world.places()[move["instance"]] == move["to"]
        assert fits(world, question, capsys)
