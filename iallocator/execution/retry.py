"""What is left of jobs that failed, given where their instances are now.

A failed job may have done some of its steps, or nearly all of one: Ganeti reports an error after
`replace-disks` although the new secondary is in its configuration.  An administrator may have
done the rest.  So the place of the instance decides which steps are left, and the number of
opcodes that succeeded decides between equal places.
"""

from __future__ import annotations

from iallocator.execution.records import DONE, FAILED, PENDING, REFUSED
from iallocator.transition.step import CREATE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iallocator.aliases import Json
    from iallocator.execution.ground import Places
    from iallocator.execution.jobs import Job
    from iallocator.execution.records import Records


__all__ = ["off_its_way", "retries"]

STUCK = (FAILED, REFUSED)


def retries(records: Records, places: Places) -> Iterator[tuple[str, Json]]:
    """Return the events, kind and members, that let failed and rejected jobs begin again.

    ``retry`` names the steps of a job that are left: none if others have done it.  ``refused``
    says why a job cannot go on from where its instance is.  All open jobs of an instance count:
    others may have done more than the step that failed.
    """
    of_instance: dict[str, list[Job]] = {}
    for number, job in records.jobs.items():
        if job.instance:
            of_instance.setdefault(job.instance, []).append(job)
        elif records.of[number].state in STUCK:  # marks of nodes can be set again
            yield "retry", {"job": number, "steps": [step["number"] for step in job.steps]}
    for jobs in of_instance.values():
        states = {job.number: records.of[job.number].state for job in jobs}
        left = [job for job in jobs if states[job.number] != DONE]
        if left and all(states[job.number] in (PENDING, *STUCK) for job in left):
            yield from _of_instance(left, records, places)


def _of_instance(
    jobs: Sequence[Job], records: Records, places: Places
) -> Iterator[tuple[str, Json]]:
    """Return the events of one instance, whose jobs that are left are `jobs`."""
    first = records.of[jobs[0].number]
    why = off_its_way(jobs, places)
    if why:
        if first.state in STUCK:
            yield "refused", {"job": jobs[0].number, "why": why}
        return
    begun = _steps_done(jobs, places, first.done if first.state == FAILED else 0)
    for job in jobs:
        left = [step["number"] for step in job.steps[begun:]]
        if records.of[job.number].state in STUCK or len(left) < len(job.steps):
            yield "retry", {"job": job.number, "steps": left}
        begun = max(0, begun - len(job.steps))


def off_its_way(jobs: Sequence[Job], places: Places) -> str:
    """Return why none of these jobs of one instance can begin where it is now; "" if one can."""
    name, first = jobs[0].instance, jobs[0].steps[0]
    if not name or first["kind"] == CREATE:
        return ""
    here = places.instances.get(name)
    if here is None:
        return f"{name} is gone"
    way = [tuple(first["from"]), *(tuple(step["to"]) for job in jobs for step in job.steps)]
    return "" if here in way else f"{name} is on {':'.join(here)}, off its way"


def _steps_done(jobs: Sequence[Job], places: Places, opcodes_done: int) -> int:
    """Return how many steps of these jobs of one instance have been done.

    `opcodes_done`: those of the first job that succeeded.
    """
    steps = [step for job in jobs for step in job.steps]
    known, left = 0, opcodes_done
    while known < len(steps) and left >= len(steps[known]["opcodes"]):
        left -= len(steps[known]["opcodes"])
        known += 1
    here = places.instances.get(jobs[0].instance, ())
    ends = [tuple(step["from"]) for step in steps] + [tuple(steps[-1]["to"])]
    fitting = [position for position, end in enumerate(ends) if end == here]
    return min(fitting, key=lambda position: abs(position - known), default=0)
