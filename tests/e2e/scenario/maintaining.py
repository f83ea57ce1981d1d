"""Take node groups through campaigns of maintenance, on nodes that reboot by a command."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator

from vcluster.layout import (
    CLUSTER_NAME,
    DAEMONS,
    DOMAIN,
    FIRST_GROUP,
    NODE_STATE,
    SECOND_GROUP,
    STORE,
)

from scenario.carrying_out import (
    THROUGH_LUXI,
    THROUGH_RAPI,
    Execution,
    Json,
    Words,
    done_twice,
    lines_of,
)
from scenario.creation import add
from scenario.execution import allow_rapi, restart_master
from scenario.reading import program
from scenario.runner import Runner

_PROC = "/proc/sys/kernel/random"
_LOG = STORE / "maintenance.log"
"""File with a line for each command: kind, node, and how many instances run on the node."""

_FAILS = STORE / "maintenance-fails"
_CHECK_FAILS = STORE / "check-fails"
_SECONDS = 15
"""Seconds until a node has booted, and again until its disks are in sync."""

_MIRRORED = ("mt1", "mt2", "mt3")
_SHARED = ("mt4", "mt5")
_CALLS = 6

_UPGRADE = f"""#!/bin/sh
# upgrade NODE: reboots the node, which loses the connection
echo "run $1 $(ls /run/ganeti/fake-hypervisor 2>/dev/null | wc -l)" >> {_LOG}
if [ -e {_FAILS} ]; then echo "no space left for packages"; exit 100; fi
setsid {STORE}/go-down >/dev/null 2>&1 </dev/null &
sleep 0.5
[ $PPID -gt 1 ] && kill -KILL $PPID
"""

_GO_DOWN = f"""#!/bin/sh
# go-down: the node goes down, and comes back with another boot id
ip link set eth0 down
{DAEMONS} stop ganeti-noded
rm -f /run/ganeti/fake-hypervisor/* {NODE_STATE}/drbd.json
drbdsetup down resource0
echo {_SECONDS} > {NODE_STATE}/drbd-sync-seconds
sleep {_SECONDS}
cat {_PROC}/uuid > {NODE_STATE}/boot-id
ip link set eth0 up
{DAEMONS} start ganeti-noded
"""

_CHECK = f"""#!/bin/sh
# check NODE
echo "check $1 $(ls /run/ganeti/fake-hypervisor 2>/dev/null | wc -l)" >> {_LOG}
if [ -e {_CHECK_FAILS} ]; then echo "a service is not running"; exit 3; fi
"""

_RUN = f"--run=ssh -o ServerAliveInterval=5 {{node}} {STORE}/upgrade {{node}}"
_CHECKED = f"--check=ssh {{node}} {STORE}/check {{node}}"


class Campaign(Execution):
    """A campaign that runs on the master, with a state file and a journal for each group."""

    def __init__(self, run: Runner, connection: Words, name: str) -> None:
        super().__init__(run, connection, name, "maintain")

    def events(self) -> list[Json]:
        """Return the complete lines of the journals of all groups so far."""
        state, found = self.run.cluster.master.path(self.journal), []
        named = re.compile(re.escape(state.name) + r"\.group-(\d+)")
        paths = [(int(m[1]), p) for p in state.parent.iterdir() if (m := named.fullmatch(p.name))]
        for _, path in sorted(paths):
            found += lines_of(path)
        return found

    def completed(self) -> list[str]:
        """Resume the campaign until it is complete; return the problems."""
        status, found, err = self.resumed()
        for _ in range(_CALLS):  # on a busy machine, Ganeti's own calls time out, and jobs fail
            if found and self.document["progress"]["complete"]:
                break
            status, found, err = self.resumed()
        return [] if status == 0 else [f"status {status}: {err[-1500:]}"]


def maintaining(run: Runner) -> None:
    """Test campaigns with commands and by hand, through LUXI and RAPI, with faults.

    Parameters
    ----------
    run : Runner
        Gives access to the cluster.
    """
    run.section("maintenance")
    run.clear()
    allow_rapi(run)
    _prepare(run)
    try:
        _killed_while_a_node_reboots(run)
        _changed_by_others(run)
        _failures(run)
        _by_hand(run)
    finally:
        for node in run.cluster.nodes.values():
            node.run("umount", f"{_PROC}/boot_id")
            node.run("rm", "-f", f"{NODE_STATE}/drbd-sync-seconds")
    run.drop(*_MIRRORED, *_SHARED)


def _prepare(run: Runner) -> None:
    """Install the commands, give each node a boot id, and store the host keys of nodes for ssh."""
    for name, text in (("upgrade", _UPGRADE), ("go-down", _GO_DOWN), ("check", _CHECK)):
        (STORE / name).write_text(text, encoding="utf-8")
        (STORE / name).chmod(0o755)
    _LOG.write_text("", encoding="utf-8")
    own = f"cat {_PROC}/uuid > {NODE_STATE}/boot-id"
    for node in run.cluster.nodes.values():
        node.run("sh", "-c", f"{own}; mount --bind {NODE_STATE}/boot-id {_PROC}/boot_id")
    known = "UserKnownHostsFile /var/lib/ganeti/known_hosts"
    text = f"Host *.{DOMAIN}\n HostKeyAlias {CLUSTER_NAME}\n {known}\n"
    run.cluster.master.run("sh", "-c", "umask 077; cat > /root/.ssh/config", stdin=text)


def _create(run: Runner, group: str) -> None:
    """Create three drbd instances and two on shared storage in a node group."""
    run.drop(*_MIRRORED, *_SHARED)
    one, two, three = run.nodes_of(group)
    places = ((two, three), (three, two), (two, one))
    for name, (primary, secondary) in zip(_MIRRORED, places, strict=True):
        run.arrange(*add(name, "drbd", "--no-wait-for-sync", f"--node={primary}:{secondary}"))
    for name, node in zip(_SHARED, (two, three), strict=True):
        run.arrange(*add(name, "sharedfile", f"--node={node}"))
    _LOG.write_text("", encoding="utf-8")


def _wrong(run: Runner, campaign: Campaign, nodes: list[str], runs: int = 1) -> Iterator[str]:
    """Yield the problems after a campaign of `nodes`.

    The command of the campaign must have run `runs` times on each node.
    """
    progress = campaign.document["progress"]
    if sorted(progress["nodes_done"]) != sorted(nodes) or not progress["complete"]:
        yield f"not all is done: {progress}"
    lines = [line.split() for line in _LOG.read_text(encoding="utf-8").splitlines()]
    for what, node, count in lines:
        if count != "0":
            yield f"{what} on {node} while {count} instances ran there"
    times = Counter((what, node) for what, node, _ in lines)
    for node in nodes:
        if times["run", node] != runs:
            yield f"the command ran {times['run', node]} times on {node}"
        if not times["check", node]:
            yield f"{node} was not checked"
    rows = run.cluster.ask("gnt-node", "list", "--no-headers", "-o", "name,drained").splitlines()
    yield from (f"{row} is still drained" for row in rows if row.endswith("Y"))
    states = run.cluster.ask("gnt-instance", "list", "--no-headers", "-o", "name,status")
    yield from (row for row in states.splitlines() if not row.endswith("running"))
    for path in {one["run"] for one in campaign.events() if "run" in one}:
        yield from done_twice(run, path)


def _killed_while_a_node_reboots(run: Runner) -> None:
    """Kill the campaign by LUXI during a command, restart the master daemon, and resume.

    Another execution is tried meanwhile.
    """
    _create(run, FIRST_GROUP)
    master, *nodes = run.nodes_of(FIRST_GROUP)
    before = run.cluster.instances()
    done = run.cluster.master.run(program(), "maintain", "-L", f"--only={master}", _RUN)
    wrong = [] if done.status == 1 and master in done.output else [done.output[-800:]]
    run.record("the node on which the command runs is left out", wrong)

    campaign = Campaign(run, THROUGH_LUXI, "maintain-killed")
    campaign.begin(f"--only={','.join(nodes)}", _RUN, _CHECKED)
    campaign.wait_for("working")
    other = run.cluster.master.run(program(), "balance", "-L", "-X")
    wrong = [] if other.status and "another" in other.output else [other.output[-600:]]
    run.record("no other execution begins during a campaign", wrong)
    campaign.kill("KILL")
    status, _, err = campaign.end()
    wrong = [] if status == -9 else [f"status {status}: {err[-600:]}"]
    run.record("a campaign is killed while its command reboots a node", wrong)

    campaign.again()
    campaign.wait_for("confirmed")
    restart_master(run)
    status, *_ = campaign.end()
    wrong = [] if status == 0 else campaign.completed()
    wrong += list(_wrong(run, campaign, nodes))
    after = run.cluster.instances()
    wrong += [f"{n} is on {after[n].nodes}" for n in before if before[n].nodes != after[n].nodes]
    run.record("resumed, every node reboots once, and the instances return, through LUXI", wrong)


def _changed_by_others(run: Runner) -> None:
    """Kill `maintain` while it moves instances by RAPI, move one of them by hand, and resume."""
    _create(run, SECOND_GROUP)
    nodes = run.nodes_of(SECOND_GROUP)
    campaign = Campaign(run, THROUGH_RAPI, "maintain-rapi")
    campaign.begin("-G", SECOND_GROUP, "--parallel=1", "--after=stay", _RUN, _CHECKED)
    campaign.wait_for("accepted")
    campaign.kill("KILL")
    campaign.end()
    campaign.again()
    campaign.wait_until(lambda: bool(_LOG.read_text(encoding="utf-8")))
    moved = f"{_SHARED[0]}.{DOMAIN}"
    away = _LOG.read_text(encoding="utf-8").split()[1]
    here = run.cluster.instances()[moved].nodes[0]
    to = next(node for node in nodes if node not in (here, away))
    other = run.cluster.gnt("gnt-instance", "migrate", "--force", f"--target-node={to}", moved)
    status, *_ = campaign.end()
    wrong = [] if other.status == 0 else [f"{moved} did not move: {other.output[-600:]}"]
    wrong += [] if status == 0 else campaign.completed()
    wrong += list(_wrong(run, campaign, nodes))
    run.record("killed while instances move, and another person moves one, through RAPI", wrong)


def _failures(run: Runner) -> None:
    """Let a job, a command and a check fail; check that each resumption completes the rest."""
    _create(run, SECOND_GROUP)
    one, two, three = run.nodes_of(SECOND_GROUP)
    full = [run.cluster.nodes[node].path(f"{NODE_STATE}/lvcreate-fails") for node in (one, three)]
    for path in full:
        path.touch()
    campaign = Campaign(run, THROUGH_LUXI, "maintain-failures")
    words = (f"--only={two}", "--full-evacuation", "--after=balance", _RUN, _CHECKED)
    campaign.begin(*words)
    status, found, err = campaign.end()
    failed = [job for job in found.get("jobs", []) if job["state"] == "failed"]
    wrong = [] if status == 1 and failed else [f"status {status}: {err[-800:]}"]
    wrong += ["the command ran all the same"] if _LOG.read_text(encoding="utf-8") else []
    run.record("a job fails: the node is not maintained", wrong)
    for path in full:
        path.unlink()

    _FAILS.touch()
    wrong = _stops(campaign, "its command ended with status 100: no space left for packages")
    run.record("the command fails: the campaign stops, with its last line", wrong)
    _FAILS.unlink()
    _CHECK_FAILS.touch()
    wrong = _stops(campaign, "its check ended with status 3: a service is not running")
    drained = run.cluster.ask("gnt-node", "list", "--no-headers", "-o", "drained", two).strip()
    wrong += [] if drained == "Y" else [f"{two} is not drained"]
    run.record("the check fails: the node stays drained", wrong)
    _CHECK_FAILS.unlink()
    wrong = campaign.completed()
    wrong += list(_wrong(run, campaign, [two], runs=2))
    run.record("resumed each time, the campaign is complete", wrong)


def _stops(campaign: Campaign, message: str) -> list[str]:
    """Resume the campaign until it stops with `message`; return the problems."""
    for _ in range(_CALLS):  # on a busy machine, a job may fail before that
        status, _, err = campaign.resumed()
        if message in err:
            break
    wrong = [] if status == 1 and message in err else [f"status {status}: {err[-1500:]}"]
    return wrong + (["it is complete"] if campaign.document["progress"]["complete"] else [])


def _by_hand(run: Runner) -> None:
    """Check that a campaign without a command waits until a person reboots the node."""
    _create(run, SECOND_GROUP)
    one, *_ = run.nodes_of(SECOND_GROUP)
    campaign = Campaign(run, THROUGH_RAPI, "maintain-by-hand")
    campaign.begin(f"--only={one}", _CHECKED)
    campaign.wait_for("working")
    down = f"(setsid {STORE}/go-down >/dev/null 2>&1 </dev/null &)"
    run.cluster.nodes[one].run("sh", "-c", down)
    begun = time.monotonic()
    status, _, err = campaign.end()
    seconds = time.monotonic() - begun
    wrong = [] if status == 0 else [f"status {status}: {err[-1500:]}", *campaign.completed()]
    wrong += [] if seconds >= _SECONDS else [f"it was waited for {seconds:.0f} s only"]
    wrong += list(_wrong(run, campaign, [one], runs=0))
    run.record("a person reboots the node: its new boot id is noticed, through RAPI", wrong)
