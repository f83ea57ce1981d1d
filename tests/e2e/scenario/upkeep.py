"""Execute reboots, repairs, and moves that free capacity for new instances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from vcluster.layout import FIRST_GROUP, NODE_STATE, SECOND_GROUP, instance
from vcluster.node import ClusterError

from scenario.carrying_out import THROUGH_LUXI, THROUGH_RAPI, Execution, Words, problems, queued
from scenario.creation import add
from scenario.execution import allow_rapi, forget_disks, take_offline
from scenario.reading import program
from scenario.runner import Runner

_NAMES = ("up1", "up2")
_TAG = "ganeti:watcher:autorepair:"
_GIB = 1024


def upkeep(run: Runner) -> None:
    """Execute regular tasks of administrators: make room, reboot and repair.

    Parameters
    ----------
    run : Runner
        Gives access to the cluster.
    """
    run.section("upkeep")
    allow_rapi(run)
    _make_room(run)
    _reboot(run)
    _repair(run, THROUGH_LUXI, FIRST_GROUP)
    _repair(run, THROUGH_RAPI, SECOND_GROUP)
    run.drop(*_NAMES)


def _make_room(run: Runner) -> None:
    """Check that make-room moves an instance, so that a request fits in its group."""
    one, two, three = run.nodes_of(FIRST_GROUP)
    mirrored = (f"--node={one}:{three}", f"--node={two}:{one}")
    for name, where, memory in zip(_NAMES, mirrored, (12 * _GIB, 4 * _GIB), strict=True):
        run.arrange(*add(name, "drbd", "--no-wait-for-sync", where, memory=memory))
    question = f"allocate --memory 22G --template diskless --group {FIRST_GROUP}"
    file = f"{NODE_STATE}/request.json"
    words = (program(), "snapshot", "-L", "--form=json", f"--request={question}")
    run.arrange("sh", "-c", 'out=$1; shift; "$@" > "$out"', "sh", file, *words)
    before = run.cluster.master.run(program(), "--n1=off", file)
    execution = Execution(run, THROUGH_LUXI, "room", "make-room")
    execution.begin("--n1=off", file)
    status, found, _ = execution.end()
    wrong = list(problems(run, status, found, True))
    if '"success": false' not in before.output.replace('":false', '": false'):
        wrong.append(f"it fitted before: {before.output[:200]}")
    answer = run.cluster.master.run(program(), "ask", *question.split(), "-L", "--n1=off", "--json")
    if '"success": true' not in answer.output:
        wrong.append(f"it does not fit: {answer.output[:300]}")
    run.record("room is made for a request", wrong)


def _reboot(run: Runner) -> None:
    """Empty the nodes of one reboot group, reboot them, and move the instances back."""
    before = run.cluster.instances()
    execution = Execution(run, THROUGH_LUXI, "reboot", "reboot")
    execution.begin("-G", FIRST_GROUP, "--one-step-only")
    execution.wait_for("accepted")
    execution.kill("KILL")
    execution.end()
    status, found, _ = execution.resumed()
    wrong = list(problems(run, status, found, False))
    by_hand = [job["description"] for job in found["jobs"] if job["state"] == "by hand"]
    if not any("reboot" in what for what in by_hand):
        wrong.append(f"it does not wait for a reboot: {by_hand}")
    run.record("nodes are emptied for their reboot, though the process was killed", wrong)
    status, found, _ = execution.resumed("--done-by-hand")
    wrong = list(problems(run, status, found, True))
    after = run.cluster.instances()
    wrong += [f"{n} is on {after[n].nodes}" for n in before if before[n].nodes != after[n].nodes]
    drained = run.cluster.ask("gnt-node", "list", "--no-headers", "-o", "drained").split()
    wrong += ["a node is still drained"] if "Y" in drained else []
    run.record("all instances return after the reboot", wrong)


def _repair(run: Runner, connection: Words, group: str) -> None:
    """Take a node offline, and repair the instances that have their primary or secondary there."""
    run.drop(*_NAMES)
    one, _, three = run.nodes_of(group)
    for name, where in zip(_NAMES, (f"{one}:{three}", f"{three}:{one}"), strict=True):
        run.arrange(*add(name, "drbd", "--no-wait-for-sync", f"--node={where}"))
        run.arrange("gnt-instance", "add-tags", instance(name), f"{_TAG}failover")
    done = take_offline(run, three)
    if done.status != 0:
        raise ClusterError(done.output)
    through = "LUXI" if connection == THROUGH_LUXI else "RAPI"
    execution = Execution(run, connection, f"repair-{through}", "repair")
    execution.begin()
    execution.wait_for("accepted")
    execution.kill("KILL")
    execution.end()
    status, found, err = execution.resumed()
    wrong = list(problems(run, status, found, True))
    wrong += _not_repaired(run, three) + list(_repaired_twice(run))
    run.record(f"instances are repaired through {through}, though the process was killed", wrong)
    if wrong:
        run.record(f"repair through {through}: stderr", err.splitlines()[-5:])
    # Ganeti removes nothing from an offline node: the disks of instances that have left the node
    # would keep their drbd minors, which Ganeti gives to the next instances
    forget_disks(run, three)
    run.cluster.gnt("gnt-node", "modify", "--force", "--offline=no", three)


def _not_repaired(run: Runner, lost: str) -> list[str]:
    """Return the instances that still use the lost node, or have repair tags without a result."""
    found = []
    here = run.cluster.instances()
    for name in map(instance, _NAMES):
        if lost in here[name].nodes:
            found.append(f"{name} is on {here[name].nodes}")
        tags = run.cluster.ask("gnt-instance", "list-tags", name).split()
        states = [tag.split(":")[3] for tag in tags if tag.count(":") > 4]
        if states != ["result"] or not any(":success:" in tag for tag in tags):
            found.append(f"{name} has the tags {tags}")
    return found


def _repaired_twice(run: Runner) -> Iterator[str]:
    """Yield the disks of an instance that were replaced more than once."""
    done: Counter[tuple[str, str]] = Counter()
    for codes in queued(run):
        for code in codes:
            if code["status"] == "success":
                done[code["input"].get("instance_name", ""), code["input"]["OP_ID"]] += 1
    for name in map(instance, _NAMES):
        replaced = done[name, "OP_INSTANCE_REPLACE_DISKS"]
        if replaced > done[name, "OP_INSTANCE_CREATE"]:
            yield f"the disks of {name} were replaced {replaced} times"
