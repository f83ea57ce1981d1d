"""What came of an exact search for several instances, and what to say of it."""

from __future__ import annotations

from iallocator.solver.problem import FOUND, IMPOSSIBLE, UNAVAILABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from iallocator.solver.most import Most

__all__ = ["JointResult"]


class JointResult:
    """What came of a search.

    Attributes
    ----------
    asked:
        How many instances wanted a place.
    hopeless:
        Names of those that have none whatever the others do.
    status:
        Of the search for places for all others, see `iallocator.solver.problem`; "" if
        none was made.
    most:
        How few of the others must be left out, and where the rest go; None as `status`.
    limit:
        What ended the search; "" if nothing did.
    """

    __slots__ = ("asked", "hopeless", "limit", "most", "status")

    def __init__(self, asked: int) -> None:
        self.asked = asked
        self.hopeless: Collection[str] = ()
        self.status = ""
        self.most: Most | None = None
        self.limit = ""

    @property
    def places(self) -> dict[str, Any]:
        """Instance -> its place, by an answer that is better than the one known; else empty."""
        return dict(self.most.values or {}) if self.most else {}

    def note(self) -> str:
        """What to add to ``info``."""
        if self.status == UNAVAILABLE:
            return "; no exact search: its solver (highspy) is not installed"
        if self.status == FOUND:
            return "; placed together by exact search"
        if self.most is None and self.status == IMPOSSIBLE:
            return "; exact search proved that no placement of all exists"
        if self.most is None:
            return f"; exact search found no answer {self.limit}" if self.limit else ""
        if self.places:
            proof = f"which proved {self._proof()}" if self.most.proved else self._so_far()
            return f"; placed together by exact search, {proof}"
        if self.most.proved:
            return f"; exact search proved {self._proof()}"
        if self.status == IMPOSSIBLE:
            none = "no placement of all exists, and found no better one"
            return f"; exact search proved that {none} {self.limit}"
        return f"; exact search found no answer {self.limit}"

    def _count(self) -> str:
        assert self.most is not None
        left_out = len(self.hopeless) + sum(self.most.left_out.values())
        return f"{self.asked - left_out} of {self.asked}"

    def _proof(self) -> str:
        assert self.most is not None
        first = ", higher priority first," if len(self.most.left_out) > 1 else ""
        return f"that{first} no more than {self._count()} can be placed"

    def _so_far(self) -> str:
        return f"{self._count()}, and no more {self.limit}"
