"""Execute plans with ``-X`` while faults occur."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from vcluster.layout import DAEMONS, FIRST_GROUP, NODE_STATE, instance
from vcluster.node import ClusterError, Done

from scenario.carrying_out import (
    THROUGH_LUXI,
    THROUGH_RAPI,
    Execution,
    Words,
    lines_of,
    problems,
)
from scenario.creation import add
from scenario.reading import hbal_moves, program
from scenario.runner import Runner

CROWD = ("ex1", "ex2", "ex3", "ex4")
_KILL = 'p=$(cat "$0"); kill -KILL $p; while kill -0 $p 2>/dev/null; do sleep 0.1; done; rm "$0"'
"""Shell command that kills a daemon, and waits until it and its file are gone."""


def faults(run: Runner) -> None:
    """Test the execution of plans through LUXI and RAPI, with all faults.

    Parameters
    ----------
    run : Runner
        Gives access to the cluster.
    """
    run.section("plans carried out")
    allow_rapi(run)
    _balanced_by_name(run)
    luxi, rapi = THROUGH_LUXI, THROUGH_RAPI
    _try(run, "balance through LUXI", luxi)
    _try(run, "balance through RAPI", rapi)
    _try(run, "the process is killed while it submits", luxi, "submit", _killed)
    _try(run, "the process is killed when jobs run", luxi, "accepted", _killed)
    _try(run, "the process is killed while it submits, through RAPI", rapi, "submit", _killed)
    _try(run, "the process is killed when jobs run, through RAPI", rapi, "accepted", _killed)
    _try(run, "the socket closes", luxi, "accepted", _restarted)
    _try(run, "the daemon of RAPI is killed", rapi, "accepted", _rapi_killed)
    _try(run, "an administrator cancels a job", luxi, "accepted", _cancelled, whole=False)
    _try(run, "a node goes offline", luxi, "accepted", _offline, whole=False)
    _try(run, "a node goes offline, through RAPI", rapi, "accepted", _offline, whole=False)
    _try(run, "interrupted once", luxi, "accepted", _interrupted)
    _try(run, "interrupted twice", luxi, "accepted", _interrupted_twice)
    _try(run, "interrupted twice, through RAPI", rapi, "accepted", _interrupted_twice)
    for connection in (luxi, rapi):
        _failure_retried(run, connection)
        _waiting_jobs_cancelled(run, connection)
    _queue_drained(run)
    run.drop(*CROWD)


_WITH_JOURNAL = """
kept=$(mktemp -d /run/kept.XXXXXX)
mount --rbind /var/lib/ganeti "$kept"
mount -t tmpfs tmpfs /var/lib
mkdir /var/lib/ganeti
mount --rbind "$kept" /var/lib/ganeti
"$@"
status=$?
cp /var/lib/iallocator/*.journal "$0"
exit $status
"""
"""Shell command that runs a program with a writable folder for journals, and copies the journal."""


def _balanced_by_name(run: Runner) -> None:
    """Check that `htools hbal -X` prints and executes the moves of hbal, with a journal."""
    crowd(run)
    words, master = ("-L", "-G", FIRST_GROUP), run.cluster.master
    planned = hbal_moves(master.run("hbal", *words).output)
    journal = f"{NODE_STATE}/hbal.journal"
    script = ("unshare", "-m", "sh", "-c", _WITH_JOURNAL, journal)
    done = master.run(*script, program(), "htools", "hbal", *words, "-X")
    wrong = [] if planned else ["hbal has nothing to do"]
    wrong += [] if hbal_moves(done.output) == planned else [planned]
    wrong += [] if done.status == 0 else [f"status {done.status}"]
    accepted = [one for one in lines_of(master.path(journal)) if one["event"] == "accepted"]
    wrong += [] if accepted else ["the journal has no submitted jobs"]
    left = hbal_moves(master.run("hbal", *words).output)
    wrong += ["hbal would still make these moves:", left] if left else []
    run.record("hbal by name executes its plan", [*wrong, done.output[-800:]] if wrong else [])


Fault = Callable[[Runner, Execution], None]


def _try(
    run: Runner,
    label: str,
    connection: Words,
    moment: str = "",
    fault: Fault | None = None,
    whole: bool = True,
) -> None:
    """Fill one node, balance it with `fault` at one moment, and check the result.

    With `whole`, all steps must have been executed at the end, after `--resume` if needed.
    """
    crowd(run)
    execution = Execution(run, connection, re.sub(r"[^a-z]+", "-", label.lower()))
    execution.begin("-G", FIRST_GROUP)
    if fault is not None:
        execution.wait_for(moment)
        fault(run, execution)
    status, found, err = execution.end()
    expected = {_killed: -9, _interrupted_twice: 130}.get(fault) if fault else None
    if expected is not None and status != expected:
        run.record(f"{label}: how the first attempt ended", [f"status {status}", err[-500:]])
    if fault is not None:
        status, found, err = execution.resumed()
    run.record(label, list(problems(run, status, found, whole)))
    if status not in (0, 1):
        run.record(f"{label}: how it ended", err.splitlines()[-3:])
    _repair(run)


def _failure_retried(run: Runner, connection: Words) -> None:
    """Check that `--resume` executes the rest after disks could not be created on one node."""
    through = _through(connection)
    crowd(run)
    third = run.cluster.nodes[run.nodes_of(FIRST_GROUP)[2]]
    full = third.path("/run/e2e/lvcreate-fails")
    full.touch()
    execution = Execution(run, connection, f"retried-{through}")
    execution.begin("-G", FIRST_GROUP)
    status, found, _ = execution.end()
    failed = [job for job in found["jobs"] if job["state"] == "failed"]
    wrong = list(problems(run, status, found, False))
    wrong += [] if failed and found.get("to_do") else [f"nothing failed: {found['jobs']}"]
    run.record(f"a job fails, through {through}", wrong)
    full.unlink()
    status, found, err = execution.resumed()
    wrong = list(problems(run, status, found, True))
    run.record(f"the failed job is retried when its cause is gone, through {through}", wrong)
    if wrong:
        run.record("stderr", err.splitlines()[-5:])


def _waiting_jobs_cancelled(run: Runner, connection: Words) -> None:
    """Check that Ctrl-C cancels the waiting jobs and completes the running one."""
    through = _through(connection)
    crowd(run)
    run.arrange("gnt-cluster", "modify", "--max-running-jobs=1")
    execution = Execution(run, connection, f"waiting-{through}")
    execution.begin("-G", FIRST_GROUP)
    execution.wait_for("accepted")
    execution.interrupt()
    status, found, err = execution.end()
    wrong = list(problems(run, status, found, False))
    wrong += [] if status == 130 else [f"status {status}: {err[-300:]}"]
    states = [one["state"] for one in found["instances"]]
    wrong += [f"an instance is {s}" for s in states if s not in ("not moved", "as planned")]
    wrong += [] if "not moved" in states else ["all was done"]
    left = [job["id"] for job in found["jobs"] if job["state"] == "in the queue"]
    wrong += [f"in the queue are still {left}"] if left else []
    run.record(f"Ctrl-C cancels waiting jobs, through {through}", wrong)
    run.arrange("gnt-cluster", "modify", "--max-running-jobs=20")
    status, found, _ = execution.resumed()
    run.record(f"resumed, the rest is done, through {through}",
               list(problems(run, status, found, True)))  # fmt: skip


def _queue_drained(run: Runner) -> None:
    """Check that a drained job queue is reported at once, and that the plan is executed later."""
    crowd(run)
    run.arrange("gnt-cluster", "queue", "drain")
    execution = Execution(run, THROUGH_RAPI, "closed-queue")
    started = time.monotonic()
    execution.begin("-G", FIRST_GROUP)
    status, found, err = execution.end()
    seconds = time.monotonic() - started
    run.arrange("gnt-cluster", "queue", "undrain")
    wrong = [] if status == 1 else [f"status {status}"]
    attempts = sum(one["event"] == "submit" for one in execution.events())
    wrong += [] if "Queue drained" in err else [f"stderr: {err[-500:]}"]
    wrong += [] if attempts == 1 else [f"it tried {attempts} times, for {seconds:.0f} s"]
    wrong += ["a job was taken"] if execution.ids() else []
    run.record("a drained queue is reported, through RAPI", wrong)
    status, found, _ = execution.resumed()
    run.record("resumed, everything is done", list(problems(run, status, found, True)))


def _through(connection: Words) -> str:
    return "LUXI" if connection == THROUGH_LUXI else "RAPI"


def _killed(run: Runner, execution: Execution) -> None:
    execution.kill("KILL")


def _interrupted(run: Runner, execution: Execution) -> None:
    execution.kill("INT")


def _interrupted_twice(run: Runner, execution: Execution) -> None:
    execution.interrupt()  # two signals at one moment would count as one
    execution.kill("INT")


def _restarted(run: Runner, execution: Execution) -> None:
    run.arrange(DAEMONS, "stop", "ganeti-luxid")
    run.cluster.master.run(DAEMONS, "start", "ganeti-luxid")


def restart_master(run: Runner) -> None:
    """Restart the daemons of Ganeti that answer clients and execute jobs."""
    for daemon in ("ganeti-luxid", "ganeti-wconfd"):
        run.cluster.master.run(DAEMONS, "stop", daemon)
        run.cluster.master.run(DAEMONS, "start", daemon)


def _rapi_killed(run: Runner, execution: Execution) -> None:
    run.arrange("sh", "-c", _KILL, "/var/run/ganeti/ganeti-rapi.pid")
    run.arrange(DAEMONS, "start", "ganeti-rapi")


def _cancelled(run: Runner, execution: Execution) -> None:
    ids = execution.ids()
    if ids:
        run.cluster.gnt("gnt-job", "cancel", "--force", str(ids[-1]))


def _offline(run: Runner, execution: Execution) -> None:
    done = take_offline(run, run.nodes_of(FIRST_GROUP)[2])
    if done.status != 0:
        run.record("a node is taken offline", done.output.splitlines())


def take_offline(run: Runner, node: str) -> Done:
    """Mark a node as offline, although it is a master candidate."""
    words = ("--force", "--auto-promote", "--offline=yes", node)
    return run.cluster.gnt("gnt-node", "modify", *words)


def forget_disks(run: Runner, node: str) -> None:
    """Deactivate all drbd disks of a node, as a reboot does."""
    words = f"rm -f {NODE_STATE}/drbd.json; drbdsetup down resource0"
    run.cluster.nodes[node].run("sh", "-c", words)


def _repair(run: Runner) -> None:
    """Restore the initial state for the next test."""
    third = run.nodes_of(FIRST_GROUP)[2]
    run.cluster.gnt("gnt-node", "modify", "--force", "--offline=no", third)


def crowd(run: Runner) -> None:
    """Create four instances on two nodes; a third node has capacity."""
    run.drop(*CROWD)
    first, second, _ = run.nodes_of(FIRST_GROUP)
    words = ("--no-install", "--no-wait-for-sync", f"--node={second}:{first}")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: run.arrange(*add(name, "drbd", *words, memory=2048)), CROWD))
    with ThreadPoolExecutor(4) as pool:
        started = pool.map(
            lambda name: run.cluster.gnt("gnt-instance", "startup", instance(name)), CROWD
        )
        if any(done.status for done in started):
            raise ClusterError("instances that should be balanced do not start")


def allow_rapi(run: Runner) -> None:
    """Create a user of RAPI with write access.

    Every node gets the file, as `gnt-cluster verify` requires.
    """
    users = Path(run.cluster.master.path("/var/lib/ganeti/rapi/users"))
    users.write_text("e2e secret write\n", encoding="utf-8")
    run.cluster.master.run("chown", "gnt-rapi:gnt-masterd", "/var/lib/ganeti/rapi/users")
    run.arrange("gnt-cluster", "redist-conf")
    run.cluster.master.run(DAEMONS, "stop", "ganeti-rapi")
    run.cluster.master.run(DAEMONS, "start", "ganeti-rapi")
