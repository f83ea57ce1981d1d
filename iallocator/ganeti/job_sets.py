"""Moves in job sets: those of a set touch no node in common and may run side by side."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

__all__ = ["job_sets"]


def job_sets(touched: Iterable[Collection[int]]) -> list[list[int]]:
    """Positions of moves, gathered in order until one touches a node already touched.

    `touched`: per move of a plan the nodes that it touches.  A new set begins with
    the move that could not run beside those before it.
    """
    sets: list[list[int]] = []
    busy: set[int] = set()
    for position, nodes in enumerate(touched):
        if not sets or busy.intersection(nodes):
            sets.append([])
            busy = set()
        sets[-1].append(position)
        busy.update(nodes)
    return sets
