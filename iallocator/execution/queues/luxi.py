"""The job queue through LUXI: jobs of any opcodes."""

from __future__ import annotations

from iallocator.deadline import Deadline
from iallocator.execution.queues.answers import expecting, job_status
from iallocator.execution.queues.marks import marks_in
from iallocator.execution.queues.queue import ENDED, UnknownOutcomeError
from iallocator.live.errors import LiveError, ServerError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

    from iallocator.aliases import Json
    from iallocator.execution.queues.queue import JobStatus
    from iallocator.live.luxi import LuxiClient


__all__ = ["LuxiJobs"]

SUBMIT_SECONDS = 300.0


class LuxiJobs:
    """Jobs of the cluster that `client` speaks to; see `JobQueue`."""

    singly = False

    def __init__(self, client: LuxiClient) -> None:
        self._client = client
        self._last: dict[int, Any] = {}

    def able(self, opcode: Json) -> bool:
        """LUXI takes every opcode."""
        return True

    def submit(self, jobs: Sequence[Sequence[Json]]) -> list[int | str]:
        """Submit all at once, on a new connection: an old one may have been closed meanwhile."""
        self._client.close()
        try:
            answer = self._client.call(
                "SubmitManyJobs", [[list(job) for job in jobs]], Deadline(SUBMIT_SECONDS)
            )
        except ServerError:
            self._client.close()
            raise
        except LiveError as error:
            raise UnknownOutcomeError(str(error)) from None
        try:
            found = [_id_or_reason(*one) for one in answer]
        except (TypeError, ValueError):
            found = []
        if len(found) != len(jobs):
            raise UnknownOutcomeError("SubmitManyJobs: an answer that is not understood")
        return found

    def statuses(self, ids: Sequence[int]) -> dict[int, JobStatus]:
        """How these jobs are; archived ones are found, too."""
        rows = self._client.call("QueryJobs", [list(ids), ["status", "opstatus", "opresult"]])
        with expecting("QueryJobs"):
            found = {job_id: row or (None, None, None) for job_id, row in _pairs(ids, rows)}
            self._last |= {job_id: row[0] for job_id, row in found.items()}
            return {job_id: job_status(*row) for job_id, row in found.items()}

    def wait(self, ids: Sequence[int], seconds: float) -> None:
        """Until the first of these changes its status, or `seconds` have passed."""
        last = [self._last.get(ids[0])]
        arguments = [ids[0], ["status"], last, None, int(seconds)]
        try:
            self._client.call("WaitForJobChange", arguments)
        except ServerError:
            self._client.close()  # the job is gone, as `statuses` will say

    def hurry(self, number: int, priority: int) -> None:
        """Change the priority of a job."""
        self._client.call("ChangeJobPriority", [number, priority])

    def cancel(self, number: int) -> None:
        """Cancel a job that has not begun."""
        self._client.call("CancelJob", [number, False])

    def unfinished(self) -> list[tuple[int, list[Json]]]:
        """The jobs of anybody that have not ended."""
        rows = self._client.call("QueryJobs", [[], ["id", "status", "ops"]])
        with expecting("QueryJobs"):
            return [(int(number), codes) for number, status, codes in rows if status not in ENDED]

    def answering(self, nodes: Collection[str]) -> set[str]:
        """Return those of `nodes` that say how much memory they have."""
        wanted = ["|", *(["=", "name", node] for node in nodes)]
        answer = self._client.call("Query", ["node", ["name", "mtotal"], wanted])
        with expecting("Query"):
            found = {str(name[1]) for name, memory in answer["data"] if memory[0] == 0}
        return found & set(nodes)

    def find(self, run: str) -> Mapping[str, int]:
        """The jobs of an execution; where there are none, among the archived ones."""
        rows = self._client.call("QueryJobs", [[], ["id", "ops"]])
        with expecting("QueryJobs"):
            found = _marked(rows, run)
        if found:
            return found
        answer = self._client.call("Query", ["job", ["id", "ops"], ["?", "archived"]])
        with expecting("Query"):
            return _marked([[cell[1] for cell in row] for row in answer["data"]], run)


def _marked(rows: Any, run: str) -> dict[str, int]:
    """The marks in rows of id and opcodes."""
    return {mark: int(job_id) for job_id, codes in rows for mark in marks_in(codes or (), run)}


def _pairs(ids: Sequence[int], rows: Any) -> list[tuple[int, Any]]:
    """Each id with its row.

    Raises
    ------
    ValueError
        If there are not as many.
    """
    if len(ids) != len(rows):
        raise ValueError
    return list(zip(ids, rows))


def _id_or_reason(accepted: Any, value: Any) -> int | str:
    return int(value) if accepted else str(value)
