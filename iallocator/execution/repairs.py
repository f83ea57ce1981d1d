"""Repairs on a running cluster: what tags say of them, changed by jobs that are waited for."""

from __future__ import annotations

from time import time, time_ns
from uuid import uuid4

from iallocator.execution.jobs import ExecutionError
from iallocator.execution.queue import ENDED, SUCCESS, UnknownOutcomeError, reason_trail
from iallocator.execution.records import DONE, FAILED
from iallocator.tags.autorepair import FAILURE, Record, state_of
from iallocator.tags.autorepair import SUCCESS as SUCCEEDED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from iallocator.aliases import Json
    from iallocator.execution.jobs import Job
    from iallocator.execution.queue import JobQueue
    from iallocator.execution.records import Records
    from iallocator.model.cluster import Cluster


__all__ = ["RepairJobs", "RepairTags"]

PATIENCE = 10.0
"""Seconds between two looks at a job that is waited for."""


class RepairJobs:
    """The queue, as repairs need it; `reason`: what administrators say in every trail."""

    def __init__(self, queue: JobQueue, reason: str = "") -> None:
        self._queue = queue
        self._reason = reason

        self._busy: dict[str, int] | None = None

    def possible(self, opcodes: Sequence[Json]) -> bool:
        """Whether all `opcodes` can be submitted here: RAPI does not take each."""
        return all(map(self._queue.able, opcodes))

    def busy_with(self, instance: str) -> int | None:
        """A job in the queue, when it was first asked, that has not ended and is about it."""
        if self._busy is None:
            self._busy = {
                code["instance_name"]: number
                for number, codes in self._queue.unfinished()
                for code in codes
                if isinstance(code.get("instance_name"), str)
            }
        return self._busy.get(instance)

    def ended(self, jobs: Iterable[int]) -> bool | None:
        """Whether all `jobs` succeeded; None as long as one of them has not ended."""
        found = self._queue.statuses(list(jobs)).values()
        if any(status.status not in ENDED for status in found):
            return None
        return all(status.status == SUCCESS for status in found)

    def retag(self, instance: str, added: Sequence[str], removed: Sequence[str]) -> None:
        """Change the tags of an instance, and wait until that is done.

        Raises
        ------
        ExecutionError
            If a job is rejected or fails, or it is not known whether the job arrived.
        """
        for kind, tags in (("OP_TAGS_SET", added), ("OP_TAGS_DEL", removed)):
            if not tags:
                continue
            code = {"OP_ID": kind, "kind": "instance", "name": instance, "tags": list(tags)}
            trail = reason_trail(self._reason, f"{uuid4()}/1/1", time_ns())
            try:
                (number,) = self._queue.submit([[{**code, "reason": trail}]])
            except UnknownOutcomeError as error:
                raise ExecutionError(f"whether the job was taken is not known: {error}") from None
            if isinstance(number, str):
                raise ExecutionError(f"the job is refused: {number}")
            while (succeeded := self.ended([number])) is None:
                self._queue.wait([number], PATIENCE)
            if not succeeded:
                raise ExecutionError(f"{instance}: its tags were not changed (job {number})")


class RepairTags:
    """Keeps the tags of instances in step with how far their repairs are.

    `load` reads the cluster anew.
    """

    def __init__(self, jobs: RepairJobs, load: Callable[[], Cluster]) -> None:
        self._jobs = jobs
        self._load = load

    def follow(self, records: Records) -> None:
        """Let the tags say how far the repairs are; what they say already is left as it is.

        Raises
        ------
        ExecutionError, LiveError
            If tags cannot be changed.
        """
        chains: dict[str, list[Job]] = {}
        for job in records.whole.values():
            chains.setdefault(job.instance, []).append(job)
        told = {name: _record_of(chain, records) for name, chain in chains.items()}
        here = {one.name: one for one in self._load().instances} if any(told.values()) else {}
        for name, record in told.items():
            if record is None or name not in here:
                continue
            known = state_of(here[name])
            said = known.record
            same = said is not None and (
                (said.identity, said.result) == (record.identity, record.result)
            )
            if said != record and not (same and record.result):
                self._jobs.retag(name, [record.tag], known.changed("", record).outdated)


def _record_of(chain: Sequence[Job], records: Records) -> Record | None:
    """Return the tag for the repair that these jobs make; None as long as no job was taken."""
    told = chain[0].steps[0]["repair"]
    ids = [records.of[job.number].id for job in chain]
    numbers = tuple(number for number in ids if number is not None)
    record = Record(told["type"], told["id"], told["seconds"], numbers)
    states = {records.of[job.number].state for job in chain}
    if states == {DONE}:
        return record.ended(SUCCEEDED, int(time()))
    if FAILED in states:
        return record.ended(FAILURE, int(time()))
    return record if numbers else None
