"""Repairs on a running cluster: jobs submitted, and tags changed by jobs that are waited for."""

from __future__ import annotations

from time import time_ns
from uuid import uuid4

from iallocator.execution.errors import ExecutionError
from iallocator.execution.queues.marks import reason_trail
from iallocator.execution.queues.queue import ENDED, SUCCESS, UnknownOutcomeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from iallocator.execution.queues.queue import JobQueue

    Json = dict[str, Any]

__all__ = ["RepairJobs"]

PATIENCE = 10.0
"""Seconds between two looks at a job that is waited for."""


class RepairJobs:
    """The queue, as repairs need it; `reason`: what administrators say in every trail."""

    def __init__(self, queue: JobQueue, reason: str = "") -> None:
        self._queue = queue
        self._reason = reason

    def possible(self, opcodes: Sequence[Json]) -> list[Json]:
        """Those of `opcodes` that make one job here: RAPI takes one, and not each; [] for none."""
        some = list(opcodes) if self._queue.depends else list(opcodes[:1])
        return some if all(map(self._queue.able, some)) else []

    def ended(self, jobs: Iterable[int]) -> bool | None:
        """Whether all `jobs` succeeded; None as long as one of them has not ended."""
        found = self._queue.statuses(list(jobs)).values()
        if any(status.status not in ENDED for status in found):
            return None
        return all(status.status == SUCCESS for status in found)

    def submit(self, opcodes: Sequence[Json]) -> int:
        """Submit one job; its id.

        Raises
        ------
        ExecutionError
            If it is refused, or nobody knows whether it arrived.
        """
        trail = reason_trail(self._reason, f"{uuid4()}/1/1", time_ns())
        try:
            (found,) = self._queue.submit([[{**code, "reason": trail} for code in opcodes]])
        except UnknownOutcomeError as error:
            raise ExecutionError(f"whether the job was taken is not known: {error}") from None
        if isinstance(found, str):
            raise ExecutionError(f"the job is refused: {found}")
        return found

    def retag(self, instance: str, added: Sequence[str], removed: Sequence[str]) -> None:
        """Change the tags of an instance, and wait until that is done.

        Raises
        ------
        ExecutionError
            If it cannot be done.
        """
        for kind, tags in (("OP_TAGS_SET", added), ("OP_TAGS_DEL", removed)):
            if tags:
                code = {"OP_ID": kind, "kind": "instance", "name": instance, "tags": list(tags)}
                number = self.submit([code])
                if not self._waited(number):
                    raise ExecutionError(f"{instance}: its tags were not changed (job {number})")

    def _waited(self, number: int) -> bool:
        """Wait until a job has ended; whether it succeeded."""
        while True:
            found = self.ended([number])
            if found is not None:
                return found
            self._queue.wait([number], PATIENCE)
