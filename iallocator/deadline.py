"""The end of a run: time limits, budgets of work, Ctrl-C and SIGTERM.

Every loop that may take long calls `check` at its head. `check` raises `Stopped` if a signal has
come or the time of the run is up; no other function raises it. The outer function of a planner
catches it, and keeps the best plan found. Signal handlers only call `interrupt`. Blocking waits use
`Deadline.wait` or `Deadline.pause`: a signal wakes them through a descriptor, because Python
repeats an interrupted system call.

Searches and simulations end after an amount of work. It is counted, so that results depend on the
input and not on the load of the machine. The clock is their last resort.
"""

from __future__ import annotations

import posix  # `os` loads more: see `iallocator.light`
from itertools import islice
from math import inf
from sys import maxsize
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import ClassVar, Self, TypeVar

    Item = TypeVar("Item")

__all__ = [
    "ITERATIONS", "LISTED", "PLACEMENTS", "SIGNALLED", "SIMULATIONS", "TIME_IS_UP", "TRIALS",
    "Deadline", "DeadlineError", "Held", "Released", "Running", "Stopped", "check", "due",
    "interrupt", "interrupted", "limit_reached", "pause", "reading_note",
]  # fmt: skip

TIME_IS_UP = "time is up"

SIGNALLED = "interrupted"

PER_MOVE = 0.0005
"""Seconds that a move of a plan takes after it is found, to be checked and written (estimate)."""

LONGEST_LIMIT = 1e8
"""The longest time limit, in seconds (about three years); a longer one counts as no limit."""

LONGEST_WAIT = 3600.0
"""The longest wait in one call of ``poll``, in seconds: ``poll`` limits its argument."""

NEVER = inf

ITERATIONS = "iterations"
"""The kind of work that counts steps of the simplex method."""

TRIALS = "trials"
"""The kind of work that counts instances in solutions of the solver that are tried on the model."""

PLACEMENTS = "placements"
"""The kind of work that counts placements that branch and bound tests."""

LISTED = "listed"
"""The kind of work that counts placements that a search lists; the list takes memory, too."""

SIMULATIONS = "simulations"
"""The kind of work that counts simulated failures: moves × nodes."""

PER_SECOND = {ITERATIONS: 2000, TRIALS: 150, PLACEMENTS: 10_000, LISTED: 40_000}
"""Kind of work -> the amount that a search may do per second: less than an idle machine does."""

LAST_RESORT = 60.0
"""Seconds by the clock that a search may take on a busy machine, if no limit is set."""


class Stopped(Exception):  # noqa: N818  # no error: the best result so far counts
    """The work must end now.

    Attributes
    ----------
    reason:
        `TIME_IS_UP`, or `SIGNALLED`: a signal came, Ctrl-C or SIGTERM.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    @property
    def interrupted(self) -> bool:
        """Return whether a signal ends the work, not the time limit."""
        return self.reason == SIGNALLED


class DeadlineError(TimeoutError):
    """A deadline has passed; the text has its name, and the event that had not happened."""


class _Signals:
    """Records the signal that requires this run to end.

    Attributes
    ----------
    came:
        Whether a signal has come.
    heeded:
        Whether `check` has raised because of it; it raises only once.
    held:
        How many `Held` blocks the run is in.
    pipe:
        Two descriptors of a pipe. The first one can be read from after a signal has come. None
        until the pipe is needed.
    """

    came = False
    heeded = False
    held = 0
    pipe: tuple[int, int] | None = None


def interrupt() -> None:
    """Ask the run to end. Signal handlers call this."""
    _Signals.came = True
    if _Signals.pipe is not None:
        posix.write(_Signals.pipe[1], b"!")


def _woken() -> int:
    """Return a descriptor that can be read from after a signal has come."""
    if _Signals.pipe is None:
        _Signals.pipe = posix.pipe2(posix.O_CLOEXEC | posix.O_NONBLOCK)
        if _Signals.came:
            posix.write(_Signals.pipe[1], b"!")
    return _Signals.pipe[0]


def check() -> None:
    """Raise if the run must end; called at the head of every loop that may take long.

    Raises
    ------
    Stopped
        If a signal has come (raised once), or if the time limit of an enclosing ``with deadline``
        block has passed (raised once for each block).
    """
    if _Signals.held:
        return
    if _Signals.came and not _Signals.heeded:
        _Signals.heeded = True
        raise Stopped(SIGNALLED)
    current = Deadline.current
    while current is not None:
        if monotonic() > current.raises_at:
            current.raises_at = NEVER
            raise Stopped(TIME_IS_UP)
        current = current.around


def due() -> bool:
    """Return whether a signal has come, or the time limit of an enclosing block has passed."""
    current = Deadline.current
    while current is not None:
        if monotonic() > current.raises_at:
            return True
        current = current.around
    return _Signals.came


def interrupted() -> bool:
    """Return whether a signal has come."""
    return _Signals.came


def limit_reached(seconds: float) -> str:
    """Return the message about a time limit of `seconds` that ended a search."""
    return f"the time limit of {seconds:g} s was reached (--time-limit){reading_note(seconds)}"


def reading_note(seconds: float) -> str:
    """Return a note for messages if reading alone took longer than a limit; otherwise ""."""
    if Running.began is None or Running.read is None:
        return ""
    reading = Running.read - Running.began
    return f": reading the cluster alone took {reading:.1f} s" if reading >= seconds else ""


class Held:
    """A ``with`` block in which `check` does not raise; a search in it must call `due`, and end.

    Attributes
    ----------
    asked:
        Whether a signal had come by the end of the block.
    """

    __slots__ = ("asked",)

    def __enter__(self) -> Self:
        self.asked = False
        _Signals.held += 1
        return self

    def __exit__(self, *_: object) -> None:
        _Signals.held -= 1
        self.asked = _Signals.came
        if _Signals.held:
            return
        _Signals.heeded = _Signals.came
        current = Deadline.current
        while current is not None:
            if monotonic() > current.raises_at:
                current.raises_at = NEVER
            current = current.around


class Released:
    """A ``with`` block inside of `Held` blocks in which `check` raises as it does without them."""

    __slots__ = ("_held",)

    def __enter__(self) -> None:
        self._held = _Signals.held
        _Signals.held = 0

    def __exit__(self, *_: object) -> None:
        _Signals.held = self._held


class Running:
    """A ``with`` block for one run of the program. Time limits count from its beginning.

    The time for reading input counts, too. Outside of such a block, a limit counts from the moment
    when it is set.

    Attributes
    ----------
    began, read:
        The moments when the run began, and when it had read its input; None before that.
    reserved:
        Seconds at the end of the time limit that are kept for writing the result.
    """

    began: ClassVar[float | None] = None
    read: ClassVar[float | None] = None
    reserved: ClassVar[float] = 0.0

    __slots__ = ("_around",)

    def __enter__(self) -> None:
        self._around = Running.began
        Running.began = monotonic()
        Running.read = None
        Running.reserved = 0.0

    @staticmethod
    def reserve(seconds: float) -> None:
        """Reserve the last `seconds` of the time limit for writing the result.

        The deadlines of the run that are made after this call end earlier by `seconds`. Each of
        them keeps at least half of its time.
        """
        Running.reserved = seconds

    @staticmethod
    def has_read() -> None:
        """Record that the input of the run has been read."""
        Running.read = monotonic()

    def __exit__(self, *_: object) -> None:
        Running.began = self._around
        Running.reserved = 0.0
        if self._around is None:  # the next run in this process has not been interrupted
            _Signals.came = _Signals.heeded = False


class Deadline:
    """The moment by which work must end, and the amount of work until then.

    For a run, ``with deadline:`` lets `check` end the loops in the block. For an exchange with a
    server, every blocking wait uses `wait` or `pause`, which end when it passes.

    Parameters
    ----------
    seconds:
        Seconds until the deadline; None: there is no end.
    limit:
        The name of the deadline in messages, after "within"; by default ``60 s``.
    since:
        A value of ``time.monotonic`` from which the time counts; by default now.
    work:
        Kind of work -> allowed amount; kinds that are missing are not limited.
    whole:
        The deadline of the whole work of which this work is a part. Work that is spent here is
        spent there, too. If `seconds` is None, the clock of `whole` ends this deadline.

    Attributes
    ----------
    seconds:
        The parameter `seconds`.
    around:
        The deadline of the enclosing block, or None.
    raises_at:
        The moment from which on `check` raises; infinite if it does not, or has raised already.
    work:
        Kind of work -> the amount that is left.
    used:
        The work of all kinds that was done so far.
    undecided:
        How many placements were rejected because the work was spent.
    """

    current: ClassVar[Deadline | None] = None

    __slots__ = (
        "_accounts", "_clock", "_end", "_had_work", "_most", "_moves", "_reserved", "around",
        "limit", "raises_at", "seconds", "undecided", "used", "work",
    )  # fmt: skip

    def __init__(
        self,
        seconds: float | None,
        limit: str = "",
        since: float | None = None,
        work: Mapping[str, float] | None = None,
        whole: Deadline | None = None,
    ) -> None:
        now = monotonic()
        self.seconds = seconds
        self.around: Deadline | None = None
        self._end = NEVER
        if seconds is not None:
            self._end = (now if since is None else since) + min(seconds, LONGEST_LIMIT)
        self.limit = limit or (f"{seconds:g} s" if seconds is not None else "")
        self._most = max(0.0, self._end - now) / 2
        self._moves = 0
        self._reserved = 0.0
        self.raises_at = self._end
        self._clock: Deadline = self if whole is None or seconds is not None else whole._clock
        self.work: dict[str, float] = {}
        self._accounts: tuple[dict[str, float], ...] = ()
        self._had_work = False
        if work is not None:
            self.work.update(work)
            self._accounts = (self.work, *(() if whole is None else whole._accounts))
            self._had_work = any(work.values())
        self.used = 0.0
        self.undecided = 0

    @classmethod
    def of_run(cls, seconds: float | None, limit: str = "") -> Self:
        """Return the deadline of a run that may take `seconds` from its beginning; None: no limit.

        The deadline leaves the time that is reserved for writing the result.
        """
        deadline = cls(seconds, limit, Running.began)
        deadline._reserved = Running.reserved
        deadline.spare(0)
        return deadline

    @classmethod
    def of_search(
        cls, seconds: float, whole: Deadline | None = None, shown: float | None = None
    ) -> Self:
        """Return the deadline of a search that may do the work of `seconds` seconds.

        By the clock, the search ends with `whole`, or after `LAST_RESORT` seconds. `shown`: the
        seconds in messages if `whole` ends the search, by default `seconds`.
        """
        work = {kind: int(seconds * amount) for kind, amount in PER_SECOND.items()}
        if whole is None:
            return cls(LAST_RESORT, work=work)
        shown = seconds if shown is None else shown
        return cls(None, f"{shown:g} s", work=work, whole=whole)

    def part(self, share: float) -> Deadline:
        """Return the deadline of a part, with a `share` (0 to 1) of the time and work left."""
        work = {kind: int(amount * share) for kind, amount in self.work.items()}
        return Deadline(max(0.0, self.left * share), self.limit, work=work, whole=self)

    def within(self, seconds: float, limit: str = "") -> Deadline:
        """Return the deadline in `seconds`, or this one if it is earlier."""
        return Deadline(seconds, limit) if seconds < self.left else self

    @property
    def left(self) -> float:
        """Return the seconds that are left, negative afterwards; infinite if there is no end."""
        clock = self._clock
        return clock._end - clock._spared() - monotonic()

    def over(self) -> bool:
        """Return whether the time is up."""
        return self.left <= 0

    def spend(self, amount: float, kind: str) -> None:
        """Count an amount of work of that `kind` as done."""
        self.used += amount
        for work in self._accounts:
            if kind in work:
                work[kind] -= amount

    def take(self, items: Iterable[Item], kind: str) -> list[Item]:
        """Return as many of `items` as the budget of that `kind` of work allows; spend the work."""
        items_taken = list(islice(items, max(0, min(int(self.work[kind]), maxsize))))
        self.spend(len(items_taken), kind)
        return items_taken

    @property
    def spent(self) -> bool:
        """Return whether the work of at least one kind is used up, or the time is up."""
        for amount in self.work.values():
            if amount <= 0:
                return True
        clock = self._clock
        return clock._end != NEVER and clock.over()

    @property
    def must_end(self) -> bool:
        """Return whether a search must end: its work or time is used up, or the run must end."""
        return due() or self.spent

    @property
    def ended(self) -> str:
        """Return what ended a search, for messages: ``within 5 s``."""
        if interrupted():
            return "before it was interrupted"
        clock = due() or self._clock.over() or not self._had_work
        return f"within {self.limit}" if clock else "within its budget of work"

    def spare(self, moves: int) -> None:
        """End earlier, to leave time for writing that many more moves.

        At least half of the time remains. A negative number takes back time that was left for
        moves.
        """
        self._moves += moves
        if self.raises_at != NEVER:
            self.raises_at = self._end - self._spared()

    def _spared(self) -> float:
        needed = self._moves * PER_MOVE + self._reserved
        return min(needed, self._most) if needed else 0.0

    def __enter__(self) -> Self:
        self.around = Deadline.current
        Deadline.current = self
        return self

    def __exit__(self, *_: object) -> None:
        Deadline.current = self.around
        self.around = None

    def check(self, problem: str) -> None:
        """Raise if the deadline has passed, or a signal has come.

        Parameters
        ----------
        problem:
            What has not happened yet: ``no answer``.

        Raises
        ------
        DeadlineError
            With `problem` and the name of the deadline.
        Stopped
            If a signal has come.
        """
        check()
        if self.over():
            raise DeadlineError(f"{problem} within {self.limit}")

    def wait(self, descriptor: int, problem: str, writing: bool = False) -> None:
        """Wait until `descriptor` can be read from, or with `writing` be written to.

        Raises `DeadlineError` with `problem` if the deadline passes before, and `Stopped` if a
        signal comes.
        """
        import select

        poll = select.poll()
        poll.register(descriptor, select.POLLOUT if writing else select.POLLIN)
        woken = _woken()  # before the test whether a signal has come
        if not _Signals.came:
            poll.register(woken, select.POLLIN)
        while True:
            self.check(problem)
            ready = [number for number, _ in poll.poll(_milliseconds(self.left) + 1)]
            if woken in ready:  # the signal comes first: `check` raises, unless it is held
                poll.unregister(woken)
            elif ready:
                if _Signals.came:  # the handler may have run after `poll` only
                    self.check(problem)
                return

    def wait_or_signal(self, descriptor: int) -> bool:
        """Wait until `descriptor` can be read from, a signal comes, or the time is up.

        Return whether `descriptor` can be read from.
        """
        import select

        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.register(_woken(), select.POLLIN)
        ready = [number for number, _ in poll.poll(_milliseconds(self.left))]
        return descriptor in ready

    def pause(self, seconds: float, problem: str) -> None:
        """Sleep for `seconds`, or until the deadline passes or a signal comes.

        Raises `DeadlineError` with `problem` if the deadline has passed, and `Stopped` if a signal
        has come.
        """
        self.check(problem)
        import select

        poll = select.poll()
        woken = _woken()
        if not _Signals.came:
            poll.register(woken, select.POLLIN)
        poll.poll(_milliseconds(min(seconds, self.left)))
        self.check(problem)


def pause(seconds: float) -> None:
    """Sleep for `seconds`, or until a signal comes.

    Raises `Stopped` if a signal has come, or the time limit of an enclosing block has passed.
    """
    Deadline(None).pause(seconds, "")


def _milliseconds(seconds: float) -> float:
    """Return the argument of ``poll`` for a wait of `seconds`."""
    return max(0.0, min(seconds, LONGEST_WAIT)) * 1000
