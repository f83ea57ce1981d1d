"""The job queue of a cluster, as an execution uses it through LUXI or RAPI.

`JobQueue` is the interface.  The functions translate the state of a job, and mark the jobs of an
execution: the reason trail of each opcode gets ``[source, text, nanoseconds]``, where the text is
the administrator's reason, if there is one, and the mark ``(RUN/JOB/ATTEMPT)``.
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
    "CANCELED",
    "ENDED",
    "ERROR",
    "LOST",
    "RUNNING",
    "SOURCE",
    "SUCCESS",
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

SUCCESS, ERROR, CANCELED = "success", "error", "canceled"

LOST = "lost"
"""What we say of a job that the queue does not know, or no more."""

RUNNING = "running"

WAITING = ("queued", "waiting")
"""Not begun: it can be cancelled."""

ENDED = (SUCCESS, ERROR, CANCELED, LOST)


class UnknownOutcomeError(Exception):
    """It is not known whether submitted jobs arrived; look for them in the queue."""


@dataclass(frozen=True)
class JobStatus:
    """How a job is.

    Attributes
    ----------
    status:
        One of Ganeti's words, or `LOST`.
    why:
        What went wrong, for people.
    begun:
        Whether an opcode of it runs or has succeeded.
    done:
        How many opcodes have succeeded.
    results:
        What each opcode returned, as the queue has it.
    """

    status: str
    why: str = ""
    begun: bool = False
    done: int = 0
    results: Sequence[Any] = ()


class JobQueue(Protocol):
    """A job queue.

    Any method raises `iallocator.live.stream.LiveError` where the cluster is not reached.

    Attributes
    ----------
    singly:
        Whether a job has one opcode only.
    """

    singly: bool

    def able(self, opcode: Json) -> bool:
        """Whether the queue takes such an opcode."""

    def submit(self, jobs: Sequence[Sequence[Json]]) -> list[int | str]:
        """Submit jobs, lists of opcodes; per job its id, or why it was rejected.

        Raises
        ------
        UnknownOutcomeError
            If no answer came.
        ServerError
            If the cluster takes none of them.
        """

    def statuses(self, ids: Sequence[int]) -> dict[int, JobStatus]:
        """How these jobs are."""

    def wait(self, ids: Sequence[int], seconds: float) -> None:
        """Return when one of these jobs may have changed, at the latest after `seconds`."""

    def hurry(self, number: int, priority: int) -> None:
        """Change the priority of a job, -20 (first) to 19, if it has not begun."""

    def cancel(self, number: int) -> None:
        """Cancel a job that has not begun; if it has, nothing happens."""

    def unfinished(self) -> Sequence[tuple[int, Sequence[Json]]]:
        """The jobs of anybody that have not ended: id and opcodes."""

    def answering(self, nodes: Collection[str]) -> set[str]:
        """Return those of these online nodes whose daemon answers Ganeti now."""

    def find(self, run: str) -> Mapping[str, int]:
        """The jobs in the queue that an execution has marked: mark -> id."""


@contextmanager
def expecting(where: str) -> Iterator[None]:
    """Report an answer that has another form than Ganeti's.

    Raises
    ------
    LiveError
        Instead of what goes wrong inside.
    """
    try:
        yield
    except (TypeError, ValueError, KeyError, IndexError, AttributeError):
        raise LiveError(where, "an answer that is not understood") from None


def job_status(status: Any, opstatus: Any, opresult: Any) -> JobStatus:
    """Return how a job is, from its status and those of its opcodes.

    A job of several opcodes that waits for its locks counts as begun: cancelled a moment
    too late it would end after the first of them.
    """
    if not isinstance(status, str):
        return JobStatus(LOST)
    codes = opstatus if isinstance(opstatus, list) else []
    begun = SUCCESS in codes or RUNNING in codes or (status == "waiting" and len(codes) > 1)
    why = _why(opresult) if status == ERROR else ""
    done = codes.count(SUCCESS)
    if status == "canceled" and begun:
        why = f"cancelled when {done} of {len(codes)} opcodes were done"
    return JobStatus(status, why, begun, done, opresult if isinstance(opresult, list) else ())


def failed_out_of_band(results: Sequence[Any]) -> str:
    """Return what failed in a job of an out-of-band command that Ganeti calls a success, or "".

    The result is a list of nodes, each with its name and the answer of the program; both are
    pairs of a status, 0 for success, and a value.
    """
    rows = results[-1] if results else None
    for row in rows if isinstance(rows, list) else ():
        with suppress(TypeError, ValueError):
            (_, name), (status, _) = row
            if status != 0:
                return f"the out-of-band program of {name} failed; the log of the job says why"
    return ""


def _why(results: Any) -> str:
    """The reason in the results of opcodes: ``[class, [words]]`` of the one that failed."""
    for result in results if isinstance(results, list) else ():
        if isinstance(result, list) and len(result) == 2 and isinstance(result[0], str):
            words = result[1] if isinstance(result[1], list) else [result[1]]
            return f"{result[0]}: {' '.join(', '.join(map(str, words)).split())}"
    return "failed without a reason"


SOURCE = "iallocator"

MARK = re.compile(r"\(([0-9a-z-]+)/(\d+)/(\d+)\)$")


def reason_trail(text: str, mark: str, now: int) -> list[list[Any]]:
    """The entries of an opcode; `mark`: ``RUN/JOB/ATTEMPT``, `now`: nanoseconds since 1970."""
    texts = [text, f"({mark})"] if text else [f"({mark})"]
    return [[SOURCE, one, now] for one in texts]


def marks_in(opcodes: Iterable[Any], run: str) -> set[str]:
    """The marks ``JOB/ATTEMPT`` of `run` in the reason trails of opcodes as the queue has them."""
    found = set()
    for opcode in opcodes:
        trail = opcode.get("reason") if isinstance(opcode, dict) else None
        for entry in trail or ():
            mark = MARK.search(str(entry[1])) if len(entry) > 1 else None
            if mark and mark[1] == run:
                found.add(f"{mark[2]}/{mark[3]}")
    return found
