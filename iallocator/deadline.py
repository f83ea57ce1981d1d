"""The end of the time: an alarm that interrupts what goes on beyond it.

Whoever works for long asks an alarm now and then whether its time is `over`, and stops
where that is convenient.  Between two such moments much can happen; after `GRACE` the alarm
ends that by `TimeIsUp`, which is a KeyboardInterrupt: whoever keeps what was found before
Ctrl-C keeps it here too.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the half of `signal` that loads no enum
import os
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

__all__ = [
    "BROKEN_OFF", "GRACE", "TIME_IS_UP", "Alarm", "TimeIsUp", "limit_reached", "why_stopped",
]  # fmt: skip

GRACE = 0.5
"""Seconds by which a convenient moment may come too late."""

TIME_IS_UP = "time is up"

BROKEN_OFF = "interrupted"

SOON = 0.02
"""Seconds."""

WHOLE = ("importlib", os.path.join("model", "state.py"))
"""Parts of names of files whose code comes to its end: loading a module, a change of a state."""

LONGEST = 1e8
"""Seconds, three years: more than a timer takes is as good as no end."""


class TimeIsUp(KeyboardInterrupt):
    """The alarm rang."""


def why_stopped(stop: KeyboardInterrupt) -> str:
    """The reason why a plan ends, in words."""
    return TIME_IS_UP if isinstance(stop, TimeIsUp) else BROKEN_OFF


def limit_reached(seconds: float) -> str:
    """What to tell of a time limit of so many seconds that ended something."""
    return f"the time limit of {seconds:g} s was reached (--time-limit)"


class Alarm:
    """A ``with`` block in which `TimeIsUp` is raised after so many seconds and `GRACE`.

    It rings once; None: never.  Time runs from when it is made.  Only the main thread of a
    process can be interrupted; elsewhere an alarm only tells the time.
    """

    __slots__ = ("_before", "_end", "_set", "seconds")

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._end = None if seconds is None else monotonic() + min(seconds, LONGEST)
        self._before: Any = None
        self._set = False

    @property
    def left(self) -> float | None:
        """Seconds that are left, negative afterwards; None: there is no end."""
        return None if self._end is None else self._end - monotonic()

    def over(self) -> bool:
        """Whether the time is up."""
        return self._end is not None and monotonic() >= self._end

    def __enter__(self) -> Alarm:
        if self._end is not None:
            try:
                self._before = _signal.signal(_signal.SIGALRM, _ring)
            except ValueError:  # not the main thread
                return self
            self._set = True
            _signal.setitimer(_signal.ITIMER_REAL, max(self._end - monotonic(), 0.0) + GRACE)
        return self

    def __exit__(self, *_: object) -> None:
        if self._set:
            self._set = False
            _signal.setitimer(_signal.ITIMER_REAL, 0)
            _signal.signal(_signal.SIGALRM, self._before)


def _ring(number: int, frame: FrameType | None) -> None:
    """Raise `TimeIsUp`; in the middle of what must not be cut short, soon."""
    while frame is not None:
        if any(part in frame.f_code.co_filename for part in WHOLE):
            _signal.setitimer(_signal.ITIMER_REAL, SOON)
            return
        frame = frame.f_back
    raise TimeIsUp
