"""Reboots of one group of nodes, carried out on a running cluster that this process plays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iallocator.cli import main

from .running import running, shared_cluster


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks of a test in its own folder; no pauses."""
    monkeypatch.setattr("iallocator.execution.lock.run_directory", lambda: str(tmp_path / "run"))
    monkeypatch.setattr("iallocator.execution.session.Orders.pause", staticmethod(lambda _: None))
    monkeypatch.setattr("iallocator.execution.session.PAUSES", (0, 0))


def test_group_is_emptied_waits_for_its_reboot_and_is_filled_again(tmp_path: Path) -> None:
    """It stops where somebody has to reboot the node; then everybody comes home."""
    answers = shared_cluster()
    answers["nodes"][0]["tags"] = ["now"]
    answers["info"]["master"] = "node4"
    with running(tmp_path, answers) as world:
        home = world.places()
        journal = str(tmp_path / "journal")
        live = f"-L{world.path}"
        words = ["reboot", live, "-X", "--one-step-only", "--node-tags=now", "--journal", journal]
        assert main(words) == 0
        assert world.found("node1")["drained"]
        assert all(nodes != ["node1"] for nodes in world.places().values())
        world.found("node1")["mfree"] += 4 * 2048
        assert main(["reboot", live, "-X", "--resume", journal, "--done-by-hand"]) == 0
        assert world.places() == home
        assert not world.found("node1")["drained"]


def test_done_nodes_are_in_no_group_of_a_new_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They still take the instances of others; a name that is unknown is rejected."""
    with running(tmp_path, shared_cluster()) as world:
        live = f"-L{world.path}"
        assert main(["reboot", live, "--json", "--done=node1,node4"]) == 0
        found = json.loads(capsys.readouterr().out)
        nodes = {node for group in found["reboots"] for node in group["nodes"]}
        assert nodes == {"node2", "node3", "node5"}
        assert main(["reboot", live, "--done=node9"]) == 2
        assert "--done" in capsys.readouterr().err
