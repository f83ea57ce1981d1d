"""Rescue nodes that are cut off their network, bring them back, and watch for such nodes."""

from __future__ import annotations

from collections.abc import Iterator

from vcluster.layout import DAEMONS, FIRST_GROUP, NODE_STATE, SECOND_GROUP, instance

from scenario.carrying_out import (
    THROUGH_LUXI,
    THROUGH_RAPI,
    Execution,
    Words,
    problems,
    queued,
)
from scenario.creation import add
from scenario.execution import allow_rapi, forget_disks, restart_master
from scenario.extras import VERIFY
from scenario.power import OOB, POWER, simulated_power
from scenario.reading import program
from scenario.runner import Runner

_BOOTS = 5
_CALLS = 6
_MIRRORED = ("rs1", "rs2", "rs3")
_PLAIN = "rs4"
_SHARED = "rs5"
_TAG = "iallocator:rescue:auto"


def rescuing(run: Runner) -> None:
    """Test the rescue of a node by hand and by the watch.

    Parameters
    ----------
    run : Runner
        Gives access to the cluster.
    """
    run.section("dead nodes")
    run.clear()
    allow_rapi(run)

    def boots(node: str) -> None:
        again = f"ip link set eth0 up; {DAEMONS} start ganeti-noded"
        run.cluster.nodes[node].run("sh", "-c", again)

    def fails(node: str) -> None:
        stop = f"{DAEMONS} stop ganeti-noded; rm -f /run/ganeti/fake-hypervisor/*"
        run.cluster.nodes[node].run("sh", "-c", f"ip link set eth0 down; {stop}")
        forget_disks(run, node)

    with simulated_power(_BOOTS, boots, fails):
        _by_hand(run)
        _through_rapi(run)
        _disturbed(run)
        _watched(run)


def _cut(run: Runner, node: str, whole: bool = True) -> None:
    """Disconnect a node from the network; with `whole` false, connect it again."""
    run.cluster.nodes[node].run("ip", "link", "set", "eth0", "down" if whole else "up")


def _with_mirrored_instances(run: Runner) -> list[str]:
    """Create three drbd instances; return the master node, another one, and the node to rescue."""
    master, two, dead = run.nodes_of(FIRST_GROUP)
    places = (f"{dead}:{two}", f"{dead}:{master}", f"{two}:{dead}")
    for name, where in zip(_MIRRORED, places, strict=True):
        run.arrange(*add(name, "drbd", "--no-wait-for-sync", f"--node={where}"))
    return [master, two, dead]


def _killed_and_resumed(run: Runner, execution: Execution, dead: str) -> list[str]:
    """Kill a rescue of node `dead` once a job is accepted, and resume it; return the problems."""
    execution.wait_for("accepted")
    execution.kill("KILL")
    execution.end()
    for _ in range(_CALLS):  # on a busy machine, Ganeti's own calls time out, and jobs fail
        status, found, err = execution.resumed()
        if found.get("complete"):
            break
    wrong = list(problems(run, status, found, True)) if found else [err[-1500:]]
    here = {name: one.nodes for name, one in run.cluster.instances().items()}
    return wrong + [
        f"{name} is on {here[instance(name)]}"
        for name in _MIRRORED if dead in here[instance(name)]
    ]  # fmt: skip


def _by_hand(run: Runner) -> None:
    """Rescue a node with three drbd instances and a plain one, and bring it back."""
    master, _, dead = _with_mirrored_instances(run)
    run.arrange(*add(_PLAIN, "plain", f"--node={dead}"))
    run.arrange("gnt-instance", "add-tags", instance(_MIRRORED[1]), "iallocator:priority:9")
    run.arrange("gnt-node", "modify", f"--node-parameters=oob_program={OOB}", dead)

    before = run.cluster.instances()
    for node, words in ((dead, "is not dead"), (master, "is the master node")):
        done = run.cluster.master.run(program(), "rescue", node, "-L", "-X")
        wrong = [] if done.status == 1 and words in done.output else [done.output[-600:]]
        wrong += ["instances were moved"] if run.cluster.instances() != before else []
        run.record(f"a node that {words} is not rescued", wrong)

    role = _candidate(run, dead)
    _cut(run, dead)
    execution = Execution(run, THROUGH_LUXI, "rescue", "rescue")
    execution.begin(dead)
    wrong = _killed_and_resumed(run, execution, dead)
    power = (POWER / dead).read_text().strip() if (POWER / dead).exists() else "no command"
    wrong += [] if power == "power-off" else [f"fenced by {power}"]
    wrong += list(_out_of_order(run))
    run.record("a dead node is rescued, though the process was killed", wrong)

    run.record("the node comes back", _back(run, dead, role))
    _remove(run, *_MIRRORED, _PLAIN)
    run.arrange("gnt-node", "modify", "--node-parameters=oob_program=default", dead)


def _through_rapi(run: Runner) -> None:
    """Rescue a node through RAPI, which cannot fence: the administrator confirms the power-off."""
    _, two, dead = _with_mirrored_instances(run)
    run.arrange("gnt-node", "modify", f"--node-parameters=oob_program={OOB}", dead)
    (POWER / dead).unlink(missing_ok=True)
    before = {name: one.nodes for name, one in run.cluster.instances().items()}

    execution = Execution(run, THROUGH_RAPI, "rescue-alive", "rescue")
    execution.begin(two)
    status, found, err = execution.end()
    wrong = [] if status == 1 and "is not dead" in err and not found else [f"{status}: {err}"]
    run.record("a node that answers is not rescued through RAPI", wrong)

    role = _candidate(run, dead)
    _cut(run, dead)
    execution = Execution(run, THROUGH_RAPI, "rescue-rapi", "rescue")
    execution.begin(dead)
    status, found, err = execution.end()
    by_hand = [job["description"] for job in found.get("jobs", ()) if job["state"] == "by hand"]
    wrong = [] if status == 0 and len(by_hand) == 1 else [f"{status}: {by_hand}: {err[-800:]}"]
    here = {name: one.nodes for name, one in run.cluster.instances().items()}
    wrong += ["instances were moved"] if here != before else []
    wrong += ["a job was submitted"] if execution.ids() else []
    run.record("a rescue through RAPI waits for the fencing by a person", wrong)

    # The node is off now; the person confirms, and the process is killed
    run.cluster.nodes[dead].run(
        "sh", "-c", f"{DAEMONS} stop ganeti-noded; rm -f /run/ganeti/fake-hypervisor/*"
    )
    execution.again("--done-by-hand")
    wrong = _killed_and_resumed(run, execution, dead)
    wrong += ["it was fenced"] if (POWER / dead).exists() else []
    run.record("confirmed, the rescue is done through RAPI, though the process was killed", wrong)

    run.cluster.nodes[dead].run("sh", "-c", f"ip link set eth0 up; {DAEMONS} start ganeti-noded")
    forget_disks(run, dead)
    run.record("the node comes back through RAPI", _back(run, dead, role, THROUGH_RAPI))
    _remove(run, *_MIRRORED)
    run.arrange("gnt-node", "modify", "--node-parameters=oob_program=default", dead)


def _disturbed(run: Runner) -> None:
    """Let a job fail, restart the master daemon, and let another person move an instance."""
    _, two, dead = _with_mirrored_instances(run)
    run.arrange("gnt-node", "modify", f"--node-parameters=oob_program={OOB}", dead)
    (POWER / dead).unlink(missing_ok=True)
    role = _candidate(run, dead)
    _cut(run, dead)
    full = run.cluster.nodes[two].path(f"{NODE_STATE}/lvcreate-fails")
    full.touch()
    execution = Execution(run, THROUGH_LUXI, "rescue-disturbed", "rescue")
    execution.begin(dead)
    execution.wait_for("accepted")
    restart_master(run)
    status, found, err = execution.end()
    failed = [job["description"] for job in found.get("jobs", ()) if job["state"] == "failed"]
    wrong = list(problems(run, status, found, False)) if found else [err[-1500:]]
    wrong += [] if failed else [f"no job failed, status {status}: {err[-800:]}"]
    run.record("a job of a rescue fails, and the master daemon restarts", wrong)

    full.unlink()
    # An instance with a disk on the dead node cannot migrate
    here = run.cluster.instances()
    moved = next((one for one in map(instance, _MIRRORED) if dead not in here[one].nodes), "")
    there, wrong = (), ["every instance is still on the dead node"]
    if moved:
        done = run.cluster.gnt("gnt-instance", "migrate", "--force", moved)
        there, before = run.cluster.instances()[moved].nodes, here[moved].nodes
        wrong = [] if there == before[::-1] else [f"{moved} is on {there}: {done.output[-600:]}"]
    for _ in range(_CALLS):
        status, found, err = execution.resumed()
        if found.get("complete"):
            break
    # The report says that the instance that was moved by hand is elsewhere, and that is right
    mine = f"{moved} is on "
    wrong += [one for one in problems(run, status, found, True) if not one.startswith(mine)] \
        if found else [err[-1500:]]  # fmt: skip
    here = {name: one.nodes for name, one in run.cluster.instances().items()}
    wrong += [f"{name} is on {here[instance(name)]}" for name in _MIRRORED
              if dead in here[instance(name)]]  # fmt: skip
    if moved and here[moved] != there:
        wrong.append(f"{moved} was moved to {here[moved]}")
    run.record("resumed, the rescue is complete, while another person moves an instance", wrong)

    run.record("the node comes back after that", _back(run, dead, role, name="disturbed"))
    _remove(run, *_MIRRORED)
    run.arrange("gnt-node", "modify", "--node-parameters=oob_program=default", dead)


def _remove(run: Runner, *names: str) -> None:
    """Remove instances, also if a dead node does not know their disks any more."""
    words = ("gnt-instance", "remove", "--force", "--ignore-failures", "--shutdown-timeout=0")
    for name in names:
        run.cluster.gnt(*words, instance(name))


def _back(
    run: Runner, node: str, role: str, connection: Words = THROUGH_LUXI, words: Words = (),
    name: str = "",
) -> list[str]:  # fmt: skip
    """Bring a node back with `rescue --return`; return the problems.

    `role`: what `_candidate` returned before the rescue. `words`: further options. `name`: a part
    of the name of the journal.
    """
    through = "rapi" if connection == THROUGH_RAPI else "luxi"
    execution = Execution(run, connection, f"back{name}-{node}-{through}", "rescue")
    execution.begin(node, "--return", "--assume-offline", *words)
    status, found, err = execution.end()
    if through == "rapi":  # it cannot power the node on: a person confirms that
        status, found, err = execution.resumed("--done-by-hand")
    offline = run.cluster.ask("gnt-node", "list", "--no-headers", "-o", "offline", node)
    well = status == 0 and offline.strip() == "N"
    wrong = [] if well else [f"status {status}, offline {offline}: {err[-1500:]} {found}"]
    if (now := _candidate(run, node)) != role:
        wrong.append(f"master candidate: {role} before, {now} now")
    return wrong + _ssh_errors(run)


def _ssh_errors(run: Runner) -> list[str]:
    """Return the errors of ``gnt-cluster verify`` about SSH and its keys."""
    lines = run.cluster.gnt(*VERIFY).output.splitlines()
    if not any("Verifying node status" in line for line in lines):
        return ["gnt-cluster verify has no result", *lines[-5:]]
    return [line for line in lines if "ERROR" in line and "ssh" in line.lower()]


def _candidate(run: Runner, node: str) -> str:
    """Return whether a node is a master candidate, ``Y`` or ``N``."""
    words = ("gnt-node", "list", "--no-headers", "-o", "master_candidate", node)
    return run.cluster.ask(*words).strip()


def _out_of_order(run: Runner) -> Iterator[str]:
    """Yield errors in the order of the jobs: fencing, mark, failovers, secondaries."""
    order = {"OPOOB_COMMAND": 0, "OP_NODE_SET_PARAMS": 1, "OP_INSTANCE_FAILOVER": 2,
             "OP_INSTANCE_REPLACE_DISKS": 3}  # fmt: skip
    begun = [
        (code["exec_timestamp"], order[code["input"]["OP_ID"]])
        for codes in queued(run)
        for code in codes
        if code["input"]["OP_ID"] in order
        and any("iallocator" in str(entry[0]) for entry in code["input"].get("reason") or ())
    ]
    ranks = [rank for _, rank in sorted(begun)]
    if ranks[-5:] != sorted(ranks[-5:]):
        yield f"the jobs began in the order {ranks}"


def _watched(run: Runner) -> None:
    """Disconnect two nodes, so that the watch does nothing; then one, which it rescues."""
    one, two, *_ = run.nodes_of(SECOND_GROUP)
    run.arrange(*add(_SHARED, "sharedfile", f"--node={two}"))
    run.arrange("gnt-group", "add-tags", SECOND_GROUP, _TAG)
    role, state = _candidate(run, two), f"--state={NODE_STATE}/watch"
    for node in (one, two):
        run.arrange("gnt-node", "modify", f"--node-parameters=oob_program={OOB}", node)
        _cut(run, node)
    words = (program(), "rescue", "--watch", "-L", "-X", state)
    outputs = [run.cluster.master.run(*words) for _ in range(3)]
    wrong = [done.output[-800:] for done in outputs if done.status != 1][:1]
    wrong += [] if "nodes do not answer" in outputs[-1].output else [outputs[-1].output[-800:]]
    wrong += [f"{node.name} was switched" for node in POWER.iterdir() if node.name in (one, two)]
    run.record("the watch does nothing while two nodes are cut off", wrong)

    _cut(run, one, whole=False)
    for _ in range(_CALLS):  # on a busy machine, other nodes may be late to answer, too
        done = run.cluster.master.run(*words)
        if (POWER / two).exists():
            break
    here = run.cluster.instances()[instance(_SHARED)].nodes
    wrong = [f"{_SHARED} is on {here}: {done.output[-1500:]}"] if two in here else []
    wrong += [] if (POWER / two).exists() else [f"{two} is not fenced"]
    run.record("the watch rescues the node that stays cut off", wrong)
    done = run.cluster.master.run(*words)
    wrong = [] if done.status == 0 else [f"status {done.status}: {done.output[-800:]}"]
    run.record("then it has nothing to do", wrong)

    run.record("the rescued node comes back", _back(run, two, role, words=(state,)))
    _remove(run, _SHARED)
    run.arrange("gnt-group", "remove-tags", SECOND_GROUP, _TAG)
    for node in (one, two):
        run.arrange("gnt-node", "modify", "--node-parameters=oob_program=default", node)
