"""What a search may spend: work first, time as the last resort, and nothing after Ctrl-C.

Work is counted, so that what is found follows from the input and not from how busy the
machine is: steps of the solver, answers tried out, placements looked at.
"""

from __future__ import annotations

import signal
from itertools import islice
from sys import maxsize
from threading import current_thread, main_thread

from iallocator.deadline import Alarm, TimeIsUp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, TypeVar

    Place = TypeVar("Place")

__all__ = ["Budget", "Interrupts"]

ITERATIONS = 2000
"""Steps of the simplex method per second that is allowed: less than a quiet machine does."""

TRIALS = 150
"""Instances of the solver's answers tried out per second that is allowed."""

PLACEMENTS = 10_000
"""Placements that branch and bound looks at per second that is allowed."""

LISTED = 40_000
"""Placements that are written out for a search per second that is allowed: memory, too."""

LAST_RESORT = 60.0
"""Seconds by the clock that a search may take on a busy machine, if no limit is set."""


class Interrupts:
    """A ``with`` block in which the first signal leaves a mark, so that no change is cut in two.

    Signals are those that would raise KeyboardInterrupt.  Whoever handled them before is
    told, and handles the next one.  A KeyboardInterrupt that comes up otherwise ends the
    block and leaves the same mark.  Outside of the main thread none is caught.

    Attributes
    ----------
    asked:
        Whether a person asked for the end.
    stop:
        What was raised by who handled the signal before, and is held back; the alarm's, too.
    """

    __slots__ = ("_before", "asked", "stop")

    def __init__(self) -> None:
        self.asked = False
        self.stop: KeyboardInterrupt | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if current_thread() is main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
                if callable(signal.getsignal(number)):
                    self._before[number] = signal.signal(number, self._mark)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        if not self.asked:
            self._restore()
        first = kind is KeyboardInterrupt and not self.asked
        self.asked |= first
        return first

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _mark(self, number: int, frame: Any) -> None:
        try:
            self._before[number](number, frame)
        except KeyboardInterrupt as stop:
            self.stop = stop
        if isinstance(self.stop, TimeIsUp):
            return
        self.asked = True
        self._restore()


class Budget:
    """What a search may spend: the work of `seconds` seconds, and the time until `alarm`.

    Without an `alarm` that is `LAST_RESORT` from now on.  `limit`: the seconds that are named
    where the alarm ends the search, by default `seconds`.

    Attributes
    ----------
    iterations, trials, placements, listings:
        Work that is left; see the constants of those names.
    interrupts:
        Who asks the search to end, or None.
    """

    __slots__ = (
        "_alarm",
        "_given",
        "_shown",
        "interrupts",
        "iterations",
        "listings",
        "placements",
        "trials",
    )  # fmt: skip

    def __init__(
        self,
        seconds: float,
        interrupts: Interrupts | None = None,
        alarm: Alarm | None = None,
        limit: float | None = None,
    ) -> None:
        self._alarm = alarm or Alarm(LAST_RESORT)
        self._shown = LAST_RESORT if alarm is None else seconds if limit is None else limit
        work = (ITERATIONS, TRIALS, PLACEMENTS, LISTED)
        self._give(*(seconds * amount for amount in work))
        self.interrupts = interrupts

    def _give(self, iterations: float, trials: float, placements: float, listings: float) -> None:
        self.iterations = int(iterations)
        self.trials = int(trials)
        self.placements = int(placements)
        self.listings = int(listings)
        self._given = self.iterations, self.trials, self.placements, self.listings

    def listed(self, places: Iterable[Place]) -> list[Place]:
        """All of `places`; as many as may be listed, with which the budget is spent."""
        found = list(islice(places, max(0, min(self.listings, maxsize))))
        self.listings -= len(found)
        return found

    @property
    def left(self) -> float:
        """Seconds that are left by the clock; negative afterwards."""
        left = self._alarm.left
        return float("inf") if left is None else left

    @property
    def interrupted(self) -> bool:
        """Whether somebody asked the search to end."""
        return self.interrupts is not None and self.interrupts.asked

    @property
    def called_off(self) -> bool:
        """The same, or the alarm rang."""
        return self.interrupts is not None and (
            self.interrupts.asked or self.interrupts.stop is not None
        )

    @property
    def spent(self) -> bool:
        """Whether the search has to end now."""
        work = min(self.iterations, self.trials, self.placements, self.listings)
        return self.called_off or work <= 0 or self.left <= 0

    @property
    def limit(self) -> str:
        """What ended the search, for ``info``."""
        if self.interrupted:
            return "before it was interrupted"
        clock = self.called_off or self.left <= 0 or not any(self._given)
        return f"within {self._shown:g} s" if clock else "within its budget of work"

    def part(self, share: float) -> Budget:
        """A budget of that share of what is left; what it spends is to be paid by `pay`."""
        part = Budget(0.0, self.interrupts, Alarm(max(0.0, self.left * share)))
        part._shown = self._shown
        work = (self.iterations, self.trials, self.placements, self.listings)
        part._give(*(amount * share for amount in work))
        return part

    def pay(self, part: Budget) -> None:
        """Take off what `part` has spent."""
        iterations, trials, placements, listings = part._given
        self.iterations -= iterations - part.iterations
        self.trials -= trials - part.trials
        self.placements -= placements - part.placements
        self.listings -= listings - part.listings
