"""Test steady balancing with -X: obstacles, interruption, and the next round."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from iallocator.cli import main
from iallocator.execution.lock import ClusterLock
from tests.aliases import Capture
from tests.paths import ROOT
from tests.patience import PATIENCE
from tests.schemas import conforms

from .running import Running, running, shared_cluster


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the locks of a test in its own folder."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr("iallocator.execution.lock.run_directory", lambda: str(tmp_path / "run"))


class Rounds:
    """Rounds of steady balancing of a running cluster with all busy instances on one node."""

    def __init__(self, cluster: Running, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.journal = folder / "journal"
        names = [one["name"] for one in cluster.answers["instances"]]
        (folder / "loads").write_text("".join(f"{name} 0.9 0 0 0\n" for name in names))

    def words(self, minutes: int, *more: str) -> list[str]:
        """Return the command line of the round `minutes` after the first one."""
        hour, minute = divmod(minutes, 60)
        return [
            "balance", f"-L{self.cluster.path}", "--steady", f"-U{self.folder}/loads", "--json",
            f"--history={self.folder}/history", f"--now=2026-01-02T{hour:02}:{minute:02}:00Z",
            "--n1=off", "--least-history=1", "--hold=0", "--hours=0-24", "--all-groups", *more,
        ]  # fmt: skip

    def round(self, capsys: Capture, minutes: int, *more: str) -> dict[str, Any]:
        """Run a round, which must succeed, and return its document."""
        capsys.readouterr()
        assert main(self.words(minutes, *more)) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        conforms(found, "plan")
        return found

    def begin(self, capsys: Capture) -> None:
        """Run rounds until the history of loads is long enough."""
        for minutes in (0, 20, 40):
            assert self.round(capsys, minutes)["moves"] == []


def test_drained_queue_is_the_reason_why_nothing_moves(tmp_path: Path, capsys: Capture) -> None:
    """If the queue is drained, a round only stores its sample; later rounds move instances."""
    with running(tmp_path, shared_cluster()) as cluster:
        rounds = Rounds(cluster, tmp_path)
        rounds.begin(capsys)
        cluster.answers["drain_flag"] = True
        found = rounds.round(capsys, 61, "-X")
        assert found["moves"] == []
        assert "the job queue is drained" in found["reason"]
        assert cluster.submitted == []
        cluster.answers["drain_flag"] = False
        found = rounds.round(capsys, 62, "-X", f"--journal={rounds.journal}")
        assert found["steady"]["sample_count"] == 5
        assert found["moves"]
        assert found["execution"]["complete"]


def test_another_execution_is_the_reason_why_nothing_moves(tmp_path: Path, capsys: Capture) -> None:
    """If another execution holds the lock, a round ends with status 0 and moves nothing."""
    with running(tmp_path, shared_cluster()) as cluster:
        rounds = Rounds(cluster, tmp_path)
        rounds.begin(capsys)
        with ClusterLock(cluster.answers["info"]["name"]):
            found = rounds.round(capsys, 61, "-X")
        assert found["moves"] == []
        assert "another execution is under way" in found["reason"]
        assert cluster.submitted == []


def test_killed_round_is_resumed_and_its_instances_rest(tmp_path: Path, capsys: Capture) -> None:
    """After a killed round is resumed, the next round regards its moves as made."""
    with running(tmp_path, shared_cluster()) as cluster:
        rounds = Rounds(cluster, tmp_path)
        rounds.begin(capsys)
        cluster.held = True
        words = rounds.words(61, "-X", f"--journal={rounds.journal}")
        process = subprocess.Popen([sys.executable, "-m", "iallocator", *words], cwd=ROOT)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and not cluster.submitted:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE)
        assert len(cluster.submitted) == 1
        planned = {code["instance_name"] for job in cluster.submitted[0] for code in job}
        assert planned
        cluster.held = False
        capsys.readouterr()
        resumed = ["balance", f"-L{cluster.path}", "-X", f"--resume={rounds.journal}", "--json"]
        assert main(resumed) == 0
        assert json.loads(capsys.readouterr().out)["execution"]["complete"]
        assert len(cluster.submitted) == 1
        moved = {name for name, nodes in cluster.places().items() if nodes != ["node1"]}
        assert moved == planned
        again = rounds.round(capsys, 70, "-X")
        assert moved.isdisjoint(move["instance"] for move in again["moves"])
