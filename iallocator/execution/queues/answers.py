"""What a job queue says of a job, made into what an execution asks: the same for LUXI and RAPI."""

from __future__ import annotations

from contextlib import contextmanager, suppress

from iallocator.execution.queues.queue import ERROR, LOST, RUNNING, SUCCESS, JobStatus
from iallocator.live.errors import LiveError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

__all__ = ["expecting", "failed_out_of_band", "job_status"]


@contextmanager
def expecting(where: str) -> Iterator[None]:
    """Whoever reads an answer of another shape than Ganeti's says so.

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
    """How a job is, from its status and those of its opcodes.

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
            return f"{result[0]}: {_words(result[1])}"
    return "failed without a reason"


def _words(details: Any) -> str:
    words: Sequence[Any] = details if isinstance(details, list) else [details]
    return " ".join(", ".join(map(str, words)).split())
