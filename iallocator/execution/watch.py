"""What becomes of submitted jobs, and which of them must not begin any more."""

from __future__ import annotations

from iallocator.execution.queues.answers import failed_out_of_band
from iallocator.execution.queues.queue import ENDED, ERROR, LOST, RUNNING, SUCCESS, JobStatus
from iallocator.execution.records import DONE, PENDING, REFUSED, SENT
from iallocator.execution.waves import ready
from iallocator.transition.step import DRAIN, OFFLINE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.execution.ground import Places
    from iallocator.execution.jobs import Job
    from iallocator.execution.returning import Returning
    from iallocator.execution.session import Session


__all__ = ["Watch"]

POLL_SECONDS = 2.0

WORDS = {DONE: "done", PENDING: "taken back", REFUSED: "not done"}


class Watch:
    """Watches the jobs of a session in the queue."""

    def __init__(self, session: Session, returning: Returning) -> None:
        self._session = session
        self._returning = returning
        self._records = session.records

    def wait(self) -> None:
        """Wait until a job may have changed.

        The jobs that wait come first where others could take their place, else those that run.
        """
        records = self._records
        behind = bool(ready(records))
        sent = records.in_state(SENT)
        sent.sort(key=lambda job: (records.of[job.number].begun is behind, job.number))
        ids, queue = [self._id(job.number) for job in sent], self._session.queue
        self._session.patiently(lambda: queue.wait(ids, POLL_SECONDS))

    def collect(self) -> bool:
        """Write down which jobs have ended; return whether some have."""
        session = self._session
        sent = self._records.in_state(SENT)
        ids = [self._id(job.number) for job in sent]
        now = session.patiently(lambda: session.queue.statuses(ids)) if sent else {}
        ended = False
        for job in sent:
            record = self._records.of[job.number]
            status = now.get(self._id(job.number), JobStatus(LOST))
            if status.status in ENDED:
                self._end(job, self._judged(job, status))
                ended = True
            elif (status.begun or status.status == RUNNING) and not record.begun:
                record.begun = True
                session.tell(job.number, "running")
        return ended

    def _id(self, number: int) -> int:
        return self._session.id_of(number)

    def _judged(self, job: Job, status: JobStatus) -> JobStatus:
        """Return the status that counts.

        A job that vanished has succeeded if everything is as it was to make it.  Ganeti calls an
        out-of-band command a success even if the program failed.
        """
        if status.status == SUCCESS and job.opcodes[-1]["OP_ID"] == "OP_OOB_COMMAND":
            why = failed_out_of_band(status.results)
            return JobStatus(ERROR, why, begun=True) if why else status
        if status.status != LOST:
            return status
        places = self._session.patiently(self._session.ground.places)
        if _made(job, places):
            return JobStatus(SUCCESS, "vanished from the queue, but what it was to do is done")
        return JobStatus(LOST, "vanished from the queue", begun=True)

    def _end(self, job: Job, status: JobStatus) -> None:
        if self._returning.put_off(job, status):
            return
        members = {"status": status.status, "why": status.why, "begun": status.begun}
        self._session.event("ended", job=job.number, **members, done=status.done)
        record = self._records.of[job.number]
        word = WORDS.get(record.state, "failed")
        self._session.tell(job.number, word + (f": {record.why}" if record.why else ""))

    def take_back(self) -> None:
        """Cancel the jobs that have not begun, except those that complete moves in progress."""
        needed = self._records.on_the_way()
        numbers = [
            job.number
            for job in self._records.waiting()
            if job.number not in needed and not self._records.of[job.number].withdrawn
        ]
        if numbers:
            self._session.withdraw(numbers[::-1], PENDING, "")


def _made(job: Job, places: Places) -> bool:
    """Return whether everything is as the job makes it; False for power and tags."""
    first, last = job.steps[0], job.steps[-1]
    if "instance" in last:
        here = list(places.instances.get(last["instance"], ()))
        return here != first["from"] and here == list(last["to"])
    flagged = {DRAIN: places.drained, OFFLINE: places.offline}
    return last["node"] in flagged.get(last["kind"], ())
