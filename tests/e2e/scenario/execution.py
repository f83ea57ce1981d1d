"""Plans carried out by the program itself, with ``-X``, while things go wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from vcluster.layout import FIRST_GROUP, instance
from vcluster.node import ClusterError, Done

from scenario.carrying import THROUGH_LUXI, THROUGH_RAPI, Execution, Words, problems
from scenario.creation import add
from scenario.runner import Runner

_NAMES = ("ex1", "ex2", "ex3", "ex4")
_DAEMONS = "/usr/lib/ganeti/daemon-util"
_KILL = 'p=$(cat "$0"); kill -KILL $p; while kill -0 $p 2>/dev/null; do sleep 0.1; done; rm "$0"'
"""Ends a daemon at once; as long as it is there, or its file, no other is started."""


def faults(run: Runner) -> None:
    """Carry plans out, through both doors, and with everything that may go wrong on the way.

    Parameters
    ----------
    run : Runner
        Gives access to the cluster.
    """
    run.section("plans carried out")
    allow_rapi(run)
    luxi, rapi = THROUGH_LUXI, THROUGH_RAPI
    _try(run, "balance through LUXI", luxi)
    _try(run, "balance through RAPI", rapi)
    _try(run, "the process is killed while it submits", luxi, "submit", _killed)
    _try(run, "the process is killed when jobs run", luxi, "accepted", _killed)
    _try(run, "the process is killed while it submits, through RAPI", rapi, "submit", _killed)
    _try(run, "the process is killed when jobs run, through RAPI", rapi, "accepted", _killed)
    _try(run, "the socket closes", luxi, "accepted", _restarted)
    _try(run, "the daemon of RAPI is killed", rapi, "accepted", _rapi_killed)
    _try(run, "somebody cancels a job", luxi, "accepted", _cancelled, whole=False)
    _try(run, "a node goes offline", luxi, "accepted", _offline, whole=False)
    _try(run, "a node goes offline, through RAPI", rapi, "accepted", _offline, whole=False)
    _try(run, "interrupted once", luxi, "accepted", _interrupted)
    _try(run, "interrupted twice", luxi, "accepted", _interrupted_twice)
    _try(run, "interrupted twice, through RAPI", rapi, "accepted", _interrupted_twice)
    run.drop(*_NAMES)


Fault = Callable[[Runner, Execution], None]


def _try(
    run: Runner,
    label: str,
    door: Words,
    moment: str = "",
    fault: Fault | None = None,
    whole: bool = True,
) -> None:
    """Crowd one node, balance it, let `fault` happen at a moment, and judge.

    `whole`: in the end, resumed if need be, everything has been done.
    """
    _crowd(run)
    execution = Execution(run, door, re.sub(r"[^a-z]+", "-", label.lower()))
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


def _killed(run: Runner, execution: Execution) -> None:
    execution.kill("KILL")


def _interrupted(run: Runner, execution: Execution) -> None:
    execution.kill("INT")


def _interrupted_twice(run: Runner, execution: Execution) -> None:
    execution.interrupt()  # two at the same moment would be one
    execution.kill("INT")


def _restarted(run: Runner, execution: Execution) -> None:
    run.arrange(_DAEMONS, "stop", "ganeti-luxid")
    run.cluster.master.run(_DAEMONS, "start", "ganeti-luxid")


def _rapi_killed(run: Runner, execution: Execution) -> None:
    run.arrange("sh", "-c", _KILL, "/var/run/ganeti/ganeti-rapi.pid")
    run.arrange(_DAEMONS, "start", "ganeti-rapi")


def _cancelled(run: Runner, execution: Execution) -> None:
    ids = execution.ids()
    if ids:
        run.cluster.gnt("gnt-job", "cancel", "--force", str(ids[-1]))


def _offline(run: Runner, execution: Execution) -> None:
    done = take_offline(run, run.nodes_of(FIRST_GROUP)[2])
    if done.status != 0:
        run.record("a node is taken offline", done.output.splitlines())


def take_offline(run: Runner, node: str) -> Done:
    """Mark a node as offline, though it is a candidate for master."""
    words = ("--force", "--auto-promote", "--offline=yes", node)
    return run.cluster.gnt("gnt-node", "modify", *words)


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


def allow_rapi(run: Runner) -> None:
    """A user of RAPI who may write."""
    users = Path(run.cluster.master.path("/var/lib/ganeti/rapi/users"))
    users.write_text("e2e secret write\n", encoding="utf-8")
    run.cluster.master.run("chown", "gnt-rapi:gnt-masterd", "/var/lib/ganeti/rapi/users")
    run.cluster.master.run(_DAEMONS, "stop", "ganeti-rapi")
    run.cluster.master.run(_DAEMONS, "start", "ganeti-rapi")
