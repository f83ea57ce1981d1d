"""Dual feasible functions: proofs that items cannot be packed into bins.

A measure f of sizes is never negative, and f(a) + f(b) <= f(a + b). Items that fit into a bin of
size c then satisfy sum f(item) <= f(c), because f(sum of the sizes) >= sum f(item).  So all items
cannot fit if  sum f(item) > sum f(bin)  for one measure f.

Source: Lueker 1983; Fekete and Schepers 2001, "New classes of fast lower bounds for bin packing".
"""

from __future__ import annotations

from math import gcd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Amount", "AtLeast", "Fillable", "Measure", "measures_of"]

MOST_SUMS = 1 << 21
"""The most sums of sizes that a `Fillable` stores."""


class Amount:
    """The measure by which each size stands for itself."""

    def __call__(self, size: float) -> float:
        return size if size > 0 else 0

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Amount)


class AtLeast:
    """The measure that counts how many items of size `least` fit into a size."""

    def __init__(self, least: float) -> None:
        self.least = least

    def __call__(self, size: float) -> float:
        return size // self.least if size > 0 else 0

    def __hash__(self) -> int:
        return hash(self.least)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AtLeast) and self.least == other.least


class Fillable:
    """The measure that is the largest part of a size that items of the sizes `items` can fill.

    Each size may be used any number of times. Cost: one shift of a bit set for each size.
    """

    def __init__(self, items: Iterable[int], largest: float) -> None:
        self.items = frozenset(items)
        self._unit = gcd(*self.items)
        length = min(MOST_SUMS, int(max(largest, 0) // self._unit) + 1)  # bins may be overfull
        mask = (1 << length) - 1
        sums = 1  # bit k: the items can add up to k units
        for item in self.items:
            step = item // self._unit
            while step < length:
                sums |= sums << step & mask
                step *= 2
        self._sums = sums
        self._length = length

    def __call__(self, size: float) -> float:
        units = int(size // self._unit) if size > 0 else 0
        if units >= self._length:
            return size
        return ((self._sums & ((2 << units) - 1)).bit_length() - 1) * self._unit

    def __hash__(self) -> int:
        return hash((self.items, self._length))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Fillable):
            return False
        return (self.items, self._length) == (other.items, other._length)


Measure = Amount | AtLeast | Fillable


def measures_of(items: Iterable[float], largest: float) -> list[Measure]:
    """Return the measures that give the best lower bounds of the number of bins that `items` need.

    `items` are sizes above 0. No bin is larger than `largest`.
    """
    sizes = sorted(set(items))
    whole = [int(size) for size in sizes if size == int(size)]
    measures: list[Measure] = [Amount(), *map(AtLeast, sizes)]
    if sizes and len(whole) == len(sizes):
        measures.append(Fillable(whole, largest))
    return measures
