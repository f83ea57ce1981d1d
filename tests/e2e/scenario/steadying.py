"""Balance by a history of loads with ``balance -X --steady``, through LUXI and RAPI."""

from __future__ import annotations

import json
import subprocess

from vcluster.layout import FIRST_GROUP, NODE_STATE, instance
from vcluster.node import ENVIRONMENT, Done

from scenario.carrying_out import THROUGH_LUXI, THROUGH_RAPI, USER, Execution, Words, problems
from scenario.execution import CROWD, allow_rapi, crowd, restart_master
from scenario.reading import program
from scenario.runner import Runner

_SAMPLES = ("01T01:00", "01T07:00", "01T13:00", "01T19:00")
"""Times of the rounds before the first one that may move instances, in January 2026."""

_CALLS = 6
"""How often an execution is resumed: on a busy machine, Ganeti's own calls time out."""

_BUSY = "1.6 0 0 0"
"""The loads of each instance in the file for ``-U``: cpus, and no other load."""


def steadying(run: Runner) -> None:
    """Test steady balancing of four busy instances on one node.

    Parameters
    ----------
    run : Runner
        Gives access to the cluster.
    """
    run.section("steady balancing")
    run.clear()
    allow_rapi(run)
    text = "".join(f"{instance(name)} {_BUSY}\n" for name in CROWD)
    run.cluster.master.path(f"{NODE_STATE}/busy").write_text(text, encoding="utf-8")
    for connection in (THROUGH_LUXI, THROUGH_RAPI):
        _rounds(run, connection)
    _disturbed(run)
    run.drop(*CROWD)


class _Rounds:
    """The rounds of one history through one connection."""

    def __init__(self, run: Runner, connection: Words) -> None:
        self.run = run
        self.connection = connection
        self.through = "LUXI" if connection == THROUGH_LUXI else "RAPI"
        self.history = f"{NODE_STATE}/loads-{self.through}"

    def words(self, moment: str, *more: str) -> Words:
        """Return the options of a round at ``2026-01-`` `moment`."""
        return (
            "--steady", "-U", f"{NODE_STATE}/busy", "--history", self.history,
            "--now", f"2026-01-{moment}:00Z", "-G", FIRST_GROUP, "--n1=off", *more,
        )  # fmt: skip

    def ask(self, command: str, *words: str) -> Done:
        """Run a command that executes nothing on the master."""
        done = subprocess.run(
            self.run.cluster.master.command(program(), command, *words, "--json"),
            capture_output=True, text=True, check=False, env={**ENVIRONMENT, **USER},
        )  # fmt: skip
        return Done(done.returncode, done.stdout or done.stderr)

    def execute(self, moment: str, name: str) -> tuple[Execution, list[str], str]:
        """Execute a round; return it, its moved instances, and the reason why it ended."""
        execution = Execution(self.run, self.connection, f"steady-{self.through}-{name}")
        execution.begin(*self.words(moment))
        status, _, err = execution.end()
        if status:
            return execution, [], f"status {status}: {err[-800:]}"
        document = execution.document
        return execution, [one["instance"] for one in document["moves"]], document["reason"]


def _rounds(run: Runner, connection: Words) -> None:
    """Run rounds until instances move, kill that execution, resume it, and run the next ones."""
    crowd(run)
    rounds = _Rounds(run, connection)
    before = run.cluster.instances()
    wrong = []
    for moment in _SAMPLES:
        done = rounds.ask("balance", *connection, *rounds.words(moment))
        plan = json.loads(done.output) if done.status == 0 else {}
        if plan.get("moves") != [] or not plan["reason"]:
            wrong.append(f"{moment}: status {done.status}: {done.output[:600]}")
    run.record(f"nothing moves while the history is short, through {rounds.through}", wrong)

    run.arrange("gnt-cluster", "queue", "drain")
    _, moved, why = rounds.execute("02T01:00", "drained")
    run.arrange("gnt-cluster", "queue", "undrain")
    # RAPI does not show the flag: there, the submission of the jobs fails
    words = "queue is drained" if connection == THROUGH_LUXI else "Queue drained"
    wrong = [] if not moved and words in why else [f"{moved}: {why}"]
    wrong += ["instances moved"] if run.cluster.instances() != before else []
    run.record(f"nothing moves while the queue is drained, through {rounds.through}", wrong)

    shadow = rounds.ask("balance", *connection, *rounds.words("02T02:00", "--shadow"))
    plan = json.loads(shadow.output) if shadow.status == 0 else {}
    listed = plan["steady"]["shadow_moves"] if plan else []
    wrong = [] if listed and not plan["moves"] else [shadow.output[-600:]]
    wrong += ["instances moved"] if run.cluster.instances() != before else []
    run.record(f"--shadow moves nothing, through {rounds.through}", wrong)

    execution = Execution(run, connection, f"steady-{rounds.through}")
    execution.begin(*rounds.words("02T03:00"))
    execution.wait_for("accepted")
    execution.kill("KILL")
    execution.end()
    status, found, err = execution.resumed()
    here = run.cluster.instances()
    moved = [name for name in map(instance, CROWD) if here[name].nodes != before[name].nodes]
    wrong = list(problems(run, status, found, True)) if found else [err[-1500:]]
    wrong += [] if 1 <= len(moved) < len(CROWD) else [f"moved: {moved}"]
    run.record(f"busy instances move, though the process was killed, through {rounds.through}",
               wrong)  # fmt: skip

    _, again, why = rounds.execute("02T03:30", "next")
    wrong = [f"{name} moves again" for name in again if name in moved]
    after = run.cluster.instances()
    wrong += [f"{name} is on {after[name].nodes}" for name in moved if after[name] != here[name]]
    wrong += [] if why.startswith(("no move gains", "the caps")) else [why]
    run.record(f"instances that moved stay in the next round, through {rounds.through}", wrong)

    done = rounds.ask("history", rounds.history)
    document = json.loads(done.output) if done.status == 0 else {"moves": [], "regrets": -1}
    listed = [one["instance"] for one in document["moves"] if one["planned"]]
    wrong = [] if sorted(listed) == sorted(moved) and document["regrets"] == 0 else [done.output]
    run.record(f"history lists the moves as planned, through {rounds.through}", wrong)


def _disturbed(run: Runner) -> None:
    """Let a job fail, restart the master daemon, and let another person move an instance."""
    crowd(run)
    rounds = _Rounds(run, THROUGH_LUXI)
    rounds.history = f"{NODE_STATE}/loads-disturbed"
    for moment in _SAMPLES:
        rounds.ask("balance", "-L", *rounds.words(moment))
    first, _, third = run.nodes_of(FIRST_GROUP)
    full = run.cluster.nodes[third].path(f"{NODE_STATE}/lvcreate-fails")
    full.touch()
    execution = Execution(run, THROUGH_LUXI, "steady-disturbed")
    execution.begin(*rounds.words("02T03:00"))
    execution.wait_for("accepted")
    restart_master(run)
    status, found, err = execution.end()
    failed = [job for job in found.get("jobs", ()) if job["state"] == "failed"]
    wrong = list(problems(run, status, found, False))
    wrong += [] if failed else [f"no job failed, status {status}: {err[-800:]}"]
    run.record("a job of a round fails, and the master daemon restarts", wrong)

    full.unlink()
    moved = [move["instance"] for move in execution.document["moves"]]
    other = next(name for name in map(instance, CROWD) if name not in moved)
    done = run.cluster.gnt("gnt-instance", "migrate", "--force", other)
    here = run.cluster.instances()[other].nodes
    wrong = [] if here[0] == first else [f"{other} is on {here}: {done.output[-600:]}"]
    for _ in range(_CALLS):
        status, found, err = execution.resumed()
        if found.get("complete"):
            break
    wrong += list(problems(run, status, found, True)) if found else [err[-1500:]]
    run.record("resumed, the moves are made, while another person moves an instance", wrong)

    _, again, why = rounds.execute("02T03:30", "disturbed-next")
    wrong = [f"{name} moves again" for name in again if name in (*moved, other)]
    wrong += [] if why.startswith(("no move gains", "the caps")) else [why]
    run.record("moved instances stay in the next round, also that of the other person", wrong)
