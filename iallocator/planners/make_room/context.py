"""A context in which a request is asked for again and again."""

from __future__ import annotations

from iallocator.placement.context import Context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iallocator.solver.budget import Budget

__all__ = ["RoomContext"]

SHARE = 0.25
"""Of what is left for all exact searches, what the next may spend."""


class RoomContext(Context):
    """All exact searches share what elsewhere one may spend.

    Attributes
    ----------
    undecided:
        Whether one of them ended because it had nothing left to spend.
    """

    __slots__ = ("_part", "_whole", "undecided")

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._part: Budget | None = None
        self._whole: Budget | None = None
        self.undecided = False

    def budget(self) -> Budget:
        """What the next search may spend, a share of what the others have left."""
        self.pay_for_search()
        if self._whole is None:
            self._whole = super().budget()
        self._part = self._whole.part(SHARE)
        return self._part

    def pay_for_search(self) -> None:
        """Pay for the last search."""
        if self._whole is not None and self._part is not None:
            self.undecided |= self._part.spent
            self._whole.pay(self._part)
        self._part = None
