"""Moves as the ``gnt-instance`` commands that carry them out."""

from __future__ import annotations

from iallocator.model.moves import FAILOVER, FAILOVER_TO, REPLACE_SECONDARY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.model.moves import ElementaryMove
    from iallocator.transition.transition import ScheduledStep, Transition

__all__ = ["gnt_commands", "script", "step_command", "transition_script"]


def gnt_commands(
    cluster: Cluster, instance: Instance, steps: Sequence[ElementaryMove]
) -> list[str]:
    """One command per step; running instances migrate, others fail over."""
    verb = "migrate" if instance.running else "failover"
    commands = []
    for kind, target in steps:
        to = f" -n {_quoted(cluster.nodes[target].name)}"
        if kind == REPLACE_SECONDARY:
            words = f"replace-disks{to}"
        else:
            words = f"{verb} -f{to if kind == FAILOVER_TO else ''}"
        commands.append(f"gnt-instance {words} {_quoted(instance.name)}")
    return commands


def _quoted(name: str) -> str:
    from shlex import quote

    return quote(name)


def script(
    cluster: Cluster,
    moves: Sequence[tuple[Instance, Sequence[ElementaryMove]]],
    job_sets: Sequence[Sequence[int]],
) -> list[str]:
    """Lines for a shell: the job sets in order, the jobs of each, the commands of each job."""
    lines: list[str] = []
    for number, job_set in enumerate(job_sets, start=1):
        lines.append(f"echo jobset {number}, {len(job_set)} jobs")
        for job, position in enumerate(job_set, start=1):
            lines.append(f"  echo job {number}/{job}")
            lines += (f"  {line}" for line in gnt_commands(cluster, *moves[position]))
    return lines


_NODE_WORDS = {
    "fence": "gnt-node power -f off",
    "power-off": "gnt-node power -f off",
    "power-on": "gnt-node power -f on",
    "drain": "gnt-node modify -D yes",
    "offline": "gnt-node modify -O yes",
    "online": "gnt-node modify -O no",
    "tag": "gnt-node add-tags",
    "untag": "gnt-node remove-tags",
}


def step_command(step: ScheduledStep, cluster: Cluster) -> str:
    """The command that carries out one step of a transition; a comment where it takes a hand."""
    task = step.task
    if task.node is not None:
        if not step.opcodes:
            return f"# by hand: {task.kind} {cluster.nodes[task.node].name}"
        words = [_quoted(cluster.nodes[task.node].name), *map(_quoted, task.tags)]
        return " ".join([_NODE_WORDS[task.kind], *words])
    name = _quoted(task.name)
    if task.kind == "create":
        assert task.after is not None
        nodes = _quoted(":".join(cluster.node_names(task.after.nodes)))
        return f"# to be created: gnt-instance add ... -n {nodes} {name}"
    if task.kind == "start":
        return f"gnt-instance startup {name}"
    if task.kind == "stop":
        return f"gnt-instance shutdown {name}"
    assert task.move is not None
    kind, target = task.move
    to = "" if kind == FAILOVER else f" -n {_quoted(cluster.nodes[target].name)}"
    verb = "replace-disks" if kind == REPLACE_SECONDARY else f"{task.kind} -f"
    if step.opcodes[0].get("ignore_consistency"):
        verb += " --ignore-consistency"
    return f"gnt-instance {verb}{to} {name}"


def transition_script(transition: Transition) -> list[str]:
    """Lines for a shell: level by level, the steps of each side by side."""
    lines: list[str] = []
    for level in range(1, transition.longest + 1):
        steps = [step for step in transition.steps if step.level == level]
        lines.append(f"echo jobset {level}, {len(steps)} jobs")
        for job, step in enumerate(steps, start=1):
            lines.append(f"  echo job {level}/{job}")
            lines.append(f"  {step_command(step, transition.cluster)}")
    return lines
