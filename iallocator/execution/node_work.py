"""Maintain nodes while they are empty: run a command on each, and notice when it has rebooted.

A node has rebooted when its boot id has changed. The kernel makes a new one at every boot.
Therefore, the end of a connection decides nothing: a command that reboots its own node loses the
connection.

The journal has the boot id from before the command. After an interruption, a node with another boot
id has rebooted meanwhile. On a node with an unchanged boot id, the command runs again if its end is
not in the journal, once no process of the earlier run has the file with the output open.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from dataclasses import dataclass

from iallocator.errors import STATUS_SIGNALLED, one_line
from iallocator.execution.records import PENDING, SENDING, SENT
from iallocator.options.values import for_node
from iallocator.transition.step import REBOOT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator

    from iallocator.execution.jobs import Job
    from iallocator.execution.session import Session

    Task = Generator[None, None, None]
    """Work on a node that ``next`` continues each time the state of the node may have changed."""

__all__ = ["NodeCommands", "NodeWork"]

BOOT_ID_INTERVAL = 5.0
"""Seconds between two queries of a boot id."""

BOOT_ID_SECONDS = 30.0
"""Seconds after which a query of a boot id that has no answer is given up."""

PROCESS_TEST_INTERVAL = 0.2
"""Seconds between two tests of whether a process has ended."""

COMMAND_REMINDER_SECONDS = 300.0
"""Seconds between two messages about the same wait."""

CONNECTION_LOST = 255
"""The exit status of ssh if the connection is lost."""


@dataclass(frozen=True)
class NodeCommands:
    """The shell commands for maintaining a node; ``{node}`` stands for its name.

    Attributes
    ----------
    run:
        The command that maintains the node; "" if an administrator does that by hand.
    check:
        The command that checks the node after its maintenance; "" for no check.
    boot_id:
        The command that prints the boot id of the node.
    reboots:
        Whether the node reboots. Otherwise, the maintenance is done when `run` ends with status 0.
    """

    run: str
    check: str
    boot_id: str
    reboots: bool = True


class _Failure(Exception):  # noqa: N818  # the work on one node ends; the others go on
    """The work on a node failed. `keep`: keep its boot id, because the node may still reboot."""

    def __init__(self, why: str, keep: bool = False) -> None:
        super().__init__(why)
        self.keep = keep


class NodeWork:
    """Maintains the empty nodes of a session, and checks the nodes that are back.

    While a node reboots, the cluster cannot be read. Therefore the work begins on all nodes that
    are empty at once, when no job is in the queue. `logs` is the beginning of the names of the
    files with the output of commands.
    """

    def __init__(self, session: Session, commands: NodeCommands, logs: str) -> None:
        self._session = session
        self._commands = commands
        self._logs = logs
        self._tasks: dict[int, Task] = {}
        self._checks: dict[int, Task] = {}
        self._passed: set[int] = set()
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def handles(self, job: Job) -> bool:
        """Return whether this object does `job`, so that no administrator must do it."""
        return (
            job.by_hand
            and job.steps[0]["kind"] == REBOOT
            and bool(self._commands.run or self._commands.reboots)
        )

    def advance(self) -> bool:
        """Begin and continue the work on empty nodes; return whether a job has changed."""
        session, records = self._session, self._session.records
        if not (self._tasks or records.in_state(SENT, SENDING)):
            due = self._due()
            reasons = session.patiently(lambda: session.cluster_check.look(due, [])) if due else {}
            for job in due:
                if job.number in reasons:
                    self._fail(job.number, _Failure(reasons[job.number]))
                else:
                    self._tasks[job.number] = self._maintain(job)
            if reasons:
                return True
        ended = [self._step(self._tasks, number) for number in list(self._tasks)]
        return any(ended)

    def away(self) -> bool:
        """Return whether a node is being maintained, so that it may not answer."""
        return bool(self._tasks)

    def catch_up(self) -> None:
        """Wait until nodes that may have rebooted since an interruption answer."""
        session, orders = self._session, self._session.orders
        since = orders.clock.seconds()
        for job in self._due():
            node, earlier = str(job.steps[0]["node"]), session.records.of[job.number].boot
            now, said = "", False
            while earlier and not orders.stopping():
                query = self._boot_id(node)
                try:
                    while True:
                        next(query)
                        orders.clock.pause(PROCESS_TEST_INTERVAL)
                except StopIteration as end:
                    now = end.value
                if now or orders.clock.seconds() - since >= orders.boot_timeout:
                    break
                if not said:
                    orders.console.say(f"waiting: {node} does not answer")
                said = True
                orders.clock.pause(BOOT_ID_INTERVAL)
            if now and now != earlier:
                self._confirm(job, "it has rebooted")

    def unchecked(self, number: int) -> bool:
        """Begin or continue the check of the node of a job; return whether it has not passed."""
        if not self._commands.check or number in self._passed:
            return False
        if number not in self._checks:
            self._checks[number] = self._check(self._session.records.jobs[number])
        self._step(self._checks, number)
        return number not in self._passed

    def close(self) -> None:
        """Report the commands that are still running; they are not killed."""
        for node, process in self._running.items():
            if process.poll() is None:
                self._session.orders.console.complain(
                    f"{node}: its command goes on in process {process.pid}"
                )

    def _due(self) -> list[Job]:
        """Return the jobs for empty nodes that are not maintained yet."""
        records = self._session.records
        return [job for job in records.in_state(PENDING) if self.handles(job) and records.free(job)]

    def _step(self, tasks: dict[int, Task], number: int) -> bool:
        """Continue the task of job `number`; return whether it has ended."""
        try:
            next(tasks[number])
        except StopIteration:
            del tasks[number]
            return True
        except _Failure as failure:
            del tasks[number]
            self._fail(number, failure)
            return True
        return False

    def _fail(self, number: int, failure: _Failure) -> None:
        session = self._session
        session.event("work failed", job=number, why=str(failure), keep=failure.keep)
        session.orders.console.complain(
            f"{session.records.jobs[number].steps[0]['node']}: {failure}"
        )

    def _maintain(self, job: Job) -> Task:
        """Maintain the node of `job`, and confirm the job when the node has rebooted."""
        session, commands = self._session, self._commands
        node, orders, record = str(job.steps[0]["node"]), session.orders, session.records.of
        earlier, before = record[job.number].boot, ""
        if commands.reboots:
            before = yield from self._boot_id(node)
            if earlier and before and before != earlier:
                self._confirm(job, "it has rebooted")
                return
            if not before:
                command = for_node(commands.boot_id, node)
                raise _Failure(f"its boot id is not known: {command}", keep=True)
        if commands.run and not record[job.number].ran:
            status, last = yield from self._run(job, node, before)
            if not commands.reboots:
                if status:
                    raise _Failure(f"its command ended with status {status}: {last}")
                self._confirm(job, "its command has ended")
                return
            if 0 < status < STATUS_SIGNALLED:  # the connection was not lost
                now = yield from self._boot_id(node)
                if now == before:
                    raise _Failure(f"its command ended with status {status}: {last}")
            session.event("worked", job=job.number)
            orders.console.say(
                f"{node}: its command ended with status {status}; waiting for its reboot"
            )
        elif not commands.run:
            if not earlier:
                session.event("working", job=job.number, boot=before)
            orders.console.say(
                f"now by hand: maintain and reboot {node}; its new boot id is waited for"
            )
        since = said = orders.clock.seconds()
        while True:
            now = yield from self._boot_id(node)
            if now and now != before:
                self._confirm(job, "it has rebooted")
                return
            waited = orders.clock.seconds() - since
            if commands.run and waited >= orders.boot_timeout:
                why = "does not answer" if not now else "has its old boot id"
                raise _Failure(f"it {why}, {waited:.0f} s after its command ended", keep=True)
            if orders.clock.seconds() - said >= COMMAND_REMINDER_SECONDS:
                said = orders.clock.seconds()
                orders.console.say(f"waiting: {node} has not rebooted")
            yield from self._pause(BOOT_ID_INTERVAL)

    def _run(self, job: Job, node: str, before: str) -> Generator[None, None, tuple[int, str]]:
        """Run the command for `node`; return its exit status, and its last line of output."""
        session, path = self._session, f"{self._logs}.{node}.log"
        command = for_node(self._commands.run, node)
        log = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            reported = False
            while True:
                try:
                    fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the command inherits the lock
                    break
                except OSError:
                    if not reported:
                        session.orders.console.say(
                            f"waiting: an earlier command of {node} still runs"
                        )
                    reported = True
                    yield from self._pause(BOOT_ID_INTERVAL)
            if before and session.records.of[job.number].boot:  # the node may have rebooted now
                now = yield from self._boot_id(node)
                if now != before:
                    return CONNECTION_LOST, ""
            session.event("working", job=job.number, boot=before)
            session.orders.console.say(f"{node}: running {one_line(command)} (output in {path})")
            start = os.fstat(log).st_size
            process = _shell(command, log)
        finally:
            os.close(log)
        yield from self._ended(node, process)
        return process.returncode, _last_line(path, start)

    def _check(self, job: Job) -> Task:
        """Run the check of the node of `job`."""
        node = str(job.steps[0]["node"])
        path = f"{self._logs}.{node}.check.log"
        command = for_node(self._commands.check, node)
        self._session.orders.console.say(f"{node}: checking: {one_line(command)}")
        with open(path, "ab") as log:
            start = log.tell()
            process = _shell(command, log.fileno())
        yield from self._ended(node, process)
        if process.returncode:
            last = _last_line(path, start)
            raise _Failure(f"its check ended with status {process.returncode}: {last}", keep=True)
        self._passed.add(job.number)

    def _boot_id(self, node: str) -> Generator[None, None, str]:
        """Return the boot id of `node`; "" if the node does not report it."""
        command = for_node(self._commands.boot_id, node)
        process = _shell(command, subprocess.PIPE, subprocess.DEVNULL)
        assert process.stdout is not None
        clock = self._session.orders.clock.seconds
        end = clock() + BOOT_ID_SECONDS
        try:
            while process.poll() is None:
                if clock() >= end:
                    return ""
                yield
            boot_id = process.stdout.read(200).decode("ascii", "replace").strip()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            process.stdout.close()
        return boot_id if process.returncode == 0 and boot_id.isprintable() else ""

    def _ended(self, node: str, process: subprocess.Popen[bytes]) -> Task:
        """Wait until the command of `node` has ended."""
        self._running[node] = process
        while process.poll() is None:
            yield
        del self._running[node]

    def _pause(self, seconds: float) -> Generator[None, None, None]:
        clock = self._session.orders.clock.seconds
        end = clock() + seconds
        while clock() < end:
            yield

    def _confirm(self, job: Job, why: str) -> None:
        self._session.event("confirmed", jobs=[job.number])
        self._session.report_state(job.number, why)


def _shell(command: str, out: int, errors: int | None = None) -> subprocess.Popen[bytes]:
    """Start a shell command in a process session of its own; stderr goes to `out` by default."""
    return subprocess.Popen(
        ["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, stdout=out,
        stderr=out if errors is None else errors, start_new_session=True,
    )  # fmt: skip


def _last_line(path: str, start: int) -> str:
    """Return the last line that a command has written to the file at `path`, from `start` on."""
    with open(path, "rb") as log:
        log.seek(max(start, os.fstat(log.fileno()).st_size - 2000))
        lines = log.read().decode("utf-8", "replace").split("\n")
    return one_line(next((line for line in reversed(lines) if line.strip()), "no output"))
