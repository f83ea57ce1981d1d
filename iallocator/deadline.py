"""The end of the time: an alarm that interrupts computation, and deadlines of what is read.

Whoever works for long asks an alarm now and then whether its time is `over`, and stops
where that is convenient.  Between two such moments much can happen; after `GRACE` the alarm
ends that by `TimeIsUp`, which is a KeyboardInterrupt: whoever keeps what was found before
Ctrl-C keeps it here too.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the half of `signal` that loads no enum
import os
from time import monotonic, sleep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, ClassVar, Self

__all__ = [
    "BROKEN_OFF", "GRACE", "TIME_IS_UP", "Alarm", "Deadline", "DeadlineError", "Running",
    "TimeIsUp", "limit_reached", "why_stopped",
]  # fmt: skip

GRACE = 0.3
"""Seconds by which a convenient moment may come too late."""

TIME_IS_UP = "time is up"

BROKEN_OFF = "interrupted"

SOON = 0.02
"""Seconds."""

STATE = os.path.join("model", "state.py")

PER_MOVE = 0.0005
"""Seconds that a move of a plan takes once it is found, about: it is checked and written."""

WHOLE = ("importlib", STATE)
"""Parts of names of files whose code comes to its end: loading a module, a change of a state."""

NEW = "_start"
"""The function in `STATE` that counts for a new state, which nobody has seen yet."""

LONGEST = 1e8
"""Seconds, three years: more than a timer takes is as good as no end."""

LONGEST_WAIT = 3600.0
"""Seconds of one call of ``poll``, whose argument is limited."""


class TimeIsUp(KeyboardInterrupt):
    """The alarm rang."""


def why_stopped(stop: KeyboardInterrupt) -> str:
    """The reason why a plan ends, in words."""
    return TIME_IS_UP if isinstance(stop, TimeIsUp) else BROKEN_OFF


def limit_reached(seconds: float) -> str:
    """What to tell of a time limit of so many seconds that ended something."""
    return f"the time limit of {seconds:g} s was reached (--time-limit)"


class Running:
    """A ``with`` block: one run of the program, from whose beginning its limit counts.

    What is read in it counts, too.  Outside of any, a limit counts from where it is set.
    """

    began: ClassVar[float | None] = None

    __slots__ = ("_around",)

    def __enter__(self) -> None:
        self._around = Running.began
        Running.began = monotonic()

    def __exit__(self, *_: object) -> None:
        Running.began = self._around


class DeadlineError(TimeoutError):
    """A deadline has passed; the text says what had not happened by then, and which it was."""


class Deadline:
    """A moment by which something must have ended, which is asked before each blocking wait.

    A deadline interrupts nothing: every wait goes through `wait` or `pause`, which end when
    the deadline passes.

    Parameters
    ----------
    seconds:
        How much time there is, from `since` (a value of ``time.monotonic``), by default from now.
    limit:
        What messages call the deadline, after "within": by default ``60 s``.
    """

    __slots__ = ("_end", "limit")

    def __init__(self, seconds: float, limit: str = "", since: float | None = None) -> None:
        self._end = (monotonic() if since is None else since) + min(seconds, LONGEST)
        self.limit = limit or f"{seconds:g} s"

    @classmethod
    def of_run(cls, seconds: float, limit: str) -> Self:
        """Return the deadline of a run that may take `seconds` from its beginning."""
        return cls(seconds, limit, Running.began)

    def within(self, seconds: float, limit: str = "") -> Deadline:
        """Return the deadline in `seconds`, or this one if it comes earlier."""
        other = Deadline(seconds, limit)
        return other if other._end < self._end else self

    @property
    def left(self) -> float:
        """Seconds that are left; 0 when the deadline has passed."""
        return max(0.0, self._end - monotonic())

    def check(self, problem: str) -> None:
        """Raise if the deadline has passed.

        Parameters
        ----------
        problem:
            What has not happened yet: ``no answer``.

        Raises
        ------
        DeadlineError
            With `problem` and the name of the deadline.
        """
        if not self.left:
            raise DeadlineError(f"{problem} within {self.limit}")

    def wait(self, descriptor: int, problem: str, writing: bool = False) -> None:
        """Return when `descriptor` can be read from, or written to.

        Raises
        ------
        DeadlineError
            As `check`.
        """
        import select

        poll = select.poll()
        poll.register(descriptor, select.POLLOUT if writing else select.POLLIN)
        while True:
            self.check(problem)
            if poll.poll(min(self.left, LONGEST_WAIT) * 1000 + 1):
                return

    def pause(self, seconds: float, problem: str) -> None:
        """Sleep for `seconds`, or until the deadline passes; errors as `check`."""
        self.check(problem)
        sleep(min(seconds, self.left))


class Alarm:
    """A ``with`` block in which `TimeIsUp` is raised after so many seconds and `GRACE`.

    It rings once; None: never.  Time runs from `since`, or from when it is made.  What moves
    that are found will take is left to be spent on them, see `spare`.  Only the main thread
    of a process can be interrupted; elsewhere an alarm only tells the time.
    """

    __slots__ = ("_before", "_end", "_most", "_moves", "_set", "seconds")

    def __init__(self, seconds: float | None, since: float | None = None) -> None:
        self.seconds = seconds
        self._end = None
        self._moves = 0
        if seconds is not None:
            now = monotonic()
            self._end = (now if since is None else since) + min(seconds, LONGEST)
            self._most = max(0.0, self._end - now) / 2
        self._before: Any = None
        self._set = False

    @classmethod
    def of_run(cls, seconds: float | None) -> Self:
        """One whose time runs from the beginning of the run, if there is one."""
        return cls(seconds, Running.began)

    @property
    def left(self) -> float | None:
        """Seconds that are left, negative afterwards; None: there is no end."""
        if self._end is None:
            return None
        return self._end - min(self._moves * PER_MOVE, self._most) - monotonic()

    def over(self) -> bool:
        """Whether the time is up."""
        left = self.left
        return left is not None and left <= 0

    def spare(self, moves: int) -> None:
        """Be over earlier by what so many more moves will take; at most by half of the time.

        Negative: so many fewer.
        """
        self._moves += moves
        if self._set and _signal.getitimer(_signal.ITIMER_REAL)[0]:
            self._wind_up()

    def pause(self) -> tuple[float, bool]:
        """Stop the time until `resume`, which takes what this returns."""
        ringing = self._set and bool(_signal.getitimer(_signal.ITIMER_REAL)[0])
        if ringing:
            _signal.setitimer(_signal.ITIMER_REAL, 0)
        return monotonic(), ringing

    def resume(self, since: float, ringing: bool) -> None:
        """Let the time run again, which was paused at `since`; the alarm rings if it would have."""
        if self._end is not None:
            self._end += monotonic() - since
        if ringing:
            self._wind_up()

    def quiet(self) -> None:
        """Ring no more: what is found stands, and what is still to be said of it is short."""
        if self._set:
            _signal.setitimer(_signal.ITIMER_REAL, 0)

    def _wind_up(self) -> None:
        """Set the timer to `GRACE` after the end, as that is now."""
        _signal.setitimer(_signal.ITIMER_REAL, max((self.left or 0.0) + GRACE, SOON))

    def __enter__(self) -> Alarm:
        if self._end is not None:
            try:
                self._before = _signal.signal(_signal.SIGALRM, _ring)
            except ValueError:  # not the main thread
                return self
            self._set = True
            self._wind_up()
        return self

    def __exit__(self, *_: object) -> None:
        if self._set:
            self._set = False
            _signal.setitimer(_signal.ITIMER_REAL, 0)
            _signal.signal(_signal.SIGALRM, self._before)


def _ring(number: int, frame: FrameType | None) -> None:
    """Raise `TimeIsUp`; in the middle of what must not be cut short, soon."""
    if _whole(frame):
        _signal.setitimer(_signal.ITIMER_REAL, SOON)
        return
    raise TimeIsUp


def _whole(frame: FrameType | None) -> bool:
    """Whether what goes on must not be cut short."""
    found = False
    while frame is not None:
        code = frame.f_code
        if STATE in code.co_filename and code.co_name == NEW:
            return False
        found = found or any(part in code.co_filename for part in WHOLE)
        frame = frame.f_back
    return found
