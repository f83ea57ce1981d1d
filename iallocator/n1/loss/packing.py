"""Exact search for what finds room when a node fails: items into nodes, by memory and disk.

First best fit, the largest first; then bounds; then branch and bound with a limit of work.
What is left out costs its price, which is one if nothing else is said, or its memory.  Of bins
that the same items may go to only the largest are looked at, as many as there are items.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from heapq import nlargest
from itertools import islice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

__all__ = ["Bins", "Item", "Packed", "Packing"]

LIMIT = 30_000
"""Nodes that one search looks at: about 20 ms."""

DEEPEST = 300
"""Items from which on nothing is searched: each is one call within another."""

INFINITE = float("inf")


class Item:
    """What goes to one node as a whole.

    Attributes
    ----------
    memory, disk:
        MiB that it needs.
    bins:
        The positions of the nodes that it may go to.
    price:
        What it costs to leave it out, at least one, where that is not its memory.
    others:
        What it needs of other limited resources, one amount each.
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
    """What a search found.

    Attributes
    ----------
    cost:
        Of what was left out; infinite if nothing was found that costs no more than asked.
    least:
        What nothing can cost less than; `cost` if that is proved to be the least.
    places:
        Per item its bin, or None where it is left out.
    """

    __slots__ = ("cost", "least", "places")

    def __init__(self, cost: float, least: float, places: Sequence[int | None]) -> None:
        self.cost = cost
        self.least = least
        self.places = places


class Bins:
    """What the nodes can still give, one entry each.

    Attributes
    ----------
    memory, disk:
        MiB.
    others:
        What each can give of the `Item.others`; empty if there are none.
    order:
        Their positions, those with most memory first; empty if that is not known.
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


class Packing:
    """One problem: `items`, and what each of `bins` can still give.

    `by_memory`: what is left out costs its memory; else its price.  Nothing that
    costs more than `most` is of interest, and what costs no more than `enough` ends the search.
    `limit`: nodes that the search may look at.
    """

    def __init__(
        self,
        items: Sequence[Item],
        bins: Bins,
        by_memory: bool = False,
        most: float = INFINITE,
        limit: int = LIMIT,
        enough: float = 0,
    ) -> None:
        memory, disk, others = bins.memory, bins.disk, bins.others
        self._order = sorted(range(len(items)), key=lambda k: _rank(items[k]))
        self._kinds = _useful(items, memory, bins.order)
        self._items = _reduced([items[k] for k in self._order], self._kinds)
        self._memory = {b: max(0, memory[b]) for b in self._kinds}
        self._disk = {b: disk[b] for b in self._kinds}
        self._others = {b: others[b] for b in self._kinds} if others else {}
        self._by_memory = by_memory
        self._most = most
        self._enough = enough
        self._left = self._limit = limit
        self._now: list[int | None] = [None] * len(items)
        self._seen: dict[object, float] = {}
        self._sums = [0.0]  # memory of the last 1, 2, ... items
        self._least = [INFINITE]
        for item in reversed(self._items):
            self._sums.append(self._sums[-1] + item.memory)
            self._least.append(min(self._least[-1], item.memory))

    @property
    def work(self) -> int:
        """How many nodes have been looked at."""
        return self._limit - self._left

    def solve(self) -> Packed:
        """The cheapest that was found."""
        found = self._greedy()
        self._cost = sum(map(self._price, (k for k, b in enumerate(found) if b is None)))
        self._best = found
        if self._cost <= self._enough:
            return self._packed(0)
        least = max(self._bound(0), self._by_sizes())
        if self._cost > least and least <= self._most and len(self._items) <= DEEPEST:
            self._search(0, 0)
            if self._left > 0:  # nothing cheaper was overlooked
                least = max(least, min(self._cost, self._most + (self._cost > self._most)))
        return self._packed(least)

    def _packed(self, least: float) -> Packed:
        """The cheapest that was found; nothing can cost less than `least`."""
        cost = self._cost if self._cost <= self._most else INFINITE
        places: list[int | None] = [None] * len(self._best)
        for k, place in zip(self._order, self._best):
            places[k] = place
        return Packed(cost, min(least, cost), places)

    def _price(self, k: int) -> float:
        return self._items[k].memory if self._by_memory else self._items[k].price

    def _greedy(self) -> list[int | None]:
        """Each in turn where least is left beside it."""
        if len({item.bins for item in self._items}) < 2 and not _needs_more_than_memory(
            self._items
        ):
            return self._greedy_alike()
        memory, disk, others = dict(self._memory), dict(self._disk), dict(self._others)
        found: list[int | None] = []
        for item in self._items:
            self._left -= len(item.bins)
            fitting = [
                b
                for b in item.bins
                if memory[b] >= item.memory
                and disk[b] >= item.disk
                and (not others or _suffices(others[b], item.others))
            ]
            best = min(fitting, key=lambda b: (memory[b], b), default=None)
            found.append(best)
            if best is not None:
                memory[best] -= item.memory
                disk[best] -= item.disk
                if others:
                    others[best] = _less(others[best], item.others)
        return found

    def _greedy_alike(self) -> list[int | None]:
        """The same where all may go to the same bins and need no disk: these are kept sorted."""
        bins = self._items[0].bins if self._items else ()
        left = sorted((self._memory[b], b) for b in bins)
        found: list[int | None] = []
        for item in self._items:
            k = bisect_left(left, (item.memory, -1))
            if k == len(left):
                found.append(None)
                continue
            room, b = left.pop(k)
            insort(left, (room - item.memory, b))
            found.append(b)
        self._left -= len(found) + len(left)
        return found

    def _bound(self, k: int) -> float:
        """What the items from `k` on cost at least."""
        rest = len(self._items) - k
        smallest = self._least[rest]
        over = self._sums[rest] - sum([m for m in self._memory.values() if m >= smallest])
        if over <= 0:
            return 0
        return over if self._by_memory else self._how_many(k, over)

    def _how_many(self, k: int, over: float) -> int:
        """How many items from `k` on must be left out to be rid of `over` MiB."""
        count = 0
        for memory in sorted((item.memory for item in self._items[k:]), reverse=True):
            if over <= 0:
                break
            over -= memory
            count += 1
        return count

    def _by_sizes(self) -> float:
        """How much is left out of those of at least some size, by how many of it bins hold."""
        worst = 0.0
        sizes = sorted((item.memory for item in self._items if item.memory > 0), reverse=True)
        for count, size in enumerate(sizes, start=1):
            if count < len(sizes) and sizes[count] == size:
                continue
            excess = count - sum([m // size for m in self._memory.values()])
            if excess > 0:
                worst = max(worst, excess * size if self._by_memory else excess)
        return worst

    def _search(self, k: int, cost: float) -> None:
        """Try every place of item `k` and of those behind it."""
        if k == len(self._items):
            self._cost, self._best = cost, list(self._now)
            return
        self._left -= len(self._memory)
        if self._left <= 0 or not self._promises(cost + self._bound(k)) or self._known(k, cost):
            return
        item = self._items[k]
        for b in self._choices(item):
            self._memory[b] -= item.memory
            self._disk[b] -= item.disk
            if self._others:
                before = self._others[b]
                self._others[b] = _less(before, item.others)
            self._now[k] = b
            self._search(k + 1, cost)
            self._memory[b] += item.memory
            self._disk[b] += item.disk
            if self._others:
                self._others[b] = before
            if self._left <= 0 or not self._promises(cost):
                break
        self._now[k] = None
        if self._promises(cost + self._price(k)):
            self._search(k + 1, cost + self._price(k))

    def _promises(self, cost: float) -> bool:
        return cost < self._cost and cost <= self._most and self._cost > self._enough

    def _known(self, k: int, cost: float) -> bool:
        """Whether the same was left for the items from `k` on before, at no more cost."""
        kinds, memory, disk = self._kinds, self._memory, self._disk
        others = self._others or disk
        left = tuple(sorted(zip(kinds.values(), memory.values(), disk.values(), others.values())))
        if self._seen.get((k, left), INFINITE) <= cost:
            return True
        self._seen[k, left] = cost
        return False

    def _choices(self, item: Item) -> Iterator[int]:
        """The bins that take `item`, the fullest first; of bins that are alike one."""
        fitting = [
            (self._memory[b], self._disk[b], self._kinds[b], self._others.get(b), b)
            for b in item.bins
            if self._memory[b] >= item.memory
            and self._disk[b] >= item.disk
            and (not self._others or _suffices(self._others[b], item.others))
        ]
        last = None
        for *alike, b in sorted(fitting):
            if alike != last:
                last = alike
                yield b


def _rank(item: Item) -> tuple[int, float, float]:
    return len(item.bins), -item.memory, -item.disk


def _useful(items: Sequence[Item], memory: Sequence[float], order: Sequence[int]) -> dict[int, int]:
    """Bin -> its kind, the same for bins that the same items may go to; those that count.

    Where items need only memory, a bin could take what a smaller one of its kind does.
    """
    sets, more = dict.fromkeys(item.bins for item in items), _needs_more_than_memory(items)
    if order and len(sets) == 1 and not more:
        (bins,) = sets
        return dict.fromkeys(sorted(islice((b for b in order if b in bins), len(items))), 1)
    kinds: dict[int, int] = {}
    for number, bins in enumerate(sets):
        for b in bins:
            kinds[b] = kinds.get(b, 0) | 1 << number
    if more or len(kinds) <= len(items):
        return dict(sorted(kinds.items()))
    alike: dict[int, list[int]] = {}
    for b in sorted(kinds):
        alike.setdefault(kinds[b], []).append(b)
    largest = (nlargest(len(items), bins, key=memory.__getitem__) for bins in alike.values())
    return {b: kinds[b] for b in sorted(b for bins in largest for b in bins)}


def _reduced(items: Sequence[Item], kinds: Collection[int]) -> list[Item]:
    """The same items, with those bins alone that are in `kinds`."""
    kept = frozenset(kinds)
    bins = {one: one & kept for one in dict.fromkeys(item.bins for item in items)}
    return [Item(i.memory, i.disk, bins[i.bins], i.price, i.others) for i in items]


def _needs_more_than_memory(items: Sequence[Item]) -> bool:
    return any(item.disk or any(item.others) for item in items)


def _suffices(left: tuple[float, ...], needed: tuple[float, ...]) -> bool:
    return all(one >= other for one, other in zip(left, needed))


def _less(left: tuple[float, ...], taken: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(one - other for one, other in zip(left, taken))
