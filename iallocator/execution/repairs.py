"""Repairs on a running cluster: change the tags that record them, by jobs."""

from __future__ import annotations

from time import time, time_ns
from uuid import uuid4

from iallocator.execution.jobs import ExecutionError
from iallocator.execution.queue import ENDED, JOB_SUCCESS, UnknownOutcomeError, reason_trail
from iallocator.execution.records import DONE, FAILED
from iallocator.tags.autorepair import REPAIR_FAILURE, Record, state_of
from iallocator.tags.autorepair import REPAIR_SUCCESS as SUCCEEDED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from iallocator.aliases import Json
    from iallocator.execution.jobs import Job
    from iallocator.execution.queue import JobQueue
    from iallocator.execution.records import Records
    from iallocator.model.cluster import Cluster


__all__ = ["RepairJobs", "RepairTags"]

JOB_QUERY_INTERVAL = 10.0
"""Seconds between two queries of a job until it ends."""


class RepairJobs:
    """The job queue for repairs; `reason`: the administrator's text for reason trails."""

    def __init__(self, queue: JobQueue, reason: str = "") -> None:
        self._queue = queue
        self._reason = reason

        self._busy: dict[str, int] | None = None

    def possible(self, opcodes: Sequence[Json]) -> bool:
        """Return whether all `opcodes` can be submitted; RAPI does not accept every opcode."""
        return all(map(self._queue.able, opcodes))

    def busy_with(self, instance: str) -> int | None:
        """Return the id of an unfinished job about `instance`; None if there is none.

        The queue is read at the first call only.
        """
        if self._busy is None:
            self._busy = {
                code["instance_name"]: number
                for number, codes in self._queue.unfinished()
                for code in codes
                if isinstance(code.get("instance_name"), str)
            }
        return self._busy.get(instance)

    def ended(self, jobs: Iterable[int]) -> bool | None:
        """Return whether all `jobs` succeeded; None as long as one of them has not ended."""
        statuses = self._queue.statuses(list(jobs)).values()
        if any(status.status not in ENDED for status in statuses):
            return None
        return all(status.status == JOB_SUCCESS for status in statuses)

    def retag(self, instance: str, added: Sequence[str], removed: Sequence[str]) -> None:
        """Change the tags of an instance by jobs, and wait until the jobs have ended.

        Raises
        ------
        ExecutionError
            If a job is rejected or fails, or if it is unknown whether it was accepted.
        """
        for kind, tags in (("OP_TAGS_SET", added), ("OP_TAGS_DEL", removed)):
            if not tags:
                continue
            code = {"OP_ID": kind, "kind": "instance", "name": instance, "tags": list(tags)}
            trail = reason_trail(self._reason, f"{uuid4()}/1/1", time_ns())
            try:
                (number,) = self._queue.submit([[{**code, "reason": trail}]])
            except UnknownOutcomeError as error:
                raise ExecutionError(f"unknown whether the job was accepted: {error}") from None
            if isinstance(number, str):
                raise ExecutionError(f"the job was rejected: {number}")
            while (succeeded := self.ended([number])) is None:
                self._queue.wait([number], JOB_QUERY_INTERVAL)
            if not succeeded:
                raise ExecutionError(f"{instance}: its tags were not changed (job {number})")


class RepairTags:
    """Updates the tags of instances as their repairs proceed; `load` reads the cluster."""

    def __init__(self, jobs: RepairJobs, load: Callable[[], Cluster]) -> None:
        self._jobs = jobs
        self._load = load

    def follow(self, records: Records) -> None:
        """Write the progress of the repairs to the tags; tags that are up to date are not changed.

        Raises
        ------
        ExecutionError, LiveError
            If tags cannot be changed.
        """
        chains: dict[str, list[Job]] = {}
        for job in records.whole.values():
            chains.setdefault(job.instance, []).append(job)
        # Instance -> the tag for its repair; no tag as long as no job was accepted
        wanted: dict[str, Record] = {}
        for name, chain in chains.items():
            repair = chain[0].steps[0]["repair"]
            ids = [records.of[job.number].id for job in chain]
            numbers = tuple(number for number in ids if number is not None)
            record = Record(repair["type"], repair["id"], repair["seconds"], numbers)
            states = {records.of[job.number].state for job in chain}
            if states == {DONE}:
                wanted[name] = record.ended(SUCCEEDED, int(time()))
            elif FAILED in states:
                wanted[name] = record.ended(REPAIR_FAILURE, int(time()))
            elif numbers:
                wanted[name] = record
        here = {one.name: one for one in self._load().instances} if wanted else {}
        for name, record in wanted.items():
            if name not in here:
                continue
            known = state_of(here[name])
            said = known.record
            same = said is not None and (
                (said.identity, said.result) == (record.identity, record.result)
            )
            if said != record and not (same and record.result):
                self._jobs.retag(name, [record.tag], known.changed("", record).outdated)
