"""Plans carried out by the program itself, with ``-X``, while things go wrong."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from vcluster import stage
from vcluster.layout import FIRST_GROUP, NODE_STATE, instance
from vcluster.node import ENVIRONMENT, ClusterError

from scenario.creation import add
from scenario.runner import Runner

Json = dict[str, Any]

_NAMES = ("ex1", "ex2", "ex3", "ex4")
_LUXI = ("-L",)
_RAPI = ("-m", "https://198.18.77.11:5080", "--insecure")
_USER = {"IALLOCATOR_RAPI_USER": "e2e", "IALLOCATOR_RAPI_PASSWORD": "secret"}
_MARK = re.compile(r"\(([0-9a-z-]+)/(\d+)/(\d+)\)$")
_DAEMONS = "/usr/lib/ganeti/daemon-util"
_PATIENCE = 900


def faults(run: Runner) -> None:
    """Carry plans out, through both doors, and with everything that may go wrong on the way.

    Parameters
    ----------
    run : Runner
        Gives access to the cluster.
    """
    run.section("plans carried out")
    _allow_rapi(run)
    _try(run, "balance through LUXI", _LUXI)
    _try(run, "balance through RAPI", _RAPI)
    _try(run, "the process is killed while it submits", _LUXI, "submit", _killed)
    _try(run, "the process is killed when jobs run", _LUXI, "accepted", _killed)
    _try(run, "the process is killed, through RAPI", _RAPI, "accepted", _killed)
    _try(run, "the socket closes", _LUXI, "accepted", _restarted)
    _try(run, "somebody cancels a job", _LUXI, "accepted", _cancelled, whole=False)
    _try(run, "a node goes offline", _LUXI, "accepted", _offline, whole=False)
    _try(run, "interrupted once", _LUXI, "accepted", _interrupted)
    run.drop(*_NAMES)


Fault = Callable[[Runner, "_Execution"], None]


class _Execution:
    """A planner that runs on the master, with its journal there."""

    def __init__(self, run: Runner, door: tuple[str, ...], name: str) -> None:
        self.run = run
        self.door = door
        self.journal = f"{NODE_STATE}/{name}.journal"
        self._pid = f"{NODE_STATE}/{name}.pid"
        self._process: subprocess.Popen[str] | None = None

    def start(self, *words: str) -> None:
        """Start it."""
        plugin = json.loads(stage.SETTINGS.read_text(encoding="utf-8"))["plugin"]
        script = 'echo $$ > "$0"; exec "$@"'
        command = self.run.cluster.master.command(
            "sh", "-c", script, self._pid, plugin, "balance", *self.door, "-X", "--json", *words
        )
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**ENVIRONMENT, **_USER},
        )

    def end(self) -> tuple[int, Json, str]:
        """Wait for it: status, report and stderr."""
        assert self._process is not None
        out, err = self._process.communicate(timeout=_PATIENCE)
        found = json.loads(out)["execution"] if out.strip() else {}
        return self._process.returncode, found, err

    def kill(self, signal: str) -> None:
        """Send it a signal."""
        master = self.run.cluster.master
        master.run("kill", f"-{signal}", master.path(self._pid).read_text().strip())

    def events(self) -> list[Json]:
        """What its journal says so far, whole lines only."""
        path = self.run.cluster.master.path(self.journal)
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        return [json.loads(line) for line in text.split("\n")[:-1]]

    def wait_for(self, event: str) -> None:
        """Return as soon as its journal has such an event, or it has ended."""
        assert self._process is not None
        while self._process.poll() is None:
            if any(one["event"] == event for one in self.events()):
                return
            time.sleep(0.02)

    def ids(self) -> list[int]:
        """The jobs that the queue took."""
        return [job for one in self.events() if one["event"] == "accepted" for _, job in one["ids"]]


def _try(
    run: Runner,
    label: str,
    door: tuple[str, ...],
    moment: str = "",
    fault: Fault | None = None,
    whole: bool = True,
) -> None:
    """Crowd one node, balance it, let `fault` happen at a moment, and judge.

    `whole`: in the end, resumed if need be, everything has been done.
    """
    _crowd(run)
    execution = _Execution(run, door, re.sub(r"[^a-z]+", "-", label.lower()))
    execution.start("--journal", execution.journal, "-G", FIRST_GROUP)
    if fault is not None:
        execution.wait_for(moment)
        fault(run, execution)
    status, found, err = execution.end()
    if fault is not None:
        execution.start("--resume", execution.journal)
        status, found, err = execution.end()
    run.record(label, list(_problems(run, execution, status, found, whole)) or [])
    if status not in (0, 1):
        run.record(f"{label}: how it ended", err.splitlines()[-3:])
    _repair(run)


def _problems(
    run: Runner, execution: _Execution, status: int, found: Json, whole: bool
) -> Iterator[str]:
    """What is wrong with an execution that has ended."""
    if not found:
        yield f"no report, exit status {status}"
        return
    if whole and not (found["complete"] and status == 0):
        yield f"not all was done: {[job for job in found['jobs'] if job['state'] != 'done']}"
    if not whole and (status == 0) != found["complete"]:
        yield f"exit status {status} though complete is {found['complete']}"
    here = run.cluster.instances()
    for one in found["instances"]:
        now = list(here[one["instance"]].nodes)
        if one["now"] != now:
            yield f"{one['instance']} is on {now}, the report says {one['now']}"
        ends = {tuple(one["from"]): "not moved", tuple(one["to"]): "as planned"}
        if one["state"] != ends.get(tuple(now), "half moved"):
            yield f"{one['instance']} is on {now}, the report calls that {one['state']}"
    yield from _done_twice(run, found["run"])


def _done_twice(run: Runner, name: str) -> Iterator[str]:
    """Jobs of the execution that did more in the queue, in all attempts, than they have opcodes."""
    done: Counter[str] = Counter()
    sizes: dict[str, int] = {}
    queue = run.cluster.master.path("/var/lib/ganeti/queue")
    for path in queue.glob("job-*"):
        codes = json.loads(path.read_text(encoding="utf-8"))["ops"]
        mark = _mark(codes[0]["input"].get("reason") or [])
        if mark and mark[1] == name:
            done[mark[2]] += sum(code["status"] == "success" for code in codes)
            sizes[mark[2]] = max(len(codes), sizes.get(mark[2], 0))
    for job, times in done.items():
        if times > sizes[job]:
            yield f"job {job} of {sizes[job]} opcodes did {times}"
    if not done:
        yield "no job in the queue has the mark of the execution"


def _mark(trail: list[Any]) -> re.Match[str] | None:
    return next((mark for entry in trail if (mark := _MARK.search(str(entry[1])))), None)


def _killed(run: Runner, execution: _Execution) -> None:
    execution.kill("KILL")


def _interrupted(run: Runner, execution: _Execution) -> None:
    execution.kill("INT")


def _restarted(run: Runner, execution: _Execution) -> None:
    run.arrange(_DAEMONS, "stop", "ganeti-luxid")
    run.cluster.master.run(_DAEMONS, "start", "ganeti-luxid")


def _cancelled(run: Runner, execution: _Execution) -> None:
    ids = execution.ids()
    if ids:
        run.cluster.gnt("gnt-job", "cancel", "--force", str(ids[-1]))


def _offline(run: Runner, execution: _Execution) -> None:
    third = run.nodes_of(FIRST_GROUP)[2]
    run.cluster.gnt("gnt-node", "modify", "--force", "--offline=yes", third)


def _repair(run: Runner) -> None:
    """Everything as it was, for the next."""
    third = run.nodes_of(FIRST_GROUP)[2]
    run.cluster.gnt("gnt-node", "modify", "--force", "--offline=no", third)


def _crowd(run: Runner) -> None:
    """Four instances on two nodes, where a third one has room."""
    run.drop(*_NAMES)
    first, second, _ = run.nodes_of(FIRST_GROUP)
    words = ("--no-install", "--no-wait-for-sync", f"--node={second}:{first}")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: run.arrange(*add(name, "drbd", *words, memory=2048)), _NAMES))
    with ThreadPoolExecutor(4) as pool:
        started = pool.map(
            lambda name: run.cluster.gnt("gnt-instance", "startup", instance(name)), _NAMES
        )
        if any(done.status for done in started):
            raise ClusterError("instances that should be balanced do not start")


def _allow_rapi(run: Runner) -> None:
    """A user of RAPI who may write."""
    users = Path(run.cluster.master.path("/var/lib/ganeti/rapi/users"))
    users.write_text("e2e secret write\n", encoding="utf-8")
    run.cluster.master.run("chown", "gnt-rapi:gnt-masterd", "/var/lib/ganeti/rapi/users")
    run.cluster.master.run(_DAEMONS, "stop", "ganeti-rapi")
    run.cluster.master.run(_DAEMONS, "start", "ganeti-rapi")
