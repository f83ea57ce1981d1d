"""Pieces into rooms, all at once: which sizes each room takes together, by exact search.

Near the edge best fit wastes what no piece that is left can use.  Of rooms as large as a few
pieces there are few ways to fill them (patterns): a small integer program, whatever their number.
"""

from __future__ import annotations

from collections import Counter, deque
from math import gcd

from iallocator.solver.highs import solve
from iallocator.solver.problem import Choice, Kind, Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from iallocator.solver.budget import Budget

    Places = dict[int, deque[int]]
    """Size -> the rooms for pieces of it, a room as often as it takes one."""

__all__ = ["places_for"]

MOST = 20_000
"""Patterns that are written down at most, of all rooms."""


def places_for(sizes: Sequence[int], rooms: Mapping[int, float], budget: Budget) -> Places | None:
    """Rooms for pieces of all `sizes` (whole, positive), by the capacity of each of `rooms`.

    None if there are none, or none were found within `budget`, or no solver is installed.
    """
    wanted = Counter(sizes)
    largest_first = sorted(wanted, reverse=True)
    unit = gcd(*largest_first)
    alike: dict[int, list[int]] = {}
    for room, capacity in rooms.items():
        alike.setdefault(int(capacity // unit), []).append(room)
    problem = Problem()
    for capacity, members in alike.items():
        kind = Kind([str(room) for room in members], [])
        choices = []
        for pattern in _patterns(capacity, [size // unit for size in largest_first]):
            taken = dict(zip(largest_first, pattern))
            choices.append(Choice(taken, 0.0, {(s,): float(n) for s, n in taken.items() if n}))
            if problem.size + len(choices) > MOST:
                return None
        kind.choices = choices
        problem.kinds.append(kind)
    for size, count in wanted.items():
        problem.bounds[(size,)] = (float(count), float("inf"))
    found: Places = {size: deque() for size in wanted}
    for name, taken in solve(problem, budget).values(problem).items():
        for size, count in taken.items():
            found[size].extend([int(name)] * count)
    return found if all(len(found[size]) >= wanted[size] for size in wanted) else None


def _patterns(capacity: int, sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """How often each of `sizes` may be taken together so that no more of the last one fits."""
    first, *rest = sizes
    if not rest:
        yield (capacity // first,)
        return
    for count in range(capacity // first, -1, -1):
        for others in _patterns(capacity - count * first, rest):
            yield (count, *others)
