"""What pieces of some size count for: sums that hold however pieces are packed.

A measure f of sizes is never below zero, and f(a) + f(b) <= f(a + b).  What is packed into
rooms of sizes c then keeps to  sum f(piece) <= sum f(c):  the pieces in one room add up to no
more than c, and f of their sum is at least the sum of their f.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Amount", "AtLeast", "Filled", "Measure", "measures_of"]

LONGEST = 1 << 21
"""So many sizes that pieces could add up to are looked at, at most."""


class Amount:
    """The size itself."""

    def __call__(self, size: float) -> float:
        return size if size > 0 else 0

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Amount)


class AtLeast:
    """How many pieces of `least` there could be in it: 1 and more for all that are as large."""

    def __init__(self, least: float) -> None:
        self.least = least

    def __call__(self, size: float) -> float:
        return size // self.least if size > 0 else 0

    def __hash__(self) -> int:
        return hash(self.least)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AtLeast) and self.least == other.least


class Filled:
    """The most of it that pieces of the sizes `pieces` can fill, each as often as one likes.

    What two rooms can be filled with, one as large as both can be filled with.
    """

    def __init__(self, pieces: Iterable[int], largest: float) -> None:
        from math import gcd

        self.pieces = frozenset(pieces)
        self._unit = gcd(*self.pieces)
        length = min(LONGEST, int(max(largest, 0) // self._unit) + 1)  # rooms may be overfull
        mask = (1 << length) - 1
        sums = 1  # bit k: they can add up to k units
        for piece in self.pieces:
            step = piece // self._unit
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
        return hash((self.pieces, self._length))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Filled):
            return False
        return (self.pieces, self._length) == (other.pieces, other._length)


Measure = Amount | AtLeast | Filled


def measures_of(pieces: Iterable[float], largest: float) -> list[Measure]:
    """What tells most of `pieces`, none of them zero, in rooms up to `largest`."""
    sizes = sorted(set(pieces))
    whole = [int(size) for size in sizes if size == int(size)]
    found: list[Measure] = [Amount(), *map(AtLeast, sizes)]
    if sizes and len(whole) == len(sizes):
        found.append(Filled(whole, largest))
    return found
