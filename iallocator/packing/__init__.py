"""Bin packing: choose a bin for each item, and leave out as little as possible.

An item is an instance, or a colocation group, which must be on one node. A bin is a node. The
dimensions are memory, disk and any other limited amounts. Each item lists the bins that it may go
to, because storage pools and migration tags exclude nodes. An item that is left out costs its
price, or its memory.

`Packing` has three stages: best fit, lower bounds, and branch and bound within a limit of work.
Best fit first packs the items that few bins accept, and of them the largest. If the cost is above
the bounds, best fit packs again in two other orders: first the items that cost most for their
memory, and first the largest items. If items need only memory, then of the bins that the same items
may go to, only the largest are considered: as many as there are items. `dual_feasible_functions`
has stronger bounds for proofs, `fill_exactly` an exact solution by integer programming for many
items of few sizes.

Cost for *m* items, *n* bins and *s* different sets of bins: best fit O(s n log n + m n), where the
last factor is the shift of a list; a bound O(s (m + n)); a step of branch and bound O(n log n).

Source: best fit decreasing, and branch and bound with the usual bounds by sums and by cardinality.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, deque
from heapq import nlargest
from itertools import islice
from math import gcd, inf

from iallocator.solver.branch_and_bound import BranchAndBound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from iallocator.deadline import Deadline

    PlacesBySize = dict[int, deque[int]]
    """Size -> the bins of the items of this size; a bin is listed once for each of its items."""

__all__ = ["Bins", "Item", "Packed", "Packing", "fill_exactly"]

MOST_BINS_TRIED = 30_000
"""The most bins that one search tries; they take about 20 ms."""

MOST_EXACT_ITEMS = 300
"""The most items for which there is an exact search; with more items, `MOST_BINS_TRIED` bins would
change only the last items."""

MOST_PATTERNS = 20_000
"""The most patterns of all bins together in the integer program of `fill_exactly`. A pattern is the
number of items of each size in a bin."""


class Item:
    """An instance or a colocation group, which is packed into one bin as a whole.

    Attributes
    ----------
    memory, disk:
        The MiB that the item needs.
    bins:
        The positions of the bins that the item may go to.
    price:
        The cost of leaving the item out, at least one; not used if the cost is its memory.
    others:
        The amounts that the item needs of other limited resources, in the order of `Bins.others`.
    """

    __slots__ = ("bins", "disk", "memory", "others", "price")

    def __init__(
        self,
        memory: float,
        disk: float,
        bins: frozenset[int],
        price: float = 1,
        others: tuple[float, ...] = (),
    ) -> None:
        self.others = others
        self.memory = memory
        self.disk = disk
        self.bins = bins
        self.price = price


class Packed:
    """A solution of a packing, with a lower bound.

    Attributes
    ----------
    cost:
        The cost of all items left out; infinite if every solution found costs more than the `most`
        of the packing.
    least:
        A lower bound of the cost of every solution; equal to `cost` if the solution is optimal.
    places:
        For each item its bin, or None if the item is left out.
    """

    __slots__ = ("cost", "least", "places")

    def __init__(self, cost: float, least: float, places: Sequence[int | None]) -> None:
        self.cost = cost
        self.least = least
        self.places = places


class Bins:
    """The free capacity of the bins, one entry per bin.

    Attributes
    ----------
    memory, disk:
        The free MiB of each bin.
    others:
        The free amounts of the resources of `Item.others`; empty if there are none.
    order:
        The positions of the bins by decreasing memory; empty if that order is not known.
    """

    __slots__ = ("disk", "memory", "order", "others")

    def __init__(
        self,
        memory: Sequence[float],
        disk: Sequence[float],
        others: Sequence[tuple[float, ...]] = (),
        order: Sequence[int] = (),
    ) -> None:
        self.memory = memory
        self.disk = disk
        self.others = others
        self.order = order


class Packing(BranchAndBound):
    """One packing problem. The exact search chooses the bin of one item after the other.

    Parameters
    ----------
    items, bins:
        The items to pack, and the bins. A bin with a negative free amount accepts no item.
    by_memory:
        Whether an item that is left out costs its memory (MiB) instead of its price.
    most:
        The highest cost of a solution; the search ignores solutions that cost more.
    enough:
        The search ends at a solution that costs no more than this.
    limit:
        The most bins that the exact search may try; 0: there is no exact search.
    first_fit:
        Whether the packing before the exact search uses the first bin of ``bins.order`` that
        accepts an item, instead of the fullest bin.
    """

    def __init__(
        self,
        items: Sequence[Item],
        bins: Bins,
        by_memory: bool = False,
        most: float = inf,
        limit: int = MOST_BINS_TRIED,
        enough: float = 0,
        first_fit: bool = False,
    ) -> None:
        memory, disk, others = bins.memory, bins.disk, bins.others
        self._order = sorted(range(len(items)), key=lambda k: _rank(items[k]))
        order = bins.order
        self._kinds = _useful(items, memory, () if first_fit else order)
        kept = frozenset(self._kinds)  # items are restricted to these bins
        bins_of = {one: one & kept for one in dict.fromkeys(item.bins for item in items)}
        self._items = [
            Item(i.memory, i.disk, bins_of[i.bins], i.price, i.others)
            for i in (items[k] for k in self._order)
        ]
        self._rank = {b: k for k, b in enumerate(order)} if first_fit else {}
        self._memory = {b: memory[b] for b in self._kinds}
        self._disk = {b: disk[b] for b in self._kinds}
        self._others = {b: others[b] for b in self._kinds} if others else {}
        super().__init__(len(items), inf, enough)
        self._by_memory = by_memory
        self._most = most
        self._left = self._limit = limit
        self._now: list[int | None] = [None] * len(items)
        self._paid: list[float] = [0]  # the cost of the items left out, after each decision
        self._undo: list[tuple[float, ...]] = []  # what the bin had of other amounts before
        self._seen: dict[object, float] = {}
        disks = {*self._disk.values()}
        alike = not others and len(disks) < 2 and not _needs_more_than_memory(items)
        self._memory_alone = alike  # bins differ in nothing else that matters
        self._amounts: list[Mapping[int, Any]] = [self._kinds, self._memory]
        if not alike:
            self._amounts += [self._disk, self._others or self._disk]
        self._sums = [0.0]  # memory of the last 1, 2, ... items
        self._least = [inf]
        for item in reversed(self._items):
            self._sums.append(self._sums[-1] + item.memory)
            self._least.append(min(self._least[-1], item.memory))

    @property
    def work(self) -> int:
        """Return the work done so far: the number of bins that were tried."""
        return self._limit - self._left

    def solve(self) -> Packed:
        """Return the least expensive solution found within the limit of work."""
        every = range(len(self._items))
        self._best: list[int | None] = [None] * len(every)
        self._fill(every)
        if self.cost <= self._enough:
            return self._packed(0)
        least = self._root_bound()
        items = self._items
        if self.cost > least and not self._by_memory:
            self._fill(sorted(every, key=lambda k: items[k].memory / items[k].price))
        if self.cost > least and len({item.bins for item in items}) > 1:
            self._fill(sorted(every, key=lambda k: -items[k].memory))
        search = self.cost > least and least <= self._most and self._left > 0
        if search and len(self._items) <= MOST_EXACT_ITEMS:
            self._left -= len(self._memory)
            self.search()
            if self._left > 0:  # nothing cheaper was overlooked
                least = max(least, min(self.cost, self._most + (self.cost > self._most)))
        return self._packed(least)

    def _packed(self, least: float) -> Packed:
        """Return the least expensive solution found, with the lower bound `least`."""
        cost = self.cost if self.cost <= self._most else inf
        places: list[int | None] = [None] * len(self._best)
        for k, place in zip(self._order, self._best):
            places[k] = place
        return Packed(cost, min(least, cost), places)

    def _price(self, k: int) -> float:
        return self._items[k].memory if self._by_memory else self._items[k].price

    def _fill(self, order: Iterable[int]) -> None:
        """Pack the items in the given `order`, each into the fullest bin that it fits into.

        The result is kept if it is the best so far. Consecutive items with equal sets of bins cost
        one sort of these bins.
        """
        memory, disk, others = dict(self._memory), dict(self._disk), dict(self._others)
        places: list[int | None] = [None] * len(self._items)

        def takes(b: int, item: Item) -> bool:
            return disk[b] >= item.disk and (not others or _suffices(others[b], item.others))

        bins: frozenset[int] | None = None
        alike: list[tuple[float, int]] = []  # the bins of the last item, by free memory
        for k in order:
            item = self._items[k]
            if item.bins is not bins:
                bins = item.bins
                alike = sorted([(memory[b], b) for b in bins])
                self._left -= len(bins)
            self._left -= 1
            at = bisect_left(alike, (item.memory, -1))
            if self._rank:
                fitting = [p for p in range(at, len(alike)) if takes(alike[p][1], item)]
                at = min(fitting, key=lambda p: self._rank[alike[p][1]], default=len(alike))
            elif item.disk or others:
                while at < len(alike) and not takes(alike[at][1], item):
                    at += 1
            if at == len(alike):
                continue
            free, b = alike.pop(at)
            memory[b] = free - item.memory
            insort(alike, (memory[b], b))
            disk[b] -= item.disk
            if others:
                others[b] = _less(others[b], item.others)
            places[k] = b
        cost = sum([self._price(k) for k, b in enumerate(places) if b is None])
        if cost < self.cost:
            self.cost, self._best = cost, places

    def _root_bound(self) -> float:
        """Return a lower bound of the cost, from all items and from the items of each set of bins.

        One bound is the memory that the bins lack. Another bound counts how many items of at least
        some size the bins can hold.
        """
        worst = self._bound(0)
        for bins in dict.fromkeys([frozenset(self._memory), *(item.bins for item in self._items)]):
            free = [self._memory[b] for b in bins]
            items = [k for k, item in enumerate(self._items) if item.bins <= bins]
            sizes = sorted([self._items[k].memory for k in items], reverse=True)
            over = sum(sizes) - sum(free)
            worst = max(worst, over if self._by_memory else _fewest(sizes, over))
            for count, size in enumerate(sizes, start=1):
                if size <= 0 or (count < len(sizes) and sizes[count] == size):
                    continue
                excess = count - sum([m // size for m in free])
                if excess > 0:
                    worst = max(worst, excess * size if self._by_memory else excess)
        return worst

    def _bound(self, k: int) -> float:
        """Return a lower bound of the cost of the items from `k` on, by the sum of all memory."""
        rest = len(self._items) - k
        smallest = self._least[rest]
        over = self._sums[rest] - sum([m for m in self._memory.values() if m >= smallest])
        if over <= 0:
            return 0
        if self._by_memory:
            return over
        return _fewest(sorted([item.memory for item in self._items[k:]], reverse=True), over)

    def branches(self, depth: int) -> Iterator[tuple[float, int | None]]:
        """Yield (cost, bin) for each bin that the next item fits into, the fullest first.

        The last pair has None instead of a bin: the item is left out. Of equal bins, only one is
        tried.
        """
        item, paid = self._items[depth], self._paid[-1]
        memory, disk, kinds, others = self._memory, self._disk, self._kinds, self._others
        needed, space = item.memory, item.disk
        fitting: list[tuple[Any, ...]]
        if self._memory_alone:
            fitting = [(memory[b], kinds[b], b) for b in item.bins if memory[b] >= needed]
        else:
            fitting = [
                (memory[b], disk[b], kinds[b], others.get(b), b)
                for b in item.bins
                if memory[b] >= needed
                and disk[b] >= space
                and (not others or _suffices(others[b], item.others))
            ]
        fitting.sort()
        last = None
        for one in fitting:
            alike = one[:-1]
            if alike != last:
                last = alike
                yield paid, one[-1]
        yield paid + self._price(depth), None

    def enter(self, depth: int, choice: int | None) -> None:
        item, paid = self._items[depth], self._paid[-1]
        self._now[depth] = choice
        if choice is None:
            self._paid.append(paid + self._price(depth))
            return
        self._paid.append(paid)
        self._memory[choice] -= item.memory
        self._disk[choice] -= item.disk
        if self._others:
            self._undo.append(self._others[choice])
            self._others[choice] = _less(self._others[choice], item.others)

    def leave(self, depth: int, choice: int | None) -> None:
        item = self._items[depth]
        self._paid.pop()
        if choice is not None:
            self._memory[choice] += item.memory
            self._disk[choice] += item.disk
            if self._others:
                self._others[choice] = self._undo.pop()

    def promises(self, depth: int) -> bool:
        """Return whether the search of the remaining items can improve the best solution.

        The result is False if an equal state of the bins was reached before at no higher cost.
        """
        self._left -= len(self._memory)
        paid = self._paid[-1]
        if self._left <= 0 or not self.improves(paid + self._bound(depth + 1)):
            return False
        free = (depth, *sorted(zip(*[amounts.values() for amounts in self._amounts])))
        if self._seen.get(free, inf) <= paid:
            return False
        self._seen[free] = paid
        return True

    def improves(self, bound: float) -> bool:
        return bound < self.cost and bound <= self._most

    def must_end(self) -> bool:
        return self._left <= 0

    def accept(self, cost: float) -> bool:
        self._best = list(self._now)
        return True


def _rank(item: Item) -> tuple[int, float, float]:
    return len(item.bins), -item.memory, -item.disk


def _fewest(sizes: Sequence[float], over: float) -> int:
    """Return the least number of items that need more than `over` MiB of memory together.

    `sizes`: the memory of the items, the largest first.
    """
    count = 0
    for size in sizes:
        if over <= 0:
            break
        over -= size
        count += 1
    return count


def _useful(items: Sequence[Item], memory: Sequence[float], order: Sequence[int]) -> dict[int, int]:
    """Return the bins that must be considered, each with a number that stands for its set of items.

    The number is equal for bins that the same items may go to. If items need only memory, the
    largest of such bins can replace the smaller ones. A bin with negative free memory is left out.
    """
    sets, more = dict.fromkeys(item.bins for item in items), _needs_more_than_memory(items)
    if order and len(sets) == 1 and not more:
        (bins,) = sets
        usable = (b for b in order if b in bins and memory[b] >= 0)
        return dict.fromkeys(sorted(islice(usable, len(items))), 1)
    kinds: dict[int, int] = {}
    for number, bins in enumerate(sets):
        for b in bins:
            if memory[b] >= 0:
                kinds[b] = kinds.get(b, 0) | 1 << number
    if more or len(kinds) <= len(items):
        return dict(sorted(kinds.items()))
    alike: dict[int, list[int]] = {}
    for b in sorted(kinds):
        alike.setdefault(kinds[b], []).append(b)
    largest = (nlargest(len(items), bins, key=memory.__getitem__) for bins in alike.values())
    return {b: kinds[b] for b in sorted(b for bins in largest for b in bins)}


def _needs_more_than_memory(items: Sequence[Item]) -> bool:
    return any(item.disk or any(item.others) for item in items)


def _suffices(left: tuple[float, ...], needed: tuple[float, ...]) -> bool:
    return all(one >= other for one, other in zip(left, needed))


def _less(left: tuple[float, ...], amounts: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(one - other for one, other in zip(left, amounts))


def fill_exactly(
    sizes: Sequence[int], bins: Mapping[int, float], budget: Deadline
) -> PlacesBySize | None:
    """Return bins for items of the positive `sizes`, all packed; for many items of few sizes.

    An integer program chooses a pattern for each bin: how many items of each size fill it. Bins of
    equal capacity share one integer variable per pattern, so that equal bins are not tried in every
    order. All patterns are listed in advance, because there are few.

    `bins`: the name of each bin and its free capacity. The result is None if the items do not fit,
    if no solution was found within `budget`, or if no solver is installed.

    Source: Gilmore and Gomory 1961.
    """
    from iallocator.solver.highs import solve
    from iallocator.solver.problem import Choice, Kind, Problem

    wanted = Counter(sizes)
    largest_first = sorted(wanted, reverse=True)
    unit = gcd(*largest_first)
    alike: dict[int, list[int]] = {}
    for one, room in bins.items():
        alike.setdefault(int(room // unit), []).append(one)
    problem = Problem()
    for capacity, members in alike.items():
        kind = Kind([str(one) for one in members], [])
        choices = []
        for pattern in _patterns(capacity, [size // unit for size in largest_first]):
            taken = dict(zip(largest_first, pattern))
            choices.append(Choice(taken, 0.0, {(s,): float(n) for s, n in taken.items() if n}))
            if problem.size + len(choices) > MOST_PATTERNS:
                return None
        kind.choices = choices
        problem.kinds.append(kind)
    for size, count in wanted.items():
        problem.bounds[(size,)] = (float(count), inf)
    places: PlacesBySize = {size: deque() for size in wanted}
    for name, taken in solve(problem, budget).values(problem).items():
        for size, count in taken.items():
            places[size].extend([int(name)] * count)
    return places if all(len(places[size]) >= wanted[size] for size in wanted) else None


def _patterns(capacity: int, sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the patterns of a bin of this `capacity`, to which no item can be added.

    A pattern is the number of items of each size.
    """
    first, *rest = sizes
    if not rest:
        yield (capacity // first,)
        return
    for count in range(capacity // first, -1, -1):
        for others in _patterns(capacity - count * first, rest):
            yield (count, *others)
