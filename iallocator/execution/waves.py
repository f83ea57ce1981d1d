"""Which jobs are submitted next, and how: looked at again, written down, marked."""

from __future__ import annotations

from functools import partial

from iallocator.execution.errors import ExecutionError
from iallocator.execution.jobs import describe
from iallocator.execution.queues.marks import reason_trail
from iallocator.execution.queues.queue import ERROR, SUCCESS, UnknownOutcomeError
from iallocator.execution.records import DONE, PENDING, SENDING, SENT
from iallocator.live.errors import ServerError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from iallocator.aliases import Json
    from iallocator.execution.jobs import Job
    from iallocator.execution.records import Records
    from iallocator.execution.session import Session


__all__ = ["Waves", "ready"]

SETTLE_SECONDS = 5.0
"""After so long, a submission that nobody answered has arrived, or never will."""

MOST_UNANSWERED = 3
"""So many submissions without an answer, and something is wrong with the cluster."""


SUBMITTED = (-10, 0, 10)
"""The priorities with which Ganeti takes new jobs; to others they are changed afterwards."""


class Waves:
    """Submits the jobs of a session.

    Attributes
    ----------
    closed:
        Whether nothing more is submitted.
    trouble:
        The cluster's reason to take nothing more; "" if it did not refuse.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._records = session.records
        self.closed = False
        self.trouble = ""
        self._unanswered = 0

    def next(self) -> bool:
        """Submit what can be; whether there was something to do."""
        session = self._session
        if self.closed:
            return False
        wave = ready(session.records, session.queue.depends, session.orders.first_group)
        if not wave:
            return self._done_by_hand()
        wave = self._looked_at(wave)
        if session.orders.first_group and wave:
            self.closed = True
        if session.queue.depends:
            self._send(wave)
            return True
        for job in wave:
            if not (session.orders.stopping() or self.trouble):
                self._send([job])
        return True

    def _done_by_hand(self) -> bool:
        """Ask whether what must be done by hand has been; whether something has."""
        records = self._records
        if records.in_state(SENT, SENDING):
            return False
        due = [job for job in records.in_state(PENDING) if job.by_hand and records.free(job)]
        done = [job.number for job in due if self._session.orders.confirmed(job)]
        if done:
            self._session.event("by hand", jobs=done)
        return bool(done)

    def _looked_at(self, wave: Sequence[Job]) -> list[Job]:
        """Those of `wave` for which the cluster still is as they need it."""
        session, records = self._session, self._records
        under_way = records.in_state(SENT)
        if not session.queue.depends:
            under_way = []  # nothing in the wave counts on what they do
        found = session.patiently(lambda: session.ground.look(wave, under_way, not under_way))
        for number, why in found.items():
            session.event("refused", job=number, why=why)
            session.orders.complain(f"not done: {describe(records.jobs[number])}: {why}")
        blocked = records.blocked()
        return [job for job in wave if job.number not in found and job.number not in blocked]

    def _send(self, wave: Sequence[Job]) -> None:
        """Write down that jobs are being submitted, and submit them."""
        numbers = [job.number for job in wave]
        if not numbers:
            return
        self._session.event("submit", jobs=numbers)
        try:
            answers = self._session.queue.submit([self._opcodes(job, numbers) for job in wave])
        except UnknownOutcomeError as error:
            self._unanswered += 1
            if self._unanswered >= MOST_UNANSWERED:
                raise ExecutionError(f"{error}, {MOST_UNANSWERED} times") from None
            self._session.orders.complain(f"{error}: looking for the jobs in the queue")
            self.find_again()
        except ServerError as error:
            self._session.event("absent", jobs=numbers)
            self.closed, self.trouble = True, str(error)
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

    def _opcodes(self, job: Job, wave: Sequence[int]) -> list[Json]:
        """The opcodes as they are submitted in a wave."""
        orders = self._session.orders
        mark = f"{self._session.run}/{self._mark(job)}"
        extra: Json = {"reason": reason_trail(orders.reason, mark, orders.now())}
        if orders.priority in SUBMITTED:
            extra["priority"] = orders.priority
        made = [{**opcode, **extra} for opcode in job.opcodes]
        depends = self._depends(job, wave)
        if depends:
            made[0]["depends"] = depends
        return made

    def _depends(self, job: Job, wave: Sequence[int]) -> list[list[Any]]:
        """What a job waits for: offsets in the wave, ids of jobs that are in the queue already."""
        position = wave.index(job.number)
        found: list[list[Any]] = []
        for other in sorted(job.after):
            if other in wave:
                found.append([wave.index(other) - position, [SUCCESS]])
            elif self._records.of[other].state != DONE:
                found.append([self._records.of[other].id, [SUCCESS]])
        return found

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


def ready(records: Records, depends: bool, first_group: bool) -> list[Job]:
    """The jobs that can be submitted now, each after those that it waits for.

    `depends`: they may wait for each other in the queue.  `first_group`: only those that
    wait for nothing any more.
    """
    blocked = records.blocked()
    taken: dict[int, Job] = {}
    for job in records.in_state(PENDING):
        if job.by_hand or job.number in blocked:
            continue
        waits = [other for other in job.after if records.of[other].state != DONE]
        chained = depends and not first_group
        if not waits or (chained and all(n in taken or records.stays(n) for n in waits)):
            taken[job.number] = job
    return list(taken.values())
