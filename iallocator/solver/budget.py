"""What a search may spend: work first, time as the last resort, and nothing after Ctrl-C.

Work is counted, so that what is found follows from the input and not from how busy the
machine is: steps of the solver, answers tried out, placements looked at.
"""

from __future__ import annotations

from itertools import islice
from sys import maxsize

from iallocator.deadline import Deadline, due, interrupted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeVar

    Place = TypeVar("Place")

__all__ = ["Budget"]

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


class Budget:
    """What a search may spend: the work of `seconds` seconds, and the time until `deadline`.

    Without a `deadline` that is `LAST_RESORT` from now on.  `limit`: the seconds that are named
    where the deadline ends the search, by default `seconds`.

    Attributes
    ----------
    iterations, trials, placements, listings:
        Work that is left; see the constants of those names.
    """

    __slots__ = (
        "_deadline",
        "_given",
        "_shown",
        "iterations",
        "listings",
        "placements",
        "trials",
    )  # fmt: skip

    def __init__(
        self,
        seconds: float,
        deadline: Deadline | None = None,
        limit: float | None = None,
    ) -> None:
        self._deadline = deadline or Deadline(LAST_RESORT)
        self._shown = LAST_RESORT if deadline is None else seconds if limit is None else limit
        work = (ITERATIONS, TRIALS, PLACEMENTS, LISTED)
        self._give(*(seconds * amount for amount in work))

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
        return self._deadline.left

    @property
    def spent(self) -> bool:
        """Return whether the search must end now."""
        work = min(self.iterations, self.trials, self.placements, self.listings)
        return due() or work <= 0 or self.left <= 0

    @property
    def limit(self) -> str:
        """What ended the search, for ``info``."""
        if interrupted():
            return "before it was interrupted"
        clock = due() or self.left <= 0 or not any(self._given)
        return f"within {self._shown:g} s" if clock else "within its budget of work"

    def part(self, share: float) -> Budget:
        """A budget of that share of what is left; what it spends is to be paid by `pay`."""
        part = Budget(0.0, Deadline(max(0.0, self.left * share)))
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
