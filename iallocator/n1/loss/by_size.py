"""Who is left over when items go to nodes of which only free memory matters.

Greedy first, then bounds, then a search for fewer as long as there is work to spend.
"""

from __future__ import annotations

from bisect import bisect_left, insort

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["WORK", "LeftOver"]

WORK = 300_000
"""Places that all searches together look at: less than a second."""


class LeftOver:
    """Finds for lists of sizes which find no room; what it may search is shared by all calls."""

    __slots__ = ("_best", "_free", "_sizes", "_work")

    def __init__(self) -> None:
        self._work = WORK
        self._best: list[int] = []
        self._free: list[float] = []
        self._sizes: Sequence[float] = ()

    def of(self, sizes: Sequence[float], capacities: Sequence[float]) -> list[int]:
        """The positions of as few of `sizes` as were found whose absence leaves room for the rest.

        `sizes` in descending, `capacities` in ascending order, in MiB.
        """
        every = range(len(sizes))
        self._best = min(
            (_greedy(order, sizes, capacities) for order in (every, reversed(every))), key=len
        )
        if len(self._best) > _at_least(sizes, capacities):
            self._sizes, self._free = sizes, list(capacities)
            self._search(0, [])
        return self._best

    def _search(self, position: int, left: list[int]) -> None:
        """Try every place for the item at `position`, and those behind it."""
        if len(left) >= len(self._best) or self._work <= 0:
            return
        if position == len(self._sizes):
            self._best = list(left)
            return
        size, free = self._sizes[position], self._free
        for capacity in sorted({c for c in free if c >= size}):
            self._work -= 1
            free.remove(capacity)
            insort(free, capacity - size)
            self._search(position + 1, left)
            free.remove(capacity - size)
            insort(free, capacity)
        self._search(position + 1, [*left, position])


def _greedy(order: Iterable[int], sizes: Sequence[float], capacities: Sequence[float]) -> list[int]:
    """Each in turn goes to the fullest node that takes it; the positions of the others."""
    free = list(capacities)
    left = []
    for position in order:
        size = sizes[position]
        place = bisect_left(free, size)
        if place < len(free):
            insort(free, free.pop(place) - size)
        else:
            left.append(position)
    return left


def _at_least(sizes: Sequence[float], capacities: Sequence[float]) -> int:
    """How many find no place, whatever goes where."""
    largest = capacities[-1] if capacities else -1
    over = sum(sizes) - sum(c for c in capacities if c > 0)
    count = 0
    for size in sizes:
        if size <= largest and over <= 0:
            break
        over -= size
        count += 1
    return count
