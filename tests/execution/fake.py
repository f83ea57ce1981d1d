"""Simulate a cluster with a job queue like Ganeti's, and random faults."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from iallocator.execution.cluster_check import Places, rejections
from iallocator.execution.jobs import Job
from iallocator.execution.queue import LOST, JobStatus, UnknownOutcomeError, marks_in
from tests.builders import Json

__all__ = ["FakeCluster", "FakeClusterCheck", "FakeQueue", "Killed"]


class Killed(BaseException):
    """Raised to simulate that the process which executes the plan is killed."""


@dataclass
class QueuedJob:
    """A job in the simulated queue."""

    opcodes: list[Json]
    status: str = "queued"
    done: int = 0


@dataclass
class FakeCluster:
    """A simulated cluster: placement of instances and job queue.

    Attributes
    ----------
    fails:
        The steps with a failing opcode.
    executed:
        The numbers of the executed steps, in order.
    most_waiting:
        Highest number of waiting jobs in the queue.
    held:
        Jobs that do not begin.
    """

    places: Places
    steps: Mapping[int, Json]
    rng: Random
    fails: frozenset[int] = frozenset()
    cancels: float = 0.0
    vanishes: float = 0.0
    jobs: dict[int, QueuedJob] = field(default_factory=dict)
    executed: list[int] = field(default_factory=list)
    cancelled: int = 0
    vanished: int = 0
    most_waiting: int = 0
    held: list[QueuedJob] = field(default_factory=list)

    def submit(self, opcodes: Sequence[Json]) -> int:
        """Add a job with `opcodes` to the queue, and return its ID."""
        job_id = 100 + len(self.jobs)
        self.jobs[job_id] = QueuedJob([dict(code) for code in opcodes])
        waiting = sum(job.status == "queued" for job in self.jobs.values())
        self.most_waiting = max(self.most_waiting, waiting)
        return job_id

    def pass_time(self) -> None:
        """Advance each job at random, last submitted first; some jobs vanish or are cancelled."""
        for job_id, job in reversed(list(self.jobs.items())):
            if self.rng.random() < 0.6:
                self._advance(job)
            if job.status == "success" and self.rng.random() < self.vanishes:
                job.status, self.vanished = LOST, self.vanished + 1
            if job.status == "queued" and self.rng.random() < self.cancels:
                self.cancel(job_id)
                self.cancelled += 1

    def _advance(self, job: QueuedJob) -> None:
        if job.status == "queued":
            if job not in self.held:
                job.status = "running"
        elif job.status == "running":
            step = self.steps[job.opcodes[job.done]["step"]]
            if step["number"] in self.fails:
                job.status = "error"
                return
            assert "instance" not in step or (
                self.places.instances[step["instance"]] == tuple(step["from"])
            ), f"{step} does not begin where the instance is"
            self.places.carry_out(step)
            self.executed.append(step["number"])
            job.done += 1
            if job.done == len(job.opcodes):
                job.status = "success"

    def cancel(self, job_id: int) -> None:
        """Cancel a job; a running one may end between two of its opcodes, as in Ganeti."""
        job = self.jobs[job_id]
        if job.status == "queued" and len(job.opcodes) > 1 and self.rng.random() < 0.5:
            self._advance(job)  # it began at this moment
            self._advance(job)
        if job.status == "queued" or (job.status == "running" and self.rng.random() < 0.7):
            job.status = "canceled"


class FakeQueue:
    """The queue of a fake cluster; `trip` may end the process or lose an answer at each call."""

    def __init__(
        self, cluster: FakeCluster, singly: bool, trip: Callable[[str], None] = lambda where: None
    ) -> None:
        self.cluster = cluster
        self.singly = singly
        self._trip = trip

    def able(self, opcode: Json) -> bool:
        """Return True: the queue supports all opcodes."""
        return True

    def submit(self, jobs: Sequence[Sequence[Json]]) -> list[int | str]:
        """Submit the jobs and return their IDs; the answer may get lost."""
        self._trip("before submission")
        ids = [self.cluster.submit(opcodes) for opcodes in jobs]
        self._trip("after submission")
        return list(ids)

    def statuses(self, ids: Sequence[int]) -> dict[int, JobStatus]:
        """Return the state of each job, by its ID."""
        self._trip("statuses")
        found = {}
        for job_id in ids:
            job = self.cluster.jobs[job_id]
            begun = job.status == "running" or job.done > 0
            found[job_id] = JobStatus(job.status, "", begun, job.done)
        return found

    def wait(self, ids: Sequence[int], seconds: float) -> None:
        """Let one unit of time pass on the cluster."""
        self._trip("wait")
        self.cluster.pass_time()

    def set_priority(self, number: int, priority: int) -> None:
        """Do nothing: the queue has no priorities."""

    def cancel(self, number: int) -> None:
        """Cancel the job with the given number."""
        self._trip("cancel")
        self.cluster.cancel(number)

    def drained(self) -> bool:
        """Return False: the queue accepts jobs."""
        return False

    def unfinished(self) -> list[tuple[int, list[Json]]]:
        """Return an empty list, as the cluster has no jobs of others."""
        return []

    def answering(self, nodes: Collection[str]) -> set[str]:
        """Return `nodes`, as all of them answer."""
        return set(nodes)

    def find(self, run: str) -> Mapping[str, int]:
        """Return the jobs of the execution `run`, by the marks in their reasons."""
        self._trip("find")
        return {
            mark: job_id
            for job_id, job in self.cluster.jobs.items()
            for mark in marks_in(job.opcodes, run)
        }


class LostAnswerError(UnknownOutcomeError):
    """Raised if the answer to a call is lost."""


class FakeClusterCheck:
    """A source of the nodes of instances in the fake cluster, and of rejections of jobs."""

    def __init__(self, cluster: FakeCluster, expected: Json) -> None:
        self._cluster = cluster
        self._expected = expected

    def places(self) -> Places:
        """Return the nodes of all instances of the fake cluster."""
        places = self._cluster.places
        return Places(
            dict(places.instances), set(places.offline), set(places.drained), set(places.nodes)
        )

    def look(self, jobs: Sequence[Job], waiting: Sequence[Job]) -> dict[int, str]:
        """Return why jobs are rejected, by job number."""
        found = rejections(waiting, self.places(), self._expected)
        return found | rejections(jobs, self.places(), self._expected)
