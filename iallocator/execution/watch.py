"""What becomes of submitted jobs, and which of them must not begin any more."""

from __future__ import annotations

from iallocator.execution.queues.queue import ENDED, LOST, RUNNING, SUCCESS, JobStatus
from iallocator.execution.records import DONE, PENDING, REFUSED, SENT
from iallocator.transition.step import DRAIN, OFFLINE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Json
    from iallocator.execution.ground import Places
    from iallocator.execution.jobs import Job
    from iallocator.execution.session import Session


__all__ = ["Watch"]

POLL_SECONDS = 2.0

WORDS = {DONE: "done", PENDING: "taken back", REFUSED: "not done"}


class Watch:
    """Watches the jobs of a session in the queue."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._records = session.records
        self._begun: set[int] = set()

    def in_queue(self) -> list[int]:
        """Ids of the jobs in the queue, those that run first."""
        sent = self._records.in_state(SENT)
        sent.sort(key=lambda job: (job.number not in self._begun, job.number))
        return [self._id(job.number) for job in sent]

    def wait(self) -> None:
        """Until one of them may have changed."""
        ids, queue = self.in_queue(), self._session.queue
        self._session.patiently(lambda: queue.wait(ids, POLL_SECONDS))

    def collect(self) -> bool:
        """Write down which jobs have ended; whether some have."""
        session = self._session
        sent = self._records.in_state(SENT)
        ids = self.in_queue()
        now = session.patiently(lambda: session.queue.statuses(ids)) if sent else {}
        ended = False
        for job in sent:
            status = now.get(self._id(job.number), JobStatus(LOST))
            if status.status in ENDED:
                self._end(job, self._judged(job, status))
                ended = True
            elif (status.begun or status.status == RUNNING) and job.number not in self._begun:
                self._begun.add(job.number)
                session.tell(job.number, "running")
        return ended

    def _id(self, number: int) -> int:
        job_id = self._records.of[number].id
        assert job_id is not None
        return job_id

    def _judged(self, job: Job, status: JobStatus) -> JobStatus:
        """A job that vanished has succeeded if everything is as it was to make it."""
        if status.status != LOST:
            return status
        places = self._session.patiently(self._session.ground.places)
        if _made(job, self._later(job), places):
            return JobStatus(SUCCESS, "vanished from the queue, but what it was to do is done")
        return JobStatus(LOST, "vanished from the queue", begun=True)

    def _later(self, job: Job) -> list[Json]:
        """The steps of its instance in later jobs: they run only once it has been done."""
        others = self._records.whole.items()
        mine = [one for n, one in others if n > job.number and one.instance == job.instance]
        return [step for one in mine for step in one.steps]

    def _end(self, job: Job, status: JobStatus) -> None:
        members = {"status": status.status, "why": status.why, "begun": status.begun}
        self._session.event("ended", job=job.number, **members, done=status.done)
        record = self._records.of[job.number]
        word = WORDS.get(record.state, "failed")
        self._session.tell(job.number, word + (f": {record.why}" if record.why else ""))

    def _waiting(self) -> list[Job]:
        """The jobs in the queue that have not begun, as far as is known, and are to stay there."""
        return [
            job
            for job in self._records.in_state(SENT)
            if job.number not in self._begun and self._records.stays(job.number)
        ]

    def look_again(self) -> None:
        """Cancel what is still waiting, but can no longer be done."""
        session, in_vain = self._session, self._records.blocked()
        waiting = [job for job in self._waiting() if job.number not in in_vain]
        if not waiting:
            return
        under_way = [job for job in self._records.in_state(SENT) if job.number in self._begun]
        found = session.patiently(lambda: session.ground.look(waiting, under_way, False))
        for number, why in found.items():
            self._withdraw([number], REFUSED, why)

    def take_back(self) -> None:
        """Cancel what still waits for other jobs, but for what an instance on its way needs.

        What waits for nothing may begin at this moment.
        """
        needed = self._needed_on_the_way()
        waiting = [job for job in self._waiting() if not self._records.free(job)]
        numbers = [job.number for job in waiting if job.number not in needed]
        if numbers:
            self._withdraw(numbers[::-1], PENDING, "")

    def _needed_on_the_way(self) -> set[int]:
        """Jobs of instances that have begun to move, and what those wait for."""
        jobs, records = self._records.jobs, self._records.of
        started = {
            job.instance
            for number, job in jobs.items()
            if number in self._begun or records[number].state == DONE
        } - {""}
        needed: set[int] = set()
        for number in sorted(jobs, reverse=True):
            if jobs[number].instance in started or number in needed:
                needed |= {number, *jobs[number].after}
        return needed

    def _withdraw(self, numbers: Sequence[int], becomes: str, why: str) -> None:
        """Cancel jobs; those that nobody comes too late for are `becomes` then."""
        session = self._session
        session.event("withdraw", jobs=list(numbers), becomes=becomes, why=why)
        for job_id in map(self._id, numbers):
            session.patiently(lambda job_id=job_id: session.queue.cancel(job_id))  # type: ignore[misc]


def _made(job: Job, later: Sequence[Json], places: Places) -> bool:
    """Whether everything is as the job, or what comes `later`, makes it.

    Of power and tags nobody can say.
    """
    first, last = job.steps[0], job.steps[-1]
    if "instance" in last:
        here = list(places.instances.get(last["instance"], ()))
        return here != first["from"] and here in [step["to"] for step in (last, *later)]
    flagged = {DRAIN: places.drained, OFFLINE: places.offline}
    return last["node"] in flagged.get(last["kind"], ())
