"""Placements of nearly the same score, put in order by their score to the last digit."""

from __future__ import annotations

from itertools import islice

from iallocator.scoring.candidates import Candidates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from iallocator.scoring.candidates import Placement

    Exactly = Callable[[list[tuple[int, ...]]], list[float]]
    """The scores of placements on some nodes each, to the last digit."""

__all__ = ["NEAR", "FirstDecided", "NearEquals"]

NEAR = 1e-7
"""Scores that are further apart differ, however they are added up."""


def in_exact_order(placements: Iterable[Placement], exactly: Exactly) -> Iterator[Placement]:
    """`placements`, best first, those of nearly the same score by what `exactly` says of them.

    Of those that are equal even then, the first nodes come first.  No more is scored than
    what is asked for needs.
    """
    for level in _levels(placements):
        yield from _decided(level, exactly)


def _levels(placements: Iterable[Placement]) -> Iterator[list[Placement]]:
    """`placements`, best first, in lists of those that are as good as the first of the list."""
    level: list[Placement] = []
    for placement in placements:
        if level and placement[0] - level[0][0] > NEAR:
            yield level
            level = []
        level.append(placement)
    if level:
        yield level


def _decided(level: list[Placement], exactly: Exactly) -> list[Placement]:
    if len(level) < 2:
        return level
    scores = exactly([nodes for _, nodes in level])
    ranks = sorted((score, nodes, rank) for score, (rank, nodes) in zip(scores, level))
    return [(rank, nodes) for _, nodes, rank in ranks]


class NearEquals(Candidates):
    """Candidates of which nearly equal ones are decided as they are asked for."""

    def __init__(self, candidates: Candidates, exactly: Exactly) -> None:
        self._candidates = candidates
        self._exactly = exactly
        self.failures = candidates.failures
        self.feasible = candidates.feasible

    def rows(self) -> int:
        return self._candidates.rows()

    def row(self, number: int) -> Iterator[Placement]:
        return in_exact_order(self._candidates.row(number), self._exactly)

    def ranked(self) -> Iterator[Placement]:
        return in_exact_order(self._candidates.ranked(), self._exactly)

    def in_order(self, placements: list[Placement]) -> list[Placement]:
        return list(in_exact_order(super().in_order(placements), self._exactly))


class FirstDecided(Candidates):
    """Candidates the best of which are decided now; all others stand as they did."""

    def __init__(self, candidates: Candidates, exactly: Exactly) -> None:
        self._candidates = candidates
        self.failures = candidates.failures
        self.feasible = candidates.feasible
        self._first = _decided(next(_levels(candidates.ranked()), []), exactly)

    def rows(self) -> int:
        return self._candidates.rows()

    def row(self, number: int) -> Iterator[Placement]:
        return self._candidates.row(number)

    def ranked(self) -> Iterator[Placement]:
        yield from self._first
        yield from islice(self._candidates.ranked(), len(self._first), None)
