"""How much memory each failure leaves to spare, or at least that, while nodes change."""

from __future__ import annotations

from bisect import bisect_left, insort

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["SpareMemory"]

ROUNDING = 1.0
"""MiB by which bounds that were added up may be wrong: it costs a closer look, no more."""


class SpareMemory:
    """Failing node -> MiB to spare; see `iallocator.n1.bounds.verdict` for what that is.

    Memory that vanishes from a node takes no more than as much from what any failure has to
    spare, and memory that comes back takes nothing.  So what was noted, less all that has
    vanished since, is a lower bound, which costs nothing to renew: one sum counts for all.
    """

    __slots__ = ("_changes", "_gone", "_noted", "_order")

    def __init__(self) -> None:
        self._gone = 0.0
        self._changes = 0
        self._noted: dict[int, tuple[float, float, int]] = {}  # spare, with what was gone, changes
        self._order: list[tuple[float, int]] = []  # (spare when noted + gone then, node), sorted

    def note(self, node: int, spare: float) -> None:
        """What the failure of `node` has to spare as things are."""
        self.forget(node)
        self._noted[node] = spare, spare + self._gone, self._changes
        insort(self._order, (spare + self._gone, node))

    def forget(self, node: int) -> None:
        """Know nothing of the failure of `node`."""
        if node in self._noted:
            _, key, _ = self._noted.pop(node)
            del self._order[bisect_left(self._order, (key, node))]

    def vanish(self, amount: float) -> None:
        """So many MiB are gone from a node; less than nothing: they have come there."""
        self._gone += max(0, amount)
        self._changes += 1

    def doubtful(self, amount: float) -> list[int]:
        """The nodes whose failures may have less than `amount` to spare, and nobody knows."""
        return [node for node in self._below(amount) if self._noted[node][2] != self._changes]

    def less_than(self, amount: float) -> list[tuple[float, int]]:
        """(spare, node) of those that have less than `amount`, ascending; none may be doubtful."""
        found = ((self._noted[node][0], node) for node in self._below(amount))
        return sorted(one for one in found if one[0] < amount)

    def _below(self, amount: float) -> Iterator[int]:
        """The nodes whose lower bounds are below `amount`, the lowest first."""
        for key, node in self._order:
            if key - self._gone >= amount + ROUNDING:
                return
            yield node
