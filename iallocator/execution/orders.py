"""How a person wants a plan to be carried out."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic, time_ns

from iallocator.deadline import pause as wait

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from iallocator.execution.jobs import Job

__all__ = ["Orders"]


def _never() -> bool:
    return False


def _unconfirmed(job: Job) -> bool:
    return False


def _silent(line: str) -> None:
    pass


@dataclass
class Orders:
    """How a person wants a plan to be carried out.

    Attributes
    ----------
    reason:
        For the reason trail.
    priority:
        Of every opcode, -20 to 19; None for Ganeti's own default.
    first_group:
        Submit only what waits for nothing.
    ahead:
        How many jobs may wait in the queue beyond those that run, at least 1.
    boot_timeout:
        Seconds that a node may take to answer after power-on or a reboot.
    say, complain:
        Take a line about what happens, and about what is wrong.
    stopping:
        Whether nothing more is to be begun.
    confirmed:
        Whether somebody says that a job has been done by hand.
    pause:
        Waits so many seconds.
    now:
        Nanoseconds since 1970.
    clock:
        Seconds since any moment, never turned back.
    """

    reason: str = ""
    priority: int | None = None
    first_group: bool = False
    ahead: int = 2
    boot_timeout: float = 600.0
    say: Callable[[str], None] = _silent
    complain: Callable[[str], None] = _silent
    stopping: Callable[[], bool] = _never
    confirmed: Callable[[Job], bool] = _unconfirmed
    pause: Callable[[float], None] = wait
    now: Callable[[], int] = time_ns
    clock: Callable[[], float] = monotonic
