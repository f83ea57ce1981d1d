"""Execute the jobs of a plan: submit a few at a time, check them before, watch them in the queue.

A job is submitted once all jobs that it depends on are done. Only a few jobs are submitted ahead of
those that run, so that Ctrl-C or a change of the cluster stops nearly all jobs that have not begun.
When other jobs have ended, each job that waits in the queue is checked again. It is cancelled if a
condition that it relies on has changed.
"""

from __future__ import annotations

from functools import partial

from iallocator.execution.jobs import ExecutionError, describe
from iallocator.execution.queue import (
    ENDED,
    JOB_ERROR,
    JOB_SUCCESS,
    LOST,
    RUNNING,
    JobStatus,
    UnknownOutcomeError,
    failed_out_of_band,
    reason_trail,
)
from iallocator.execution.records import DONE, PENDING, REJECTED, SENDING, SENT, retries
from iallocator.execution.returning import Returning
from iallocator.live.stream import ServerError
from iallocator.transition.step import DRAIN, OFFLINE, REBOOT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Json
    from iallocator.execution.jobs import Job
    from iallocator.execution.records import Records
    from iallocator.execution.session import Session

__all__ = ["Watch", "Waves", "carry_out", "ready"]

POLL_SECONDS = 2.0
"""The longest wait for a change in the queue, in seconds."""

STEP_RESULT_WORDS = {DONE: "done", PENDING: "taken back", REJECTED: "not done"}


class Watch:
    """Watches the jobs of a session in the queue."""

    def __init__(self, session: Session, returning: Returning) -> None:
        self._session = session
        self._returning = returning
        self._records = session.records

    def wait(self) -> None:
        """Wait until a job in the queue may have changed.

        If further jobs could be submitted, the jobs that wait in the queue are queried first;
        otherwise, those that run.
        """
        records = self._records
        behind = bool(ready(records))
        sent = records.in_state(SENT)
        sent.sort(key=lambda job: (records.of[job.number].begun is behind, job.number))
        ids = [self._session.id_of(job.number) for job in sent]
        queue = self._session.queue
        self._session.patiently(lambda: queue.wait(ids, POLL_SECONDS))

    def collect(self) -> bool:
        """Record the jobs that have ended; return whether there are any."""
        session = self._session
        sent = self._records.in_state(SENT)
        ids = [self._session.id_of(job.number) for job in sent]
        now = session.patiently(lambda: session.queue.statuses(ids)) if sent else {}
        ended = False
        for job in sent:
            record = self._records.of[job.number]
            status = now.get(self._session.id_of(job.number), JobStatus(LOST))
            if status.status in ENDED:
                status = self._final_status(job, status)
                ended = True
                if self._returning.put_off(job, status):
                    continue
                members = {"status": status.status, "why": status.why, "begun": status.begun}
                session.event("ended", job=job.number, **members, done=status.done)
                word = STEP_RESULT_WORDS.get(record.state, "failed")
                session.report_state(job.number, word + (f": {record.why}" if record.why else ""))
            elif (status.begun or status.status == RUNNING) and not record.begun:
                record.begun = True
                session.report_state(job.number, "running")
        return ended

    def _final_status(self, job: Job, status: JobStatus) -> JobStatus:
        """Return the status of a job, corrected where the status in the queue is misleading.

        A job that is missing from the queue has succeeded if its effect is seen on the cluster.
        Ganeti reports the success of an out-of-band command even if the program failed.
        """
        if status.status == JOB_SUCCESS and job.opcodes[-1]["OP_ID"] == "OP_OOB_COMMAND":
            why = failed_out_of_band(status.results)
            return JobStatus(JOB_ERROR, why, begun=True) if why else status
        if status.status != LOST:
            return status
        places = self._session.patiently(self._session.cluster_check.places)
        first, last = job.steps[0], job.steps[-1]
        if "instance" in last:
            here = list(places.instances.get(last["instance"], ()))
            made = here != first["from"] and here == list(last["to"])
        else:  # the effect on power and tags cannot be seen
            flagged = {DRAIN: places.drained, OFFLINE: places.offline}
            made = last["node"] in flagged.get(last["kind"], ())
        if made:
            return JobStatus(JOB_SUCCESS, "vanished from the queue, but what it was to do is done")
        return JobStatus(LOST, "vanished from the queue", begun=True)

    def take_back(self) -> None:
        """Cancel the jobs that have not begun, except those that complete moves in progress."""
        needed = self._records.on_the_way()
        numbers = [
            job.number
            for job in self._records.waiting()
            if job.number not in needed and not self._records.of[job.number].withdrawal
        ]
        if numbers:
            self._session.withdraw(numbers[::-1], PENDING, "")


SETTLE_SECONDS = 5.0
"""Seconds to wait before jobs of a submission without an answer are searched in the queue."""

MOST_UNANSWERED = 3
"""The number of submissions without an answer after which the execution ends with an error."""


SUBMITTED = (-10, 0, 10)
"""The priorities with which Ganeti accepts new jobs; other priorities are set afterwards."""


class Waves:
    """Submits the jobs of a session, each once all jobs on which it depends are done.

    Attributes
    ----------
    trouble:
        Why the cluster accepts no more jobs; "" if it has accepted all.
    """

    def __init__(self, session: Session, returning: Returning) -> None:
        self._session = session
        self._returning = returning
        self._records = session.records
        self.trouble = ""
        self._unanswered = 0
        self._first: set[int] | None = None

    def next(self, look_again: bool) -> bool:
        """Submit the next jobs; return whether any job was submitted or rejected.

        At most `Orders.ahead` jobs wait in the queue. Once the execution must stop, only jobs that
        complete moves in progress are submitted.

        Parameters
        ----------
        look_again
            Whether the conditions that jobs in the queue rely on may have changed.
        """
        session, records = self._session, self._records
        stopping = session.orders.stopping()
        if session.orders.first_group and self._first is None:
            self._first = {job.number for job in ready(records)}
        only = records.on_the_way() if stopping else self._first
        waiting = records.waiting()
        wave = [
            job
            for job in ready(records)
            if (only is None or job.number in only) and not self._returning.held(job.number)
        ]
        wave = [] if self.trouble else wave[: max(0, session.orders.ahead - len(waiting))]
        if wave or (waiting and look_again):
            # Leave out the jobs that cannot be done on the cluster as it is now; cancel those of
            # them that wait in the queue
            again = waiting if look_again else []
            staying = [job for job in again if not records.of[job.number].withdrawal]
            reasons = session.patiently(partial(session.cluster_check.look, wave, staying))
            for number, why in reasons.items():
                if records.of[number].state == SENT:
                    session.withdraw([number], REJECTED, why)
                    continue
                session.event("refused", job=number, why=why)
                session.orders.console.complain(
                    f"not done: {describe(records.jobs[number])}: {why}"
                )
            self._send([job for job in wave if job.number not in reasons])
            return True
        return not stopping and self._first is None and self.done_by_hand()

    def done_by_hand(self) -> bool:
        """Ask whether jobs that are due by hand are done; return whether at least one is."""
        records = self._records
        if records.in_state(SENT, SENDING):
            return False
        due = [job for job in records.in_state(PENDING) if job.by_hand and records.free(job)]
        done = [job for job in due if self._session.orders.console.confirmed(job)]
        rebooted = [job.number for job in done if job.steps[0]["kind"] == REBOOT]
        others = [job.number for job in done if job.number not in rebooted]
        if rebooted:
            self._session.event("confirmed", jobs=rebooted)
        if others:
            self._session.event("by hand", jobs=others)
        return bool(done)

    def _send(self, wave: Sequence[Job]) -> None:
        """Record in the journal that the jobs of `wave` are being submitted, and submit them."""
        if self._session.queue.singly and len(wave) > 1:
            for job in wave:
                if not self.trouble:
                    self._send([job])
            return
        numbers = [job.number for job in wave]
        if not numbers:
            return
        orders = self._session.orders

        def marked(job: Job) -> list[Json]:
            """Return the opcodes of `job` with the reason, the mark and the priority."""
            mark = f"{self._session.run}/{self._mark(job)}"
            extra: Json = {"reason": reason_trail(orders.reason, mark, orders.clock.nanoseconds())}
            if orders.priority in SUBMITTED:
                extra["priority"] = orders.priority
            return [{**opcode, **extra} for opcode in job.opcodes]

        self._session.event("submit", jobs=numbers)
        try:
            answers = self._session.queue.submit([marked(job) for job in wave])
        except UnknownOutcomeError as error:
            self._unanswered += 1
            if self._unanswered >= MOST_UNANSWERED:
                raise ExecutionError(f"{error}, {MOST_UNANSWERED} times") from None
            self._session.orders.console.complain(f"{error}: looking for the jobs in the queue")
            self.find_again()
        except ServerError as error:
            self._session.event("absent", jobs=numbers)
            self.trouble = str(error)
        else:
            pairs = list(zip(numbers, answers))
            ids = [[number, answer] for number, answer in pairs if isinstance(answer, int)]
            if ids:
                self._session.event("accepted", ids=ids)
            for number, answer in pairs:
                if isinstance(answer, str):
                    why = f"not taken: {answer}"
                    self._session.event(
                        "ended", job=number, status=JOB_ERROR, why=why, begun=False, done=0
                    )
                    self._session.report_state(number, why)
                    continue
                self._session.report_state(number, "submitted")
                priority = self._session.orders.priority
                if priority is not None and priority not in SUBMITTED:
                    self._session.patiently(
                        partial(self._session.queue.set_priority, answer, priority)
                    )
            if ids:
                self._session.follow()

    def find_again(self) -> None:
        """Find out which submissions without an answer have arrived."""
        session = self._session
        missing = self._records.in_state(SENDING)
        if not missing:
            return
        jobs = session.patiently(lambda: session.queue.find(session.run))
        if any(self._mark(job) not in jobs for job in missing):
            session.orders.clock.pause(SETTLE_SECONDS)
            jobs = session.patiently(lambda: session.queue.find(session.run))
        marks = {job.number: self._mark(job) for job in missing}
        ids = [[number, jobs[mark]] for number, mark in marks.items() if mark in jobs]
        absent = [number for number, mark in marks.items() if mark not in jobs]
        if ids:
            session.event("accepted", ids=ids)
            session.orders.console.say(
                f"found again in the queue: {', '.join(str(i) for _, i in ids)}"
            )
        if absent:
            session.event("absent", jobs=absent)

    def _mark(self, job: Job) -> str:
        return f"{job.number}/{self._records.of[job.number].attempt}"


def ready(records: Records) -> list[Job]:
    """Return the jobs that can be submitted now: all jobs on which they depend are done."""
    return [job for job in records.in_state(PENDING) if not job.by_hand and records.free(job)]


def carry_out(session: Session, again: bool = False) -> str:
    """Execute the jobs as far as possible; the records have the progress.

    Parameters
    ----------
    session
        The jobs, the queue, the cluster, and the journal.
    again
        Whether to retry jobs that failed, or were rejected, in an earlier run.

    Returns
    -------
    str
        Why the cluster accepted no more jobs, or which nodes were not ready in time; "" if neither
        happened.

    Raises
    ------
    ExecutionError
        If the execution cannot continue.
    """
    returning = Returning(session)
    waves, watch = Waves(session, returning), Watch(session, returning)
    waves.find_again()
    if again:
        watch.collect()
        waves.done_by_hand()
        if session.work is not None:
            session.work.catch_up()
        returning.wait_for_all()  # while nodes do not answer, the cluster cannot be read
        if not (returning.trouble or session.orders.stopping()):
            # Let the jobs that failed begin again, each where its instance is now
            places = session.patiently(session.cluster_check.places)
            for kind, members in list(retries(session.records, places)):
                session.event(kind, **members)
                job = session.records.jobs[members["job"]]
                if "why" in members:
                    session.orders.console.complain(f"not done: {describe(job)}: {members['why']}")
                elif members["steps"]:
                    session.orders.console.say(f"again: {describe(job)}")
                else:
                    session.orders.console.say(f"done already: {describe(job)}")
    session.follow()
    while True:
        ended = watch.collect()
        if session.orders.stopping():
            watch.take_back()
        if waves.next(ended):
            continue
        stopping = session.orders.stopping()
        work = session.work
        if not stopping and work is not None and work.advance():
            continue
        away = work is not None and work.away()
        if not (stopping or away) and returning.look():
            continue
        if session.records.in_state(SENT):
            watch.wait()
        elif not stopping and (away or returning.waits()):
            returning.wait()
        else:
            session.follow()
            return waves.trouble or returning.trouble
