"""The progress of each job of an execution, computed from the events of its journal.

One function applies an event, both when the event happens and when a journal is read again.
Therefore, an interrupted execution continues exactly where it ended.

`retries` computes what remains of failed jobs.  A failed job may have carried out some of its
steps, or nearly all of one step: Ganeti reports an error after `replace-disks` although the new
secondary is in its configuration.  An administrator may have carried out the rest.  Therefore the
places of the instance decide which steps remain, and the number of successful opcodes decides
between equal places.
"""

from __future__ import annotations

from dataclasses import dataclass

from iallocator.execution.jobs import only_steps, without_first
from iallocator.execution.queue import JOB_CANCELED, JOB_SUCCESS
from iallocator.transition.step import CREATE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iallocator.aliases import Json
    from iallocator.execution.cluster_check import Places
    from iallocator.execution.jobs import Job

__all__ = [
    "DONE",
    "FAILED",
    "PENDING",
    "REJECTED",
    "RETURNING",
    "SENDING",
    "SENT",
    "Record",
    "Records",
    "retries",
    "route_deviation",
]

PENDING = "pending"
SENDING = "sending"
SENT = "sent"
DONE = "done"
FAILED = "failed"
REJECTED = "refused"
RETURNING = "returning"

OPEN = (PENDING, SENDING, SENT)
"""States of jobs that are neither done nor given up."""


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """The cancellation of a job.

    Attributes
    ----------
    becomes:
        The state of the job after the cancellation: `PENDING` or `REJECTED`.
    why:
        Why the job is cancelled; "" for no reason to report.
    """

    becomes: str
    why: str = ""


@dataclass
class Record:
    """The progress of one job.

    Attributes
    ----------
    state:
        `PENDING`: not submitted. `SENDING`: being submitted; it is unknown whether it arrived.
        `SENT`: in the queue. `DONE`, `FAILED`: ended. `REJECTED`: not submitted, or cancelled,
        because a condition that it relies on has changed. `RETURNING`: the node of the job has been
        rebooted; the execution waits until the node is back.
    id:
        The id of the job in the queue; None if it was never submitted.
    attempt:
        How often the job was submitted.
    begun:
        Whether this attempt is known to have begun. The journal does not record this.
    done:
        How many opcodes of the last attempt succeeded, if the attempt failed.
    why:
        Why the job failed or was rejected.
    boot:
        For a job that maintains a node, the boot id of the node when the work began; "" before.
    ran:
        Whether the command for the node has ended, so that only its reboot is awaited.
    withdrawal:
        The cancellation of the job; None if it is not to be cancelled.
    """

    state: str = PENDING
    id: int | None = None
    attempt: int = 0
    begun: bool = False
    done: int = 0
    why: str = ""
    boot: str = ""
    ran: bool = False
    withdrawal: Withdrawal | None = None

    def note_work(self, event: Json) -> None:
        """Update the progress of the job's maintenance of a node, after an event about its end."""
        self.ran = event["event"] == "worked"
        if not self.ran:
            self.state, self.why = FAILED, event["why"]
            self.boot = self.boot if event["keep"] else ""


class Records:
    """All jobs of an execution, by number.

    Attributes
    ----------
    jobs:
        Number of a job -> the job with the steps that remained when it was submitted last, or that
        remain now.
    whole:
        Number of a job -> the whole job, as it was planned.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.whole = {job.number: job for job in jobs}
        self.jobs = dict(self.whole)
        self.of = {job.number: Record() for job in jobs}

    def apply(self, event: Json) -> None:
        """Update the records of the jobs that `event` names."""
        kind = event["event"]
        if kind == "submit":
            for number in event["jobs"]:
                record = self.of[number]
                record.state, record.attempt, record.id = SENDING, record.attempt + 1, None
                record.withdrawal, record.why = None, ""
                record.begun, record.done = False, 0
        elif kind == "accepted":
            for number, job_id in event["ids"]:
                self.of[number].state, self.of[number].id = SENT, job_id
        elif kind == "absent":
            for number in event["jobs"]:
                self.of[number].state = PENDING
        elif kind == "withdraw":
            for number in event["jobs"]:
                self.of[number].withdrawal = Withdrawal(event["becomes"], event.get("why", ""))
        elif kind == "ended":
            number, status, why = event["job"], event["status"], event["why"]
            record = self.of[number]
            withdrawal = record.withdrawal if status == JOB_CANCELED else None
            if status == JOB_SUCCESS:
                record.state, record.why = DONE, why
            elif withdrawal and not event["done"]:
                record.state, record.why = withdrawal.becomes, withdrawal.why
            elif withdrawal and withdrawal.becomes == PENDING:
                # The job began before it was cancelled: its other opcodes are still to be done.
                self.jobs[number] = without_first(self.jobs[number], event["done"])
                record.state = PENDING
            else:
                record.state, record.done = FAILED, event["done"]
                record.why = why or "it was cancelled"
        elif kind == "refused":
            self.of[event["job"]].state, self.of[event["job"]].why = REJECTED, event["why"]
        elif kind == "by hand":
            for number in event["jobs"]:
                self.of[number].state = DONE
        elif kind == "confirmed":
            for number in event["jobs"]:
                self.of[number].state = RETURNING
        elif kind == "working":
            self.of[event["job"]].boot = event["boot"]
        elif kind in ("worked", "work failed"):
            self.of[event["job"]].note_work(event)
        elif kind == "away":
            record = self.of[event["job"]]
            self.jobs[event["job"]] = without_first(self.jobs[event["job"]], event["done"])
            record.state, record.why, record.begun = PENDING, event["why"], False
        elif kind == "retry":
            record = self.of[event["job"]]
            record.state, record.why = (PENDING, "") if event["steps"] else (DONE, "done already")
            if event["steps"]:
                self.jobs[event["job"]] = only_steps(self.whole[event["job"]], event["steps"])

    def in_state(self, *states: str) -> list[Job]:
        """Return the jobs that are in one of `states`, in the order of their numbers."""
        return [job for number, job in self.jobs.items() if self.of[number].state in states]

    def free(self, job: Job) -> bool:
        """Return whether all jobs on which `job` depends are done."""
        return all(self.of[number].state == DONE for number in job.after)

    def waiting(self) -> list[Job]:
        """Return the submitted jobs that are not known to have begun."""
        return [job for job in self.in_state(SENT) if not self.of[job.number].begun]

    def on_the_way(self) -> set[int]:
        """Return the numbers of the jobs that complete the moves in progress.

        An instance is being moved if one of its jobs runs or is done. The result has the jobs of
        such instances, and the jobs on which these depend. Jobs that depend on work by hand, or on
        a job that failed, are left out: they cannot be completed now.
        """
        possible: set[int] = set()
        for number, job in self.jobs.items():
            others = {other for other in job.after if self.of[other].state != DONE}
            if not job.by_hand and self.of[number].state in OPEN and others <= possible:
                possible.add(number)
        moving = {
            job.instance
            for number, job in self.jobs.items()
            if self.of[number].begun or self.of[number].state == DONE or job != self.whole[number]
        } - {""}
        steps: set[int] = set()
        while True:
            waited_for = {other for number in steps for other in self.jobs[number].after}
            more = {n for n in possible if n in waited_for or self.jobs[n].instance in moving}
            if more == steps:
                return steps
            steps = more
            moving |= {self.jobs[n].instance for n in steps} - {""}

    def blocked(self) -> dict[int, int]:
        """Return number of a job -> the failed or rejected job that it depends on, even indirectly.

        Jobs that have ended are left out.
        """
        barriers: dict[int, int] = {}
        for number, job in self.jobs.items():
            if self.of[number].state in (DONE, FAILED, REJECTED):
                continue
            for other in sorted(job.after):
                if self.of[other].state in (FAILED, REJECTED):
                    barriers[number] = other
                elif other in barriers:
                    barriers[number] = barriers[other]
                if number in barriers:
                    break
        return barriers


STUCK = (FAILED, REJECTED)


def retries(records: Records, places: Places) -> Iterator[tuple[str, Json]]:
    """Yield the journal events (kind and members) that let failed and rejected jobs begin again.

    ``retry`` names the remaining steps of a job; none remain if an administrator has done them.
    ``refused`` has the reason why a job cannot continue from the present nodes of its instance. All
    open jobs of an instance are considered, because an administrator may have done more than the
    step that failed.
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
    """Yield the events that let the remaining `jobs` of one instance begin again."""
    first = records.of[jobs[0].number]
    why = route_deviation(jobs, places)
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


def route_deviation(jobs: Sequence[Job], places: Places) -> str:
    """Return why none of an instance's `jobs` can begin on its present nodes; "" if one can."""
    name, first = jobs[0].instance, jobs[0].steps[0]
    if not name or first["kind"] == CREATE:
        return ""
    here = places.instances.get(name)
    if here is None:
        return f"{name} is gone"
    way = [tuple(first["from"]), *(tuple(step["to"]) for job in jobs for step in job.steps)]
    return "" if here in way else f"{name} is on {':'.join(here)}, not on its planned route"


def _steps_done(jobs: Sequence[Job], places: Places, opcodes_done: int) -> int:
    """Return how many steps of the `jobs` of one instance are done, by the places of the instance.

    `opcodes_done`: how many opcodes of the first job succeeded. This number decides if the instance
    has its present nodes after several of the steps.
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
