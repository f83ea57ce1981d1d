"""Wait for nodes that were powered on or rebooted.

The method depends on two facts about Ganeti.

* Ganeti queries no offline node. Only the job that sets the node online asks the node daemon, for
  its version, and fails while there is no answer. Therefore this job is submitted again until it
  succeeds.
* A rebooted node is not offline: a query of its memory shows whether the node daemon answers. The
  drbd disks on the node stay inactive until `ganeti-watcher` activates them, which may be paused.
  Therefore the disks are activated here, and the jobs that follow wait until the disks are in sync.
"""

from __future__ import annotations

from functools import partial

from iallocator.errors import many
from iallocator.execution.jobs import ExecutionError
from iallocator.execution.queue import (
    ENDED,
    JOB_ERROR,
    JOB_SUCCESS,
    SOURCE,
    UnknownOutcomeError,
    expecting,
)
from iallocator.execution.records import PENDING, RETURNING
from iallocator.live.stream import LiveError, ServerError
from iallocator.model.templates import DRBD
from iallocator.transition.step import ONLINE, POWER_ON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from typing import Any

    from iallocator.aliases import Json
    from iallocator.execution.jobs import Job
    from iallocator.execution.queue import JobStatus
    from iallocator.execution.session import Session


__all__ = ["Returning"]

NO_VERSION = "fails to report its version"
"""Ganeti's error if a job sets a node online and the daemon of the node does not answer."""

SHORTEST_QUERY_INTERVAL, LONGEST_QUERY_INTERVAL = 5.0, 60.0
"""Seconds between two queries of a node or its disks."""

STOP_TEST_INTERVAL = 1.0
"""Seconds between two tests of whether the execution is to stop."""

RETURN_REMINDER_SECONDS = 60.0
"""Seconds between two messages about the same wait."""


class Returning:
    """Waits for the nodes of a session that were powered on or rebooted.

    Attributes
    ----------
    trouble:
        The nodes or disks that were not ready within `Orders.boot_timeout`; "" if all were.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._records = session.records
        self._since: dict[str, float] = {}
        self._due: dict[int, float] = {}
        self._said: dict[str, float] = {}
        self._activated: set[str] = set()
        self._given_up: set[int] = set()
        self._ready: set[int] = set()
        self.trouble = ""

    def put_off(self, job: Job, status: JobStatus) -> bool:
        """Return whether to submit a failed job again later, because its node is still booting.

        The result is false for nodes that the plan does not power on.
        """
        left = job.steps[-1]
        booting = (
            status.status == JOB_ERROR
            and left["kind"] == ONLINE
            and NO_VERSION in status.why
            and any(
                step["kind"] == POWER_ON and step["node"] == left["node"]
                for one in self._records.whole.values()
                for step in one.steps
            )
        )
        if booting:
            why = f"{left['node']} does not answer"
            self._session.event("away", job=job.number, done=status.done, why=why)
            self._wait_for([job.number], why)
        return booting

    def held(self, number: int) -> bool:
        """Return whether a job must not be submitted yet, because its node does not answer."""
        later = self._due.get(number, 0.0) > self._session.orders.clock.seconds()
        return later or number in self._given_up

    def waits(self) -> bool:
        """Return whether a node or a disk is not ready yet and has not been given up."""
        return any(number not in self._given_up for number in (*self._due, *self._rebooted()))

    def wait(self) -> None:
        """Wait a short time, so that Ctrl-C is noticed."""
        self._session.orders.clock.pause(STOP_TEST_INTERVAL)

    def wait_for_all(self) -> None:
        """Wait until all nodes and disks are ready, or the execution is to stop."""
        while self.waits() and not self._session.orders.stopping():
            if not self.look():
                self.wait()

    def look(self) -> bool:
        """Send the queries of nodes and disks that are due; return whether a job can continue."""
        for number in [
            n for n in self._due if self._records.of[n].state not in (PENDING, RETURNING)
        ]:
            del self._due[number]
        over = [n for n in self._due if not self.held(n) and self._records.of[n].state == PENDING]
        for number in over:
            del self._due[number]
        rebooted = [n for n in self._rebooted() if not self.held(n)]
        work = self._session.work
        if work is not None:
            self._ready = {n for n in self._ready if n in rebooted}
            passed = [n for n in self._ready if not work.unchecked(n)]
            if passed:
                self._back(passed)
                return True
            rebooted = [n for n in rebooted if n not in self._ready]
        if not rebooted:
            return bool(over)
        nodes = [str(self._records.jobs[number].steps[-1]["node"]) for number in rebooted]
        queue = self._session.queue
        silent = set(nodes) - self._session.patiently(lambda: queue.answering(nodes))
        if silent:
            verb = "does" if len(silent) == 1 else "do"
            self._wait_for(rebooted, f"{', '.join(sorted(silent))} {verb} not answer", "nodes")
            return bool(over)
        behind = self._out_of_sync(nodes)
        if behind:
            why, seconds, progress = behind
            if progress:  # a sync may take hours
                self._since.pop("disks", None)
            self._wait_for(rebooted, why, "disks", seconds)
            return bool(over)
        if work is not None:
            self._ready.update(number for number in rebooted if work.unchecked(number))
        self._back([number for number in rebooted if number not in self._ready])
        return True

    def _back(self, jobs: Sequence[int]) -> None:
        """Record that the nodes of the jobs numbered `jobs` are ready for instances again."""
        if jobs:
            self._session.event("by hand", jobs=list(jobs))
        for number in jobs:
            self._session.report_state(number, "done: the node answers, its disks are in sync")

    def _rebooted(self) -> list[int]:
        return [job.number for job in self._records.in_state(RETURNING)]

    def _wait_for(
        self, jobs: Sequence[int], why: str, what: str = "", seconds: float = 0.0
    ) -> None:
        """Set the next query of the nodes of `jobs`, or give them up if they took too long.

        `why`: the reason for the wait. `what`: a name under which the time of the wait is counted;
        by default `why`. `seconds`: the expected duration, if it is known.
        """
        orders, what = self._session.orders, what or why
        now = orders.clock.seconds()
        waited = now - self._since.setdefault(what, now)
        if waited >= orders.boot_timeout:
            self._given_up.update(jobs)
            self.trouble = f"{why}, {waited:.0f} s after it was waited for"
            return
        pause = min(max(seconds, waited / 6, SHORTEST_QUERY_INTERVAL), LONGEST_QUERY_INTERVAL)
        self._due.update(dict.fromkeys(jobs, now + pause))
        if now - self._said.get(what, -RETURN_REMINDER_SECONDS) >= RETURN_REMINDER_SECONDS:
            self._said[what] = now
            limit = f", at most {orders.boot_timeout:g} s" if not seconds else ""
            orders.console.say(f"waiting: {why}{limit}")

    def _out_of_sync(self, nodes: Collection[str]) -> tuple[str, float, bool] | None:
        """Return the problem of the drbd disks on `nodes`; None if all are in sync.

        The result is the reason, the seconds that the sync still takes, and whether there is
        progress. Disks that are not active, or not connected, are activated once.
        """
        places = self._session.patiently(self._session.cluster_check.places)
        names = [
            name
            for name, where in places.instances.items()
            if len(where) > 1 and name in places.running and not {*nodes}.isdisjoint(where)
        ]
        try:
            problems = sorted(self._disk_problems(names)) if names else []
        except LiveError as error:
            raise ExecutionError(str(error)) from None
        if not problems:
            return None
        inactive = {name for _, name, _, syncs in problems if not syncs} - self._activated
        for name in sorted(inactive):
            self._session.orders.console.say(f"{name}: activating its disks")
            self._submit([{"OP_ID": "OP_INSTANCE_ACTIVATE_DISKS", "instance_name": name}])
        self._activated |= inactive
        count, first = len({name for _, name, _, _ in problems}), problems[0][2]
        why = f"{many(count, 'instance')} not in sync: {first}"
        return why, max(seconds for seconds, *_ in problems), any(syncs for *_, syncs in problems)

    def _disk_problems(self, names: Sequence[str]) -> Iterator[tuple[float, str, str, bool]]:
        """Yield for each disk that is not in sync: seconds left, instance, problem, if it syncs."""
        query: Json = {"OP_ID": "OP_INSTANCE_QUERY_DATA", "static": False, "use_locking": False}
        singly = self._session.queue.singly
        groups = [[name] for name in names] if singly else [list(names)]
        ids = [
            job
            for some in groups
            if (job := self._submit([{**query, "instances": some}])) is not None
        ]
        queue = self._session.queue
        while True:
            now = self._session.patiently(partial(queue.statuses, ids))
            open_jobs = [job for job in ids if now[job].status not in ENDED]
            if not open_jobs or self._session.orders.stopping():
                break
            self._session.patiently(partial(queue.wait, open_jobs, STOP_TEST_INTERVAL))
        known: dict[str, Any] = {}
        for status in now.values():
            if (
                status.status == JOB_SUCCESS
                and status.results
                and isinstance(status.results[0], dict)
            ):
                known |= status.results[0]
        for name in names:
            if name not in known:
                yield 0.0, name, f"the disks of {name} are not known", False
                continue
            with expecting("OP_INSTANCE_QUERY_DATA"):
                yield from _problems(name, known[name])

    def _submit(self, opcodes: Sequence[Json]) -> int | None:
        """Submit a job that is not in the plan; return its id, or None if that is unknown."""
        orders = self._session.orders
        trail = [[SOURCE, orders.reason or "disks after a reboot", orders.clock.nanoseconds()]]
        try:
            (submitted,) = self._session.queue.submit(
                [[{**code, "reason": trail} for code in opcodes]]
            )
        except UnknownOutcomeError:
            return None
        except ServerError as error:
            raise ExecutionError(str(error)) from None
        if isinstance(submitted, str):
            raise ExecutionError(f"{opcodes[0]['OP_ID']} is rejected: {submitted}")
        return submitted


def _problems(name: str, reported: Any) -> Iterator[tuple[float, str, str, bool]]:
    """Yield for each drbd disk that is not in sync: seconds left, instance, problem, if it syncs.

    `reported`: the result of OP_INSTANCE_QUERY_DATA for the instance `name`. An instance that does
    not run has no problems, because its disks are not active.
    """
    if reported.get("run_state") != "up":
        return
    for position, disk in enumerate(reported["disks"]):
        if not disk["dev_type"].startswith(DRBD):
            continue
        nodes = disk.get("drbd_info") or {}
        for side, role in (("pstatus", "primary_node"), ("sstatus", "secondary_node")):
            where = f"disk {position} of {name} on {nodes.get(role, role)}"
            if disk[side] is None:
                yield 0.0, name, f"{where} is not active", False
                continue
            percent, seconds, degraded = disk[side][3:6]
            if percent is not None:
                yield float(seconds or 0), name, f"{where} is {percent:.0f} % in sync", True
            elif degraded:
                yield 0.0, name, f"{where} is degraded", False
