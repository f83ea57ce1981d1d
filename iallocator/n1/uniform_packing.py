"""Packing where every item can go to every node: which items are left over.

Only free memory matters, or memory and disk.  Greedy first, then bounds, then a search for fewer
left-over items as long as there is work to spend.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from iallocator.packing import LIMIT, Bins, Item, Packing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Size = tuple[float, float]
    """MiB of memory and of disk."""

__all__ = ["WORK", "UniformPacking", "at_least"]


INFINITE = float("inf")

WORK = 300_000
"""Places that all searches together try: less than a second."""


class UniformPacking:
    """Packs lists of sizes; all calls share `work`, the places that a search may try."""

    __slots__ = ("_best", "_free", "_sizes", "_work")

    def __init__(self, work: int = WORK) -> None:
        self._work = work
        self._best: list[int] = []
        self._free: list[float] = []
        self._sizes: Sequence[float] = ()

    def of(self, sizes: Sequence[float], capacities: Sequence[float]) -> list[int]:
        """Return the positions of as few of `sizes` as were found that must be left over.

        `sizes` in descending, `capacities` in ascending order, in MiB.
        """
        every = range(len(sizes))
        self._best = _greedy(every, sizes, capacities)
        least = len(self._best) and at_least(sizes, capacities)
        if len(self._best) <= least:
            return self._best
        self._best = min(self._best, _greedy(reversed(every), sizes, capacities), key=len)
        if len(self._best) > least:
            self._sizes, self._free = sizes, list(capacities)
            self._search(0, [])
        return self._best

    def with_disk(
        self, sizes: Sequence[Size], capacities: Sequence[Size], prices: Sequence[int] = ()
    ) -> list[int]:
        """Return the positions that are left over, for pairs of memory and disk.

        The orders are those of `of`.  `prices`: the number of instances of each item; one by
        default.
        """
        prices = prices or [1] * len(sizes)

        def price(left: Sequence[int]) -> int:
            return sum(prices[k] for k in left)

        every = range(len(sizes))
        orders = (every, sorted(every, key=lambda k: sizes[k][0] / prices[k]))
        best = min((_greedy_with_disk(order, sizes, capacities) for order in orders), key=price)
        least = len(best) and at_least([size for size, _ in sizes], [c for c, _ in capacities])
        if price(best) <= least or self._work <= 0:
            return best
        bins = frozenset(range(len(capacities)))
        packing = Packing(
            [Item(memory, disk, bins, cost) for (memory, disk), cost in zip(sizes, prices)],
            Bins([memory for memory, _ in capacities], [disk for _, disk in capacities]),
            limit=min(LIMIT, self._work),
        )
        places = packing.solve().places
        self._work -= packing.work
        return min(best, [k for k, place in enumerate(places) if place is None], key=price)

    def _search(self, position: int, left: list[int]) -> None:
        """Try every bin for the item at `position`, and for those behind it."""
        self._work -= 1
        if len(left) >= len(self._best) or self._work <= 0:
            return
        if position == len(self._sizes):
            self._best = list(left)
            return
        size, free = self._sizes[position], self._free
        last = None
        for capacity in free[bisect_left(free, size) :]:
            if capacity == last:
                continue
            last = capacity
            free.remove(capacity)
            insort(free, capacity - size)
            self._search(position + 1, left)
            free.remove(capacity - size)
            insort(free, capacity)
            if len(left) >= len(self._best) or self._work <= 0:
                return
        self._search(position + 1, [*left, position])


def _greedy(order: Iterable[int], sizes: Sequence[float], capacities: Sequence[float]) -> list[int]:
    """Place each item in the fullest bin that accepts it; return the positions of the others."""
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


def _greedy_with_disk(
    order: Iterable[int], sizes: Sequence[Size], capacities: Sequence[Size]
) -> list[int]:
    """Place each item in the bin with least memory that fits; return the other positions."""
    free = list(capacities)
    left = []
    for position in order:
        memory, disk = sizes[position]
        place = bisect_left(free, (memory, -INFINITE))
        while place < len(free) and free[place][1] < disk:
            place += 1
        if place == len(free):
            left.append(position)
            continue
        left_memory, left_disk = free.pop(place)
        insort(free, (left_memory - memory, left_disk - disk))
    return left


def at_least(sizes: Sequence[float], capacities: Sequence[float]) -> int:
    """Return how many items any packing leaves over; in the orders of `UniformPacking.of`."""
    largest = capacities[-1] if capacities else -1
    over = sum(sizes) - sum(capacities[bisect_left(capacities, 0) :])
    count = 0
    for size in sizes:
        if size <= largest and over <= 0:
            break
        over -= size
        count += 1
    return max(count, _too_many(sizes, capacities))


def _too_many(sizes: Sequence[float], capacities: Sequence[float]) -> int:
    """Return by how many the items of at least some size exceed the bins for that size."""
    worst, largest = 0, capacities[-1] if capacities else -1
    for count, size in enumerate(sizes, start=1):
        if size <= 0 or (count < len(sizes) and sizes[count] == size):
            continue
        room, needed = 0, size
        while needed <= largest and room < count:
            room += len(capacities) - bisect_left(capacities, needed)
            needed += size
        worst = max(worst, count - room)
    return worst
