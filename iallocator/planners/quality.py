"""State how good a plan is: a bound of the best possible value, and the distance to the bound."""

from __future__ import annotations

from math import isfinite

from iallocator.deadline import Deadline, Released, Stopped
from iallocator.tolerances import AMOUNT_TOLERANCE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from iallocator.aliases import Json

    Bounding = Callable[[], float | None]
    """Returns the bound; None if no bound is known."""

__all__ = [
    "BOUND_SECONDS",
    "FREED",
    "FREE_SHARE",
    "GROUPS_MEASURE",
    "LEFT_OUT_MEASURE",
    "NO_TIME",
    "PLACED",
    "RUN_INTERRUPTED",
    "SCORE_MEASURE",
    "UNHEALTHY_MEASURE",
    "Quality",
    "bounded",
]  # fmt: skip

SCORE_MEASURE, GROUPS_MEASURE, UNHEALTHY_MEASURE, LEFT_OUT_MEASURE = (
    "score",
    "groups of nodes",
    "unhealthy groups",
    "left out",
)
"""Measures of a result of which less is better."""

FREED, FREE_SHARE, PLACED = "freed nodes", "free share", "instances"
"""Measures of a result of which more is better."""

BOUND_SECONDS = 10.0
"""The longest time for a bound, in seconds."""

LATE_SECONDS = 0.1
"""The time for a bound if the time limit has ended the plan. A small cluster needs no more."""

ZERO_DIFFERENCE = 1e-12
"""A bound and a result close to 0 are equal if they differ by at most this amount."""

NO_TIME = "the time limit ended the plan first"
RUN_INTERRUPTED = "the run was interrupted"
NONE_KNOWN = "no bound is known for this problem"


class Quality:
    """How far the value of a plan is from the best possible value.

    Attributes
    ----------
    result:
        The value that the plan reaches.
    measure:
        Name of the value, `SCORE_MEASURE` for example.
    bound:
        A value that no plan can improve on; None if no bound is known.
    reason:
        Why no bound is known; "" if one is.
    """

    __slots__ = ("bound", "measure", "reason", "result")

    def __init__(
        self, result: float, bound: float | None, reason: str = "", measure: str = SCORE_MEASURE
    ) -> None:
        self.result = result
        self.measure = measure
        self.bound = bound
        self.reason = reason if bound is None else ""

    @property
    def gap(self) -> float | None:
        """Return the distance between result and bound, at least 0; None if no bound is known."""
        return None if self.bound is None else abs(self.result - self.bound)

    @property
    def proved(self) -> bool:
        """Return whether the result is proved to be the best possible one."""
        if self.gap is None:
            return False
        return self.gap <= max(AMOUNT_TOLERANCE * abs(self.result), ZERO_DIFFERENCE)

    def document(self) -> Json:
        """Return ``measure``, ``reached``, ``bound``, ``gap`` and ``proved`` as plain data.

        ``gap`` is None if no bound is known; then ``bound_reason`` says why.
        """
        result: Json = {
            "measure": self.measure,
            "reached": self.result,
            "bound": self.bound,
            "gap": None,
            "proved": self.proved,
        }
        if self.gap is None:
            result["bound_reason"] = self.reason
        else:
            relative = self.gap / abs(self.bound) if self.bound else None
            if not self.gap:
                relative = 0.0
            result["gap"] = {"absolute": self.gap, "relative": relative}
        return result


def bounded(bounding: Bounding, deadline: Deadline) -> tuple[float | None, str, Stopped | None]:
    """Return the bound that `bounding` computes, a reason, and a signal that ended the work.

    The bound is None if none is known; then the reason says why. The signal is None if no signal
    came. The work ends after `BOUND_SECONDS`, or when `deadline` is over, but not before
    `LATE_SECONDS`.
    """
    seconds = min(BOUND_SECONDS, max(deadline.left, LATE_SECONDS))
    try:
        with Released(), Deadline(seconds):
            bound = bounding()
    except Stopped as stop:
        if stop.interrupted:
            return None, RUN_INTERRUPTED, stop
        late = seconds == LATE_SECONDS
        return None, NO_TIME if late else f"it was not found within {seconds:.1f} s", None
    if bound is None or not isfinite(bound):
        return None, NONE_KNOWN, None
    return bound, "", None
