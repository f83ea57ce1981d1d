"""Store the results of simulated lives in a file, one on each line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.life.life import Outcome
from benchmarks.life.report import Results

__all__ = ["Job", "Records"]


class Job(NamedTuple):
    """One life to simulate: its scenario, policy, seed, and number of requests.

    If `mends`, the cluster is also balanced after every failure and repair.
    """

    scenario: str
    policy: str
    seed: int
    requests: int
    mends: bool


class Records:
    """Results by job; with `path`, they are read from the file and appended to it."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known: dict[Job, Outcome] = {}
        if path is not None and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                one = json.loads(line)
                self._known[Job(*one["life"])] = Outcome(**one["outcome"])

    def __contains__(self, job: object) -> bool:
        return job in self._known

    def add(self, job: Job, outcome: Outcome) -> None:
        """Store the result of a life."""
        self._known[job] = outcome
        if self._path is not None:
            line = json.dumps({"life": list(job), "outcome": outcome._asdict()})
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")

    def results(self, jobs: Sequence[Job]) -> Results:
        """Return the results of `jobs` by scenario and policy."""
        found: Results = {}
        for job in jobs:
            by_policy = found.setdefault(job.scenario, {})
            by_policy.setdefault(job.policy, []).append(self._known[job])
        return found
