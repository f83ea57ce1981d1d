"""The interface to the job queue of a cluster, for executions through LUXI or RAPI.

`JobQueue` is the interface. The functions translate the state of a job, and mark the jobs of an
execution. A mark is an entry ``[source, text, nanoseconds]`` in the reason trail of each opcode.
The text is the administrator's reason, if there is one, followed by ``(RUN/JOB/ATTEMPT)``.
"""

from __future__ import annotations

import re
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from iallocator.live.stream import LiveError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from iallocator.aliases import Json

__all__ = [
    "ENDED",
    "JOB_CANCELED",
    "JOB_ERROR",
    "JOB_SUCCESS",
    "LOST",
    "RUNNING",
    "SOURCE",
    "WAITING",
    "JobQueue",
    "JobStatus",
    "UnknownOutcomeError",
    "expecting",
    "failed_out_of_band",
    "job_status",
    "marks_in",
    "reason_trail",
]

JOB_SUCCESS, JOB_ERROR, JOB_CANCELED = "success", "error", "canceled"

LOST = "lost"
"""The status of a job that the queue does not have, or no longer has."""

RUNNING = "running"

WAITING = ("queued", "waiting")
"""The status of jobs that have not begun, and can be cancelled."""

ENDED = (JOB_SUCCESS, JOB_ERROR, JOB_CANCELED, LOST)


class UnknownOutcomeError(Exception):
    """It is unknown whether submitted jobs arrived. The caller must search the queue for them."""


@dataclass(frozen=True)
class JobStatus:
    """The status of a job.

    Attributes
    ----------
    status:
        Ganeti's word for the status, or `LOST`.
    why:
        The reason of a failure, as text.
    begun:
        Whether an opcode of the job runs or has succeeded.
    done:
        How many opcodes have succeeded.
    results:
        The result of each opcode, as the queue reports it.
    """

    status: str
    why: str = ""
    begun: bool = False
    done: int = 0
    results: Sequence[Any] = ()


class JobQueue(Protocol):
    """The interface to the job queue of a cluster.

    Each method raises `iallocator.live.stream.LiveError` if the cluster cannot be reached.

    Attributes
    ----------
    singly:
        Whether a job has one opcode only.
    """

    singly: bool

    def able(self, opcode: Json) -> bool:
        """Return whether the queue accepts opcodes of the kind of `opcode`."""

    def submit(self, jobs: Sequence[Sequence[Json]]) -> list[int | str]:
        """Submit jobs, lists of opcodes; return for each its id, or the reason of its rejection.

        Raises
        ------
        UnknownOutcomeError
            If the cluster did not answer.
        ServerError
            If the cluster accepts none of them.
        """

    def statuses(self, ids: Sequence[int]) -> dict[int, JobStatus]:
        """Return id of a job -> its status, for the jobs `ids`."""

    def wait(self, ids: Sequence[int], seconds: float) -> None:
        """Wait until one of the jobs `ids` may have changed, for at most `seconds`."""

    def set_priority(self, number: int, priority: int) -> None:
        """Change the priority of the job with the id `number`, if it has not begun.

        `priority`: -20 (first) to 19.
        """

    def cancel(self, number: int) -> None:
        """Cancel a job that has not begun; do nothing if it has."""

    def unfinished(self) -> Sequence[tuple[int, Sequence[Json]]]:
        """Return the id and the opcodes of each job of the cluster that has not ended."""

    def answering(self, nodes: Collection[str]) -> set[str]:
        """Return the online nodes among `nodes` with a daemon that answers Ganeti now."""

    def drained(self) -> bool:
        """Return whether the queue is known to be drained, so that it accepts no job."""

    def find(self, run: str) -> Mapping[str, int]:
        """Return mark -> job id, for the jobs in the queue that the execution `run` has marked."""


@contextmanager
def expecting(where: str) -> Iterator[None]:
    """Return a ``with`` block that reports an answer of an unexpected form.

    `where`: the query, for the message.

    Raises
    ------
    LiveError
        In place of an error that reading the answer raises in the block.
    """
    try:
        yield
    except (TypeError, ValueError, KeyError, IndexError, AttributeError):
        raise LiveError(where, "an unexpected answer") from None


def job_status(status: Any, opstatus: Any, opresult: Any) -> JobStatus:
    """Return the status of a job from the values of the queue: of the job and of its opcodes.

    A job of several opcodes that waits for its locks counts as begun: if it is cancelled too late,
    it ends after the first opcode.
    """
    if not isinstance(status, str):
        return JobStatus(LOST)
    codes = opstatus if isinstance(opstatus, list) else []
    begun = JOB_SUCCESS in codes or RUNNING in codes or (status == "waiting" and len(codes) > 1)
    why = ""
    if status == JOB_ERROR:
        # ``[class, [words]]`` of the opcode that failed
        why = "failed without a reason"
        for result in opresult if isinstance(opresult, list) else ():
            if isinstance(result, list) and len(result) == 2 and isinstance(result[0], str):
                words = result[1] if isinstance(result[1], list) else [result[1]]
                why = f"{result[0]}: {' '.join(', '.join(map(str, words)).split())}"
                break
    done = codes.count(JOB_SUCCESS)
    if status == "canceled" and begun:
        why = f"cancelled when {done} of {len(codes)} opcodes were done"
    return JobStatus(status, why, begun, done, opresult if isinstance(opresult, list) else ())


def failed_out_of_band(results: Sequence[Any]) -> str:
    """Return the error of an out-of-band command that Ganeti reports as a success; "" if none.

    The result of such an opcode is a list of nodes, each with its name and the answer of the
    program. Both are pairs of a status, 0 for success, and a value.
    """
    rows = results[-1] if results else None
    for row in rows if isinstance(rows, list) else ():
        with suppress(TypeError, ValueError):
            (_, name), (status, _) = row
            if status != 0:
                return f"the out-of-band program of {name} failed; the log of the job says why"
    return ""


SOURCE = "iallocator"

MARK = re.compile(r"\(([0-9a-z-]+)/(\d+)/(\d+)\)$")


def reason_trail(text: str, mark: str, now: int) -> list[list[Any]]:
    """Return the reason trail of an opcode, with a mark.

    `text`: the administrator's reason. `mark`: ``RUN/JOB/ATTEMPT``. `now`: nanoseconds since 1970.
    """
    texts = [text, f"({mark})"] if text else [f"({mark})"]
    return [[SOURCE, one, now] for one in texts]


def marks_in(opcodes: Iterable[Any], run: str) -> set[str]:
    """Return the marks ``JOB/ATTEMPT`` of `run` in the reason trails of opcodes in the queue."""
    marks = set()
    for opcode in opcodes:
        trail = opcode.get("reason") if isinstance(opcode, dict) else None
        for entry in trail or ():
            mark = MARK.search(str(entry[1])) if len(entry) > 1 else None
            if mark and mark[1] == run:
                marks.add(f"{mark[2]}/{mark[3]}")
    return marks
