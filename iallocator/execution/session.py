"""What all parts of an execution share: the options of the administrator, and the session."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from time import monotonic, time_ns

from iallocator.deadline import pause as wait
from iallocator.errors import IallocatorError
from iallocator.execution.jobs import ExecutionError, describe
from iallocator.live.stream import LiveError, ServerError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    from iallocator.execution.cluster_check import ClusterCheck
    from iallocator.execution.jobs import Job
    from iallocator.execution.journal import Journal
    from iallocator.execution.queue import JobQueue
    from iallocator.execution.records import Records

__all__ = ["Orders", "Session"]


if TYPE_CHECKING:
    T = TypeVar("T")


PAUSES = (1, 2, 4, 8, 15, 30)
"""Seconds between attempts to reach the cluster again."""


@dataclass
class Session:
    """One execution; `run` is its name, which marks its jobs in the queue.

    `follower` is told when jobs were taken, and in the end, as often as that takes.
    """

    run: str
    records: Records
    queue: JobQueue
    cluster_check: ClusterCheck
    journal: Journal
    orders: Orders
    follower: Callable[[Records], None] = lambda records: None

    def follow(self) -> None:
        """Tell the follower how far the jobs are.

        Raises
        ------
        ExecutionError
            If it cannot do what it has to do then.
        """
        self.patiently(lambda: self.follower(self.records))

    def event(self, kind: str, **members: Any) -> None:
        """Write an event to the journal, then let it count."""
        event = {"event": kind, **members}
        self.journal.write(event)
        self.records.apply(event)

    def id_of(self, number: int) -> int:
        """Return the id that a job has in the queue."""
        job_id = self.records.of[number].id
        assert job_id is not None
        return job_id

    def withdraw(self, numbers: Sequence[int], becomes: str, why: str) -> None:
        """Cancel jobs; one that has not begun then is `becomes`: `PENDING` or `REJECTED`."""
        self.event("withdraw", jobs=list(numbers), becomes=becomes, why=why)
        for number in numbers:
            self.patiently(partial(self.queue.cancel, self.id_of(number)))

    def tell(self, number: int, word: str) -> None:
        """Say how a job is."""
        record = self.records.of[number]
        job_id = "" if record.id is None else f"job {record.id}: "
        self.orders.say(f"{job_id}{describe(self.records.jobs[number])}: {word}")

    def patiently(self, ask: Callable[[], T]) -> T:
        """What `ask` answers; where the cluster is not reached, it is asked again for a minute.

        Raises
        ------
        ExecutionError
            If that does not help, or the cluster refuses to answer.
        """
        for seconds in PAUSES:
            try:
                return ask()
            except LiveError as error:
                if isinstance(error, ServerError) and error.status < 500:
                    raise ExecutionError(str(error)) from None
                self.orders.complain(f"{error}; again in {seconds} s")
                self.orders.pause(seconds)
        try:
            return ask()
        except IallocatorError as error:
            raise ExecutionError(str(error)) from None


@dataclass
class Orders:
    """How a person wants a plan to be carried out.

    Attributes
    ----------
    reason:
        For the reason trail.
    priority:
        Of every opcode, -20 to 19; None for Ganeti's own default.
    first_group:
        Submit only what waits for nothing.
    ahead:
        How many jobs may wait in the queue beyond those that run, at least 1.
    boot_timeout:
        Seconds that a node may take to answer after power-on or a reboot.
    say, complain:
        Take a line about what happens, and about what is wrong.
    stopping:
        Whether nothing more is to be begun.
    confirmed:
        Whether somebody says that a job has been done by hand.
    pause:
        Waits so many seconds.
    now:
        Nanoseconds since 1970.
    clock:
        Seconds since any moment, never turned back.
    """

    reason: str = ""
    priority: int | None = None
    first_group: bool = False
    ahead: int = 2
    boot_timeout: float = 600.0
    say: Callable[[str], None] = lambda line: None
    complain: Callable[[str], None] = lambda line: None
    stopping: Callable[[], bool] = lambda: False
    confirmed: Callable[[Job], bool] = lambda job: False
    pause: Callable[[float], None] = wait
    now: Callable[[], int] = time_ns
    clock: Callable[[], float] = monotonic
