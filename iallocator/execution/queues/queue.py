"""What an execution needs of a cluster's job queue; LUXI and RAPI both offer it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

    from iallocator.aliases import Json


__all__ = [
    "CANCELED", "ENDED", "ERROR", "LOST", "RUNNING", "SUCCESS", "WAITING", "JobQueue", "JobStatus",
    "UnknownOutcomeError",
]  # fmt: skip

SUCCESS, ERROR, CANCELED = "success", "error", "canceled"

LOST = "lost"
"""What we say of a job that the queue does not know, or no more."""

RUNNING = "running"

WAITING = ("queued", "waiting")
"""Not begun: it can be cancelled."""

ENDED = (SUCCESS, ERROR, CANCELED, LOST)


class UnknownOutcomeError(Exception):
    """Nobody knows whether what was submitted arrived; look for it in the queue."""


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

    Any method raises `iallocator.live.errors.LiveError` where the cluster is not reached.

    Attributes
    ----------
    singly:
        Whether a job has one opcode only.
    """

    singly: bool

    def able(self, opcode: Json) -> bool:
        """Whether the queue takes such an opcode."""

    def submit(self, jobs: Sequence[Sequence[Json]]) -> list[int | str]:
        """Submit jobs, lists of opcodes; per job its id, or why it was refused.

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
