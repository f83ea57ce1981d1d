"""Which jobs are submitted next, and how: looked at again, written down, marked."""

from __future__ import annotations

from functools import partial

from iallocator.execution.errors import ExecutionError
from iallocator.execution.jobs import describe
from iallocator.execution.queues.marks import reason_trail
from iallocator.execution.queues.queue import ERROR, UnknownOutcomeError
from iallocator.execution.records import PENDING, REFUSED, SENDING, SENT
from iallocator.live.errors import ServerError
from iallocator.transition.step import REBOOT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Json
    from iallocator.execution.jobs import Job
    from iallocator.execution.records import Records
    from iallocator.execution.returning import Returning
    from iallocator.execution.session import Session


__all__ = ["Waves", "ready"]

SETTLE_SECONDS = 5.0
"""After so long, a submission that nobody answered has arrived, or never will."""

MOST_UNANSWERED = 3
"""So many submissions without an answer, and something is wrong with the cluster."""


SUBMITTED = (-10, 0, 10)
"""The priorities with which Ganeti takes new jobs; to others they are changed afterwards."""


class Waves:
    """Submits the jobs of a session, each once everything that it waits for has been done.

    Attributes
    ----------
    trouble:
        The cluster's reason to take nothing more; "" if it did not refuse.
    """

    def __init__(self, session: Session, returning: Returning) -> None:
        self._session = session
        self._returning = returning
        self._records = session.records
        self.trouble = ""
        self._unanswered = 0
        self._first: set[int] | None = None

    def next(self, look_again: bool) -> bool:
        """Submit the next jobs; return whether anything has changed by that.

        No more jobs wait in the queue than `Orders.ahead` says.  Once the execution is to stop,
        only the moves in progress are completed.

        Parameters
        ----------
        look_again
            Whether the ground of jobs that wait in the queue may have changed.
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
            wave = self._looked_at(wave, waiting if look_again else [])
            self._send(wave)
            return True
        return not stopping and self._first is None and self.done_by_hand()

    def done_by_hand(self) -> bool:
        """Ask whether what must be done by hand has been; return whether something has."""
        records = self._records
        if records.in_state(SENT, SENDING):
            return False
        due = [job for job in records.in_state(PENDING) if job.by_hand and records.free(job)]
        done = [job for job in due if self._session.orders.confirmed(job)]
        rebooted = [job.number for job in done if job.steps[0]["kind"] == REBOOT]
        others = [job.number for job in done if job.number not in rebooted]
        if rebooted:
            self._session.event("confirmed", jobs=rebooted)
        if others:
            self._session.event("by hand", jobs=others)
        return bool(done)

    def _looked_at(self, wave: Sequence[Job], waiting: Sequence[Job]) -> list[Job]:
        """Return those of `wave` that can be done on the cluster as it is now.

        Of the `waiting` ones, which are in the queue, those that cannot be are cancelled.
        """
        session, records = self._session, self._records
        staying = [job for job in waiting if not records.of[job.number].withdrawn]
        found = session.patiently(lambda: session.ground.look(wave, staying))
        for number, why in found.items():
            if records.of[number].state == SENT:
                session.withdraw([number], REFUSED, why)
                continue
            session.event("refused", job=number, why=why)
            session.orders.complain(f"not done: {describe(records.jobs[number])}: {why}")
        return [job for job in wave if job.number not in found]

    def _send(self, wave: Sequence[Job]) -> None:
        """Write down that jobs are being submitted, and submit them."""
        if self._session.queue.singly and len(wave) > 1:
            for job in wave:
                if not self.trouble:
                    self._send([job])
            return
        numbers = [job.number for job in wave]
        if not numbers:
            return
        self._session.event("submit", jobs=numbers)
        try:
            answers = self._session.queue.submit([self._opcodes(job) for job in wave])
        except UnknownOutcomeError as error:
            self._unanswered += 1
            if self._unanswered >= MOST_UNANSWERED:
                raise ExecutionError(f"{error}, {MOST_UNANSWERED} times") from None
            self._session.orders.complain(f"{error}: looking for the jobs in the queue")
            self.find_again()
        except ServerError as error:
            self._session.event("absent", jobs=numbers)
            self.trouble = str(error)
        else:
            self._answered(numbers, answers)

    def _answered(self, numbers: Sequence[int], answers: Sequence[int | str]) -> None:
        pairs = list(zip(numbers, answers))
        ids = [[number, answer] for number, answer in pairs if isinstance(answer, int)]
        if ids:
            self._session.event("accepted", ids=ids)
        for number, answer in pairs:
            if isinstance(answer, str):
                why = f"not taken: {answer}"
                self._session.event("ended", job=number, status=ERROR, why=why, begun=False, done=0)
                self._session.tell(number, why)
                continue
            self._session.tell(number, "submitted")
            priority = self._session.orders.priority
            if priority is not None and priority not in SUBMITTED:
                self._session.patiently(partial(self._session.queue.hurry, answer, priority))
        if ids:
            self._session.follow()

    def _opcodes(self, job: Job) -> list[Json]:
        """Return the opcodes as they are submitted."""
        orders = self._session.orders
        mark = f"{self._session.run}/{self._mark(job)}"
        extra: Json = {"reason": reason_trail(orders.reason, mark, orders.now())}
        if orders.priority in SUBMITTED:
            extra["priority"] = orders.priority
        return [{**opcode, **extra} for opcode in job.opcodes]

    def find_again(self) -> None:
        """Find out what became of submissions that nobody answered."""
        session = self._session
        missing = self._records.in_state(SENDING)
        if not missing:
            return
        found = session.patiently(lambda: session.queue.find(session.run))
        if any(self._mark(job) not in found for job in missing):
            session.orders.pause(SETTLE_SECONDS)
            found = session.patiently(lambda: session.queue.find(session.run))
        marks = {job.number: self._mark(job) for job in missing}
        ids = [[number, found[mark]] for number, mark in marks.items() if mark in found]
        absent = [number for number, mark in marks.items() if mark not in found]
        if ids:
            session.event("accepted", ids=ids)
            session.orders.say(f"found again in the queue: {', '.join(str(i) for _, i in ids)}")
        if absent:
            session.event("absent", jobs=absent)

    def _mark(self, job: Job) -> str:
        return f"{job.number}/{self._records.of[job.number].attempt}"


def ready(records: Records) -> list[Job]:
    """Return the jobs that can be submitted now: everything that they wait for has been done."""
    return [job for job in records.in_state(PENDING) if not job.by_hand and records.free(job)]
