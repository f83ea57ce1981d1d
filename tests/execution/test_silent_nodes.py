"""Plans for a cluster with a node that does not answer: -X rejects, or stops."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.builders import Json
from tests.command import Done, run
from tests.live.test_sources import with_dead_node

from .running import Running, running, shared_cluster


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks in the folder of the test; no pauses."""
    monkeypatch.setattr("iallocator.execution.lock.run_directory", lambda: str(tmp_path / "run"))
    monkeypatch.setattr("iallocator.execution.session.PAUSES", (0, 0))


def executed(cluster: Running, folder: Path, *words: str) -> Done:
    """The command with -X, and a journal in `folder`."""
    return run(*words, f"-L{cluster.path}", "-X", f"--journal={folder / 'journal'}")


def dead_among(answers: Json) -> Json:
    """The last node of `answers` does not answer."""
    return with_dead_node(answers, len(answers["nodes"]) - 1)


@pytest.mark.parametrize("words", [["balance"], ["repair"]])
def test_plan_is_not_carried_out_where_a_node_is_dead(words: Sequence[str], tmp_path: Path) -> None:
    """Nothing is submitted, no journal is left, and the way on is named."""
    answers = shared_cluster()
    answers["instances"][0]["tags"] = ["ganeti:watcher:autorepair:failover"]
    with running(tmp_path, dead_among(answers)) as cluster:
        done = executed(cluster, tmp_path, *words)
        error = done.stderr.decode()
        assert done.returncode == 2
        assert "run gnt-node modify --offline=yes node5, or give --assume-offline" in error
        assert not cluster.submitted
        assert not (tmp_path / "journal").exists()


def test_plan_is_carried_out_with_assume_offline(tmp_path: Path) -> None:
    """What does not touch the node is done."""
    with running(tmp_path, dead_among(shared_cluster())) as cluster:
        done = executed(cluster, tmp_path, "balance", "-G", "one", "--assume-offline")
        assert done.returncode == 0, done.stderr.decode()
        assert cluster.submitted
        assert "node5" not in json.dumps(cluster.submitted)


def test_execution_stops_when_a_node_stops_answering(tmp_path: Path) -> None:
    """It is asked for a while; what was done is in the journal, and --resume goes on."""
    with running(tmp_path, shared_cluster()) as cluster:

        def die(method: str) -> None:
            if method == "WaitForJobChange":
                with_dead_node(cluster.answers, 4)

        cluster.meddle = die
        words = ["balance", "-G", "one", "--ahead=1", "--first-job-group"]
        done = executed(cluster, tmp_path, *words)
        assert done.returncode in (0, 1)
        journal = tmp_path / "journal"
        on = ["balance", f"-L{cluster.path}", "-X", f"--resume={journal}"]
        stopped = run(*on)
        again = run(*on, "--assume-offline")
    assert stopped.returncode in (0, 1)
    said = (done.stderr + stopped.stderr).decode()
    assert "gnt-node modify --offline=yes node5" in said, said
    assert again.returncode == 0, again.stderr.decode()
