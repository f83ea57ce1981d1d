"""The last resort against work that does not end: an alarm that interrupts it.

Planners ask now and then whether their time is up and stop where that is convenient.
Between two such moments much can happen; after `GRACE` the alarm ends that by `TimeIsUp`,
which is a KeyboardInterrupt: whoever keeps what was found before Ctrl-C keeps it here too.
"""

from __future__ import annotations

from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["DEFAULT", "GRACE", "TIME_IS_UP", "TimeIsUp", "alarm", "why_stopped"]

DEFAULT = 600.0
"""Seconds that a planner takes at most, unless told otherwise."""

GRACE = 0.5
"""Seconds by which a convenient moment may come too late."""

TIME_IS_UP = "time is up"


class TimeIsUp(KeyboardInterrupt):
    """The alarm rang."""


def why_stopped(stop: KeyboardInterrupt) -> str:
    """The reason why a plan ends, in words."""
    return TIME_IS_UP if isinstance(stop, TimeIsUp) else "interrupted"


@contextmanager
def alarm(seconds: float | None) -> Iterator[None]:
    """Raise `TimeIsUp` in what is done here after so many seconds and `GRACE`; None: never.

    Only the main thread of a process can be interrupted; elsewhere nothing happens.
    """
    import threading

    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    import signal

    def ring(number: int, frame: object) -> None:
        raise TimeIsUp

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, min(seconds, 1e8) + GRACE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
