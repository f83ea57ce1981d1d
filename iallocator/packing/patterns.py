"""Exact packing of many items of few sizes: an integer program over the patterns of each bin.

A pattern says how many items of each size fill a bin.  Bins of equal capacity share one integer
variable per pattern, so that equal bins are not tried in every order.

Source: Gilmore and Gomory 1961; here all patterns are written down, because there are few.
"""

from __future__ import annotations

from collections import Counter, deque
from math import gcd, inf

from iallocator.solver.highs import solve
from iallocator.solver.problem import Choice, Kind, Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from iallocator.deadline import Deadline

    Places = dict[int, deque[int]]
    """Size -> the bins of its items, a bin as often as it takes one."""

__all__ = ["fill_exactly"]

MOST = 20_000
"""The program has no more patterns than this, of all bins together."""


def fill_exactly(
    sizes: Sequence[int], bins: Mapping[int, float], budget: Deadline
) -> Places | None:
    """Return bins for items of all `sizes`, which are positive.

    `bins`: the name of each bin and its free capacity.
    Returns None if the items do not fit, if no solution was found within `budget`, or if no solver
    is installed.
    """
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
            if problem.size + len(choices) > MOST:
                return None
        kind.choices = choices
        problem.kinds.append(kind)
    for size, count in wanted.items():
        problem.bounds[(size,)] = (float(count), inf)
    found: Places = {size: deque() for size in wanted}
    for name, taken in solve(problem, budget).values(problem).items():
        for size, count in taken.items():
            found[size].extend([int(name)] * count)
    return found if all(len(found[size]) >= wanted[size] for size in wanted) else None


def _patterns(capacity: int, sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Return the patterns of a bin: how many items of each size, so that no item more fits."""
    first, *rest = sizes
    if not rest:
        yield (capacity // first,)
        return
    for count in range(capacity // first, -1, -1):
        for others in _patterns(capacity - count * first, rest):
            yield (count, *others)
