"""How far each job of an execution is: what follows from the events of its journal.

The same function reads an event when it happens and when a journal is read again, so that
an execution that was interrupted is continued exactly where it was.
"""

from __future__ import annotations

from dataclasses import dataclass

from iallocator.execution.jobs import without_first
from iallocator.execution.queues.queue import CANCELED, SUCCESS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Json
    from iallocator.execution.jobs import Job


__all__ = ["DONE", "FAILED", "PENDING", "REFUSED", "SENDING", "SENT", "Record", "Records"]

PENDING = "pending"
SENDING = "sending"
SENT = "sent"
DONE = "done"
FAILED = "failed"
REFUSED = "refused"


@dataclass
class Record:
    """One job.

    Attributes
    ----------
    state:
        `PENDING`: not submitted.  `SENDING`: it was being submitted; whether it arrived is not
        known.  `SENT`: it is in the queue.  `DONE`, `FAILED`: it has ended.  `REFUSED`: it is not
        submitted, or was cancelled, for what it relies on has changed.
    id:
        Of the job in the queue; None if it was never there.
    attempt:
        How often it was submitted; more than once only if we took it back before it began.
    why:
        It failed, or is refused.
    withdrawn:
        We wanted to cancel it; "" if not, else why: `PENDING` or `REFUSED` is what it becomes.
    """

    state: str = PENDING
    id: int | None = None
    attempt: int = 0
    why: str = ""
    withdrawn: str = ""
    withdrawn_why: str = ""


class Records:
    """All jobs of an execution, by number.

    Attributes
    ----------
    jobs:
        What is left of each to be done, or was when it ended.
    whole:
        What each was at first.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.whole = {job.number: job for job in jobs}
        self.jobs = dict(self.whole)
        self.of = {job.number: Record() for job in jobs}

    def apply(self, event: Json) -> None:
        """What `event` means for the jobs that it names."""
        kind = event["event"]
        if kind == "submit":
            for number in event["jobs"]:
                record = self.of[number]
                record.state, record.attempt, record.id = SENDING, record.attempt + 1, None
                record.withdrawn = record.withdrawn_why = ""
        elif kind == "accepted":
            for number, job_id in event["ids"]:
                self.of[number].state, self.of[number].id = SENT, job_id
        elif kind == "absent":
            for number in event["jobs"]:
                self.of[number].state = PENDING
        elif kind == "withdraw":
            for number in event["jobs"]:
                self.of[number].withdrawn = event["becomes"]
                self.of[number].withdrawn_why = event.get("why", "")
        elif kind == "ended":
            self._ended(event["job"], event)
        elif kind == "refused":
            self.of[event["job"]].state, self.of[event["job"]].why = REFUSED, event["why"]
        elif kind == "by hand":
            for number in event["jobs"]:
                self.of[number].state = DONE

    def _ended(self, number: int, event: Json) -> None:
        record, status, why = self.of[number], event["status"], event["why"]
        if status == SUCCESS:
            record.state, record.why = DONE, why
        elif status == CANCELED and record.withdrawn == PENDING and event["done"]:
            # It began while we cancelled it: what is left of it is still to be done.
            self.jobs[number] = without_first(self.jobs[number], event["done"])
            record.state = PENDING
        elif event["begun"]:
            record.state, record.why = FAILED, why
        elif record.withdrawn and (status == CANCELED or self._in_vain(number)):
            record.state, record.why = record.withdrawn, record.withdrawn_why
        elif self._in_vain(number):  # Ganeti itself ends what waits for a job in vain
            record.state, record.why = PENDING, ""
        else:
            record.state, record.why = FAILED, why or "cancelled by somebody"

    def _in_vain(self, number: int) -> bool:
        """Whether a job that it waits for has not been done."""
        return any(self.of[n].state in (PENDING, FAILED, REFUSED) for n in self.jobs[number].after)

    def in_state(self, *states: str) -> list[Job]:
        """The jobs in one of these states, in the order of numbers."""
        return [job for number, job in self.jobs.items() if self.of[number].state in states]

    def free(self, job: Job) -> bool:
        """Whether all that the job waits for has been done."""
        return all(self.of[number].state == DONE for number in job.after)

    def stays(self, number: int) -> bool:
        """Whether a job is in the queue, and is to stay there."""
        return self.of[number].state == SENT and not self.of[number].withdrawn

    def blocked(self) -> dict[int, int]:
        """Job that waits in vain -> the failed or refused one that it waits for, by way of others.

        Only jobs that have not ended themselves.
        """
        found: dict[int, int] = {}
        for number, job in self.jobs.items():
            if self.of[number].state in (DONE, FAILED, REFUSED):
                continue
            for other in sorted(job.after):
                if self.of[other].state in (FAILED, REFUSED):
                    found[number] = other
                elif other in found:
                    found[number] = found[other]
                if number in found:
                    break
        return found
