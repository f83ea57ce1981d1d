"""Make the jobs of a plan from the document of its transition."""

from __future__ import annotations

from dataclasses import dataclass, replace

from iallocator.errors import IallocatorError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iallocator.aliases import Json


__all__ = ["ExecutionError", "Job", "describe", "jobs_of", "only_steps", "without_first"]


class ExecutionError(IallocatorError):
    """Raised if the execution of a plan cannot start or continue.

    The journal of the execution contains its progress.
    """

    exit_status = 1


@dataclass(frozen=True)
class Job:
    """The steps that are submitted as one job.

    Attributes
    ----------
    number:
        The position of the job in the plan, from 1 on.
    steps:
        The steps of the job, in order, as plain data.
    opcodes:
        The opcodes of the job, in order; empty if an administrator must do it by hand.
    after:
        Numbers of the jobs that must have succeeded before; all are lower than `number`.
    """

    number: int
    steps: tuple[Json, ...]
    opcodes: tuple[Json, ...]
    after: frozenset[int]

    @property
    def by_hand(self) -> bool:
        """Return whether an administrator must do the job by hand."""
        return not self.opcodes

    @property
    def instance(self) -> str:
        """Return the instance that the job moves, starts or stops; "" for a job about a node."""
        return str(self.steps[0].get("instance", ""))


def jobs_of(transition: Json, able: Callable[[Json], bool], singly: bool = False) -> list[Job]:
    """Return the jobs of a plan, each after the jobs that it depends on.

    Parameters
    ----------
    transition
        The transition in a plan's document.
    able
        Returns whether an opcode can be submitted. An administrator must do the others by hand.
    singly
        Whether a job has one opcode only.
    """
    steps = {step["number"]: step for step in transition["steps"]}
    chains = [list(job["steps"]) for job in transition["jobs"]]
    if singly:
        chains = [[number] for chain in chains for number in chain]
    held = {number for chain in chains for number in chain}
    chains += [[number] for number in steps if number not in held]
    chains.sort(key=lambda chain: chain[0])
    job_of = {number: k for k, chain in enumerate(chains, start=1) for number in chain}
    jobs = []
    for number, chain in enumerate(chains, start=1):
        made = tuple(steps[one] for one in chain)
        opcodes = tuple(opcode for step in made for opcode in step["opcodes"])
        if not all(map(able, opcodes)):
            opcodes = ()
        after = frozenset(job_of[other] for step in made for other in step["after"]) - {number}
        jobs.append(Job(number, made, opcodes, after))
    return jobs


def without_first(job: Job, count: int) -> Job:
    """Return `job` without its first `count` opcodes, which are done and belong to whole steps."""
    steps = list(job.steps)
    left = count
    while steps and left >= len(steps[0]["opcodes"]):
        left -= len(steps.pop(0)["opcodes"])
    return replace(job, steps=tuple(steps), opcodes=job.opcodes[count:])


def only_steps(job: Job, numbers: Sequence[int]) -> Job:
    """Return a job with only the steps that have these `numbers`."""
    steps = tuple(step for step in job.steps if step["number"] in numbers)
    opcodes = () if job.by_hand else tuple(code for step in steps for code in step["opcodes"])
    return replace(job, steps=steps, opcodes=opcodes)


def describe(job: Job) -> str:
    """Return a job as text: ``migrate, replace-disks web1 (node1:node2 -> node2:node3)``."""
    kinds = ", ".join(step["kind"] for step in job.steps)
    first, last = job.steps[0], job.steps[-1]
    if "node" in first:
        return " ".join([kinds, first["node"], *first.get("tags", ())])
    before, after = ":".join(first["from"]), ":".join(last["to"])
    way = f"{before} -> {after}" if before and before != after else after
    return f"{kinds} {first['instance']} ({way})"
