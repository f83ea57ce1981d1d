"""Run a planner that executes its plan on the master, and check the result."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from vcluster.layout import NODE_STATE
from vcluster.node import ENVIRONMENT

from scenario.reading import RAPI, program
from scenario.runner import Runner

Json = dict[str, Any]
Words = tuple[str, ...]

THROUGH_LUXI: Words = ("-L",)
THROUGH_RAPI: Words = ("-m", f"https://{RAPI}:5080", "--insecure")

USER = {"IALLOCATOR_RAPI_USER": "e2e", "IALLOCATOR_RAPI_PASSWORD": "secret"}
_MARK = re.compile(r"\(([0-9a-z-]+)/(\d+)/(\d+)\)$")
_PATIENCE = 1800
_NOTICED = "again to leave at once"
"""Part of the message of ``-X`` after the first Ctrl-C."""


class Execution:
    """A planner that runs on the master and writes its journal there."""

    def __init__(self, run: Runner, connection: Words, name: str, command: str = "balance") -> None:
        self.run = run
        self._connection = connection
        self._command = command
        self.journal = f"{NODE_STATE}/{name}.journal"
        self.document: Json = {}
        self._pid = f"{NODE_STATE}/{name}.pid"
        self._process: subprocess.Popen[str] | None = None

    def start(self, *words: str) -> None:
        """Start the planner."""
        self._err = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - until the end
        script = 'echo $$ > "$0"; exec "$@"'
        reported = (program(), self._command, *self._connection, "-X", "--json", *words)
        self._process = subprocess.Popen(
            self.run.cluster.master.command("sh", "-c", script, self._pid, *reported),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._err,
            text=True,
            env={**ENVIRONMENT, **USER},
        )

    def begin(self, *words: str) -> None:
        """Start the planner with a new journal."""
        self.start("--journal", self.journal, *words)

    def again(self, *words: str) -> None:
        """Start the planner to resume the execution."""
        self.start("--resume", self.journal, *words)

    def resumed(self, *words: str) -> tuple[int, Json, str]:
        """Resume the execution and wait for its end; return status, report and stderr."""
        self.again(*words)
        return self.end()

    def end(self) -> tuple[int, Json, str]:
        """Wait for the end of the planner; return its exit status, report and stderr."""
        assert self._process is not None
        out, _ = self._process.communicate(timeout=_PATIENCE)
        self.document = json.loads(out) if out.strip() else {}
        err = self._said()
        self._err.close()
        return self._process.returncode, self.document.get("execution", {}), err

    def _said(self) -> str:
        """Return what the planner has written to stderr so far."""
        return os.pread(self._err.fileno(), 1 << 20, 0).decode()

    def interrupt(self) -> None:
        """Press Ctrl-C, and wait until the planner has reported that or has ended."""
        assert self._process is not None
        before = self._said().count(_NOTICED)
        self.kill("INT")
        while self._process.poll() is None and self._said().count(_NOTICED) == before:
            time.sleep(0.02)

    def kill(self, signal: str) -> None:
        """Send a signal to the planner."""
        master = self.run.cluster.master
        master.run("kill", f"-{signal}", master.path(self._pid).read_text().strip())

    def events(self) -> list[Json]:
        """Return the complete lines of the journal so far."""
        return lines_of(self.run.cluster.master.path(self.journal))

    def wait_for(self, event: str) -> None:
        """Wait until the journal has the event `event`, or the planner has ended."""
        self.wait_until(lambda: any(one["event"] == event for one in self.events()))

    def wait_until(self, happened: Callable[[], bool]) -> None:
        """Wait until `happened` returns true, or the planner has ended."""
        assert self._process is not None
        while self._process.poll() is None and not happened():
            time.sleep(0.02)

    def ids(self) -> list[int]:
        """Return the IDs of the submitted jobs."""
        return [job for one in self.events() if one["event"] == "accepted" for _, job in one["ids"]]


def lines_of(path: Path) -> list[Json]:
    """Return the complete lines of a journal; [] if it does not exist."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.split("\n")[:-1]]


def problems(run: Runner, status: int, found: Json, whole: bool) -> Iterator[str]:
    """Yield the problems of an execution that has ended.

    With `whole`, all steps must be done. Otherwise the exit status must be 0 if everything is done
    that can be done without a person.
    """
    if not found:
        yield f"no report, exit status {status}"
        return
    if whole and not (found["complete"] and status == 0):
        yield f"not all was done: {[job for job in found['jobs'] if job['state'] != 'done']}"
    states = {job["state"] for job in found["jobs"]}
    done = found["complete"] or ("by hand" in states and not states & {"failed", "refused"})
    if not whole and (status == 0) != done:
        yield f"exit status {status}, the jobs are {', '.join(sorted(states))}"
    here = run.cluster.instances()
    for one in found["instances"]:
        now = list(here[one["instance"]].nodes)
        if one["now"] != now:
            yield f"{one['instance']} is on {now}, the report says {one['now']}"
        ends = {tuple(one["from"]): "not moved", tuple(one["to"]): "as planned"}
        if one["from"] != one["to"] and one["state"] != ends.get(tuple(now), "half moved"):
            yield f"{one['instance']} is on {now}, the report calls that {one['state']}"
    yield from done_twice(run, found["run"])


def done_twice(run: Runner, name: str) -> Iterator[str]:
    """Yield the jobs in the queue that were executed more than once, counted over all attempts."""
    done: Counter[str] = Counter()
    sizes: dict[str, int] = {}
    for codes in queued(run):
        mark = _mark(codes[0]["input"].get("reason") or [])
        if mark and mark[1] == name:
            done[mark[2]] += sum(code["status"] == "success" for code in codes)
            sizes[mark[2]] = max(len(codes), sizes.get(mark[2], 0))
    for job, times in done.items():
        if times > sizes[job]:
            yield f"job {job} of {sizes[job]} opcodes did {times}"
    if not done:
        yield "no job in the queue has the mark of the execution"


def queued(run: Runner) -> Iterator[list[Json]]:
    """Return the opcodes of each job in Ganeti's queue."""
    queue = run.cluster.master.path("/var/lib/ganeti/queue")
    for path in queue.glob("job-*"):
        yield json.loads(path.read_text(encoding="utf-8"))["ops"]


def _mark(trail: list[Any]) -> re.Match[str] | None:
    return next((mark for entry in trail if (mark := _MARK.search(str(entry[1])))), None)
