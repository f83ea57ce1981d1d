"""The data that all modules of an execution share: the session, and the administrator's options."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from time import monotonic, time_ns
from typing import Protocol

from iallocator.deadline import pause as wait
from iallocator.errors import IallocatorError
from iallocator.execution.jobs import ExecutionError, describe
from iallocator.live.stream import LiveError, ServerError
from iallocator.options.settings import BOOT_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    from iallocator.execution.cluster_check import ClusterCheck
    from iallocator.execution.jobs import Job
    from iallocator.execution.journal import Journal
    from iallocator.execution.queue import JobQueue
    from iallocator.execution.records import Records

__all__ = ["Clock", "Console", "Orders", "Session", "Work"]


if TYPE_CHECKING:
    T = TypeVar("T")


PAUSES = (1, 2, 4, 8, 15, 30)
"""Seconds between attempts to reach the cluster again."""


class Work(Protocol):
    """The interface of an object that maintains empty nodes, and checks nodes that are back."""

    def handles(self, job: Job) -> bool:
        """Return whether this object does `job`, so that no administrator must do it."""

    def advance(self) -> bool:
        """Begin and continue the work; return whether the state of a job has changed."""

    def away(self) -> bool:
        """Return whether a node is being maintained, so that it may not answer."""

    def catch_up(self) -> None:
        """Wait until nodes that may have rebooted since an interruption answer."""

    def unchecked(self, number: int) -> bool:
        """Begin or continue the check of the node of a job; return whether it has not passed."""

    def close(self) -> None:
        """End this object; report the commands that continue to run."""


@dataclass
class Session:
    """One execution; `run` is its name, which marks its jobs in the queue.

    `follower` is called after jobs were accepted, and at the end. `work` maintains nodes; None if
    an administrator does that.
    """

    run: str
    records: Records
    queue: JobQueue
    cluster_check: ClusterCheck
    journal: Journal
    orders: Orders
    follower: Callable[[Records], None] = lambda records: None
    work: Work | None = None

    def follow(self) -> None:
        """Call the follower with the progress of the jobs.

        Raises
        ------
        ExecutionError
            If the follower fails.
        """
        self.patiently(lambda: self.follower(self.records))

    def event(self, kind: str, **members: Any) -> None:
        """Write an event to the journal, then apply it to the records."""
        event = {"event": kind, **members}
        self.journal.write(event)
        self.records.apply(event)

    def id_of(self, number: int) -> int:
        """Return the id of a job in the queue."""
        job_id = self.records.of[number].id
        assert job_id is not None
        return job_id

    def withdraw(self, numbers: Sequence[int], becomes: str, why: str) -> None:
        """Cancel the jobs `numbers` that have not begun; `becomes`: their state after that.

        The state is `PENDING` or `REJECTED`. `why`: the reason to report.
        """
        self.event("withdraw", jobs=list(numbers), becomes=becomes, why=why)
        for number in numbers:
            self.patiently(partial(self.queue.cancel, self.id_of(number)))

    def report_state(self, number: int, word: str) -> None:
        """Print a line with the id, the steps and the state (`word`) of a job."""
        record = self.records.of[number]
        job_id = "" if record.id is None else f"job {record.id}: "
        self.orders.console.say(f"{job_id}{describe(self.records.jobs[number])}: {word}")

    def patiently(self, ask: Callable[[], T]) -> T:
        """Return the result of `ask`; if the cluster cannot be reached, repeat `ask` for a minute.

        Raises
        ------
        ExecutionError
            If the cluster still cannot be reached, or rejects the question.
        """
        for seconds in PAUSES:
            try:
                return ask()
            except LiveError as error:
                if isinstance(error, ServerError) and error.status < 500:
                    raise ExecutionError(str(error)) from None
                self.orders.console.complain(f"{error}; again in {seconds} s")
                self.orders.clock.pause(seconds)
        try:
            return ask()
        except IallocatorError as error:
            raise ExecutionError(str(error)) from None


@dataclass(kw_only=True)
class Console:
    """The console on which the administrator follows an execution.

    Attributes
    ----------
    say, complain:
        Functions that print a line about progress, and about an error.
    confirmed:
        Function that returns whether the administrator confirms that a job has been done by hand.
    """

    say: Callable[[str], None] = lambda line: None
    complain: Callable[[str], None] = lambda line: None
    confirmed: Callable[[Job], bool] = lambda job: False


@dataclass(kw_only=True)
class Clock:
    """The time in which an execution runs.

    Attributes
    ----------
    pause:
        Function that waits for a number of seconds.
    nanoseconds:
        Function that returns nanoseconds since 1970.
    seconds:
        Function that returns seconds since a fixed moment; the value never decreases.
    """

    pause: Callable[[float], None] = lambda seconds: wait(seconds)  # noqa: PLW0108, for tests
    nanoseconds: Callable[[], int] = time_ns
    seconds: Callable[[], float] = monotonic


@dataclass
class Orders:
    """An administrator's options for the execution of a plan.

    Attributes
    ----------
    reason:
        Text for the reason trail.
    priority:
        Priority of every opcode, -20 to 19; None for Ganeti's own default.
    first_group:
        Whether only jobs without dependencies are submitted.
    ahead:
        How many jobs may wait in the queue in addition to those that run, at least 1.
    boot_timeout:
        Seconds that a node may take to answer after power-on or a reboot.
    stopping:
        Function that returns whether no further job may begin.
    console, clock:
        The console of the administrator, and the time in which the execution runs.
    """

    reason: str = ""
    priority: int | None = None
    first_group: bool = False
    ahead: int = 2
    boot_timeout: float = BOOT_SECONDS
    stopping: Callable[[], bool] = lambda: False
    console: Console = field(default_factory=Console)
    clock: Clock = field(default_factory=Clock)
