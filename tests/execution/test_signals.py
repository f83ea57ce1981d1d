"""Test executions that are killed or interrupted at certain moments, and then resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from iallocator.cli import main
from iallocator.execution.queue import MARK
from tests.paths import ROOT
from tests.patience import PATIENCE

from .running import CLOSED, Running, running

SCRIPT = """
from iallocator.execution import lock
lock.run_directory = lambda: {!r}
from iallocator import process
process.run()
"""

KILL, INTERRUPT, END = signal.SIGKILL, signal.SIGINT, signal.SIGTERM

MOMENTS: dict[str, tuple[str, bool, tuple[signal.Signals, ...]]] = {
    "killed before the jobs arrive": ("SubmitManyJobs", False, (KILL,)),
    "killed before the answer comes": ("SubmitManyJobs", True, (KILL,)),
    "killed when jobs run": ("WaitForJobChange", True, (KILL,)),
    "interrupted twice when jobs run": ("WaitForJobChange", True, (INTERRUPT, INTERRUPT)),
    "interrupted twice while it submits": ("SubmitManyJobs", True, (INTERRUPT, INTERRUPT)),
    "ended, then interrupted": ("WaitForJobChange", True, (END, INTERRUPT)),
}
"""Moment -> the query before the first signal, the signals, and whether the jobs arrive.

Each further signal is sent before the next answer.
"""


class _Process:
    """A process that executes a plan on a simulated cluster and receives signals."""

    def __init__(self, folder: Path, scenario: Running, moment: str) -> None:
        self._scenario = scenario
        self._method, self._arrives, signals = MOMENTS[moment]
        self._signals = list(signals)
        self._begun = False
        scenario.held = True
        scenario.interfere = self._interfere
        words = ["balance", f"-L{scenario.path}", "-X", "--journal", str(folder / "journal")]
        self._process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT.format(str(folder / "run")), *words],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self) -> tuple[int, str]:
        """Return the exit status and the output of the process after its end."""
        _, err = self._process.communicate(timeout=PATIENCE)
        self._scenario.interfere = lambda method: None
        return self._process.returncode, err

    def _interfere(self, method: str) -> Any:
        self._begun = self._begun or method == self._method
        if not (self._begun and self._signals):
            return None
        os.kill(self._process.pid, self._signals.pop(0))
        return None if self._arrives else CLOSED


@pytest.mark.parametrize("moment", MOMENTS)
def test_resumed_execution_does_everything_once(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resumed execution submits no job twice, whether or not the jobs had arrived."""
    monkeypatch.setattr("iallocator.execution.lock.run_directory", lambda: str(tmp_path / "run"))
    monkeypatch.setattr("iallocator.execution.session.wait", lambda _: None)
    with running(tmp_path) as scenario:
        before = scenario.places()
        status, err = _Process(tmp_path, scenario, moment).end()
        signals = MOMENTS[moment][2]
        assert status == (-KILL if KILL in signals else 128 + signals[-1])
        assert ("left at once" in err) == (len(signals) == 2)
        assert scenario.places() == before  # the queue holds all jobs
        scenario.held = False
        resumed = ["balance", f"-L{scenario.path}", "-X", "--resume", str(tmp_path / "journal")]
        assert main(resumed) == 0
        assert scenario.places() != before
        done = Counter(
            mark[2]
            for job in scenario.jobs.values()
            for mark in [MARK.search(job["ops"][0]["reason"][-1][1])]
            if mark and job["status"] == "success"
        )
        assert len(done) == 3
        assert set(done.values()) == {1}
