"""Test steady balancing with -X: obstacles, interruption, and the next round."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from datetime import datetime
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


def test_metrics_count_the_moves_of_a_day(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`metrics` counts planned and made moves of the last day, and those of others."""

    def measured(cluster: Running, moment: str) -> dict[str, float]:
        now = datetime.fromisoformat(moment).timestamp()
        monkeypatch.setattr("iallocator.commands.metrics.time", lambda: now)
        capsys.readouterr()
        assert main(["metrics", f"-L{cluster.path}", "--no-capacity"]) == 0
        rows = [line.rsplit(" ", 1) for line in capsys.readouterr().out.splitlines()]
        return {
            name.removeprefix("iallocator_steady_"): float(value)
            for name, value in rows if name.startswith("iallocator_steady_")
        }  # fmt: skip

    monkeypatch.setattr("iallocator.commands.metrics.LOADS_FOLDER", str(tmp_path / "history"))
    with running(tmp_path, shared_cluster()) as cluster:
        rounds = Rounds(cluster, tmp_path)
        assert measured(cluster, "2026-01-02T00:00:00Z") == {}
        assert not (tmp_path / "history").exists()
        rounds.begin(capsys)
        last = datetime.fromisoformat("2026-01-02T00:40:00Z").timestamp()
        assert measured(cluster, "2026-01-02T00:50:00Z") == {
            'moves{state="planned"}': 0, 'moves{state="made"}': 0, 'moves{state="unplanned"}': 0,
            "round_timestamp_seconds": last,
        }  # fmt: skip
        planned = rounds.round(capsys, 61)["moves"]
        assert rounds.round(capsys, 71)["moves"] == planned  # not executed, planned again
        found = measured(cluster, "2026-01-02T01:20:00Z")
        assert found['moves{state="planned"}'] == len(planned) > 0
        assert found['moves{state="made"}'] == 0
        rounds.round(capsys, 81, "-X", f"--journal={rounds.journal}")
        still = next(one["name"] for one in cluster.answers["instances"]
                     if one["name"] not in {move["instance"] for move in planned})  # fmt: skip
        cluster.found(still)["pnode"] = "node2"
        rounds.round(capsys, 91)
        found = measured(cluster, "2026-01-02T01:40:00Z")
        assert found['moves{state="planned"}'] == found['moves{state="made"}'] == len(planned)
        assert found['moves{state="unplanned"}'] == 1
        later = measured(cluster, "2026-01-03T01:40:00Z")
        assert later['moves{state="planned"}'] == later['moves{state="made"}'] == 0
