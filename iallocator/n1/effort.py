"""What the simulations of failures may cost, and that they may end without a verdict."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["WORK", "Effort", "UndecidedError"]

WORK = 1_000_000
"""Moves × nodes simulated per second that is allowed: less than a quiet machine does."""

SCALAR = 100
"""How many of those one takes that is not done in arrays."""


class UndecidedError(Exception):
    """It is not known whether a failure would be survived: there is nothing left to spend."""


class Effort:
    """What is left for the simulations of one request.

    Attributes
    ----------
    left:
        Moves × nodes that may still be simulated.
    undecided:
        How many placements were not judged for lack of it.
    used:
        How much has been spent.
    """

    __slots__ = ("_over", "left", "undecided", "used")

    def __init__(self, left: float = float("inf"), over: Callable[[], bool] | None = None) -> None:
        self.left = left
        self._over = over
        self.undecided = 0
        self.used = 0

    @property
    def spent(self) -> bool:
        """Whether nothing is left, or time is up."""
        return self.left <= 0 or (self._over is not None and self._over())

    def spend(self, moves: int, scalar: bool = False) -> None:
        """Pay for so many moves × nodes.

        Raises
        ------
        UndecidedError
            If nothing is left.
        """
        work = moves * SCALAR if scalar else moves
        self.used += work
        self.left -= work
        if self.spent:
            raise UndecidedError
