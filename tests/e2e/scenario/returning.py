"""Test nodes that boot in 30 s, disks that are in sync 30 s later, and a dead node."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from vcluster.layout import DAEMONS, FIRST_GROUP, NODE_STATE, SECOND_GROUP, instance
from vcluster.node import ClusterError

from scenario.carrying_out import THROUGH_LUXI, THROUGH_RAPI, Execution, Json, Words, problems
from scenario.creation import add
from scenario.execution import CROWD, allow_rapi, crowd, forget_disks, take_offline
from scenario.power import OOB, simulated_power
from scenario.reading import program
from scenario.runner import Runner

_SECONDS = 30
_STANDBY = "htools:standby:auto"
_GIB = 1024
_HEAVY = ("sq1", "sq2", "sq3", "sq4")
_LOST = "dead1"
_MIRRORED = ("rb1", "rb2", "rb3")


def returning(run: Runner) -> None:
    """Test nodes that return only some time after power-on or reboot.

    Parameters
    ----------
    run : Runner
        Gives access to the cluster.
    """
    run.section("nodes that come back slowly")
    run.clear()
    allow_rapi(run)

    def daemon(word: str) -> Callable[[str], object]:
        return lambda node: run.cluster.nodes[node].run(DAEMONS, word, "ganeti-noded")

    with simulated_power(_SECONDS, daemon("start"), daemon("stop")):
        _powered_on(run)
    _dead(run)
    _rebooted(run, "LUXI", THROUGH_LUXI)
    _rebooted(run, "RAPI", THROUGH_RAPI)


def _powered_on(run: Runner) -> None:
    """Check that a standby node is set online after its boot, before it receives instances."""
    one, two, standby = run.nodes_of(SECOND_GROUP)
    for name, where, memory in zip(_HEAVY, (one, one, two, two), (9, 9, 12, 12), strict=True):
        run.arrange(*add(name, "sharedfile", f"--node={where}", memory=memory * _GIB))
    run.arrange("gnt-node", "modify", f"--node-parameters=oob_program={OOB}", standby)
    done = take_offline(run, standby)
    if done.status != 0:
        raise ClusterError(done.output)
    run.arrange("gnt-node", "add-tags", standby, _STANDBY)
    run.cluster.nodes[standby].run(DAEMONS, "stop", "ganeti-noded")
    words = ("-G", SECOND_GROUP, "--minimal-resources=45", "--target-resources=1")
    words = (*words, "--even-if-short")  # the size of the reserve is not tested here

    execution = Execution(run, THROUGH_LUXI, "power-on", "squeeze")
    execution.begin(*words, "--boot-timeout=5")
    status, found, err = execution.end()
    wrong = [] if status == 1 else [f"status {status}"]
    if f"{standby} does not answer" not in err:
        wrong.append(f"the node is not named: {err[-500:]}")
    run.record("a node that does not boot in time is named", wrong)

    begun = time.monotonic()
    status, found, err = execution.resumed()
    wrong = list(problems(run, status, found, True)) if found else [err[-800:]]
    if not any(standby in nodes for nodes in _nodes(found)):
        wrong.append(f"no instance came to {standby}")
    seconds = time.monotonic() - begun
    if seconds < _SECONDS / 2:
        wrong.append(f"it took {seconds:.0f} s only")
    run.record("a node that boots slowly is waited for, then set online", wrong)
    run.drop(*_HEAVY)
    run.cluster.gnt("gnt-node", "modify", "--force", "--offline=no", standby)
    run.cluster.gnt("gnt-node", "remove-tags", standby, _STANDBY)
    run.arrange("gnt-node", "modify", "--node-parameters=oob_program=default", standby)


def _nodes(found: Json) -> list[list[str]]:
    return [one["now"] for one in found.get("instances", [])]


def _dead(run: Runner) -> None:
    """Check that commands warn of a node that does not answer, and that `-X` rejects the plan."""
    *_, dead = run.nodes_of(SECOND_GROUP)
    run.arrange(*add(_LOST, "sharedfile", f"--node={dead}"))
    run.cluster.nodes[dead].run(DAEMONS, "stop", "ganeti-noded")
    mark = f"gnt-node modify --offline=yes {dead}"
    for words in (("check",), ("show",), ("balance",), ("repair",)):
        done = run.cluster.master.run(program(), *words, "-L")
        wrong = [] if mark in done.output else [f"{mark} is not named: {done.output[-600:]}"]
        if done.status not in (0, 1) or "Traceback" in done.output:
            wrong.append(f"status {done.status}: {done.output[-600:]}")
        if words == ("repair",) and f"{instance(_LOST)}: iallocator repair" not in done.output:
            wrong.append(f"{_LOST} is not listed: {done.output[-600:]}")
        run.record(f"{words[0]} works although a node is dead", wrong)

    crowd(run)
    before = run.cluster.instances()
    words = (program(), "balance", "-L", "-X", "-G", FIRST_GROUP)
    words = (*words, "--journal", f"{NODE_STATE}/dead-balance.journal")
    done = run.cluster.master.run(*words)
    wrong = [] if done.status and "--assume-offline" in done.output else [done.output[-600:]]
    if run.cluster.instances() != before:
        wrong.append("instances were moved all the same")
    run.record("a plan is not carried out while a node is dead", wrong)
    done = run.cluster.master.run(*words, "--assume-offline")
    wrong = [] if done.status == 0 else [f"status {done.status}: {done.output[-800:]}"]
    if run.cluster.instances() == before:
        wrong.append("nothing was moved")
    run.record("it is with --assume-offline", wrong)
    run.drop(*CROWD)

    done = run.cluster.gnt(*mark.split())
    wrong = [] if done.status == 0 else [done.output[-400:]]
    words = (program(), "repair", "-L", "-X", "--allow", "failover")
    words = (*words, "--journal", f"{NODE_STATE}/dead-repair.journal")
    done = run.cluster.master.run(*words)
    if done.status or run.cluster.instances()[instance(_LOST)].nodes[0] == dead:
        wrong.append(f"status {done.status}: {done.output[-1200:]}")
    run.record(
        "an instance on shared files fails over once the node is marked and it is allowed", wrong
    )
    run.cluster.nodes[dead].run("sh", "-c", "rm -f /run/ganeti/fake-hypervisor/*")
    run.cluster.nodes[dead].run(DAEMONS, "start", "ganeti-noded")
    run.cluster.gnt("gnt-node", "modify", "--force", "--offline=no", dead)
    run.drop(_LOST)


def _rebooted(run: Runner, label: str, connection: Words) -> None:
    """Check that instances migrate back after a slow boot and a slow synchronization of disks."""
    one, two, three = run.nodes_of(FIRST_GROUP)
    places = ((two, three), (three, two), (two, one))
    for name, (primary, secondary) in zip(_MIRRORED, places, strict=True):
        run.arrange(*add(name, "drbd", "--no-wait-for-sync", f"--node={primary}:{secondary}"))
    before = run.cluster.instances()
    execution = Execution(run, connection, f"slow-reboot-{label}", "reboot")
    execution.begin("-G", FIRST_GROUP)
    status, found, err = execution.end()
    due = _by_hand(found)
    wrong = [] if status == 0 else [f"status {status}: {err[-500:]}"]
    wrong += list(_still_running(run, due))
    rounds = 0
    done: list[str] = []
    while due and not wrong and rounds < 4:
        rounds += 1
        for node in due:
            _reboot(run, node)
        begun = time.monotonic()
        status, found, err = execution.resumed("--done-by-hand")
        seconds = time.monotonic() - begun
        failed = [job for job in found.get("jobs", []) if job["state"] == "failed"]
        if status != 0 or failed:
            wrong.append(f"status {status}, failed {failed}: {err[-1500:]}")
        if seconds < _SECONDS:
            wrong.append(f"the nodes {due} were waited for {seconds:.0f} s only")
        done += due
        if sorted(found.get("rebooted", [])) != sorted(done):
            wrong.append(f"rebooted: {found.get('rebooted')}, not {done}")
        due = _by_hand(found)
        wrong += list(_still_running(run, due))
    if found and not wrong:
        wrong += problems(run, status, found, True)
    after = run.cluster.instances()
    wrong += [f"{n} is on {after[n].nodes}" for n in before if before[n].nodes != after[n].nodes]
    run.record(f"nodes are rebooted in {rounds} rounds, slowly, through {label}", wrong)
    for node in (one, two, three):
        run.cluster.nodes[node].run("rm", "-f", f"{NODE_STATE}/drbd-sync-seconds")
    run.drop(*_MIRRORED)


def _by_hand(found: Json) -> list[str]:
    """Return the nodes that a person can reboot now, by the report."""
    jobs = [job for job in found.get("jobs", []) if job["state"] == "by hand"]
    return [job["description"].split()[-1] for job in jobs]


def _still_running(run: Runner, nodes: list[str]) -> Iterator[str]:
    """Yield the instances that a reboot of `nodes` would stop."""
    for name, one in run.cluster.instances().items():
        if one.nodes[0] in nodes:
            yield f"{name} still runs on {one.nodes[0]}, which is to be rebooted"


def _reboot(run: Runner, node: str) -> None:
    """Reboot a node: it returns after half a minute, and its disks are in sync after another."""
    machine = run.cluster.nodes[node]
    slow = f"echo {_SECONDS} > {NODE_STATE}/drbd-sync-seconds"
    stop = f"{DAEMONS} stop ganeti-noded; rm -f /run/ganeti/fake-hypervisor/*"
    machine.run("sh", "-c", f"{stop}; {slow}")
    forget_disks(run, node)
    again = f"sleep {_SECONDS}; {DAEMONS} start ganeti-noded"
    machine.run("sh", "-c", f"(setsid sh -c '{again}' >/dev/null 2>&1 </dev/null &)")
