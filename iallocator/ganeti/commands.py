"""Express steps of a transition as ``gnt-*`` commands."""

from __future__ import annotations

from shlex import quote

from iallocator.errors import printable
from iallocator.ganeti.jobs import chains
from iallocator.ganeti.opcodes import opcodes_of
from iallocator.model.moves import DRBD_FAILOVER, REPLACE_SECONDARY
from iallocator.transition import step as kinds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.transition.step import Step
    from iallocator.transition.transition import ScheduledStep, Transition

    JobSets = Sequence[Sequence[Sequence[ScheduledStep]]]
    """Job sets in order; a set has jobs that can run at the same time; a job has steps in order."""

__all__ = ["job_sets_of_moves", "job_sets_of_steps", "script", "step_command"]

_NODE_WORDS = {
    kinds.FENCE: "power -f off",
    kinds.POWER_OFF: "power -f off",
    kinds.POWER_ON: "power -f on",
    kinds.DRAIN: "modify --drained=yes --auto-promote",
    kinds.UNDRAIN: "modify --drained=no",
    kinds.OFFLINE: "modify --offline=yes",
    kinds.ONLINE: "modify --offline=no",
    kinds.PROMOTE: "modify --master-candidate=yes",
    kinds.DEMOTE: "modify --master-candidate=no --auto-promote",
    kinds.TAG: "add-tags",
    kinds.UNTAG: "remove-tags",
}


_UNTIL = {
    kinds.REBOOT: ", and wait until it answers and its drbd disks are in sync",
    kinds.POWER_ON: ", and wait until it answers",
}
"""The condition that a person must wait for before the next command can succeed."""


def step_command(step: Step, cluster: Cluster) -> str:
    """Return the shell command that executes one step, or that waits for work by hand.

    An administrator must also do steps with names that cannot be shown in one line; Ganeti has no
    such names.
    """
    line = _command_of(step, cluster)
    return line if line.isprintable() else _by_hand(line)


def _command_of(step: Step, cluster: Cluster) -> str:
    if step.node is not None:
        name = cluster.nodes[step.node].name
        codes = opcodes_of(cluster, step)
        if not codes:
            return _by_hand(f"{step.kind} {name}{_UNTIL.get(step.kind, '')}")
        words = f"gnt-node {_NODE_WORDS[step.kind]}"
        if step.kind == kinds.OFFLINE and "auto_promote" in codes[0]:
            words += " --auto-promote"
        if step.promotes:
            words += " --master-candidate=yes"
        return _command(words, [name, *step.tags])
    if step.kind == kinds.CREATE:
        assert step.after is not None
        nodes = ":".join(cluster.node_names(step.after.nodes))
        return _by_hand(f"gnt-instance add ... -n {nodes} {step.name}")
    if step.kind == kinds.START:
        return _command("gnt-instance startup", [step.name])
    if step.kind == kinds.STOP:
        return _command("gnt-instance shutdown", [step.name])
    assert step.move is not None
    kind, target = step.move
    words = "replace-disks" if kind == REPLACE_SECONDARY else f"{step.kind} -f"
    if any(code.get("ignore_consistency") for code in opcodes_of(cluster, step)):
        words += " --ignore-consistency"
    if kind != DRBD_FAILOVER:
        words += f" -n {_line([cluster.nodes[target].name])}"
    return _command(f"gnt-instance {words}", [step.name])


def _by_hand(what: str) -> str:
    """Return a command that prints work for an administrator, and continues after Enter."""
    return f"echo {_line([printable(f'by hand, then press Enter: {what}')])} && read -r answer"


def _command(words: str, names: Sequence[str]) -> str:
    """Return a command line; names that look like options follow ``--``."""
    apart = " --" if any(name.startswith("-") for name in names) else ""
    return f"{words}{apart} {_line(names)}"


def _line(names: Iterable[str]) -> str:
    return " ".join(map(quote, names))


def script(
    cluster: Cluster, sets: JobSets, hand_commands: Mapping[int, Sequence[str]] | None = None
) -> list[str]:
    """Return the lines of a shell script: job sets in order, with the commands of their jobs.

    `hand_commands`: index of a node -> the command that reboots it, and the command that checks it
    afterwards. A command is "" if an administrator does that by hand.
    """
    known = hand_commands or {}
    lines: list[str] = []
    for number, jobs in enumerate(sets, start=1):
        lines.append(f"echo jobset {number}, {len(jobs)} jobs")
        for job, steps in enumerate(jobs, start=1):
            lines.append(f"  echo job {number}/{job}")
            for action in (step.action for step in steps):
                before, after = "", ""
                if action.kind == kinds.REBOOT and action.node is not None:
                    before, after = known.get(action.node, ("", ""))
                line = step_command(action, cluster)
                if before:  # it fails if the connection is lost
                    lines.append(f"  ( {before} ) || true")
                    line = _by_hand(f"wait until {line.partition(f'{kinds.REBOOT} ')[2]}")
                lines.append(f"  {line}")
                if after:
                    lines.append(f"  ( {after} )")
    return lines


def job_sets_of_steps(transition: Transition) -> JobSets:
    """Return sets of jobs: each job is in the first set after the sets of its dependencies."""
    by_number = {step.number: step for step in transition.steps}
    level: dict[int, int] = {}
    sets: list[list[list[ScheduledStep]]] = []
    for chain in chains(transition.steps):
        first = 1 + max((level[number] for number in by_number[chain[0]].after), default=-1)
        level.update(dict.fromkeys(chain, first))
        sets += [[] for _ in range(first + 1 - len(sets))]
        sets[first].append([by_number[number] for number in chain])
    return sets


def job_sets_of_moves(
    transition: Transition, moves: Sequence[tuple[str, int]], sets: Sequence[Sequence[int]]
) -> JobSets:
    """Return the job of each move, arranged in the given job `sets`.

    `moves` are pairs: the name of an instance, and how many of the next steps of the instance
    belong to the move. A set lists positions in `moves`.
    """
    steps: dict[str, list[ScheduledStep]] = {}
    for step in transition.steps:
        steps.setdefault(step.action.name, []).append(step)
    jobs = []
    for name, count in moves:
        jobs.append(steps[name][:count])
        del steps[name][:count]
    return [[jobs[position] for position in one] for one in sets]
