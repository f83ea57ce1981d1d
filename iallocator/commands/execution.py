"""Execute a plan, show its jobs, or resume an interrupted execution.

Exit status 0: everything was done that can be done now; the rest waits for an administrator (a
reboot, for example), and the report says for what.  1: a job failed or was rejected, or a node did
not answer in time.  128 plus the number of the signal: interrupted.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import nullcontext, suppress
from time import strftime

from iallocator.commands.command import print_json, reject_silent_nodes
from iallocator.deadline import Deadline, Held, interrupt
from iallocator.errors import (
    STATUS_SIGNALLED,
    IallocatorError,
    UsageError,
    one_line,
    printable,
    tell,
)
from iallocator.execution.cluster_check import LiveClusterCheck, expectations, places_of
from iallocator.execution.jobs import ExecutionError, describe, jobs_of
from iallocator.execution.journal import Journal, default_path, read_journal
from iallocator.execution.lock import ClusterLock
from iallocator.execution.queue_access import open_queue
from iallocator.execution.records import (
    DONE,
    FAILED,
    REJECTED,
    RETURNING,
    SENDING,
    SENT,
    Records,
    retries,
)
from iallocator.execution.report import complete, due_by_hand, execution_document, report_lines
from iallocator.execution.runner import carry_out, ready
from iallocator.execution.session import Console, Orders, Session
from iallocator.names import domains_of
from iallocator.render.table import Page
from iallocator.wire.codec import on_one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType

    from iallocator.aliases import Json
    from iallocator.commands.command import Followed
    from iallocator.commands.shared_options import Execution
    from iallocator.execution.cluster_check import Places
    from iallocator.execution.jobs import Job
    from iallocator.execution.queue import JobQueue
    from iallocator.execution.session import Work
    from iallocator.model.cluster import Cluster

    Load = Callable[[], Cluster]

    Working = Callable[[Session, str], Work]
    """A function from a session and the path of its journal to the object that maintains nodes."""

__all__ = ["begin", "complete_journal", "records_in", "resume", "show_report"]

FOLLOWED = ("repair",)
"""Commands with executions that a follower observes; without it, they cannot be resumed."""


SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""The signals that interrupt an execution: cancel what waits, complete what runs."""

ONCE = (
    b"iallocator: interrupted: waiting jobs are cancelled, moves in progress are completed; "
    b"again to leave at once\n"
)

TWICE = b"iallocator: left at once; what is in the queue goes on, --resume shows how far it came\n"


class _Execution:
    """One execution: the head of its journal, its jobs, and their states."""

    def __init__(
        self,
        settings: Execution,
        head: Json,
        queue: JobQueue | None,
        records: Records | None = None,
    ) -> None:
        self.settings = settings
        self.head = head
        self.queue = queue
        self.records = records or _new_records(head)

    def report(self, load: Load | None) -> Json:
        """Return the report as plain data: the state of each job, and the nodes of each instance.

        `load` reads the cluster. If it is None or fails, the report has no nodes of instances.
        """
        places: Places | None = None
        if load is not None:
            try:
                places = places_of(load())
            except IallocatorError as error:
                _complain(f"the current places of instances are not known: {error}")
        return execution_document(self.head, self.records, places)


def _new_records(head: Json) -> Records:
    """Return the records of an execution of which nothing has been done."""
    unable = set(head["unable"])  # opcodes that the connection could not submit
    jobs = jobs_of(head["transition"], lambda code: code["OP_ID"] not in unable, head["singly"])
    return Records(jobs)


def begin(
    settings: Execution,
    command: str,
    transition: Json,
    cluster: Cluster,
    load: Load,
    followed: Followed | None = None,
    working: Working | None = None,
    path: str = "",
) -> tuple[Json, int]:
    """Execute the transition of a plan; return the report as plain data, and the exit status.

    `cluster`: the cluster when the plan was made; `load` reads it again. `followed`: a function
    from the job queue to the follower, which is called as jobs proceed; None for no follower.
    `working`: makes the object that reboots nodes; None if an administrator does that. `path`: the
    journal of a part of a campaign, which holds the lock of the cluster; "" for a whole execution.

    With ``--dry-run``, the jobs are only shown; for a cluster from a file, in the form that LUXI
    accepts.

    Raises
    ------
    ExecutionError, LiveError, UsageError
        If the execution cannot begin; no job was submitted then.
    """
    from secrets import token_hex

    queue, name = open_queue(settings) if settings.asks_running_cluster else (None, "")
    codes = {code["OP_ID"]: code for step in transition["steps"] for code in step["opcodes"]}
    head: Json = {
        "run": f"{strftime('%Y%m%d-%H%M%S')}-{token_hex(3)}",
        "command": command,
        "cluster": name,
        "singly": queue is not None and queue.singly,
        "unable": sorted(kind for kind, code in codes.items() if queue and not queue.able(code)),
        "expected": expectations(transition, places_of(cluster)),
        "candidates": [node.name for node in cluster.nodes if node.master_candidate],
        "reason": settings.reason,
        "priority": settings.priority,
        "transition": transition,
    }
    execution = _Execution(settings, head, queue)
    if settings.dry_run:
        return _shown(execution), 0
    if not execution.records.jobs:
        return execution.report(None), 0
    reject_silent_nodes(cluster, settings)
    with nullcontext() if path else ClusterLock(name):
        place = path or settings.journal or default_path(command, head["run"])
        journal = Journal.create(place, head)
        _say(f"journal: {place}")
        return _carry_out(execution, journal, load, followed, working)


def complete_journal(
    settings: Execution, path: str, load: Load, working: Working | None = None
) -> tuple[Json, int]:
    """Resume a part of a campaign; the campaign holds the lock of the cluster.

    `path`: the journal of the part. `load` reads the cluster. `working`: makes the object that
    reboots nodes; None if an administrator does that. Return the report as plain data, and the exit
    status.
    """
    head, records = records_in(path)
    queue, _ = open_queue(settings)
    if queue.singly != head["singly"]:
        connection = "RAPI (-m)" if head["singly"] else "LUXI (-L)"
        raise UsageError(f"{path}: the execution was begun by {connection}")
    journal = Journal.reopen(path)
    execution = _Execution(settings, head, queue, records)
    return _carry_out(execution, journal, load, None, working, again=True)


def resume(
    settings: Execution,
    load: Load,
    versioned: Callable[[Json], Json],
    followed: Followed | None = None,
) -> int:
    """Resume an execution, or show it; return the exit status.

    `load` reads the cluster. `versioned` converts a document to what ``--json`` writes. `followed`:
    a function from the job queue to the follower, which is called as jobs proceed; None for no
    follower.
    """
    head = read_journal(settings.resume)[0]
    if (head["command"] in FOLLOWED) != (followed is not None):
        raise UsageError(f"{settings.resume}: the journal is of iallocator {head['command']}")
    if not settings.execute and not settings.dry_run:
        execution = _read(settings, head, None)
        report = execution.report(load if settings.asks_running_cluster else None)
        _print(report, settings, versioned)
        return 0 if report["complete"] or _stopped_as_planned(execution.records) else 1
    queue = None
    if settings.asks_running_cluster:
        queue, name = open_queue(settings)
        if name != head["cluster"] or queue.singly != head["singly"]:
            connection = "RAPI (-m)" if head["singly"] else "LUXI (-L)"
            raise UsageError(
                f"{settings.resume}: the journal is of {head['cluster']} by {connection}, "
                f"this is {name}"
            )
    if settings.dry_run:
        execution = _read(settings, head, queue)
        again = [] if queue is None else list(retries(execution.records, places_of(load())))
        for kind, members in again:
            execution.records.apply({"event": kind, **members})
        _print(_shown(execution), settings, versioned)
        return 0
    with ClusterLock(head["cluster"]):
        journal = Journal.reopen(settings.resume)
        execution = _read(settings, head, queue)
        report, status = _carry_out(execution, journal, load, followed, None, again=True)
    _print(report, settings, versioned)
    return status


def _read(settings: Execution, head: Json, queue: JobQueue | None) -> _Execution:
    """Return the execution in the journal of ``--resume``, with the progress that it records."""
    return _Execution(settings, head, queue, records_in(settings.resume)[1])


def records_in(path: str) -> tuple[Json, Records]:
    """Return the head of the journal at `path`, and the states of its jobs.

    Raises
    ------
    UsageError
        If the file is not a journal, or is damaged.
    """
    head, events = read_journal(path)
    records = _new_records(head)
    try:
        for event in events:
            records.apply(event)
    except KeyError as error:  # only the numbers of jobs are unchecked
        raise UsageError(f"{path}: no job {error} in the plan of the journal") from None
    return head, records


def _carry_out(
    execution: _Execution,
    journal: Journal,
    load: Load,
    followed: Followed | None,
    working: Working | None,
    again: bool = False,
) -> tuple[Json, int]:
    """Execute the jobs that are left; `again`: also those that failed in an earlier run.

    Return the report as plain data, and the exit status.
    """
    assert execution.queue is not None
    settings, head, trouble = execution.settings, execution.head, ""
    line = _progress_line(head["transition"])
    goes_on = "--resume goes on" if working else f"--resume {journal.path} goes on"
    by_hand = settings.done_by_hand or settings.fenced
    confirmation = Confirmation(execution.records, by_hand)
    with Interrupts() as interrupts:
        orders = Orders(
            reason=settings.reason or head["reason"],
            priority=head["priority"] if settings.priority is None else settings.priority,
            first_group=settings.first_job_group,
            ahead=settings.ahead,
            boot_timeout=settings.boot_timeout,
            stopping=lambda: interrupts.came,
            console=Console(
                say=lambda text: _say(line(text)),
                complain=lambda text: _complain(line(text)),
                confirmed=confirmation,
            ),
        )
        check = LiveClusterCheck(load, head["expected"])
        session = Session(head["run"], execution.records, execution.queue, check, journal, orders)
        if followed is not None:
            session.follower = followed(execution.queue)
        if working is not None:
            session.work = confirmation.work = working(session, journal.path)
        try:
            trouble = carry_out(session, again)
        except ExecutionError as error:
            trouble = str(error)
        if session.work is not None:
            session.work.close()
        journal.close()
        look = load if trouble else lambda: session.patiently(load)
        report = execution.report(look)  # a second Ctrl-C ends waiting for the answer, too
    if trouble:
        _complain(f"{trouble}; {goes_on}")
    elif interrupts.came and not complete(execution.records):
        _complain(f"interrupted; {goes_on}")
    elif due := _by_hand(execution.records):
        what = ", ".join(map(describe, due))
        goes_on = goes_on.removesuffix(" goes on")
        _complain(f"now by hand: {what}; then go on with {goes_on} --done-by-hand")
    return report, _status(execution, trouble, interrupts)


def _progress_line(transition: Json) -> Callable[[str], str]:
    """Return a function that puts the time before a line of progress and shortens names in it."""
    page = Page()
    steps = transition["steps"]
    nodes = {name for step in steps for end in ("from", "to") for name in step.get(end, ())}
    nodes |= {step["node"] for step in steps if "node" in step}
    page.leave_out(domains_of(nodes, {step["instance"] for step in steps if "instance" in step}))
    return lambda text: f"{strftime('%H:%M:%S')} {page.short(text)}"


def _status(execution: _Execution, trouble: str, interrupts: Interrupts) -> int:
    """Return the exit status: 0 if all jobs are done, or if the execution stopped as planned.

    It stops as planned before a step for the administrator, and with ``--first-job-group`` after
    the first group of jobs.
    """
    records = execution.records
    stuck = records.in_state(FAILED, REJECTED) or records.blocked()
    left = execution.settings.first_job_group and not stuck
    left = left or _stopped_as_planned(records)
    if trouble or not (complete(records) or left or interrupts.came):
        return 1
    return 0 if complete(records) or not interrupts.came else interrupts.status


def _stopped_as_planned(records: Records) -> bool:
    """Return whether the execution stopped only because an administrator must do a step."""
    stuck = records.in_state(FAILED, REJECTED) or records.blocked()
    return bool(_by_hand(records)) and not stuck and not records.in_state(SENDING, SENT, RETURNING)


def _by_hand(records: Records) -> list[Job]:
    """Return the jobs that an administrator must do now."""
    return [job for job in records.jobs.values() if due_by_hand(job, records)]


def _shown(execution: _Execution) -> Json:
    """Print the jobs that `execution` would submit, with their dependencies; return its report."""
    records, settings = execution.records, execution.settings
    first = {job.number for job in ready(records)}
    if not settings.json:
        for job in records.jobs.values():
            done = records.of[job.number].state == DONE
            if done or (settings.first_job_group and job.number not in first):
                continue
            waits = sorted(n for n in job.after if records.of[n].state != DONE)
            after = f" after {', '.join(map(str, waits))}" if waits else ""
            by_hand = " (by hand)" if job.by_hand else ""
            print(printable(f"job {job.number}{after}: {describe(job)}{by_hand}"))
            for opcode in job.opcodes:
                print(f"  {on_one_line(opcode)}")
    return execution.report(None)


def _print(report: Json, settings: Execution, versioned: Callable[[Json], Json]) -> None:
    if settings.json:
        print_json(versioned({"execution": report}))
        return
    show_report(report, settings)


def show_report(report: Json, settings: Execution, anew: bool = True) -> None:
    """Print the result of an execution as plain text.

    `anew`: whether the text says how to leave rebooted nodes out of a new plan.
    """
    if not settings.dry_run:
        for line in report_lines(report, anew):
            print(printable(line))


def _complain(line: str) -> None:
    """Print a problem on stderr, also with ``--quiet``."""
    _say(f"iallocator: {one_line(line)}")


def _say(line: str) -> None:
    with suppress(OSError):  # if stderr is closed, the jobs continue
        tell(line)


class Confirmation:
    """Finds out whether an administrator has done a job: from an option, or by a question.

    There is one question for each job. The option ``--done-by-hand`` confirms the jobs that were
    due when the execution was resumed. There is no question for jobs that the program does itself:
    those that `work` handles.
    """

    work: Work | None = None

    def __init__(self, records: Records, done: bool) -> None:
        due = [job for job in records.jobs.values() if job.by_hand and records.free(job)]
        self._said = {job.number: True for job in due} if done else {}

    def __call__(self, job: Job) -> bool:
        if job.number not in self._said:
            if self.work is not None and self.work.handles(job):
                return False
            self._said[job.number] = self._asked(job)
        return self._said[job.number]

    @staticmethod
    def _asked(job: Job) -> bool:
        if not (sys.stdin and sys.stdin.isatty() and sys.stderr and sys.stderr.isatty()):
            return False
        print(f"by hand: {describe(job)}. Has it been done? [y/N] ", end="", file=sys.stderr)
        sys.stderr.flush()
        if not Deadline(None).wait_or_signal(sys.stdin.fileno()):
            return False
        return sys.stdin.readline().strip().lower() in ("y", "yes")


class Interrupts:
    """A ``with`` block in which a first signal ends waiting; a second one ends the process.

    Attributes
    ----------
    number:
        The first signal; 0: there was none.
    """

    def __init__(self) -> None:
        self.number = 0
        self._before: dict[int, object] = {}
        self._held = Held()

    def __enter__(self) -> Interrupts:
        self._held.__enter__()
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number in SIGNALS:
            signal.signal(number, self._before[number])  # type: ignore[arg-type]
        self._held.__exit__()

    @property
    def came(self) -> bool:
        """Return whether there was a signal."""
        return self.number != 0

    @property
    def status(self) -> int:
        """Return the exit status of a program that the signal ended."""
        return STATUS_SIGNALLED + self.number

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.came:
            _say_at_once(TWICE)
            os._exit(STATUS_SIGNALLED + number)
        self.number = number
        interrupt()
        _say_at_once(ONCE)


def _say_at_once(line: bytes) -> None:
    """Write `line` to stderr without buffers: the interrupted code may be using them."""
    with suppress(OSError):  # if stderr is closed, the message has no reader
        os.write(2, line)
