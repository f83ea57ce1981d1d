"""Moves as the ``gnt-instance`` commands that carry them out."""

from __future__ import annotations

from iallocator.model.moves import FAILOVER_TO, REPLACE_SECONDARY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.model.moves import Step

__all__ = ["gnt_commands", "script"]


def gnt_commands(cluster: Cluster, instance: Instance, steps: Sequence[Step]) -> list[str]:
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
    moves: Sequence[tuple[Instance, Sequence[Step]]],
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
