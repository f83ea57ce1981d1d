"""Candidates of a request: scored placements, and the number that each check rejected."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from iallocator.constraints.checks import Check

__all__ = [
    "Candidates", "LimitResults", "ListedCandidates", "NodeBest", "ScoresOf",
    "keep_best",
]  # fmt: skip

if TYPE_CHECKING:
    from typing import Any

    Placement = tuple[Any, tuple[int, ...]]
    """A score and node indices, primary first.

    A lower score is better. Scores of the kernel are numbers, rounded to `SCORE_DECIMALS`.
    """

    NodeBest = tuple[bool, Any, tuple[int, ...]]
    """The best placement with a node: whether it is rejected, its score, and its nodes."""


class LimitResults:
    """The nodes that the kernel rejected while it tested the limits of all candidates.

    Each rejected node has the first check that it fails.

    Attributes
    ----------
    primaries:
        The nodes that are rejected as the primary, or as the only node. The check is None if the
        node was rejected before its limits were tested.
    secondaries:
        The nodes that are rejected as the secondary of any primary; None if none was tested.
    pairs:
        The pairs (primary, secondary) that are rejected because the secondary lacks the memory that
        it must reserve for the primary.
    """

    __slots__ = ("pairs", "primaries", "secondaries")

    def __init__(
        self,
        primaries: Mapping[int, Check | None],
        secondaries: Mapping[int, Check] | None = None,
        pairs: Mapping[tuple[int, int], Check] | None = None,
    ) -> None:
        self.primaries = primaries
        self.secondaries = secondaries
        self.pairs = pairs or {}


class Candidates:
    """Feasible placements in rows, and how many placements each check rejected.

    A row has the placements with one beginning: for pairs there is one row for each primary, for
    single nodes one row in all. Rows, and the nodes in them, are in the order that decides ties.

    Attributes
    ----------
    feasible:
        The number of placements that pass every check.
    failures:
        Reason -> the number of placements that it rejected.
    """

    feasible: int
    failures: dict[str, int]

    def limit_results(self) -> LimitResults | None:
        """Return the nodes that the kernel rejected; None if they are not recorded."""
        return None

    def rows(self) -> int:
        """Return the number of rows."""
        raise NotImplementedError

    def row(self, number: int) -> Iterator[Placement]:
        """Yield the feasible placements of row `number`, best first."""
        raise NotImplementedError

    def open(self, number: int) -> tuple[tuple[int, ...], list[int]]:
        """Return the feasible placements of row `number` without their scores.

        They are returned as the nodes that all of them share, and the last node of each. Without
        scores, this method is faster than `row`.
        """
        open_pairs = [nodes for _, nodes in self.row(number)]
        return (open_pairs[0][:-1] if open_pairs else ()), [nodes[-1] for nodes in open_pairs]

    def open_primaries(self) -> set[int]:
        """Return the nodes that are the primary of at least one feasible placement."""
        found: set[int] = set()
        for prefix, last in map(self.open, range(self.rows())):
            if last:
                found.update(prefix[:1] or last)
        return found

    def score_of(self, number: int, last: int) -> float:
        """Return the score of the feasible placement of row `number` with the last node `last`."""
        return next(float(score) for score, nodes in self.row(number) if nodes[-1] == last)

    def everything(self) -> Iterator[Placement]:
        """Yield all feasible placements, row by row, the best of each row first."""
        for number in range(self.rows()):
            yield from self.row(number)

    def best(self) -> Iterator[Placement]:
        """Yield the best placement of each row that has one, in the order of the rows."""
        for number in range(self.rows()):
            first = next(self.row(number), None)
            if first is not None:
                yield first

    def ranked(self) -> Iterator[Placement]:
        """Yield all feasible placements, best first."""
        import heapq

        def keyed(number: int) -> Iterator[tuple[Any, int, int, Placement]]:
            for position, placement in enumerate(self.row(number)):
                yield placement[0], number, position, placement

        for *_, placement in heapq.merge(*(keyed(number) for number in range(self.rows()))):
            yield placement

    def score_all(self) -> None:
        """Compute and keep all scores, unless they are too many; the caller will read all."""

    def known_scores(self, placements: Collection[tuple[int, ...]]) -> list[float] | None:
        """Return the scores of feasible `placements`; None if a look-up would be slow."""
        return None

    def best_of_nodes(self, rejected: Collection[tuple[int, ...]]) -> dict[int, NodeBest]:
        """Return node -> the best placement on it that is not in `rejected`.

        If all placements on a node are in `rejected`, the result has the best of them. Of equal
        placements, the first one counts, row by row. Cost: all placements.
        """
        best: dict[int, NodeBest] = {}
        keep_best(best, self.everything(), rejected)
        return best

    def in_order(self, placements: list[Placement]) -> list[Placement]:
        """Return `placements` of several rows, best first; equal placements keep their order."""
        return sorted(placements, key=_score)


class ListedCandidates(Candidates):
    """Candidates with lists of placements, made by the scalar kernel."""

    def __init__(
        self,
        rows: Sequence[list[Placement]],
        failures: dict[str, int],
        results: LimitResults | None = None,
    ) -> None:
        self._results = results
        self._rows = rows
        self._sorted = [False] * len(rows)
        self.failures = failures
        self.feasible = sum(len(row) for row in rows)

    def limit_results(self) -> LimitResults | None:
        return self._results

    def rows(self) -> int:
        return len(self._rows)

    def row(self, number: int) -> Iterator[Placement]:
        row = self._rows[number]
        if not self._sorted[number]:
            row.sort(key=_score)
            self._sorted[number] = True
        return iter(row)


class ScoresOf(dict["tuple[int, ...]", float]):
    """Placement -> its cluster score among candidates, looked up at its first use."""

    def __init__(self, candidates: Candidates) -> None:
        super().__init__()
        self._candidates = candidates
        self._rows: dict[tuple[int, ...], int] = {}

    def __bool__(self) -> bool:
        return True

    def __missing__(self, nodes: tuple[int, ...]) -> float:
        if not self._rows:
            rows = range(self._candidates.rows())
            self._rows = {self._candidates.open(number)[0]: number for number in rows}
        self[nodes] = score = self._candidates.score_of(self._rows[nodes[:-1]], nodes[-1])
        return score


def keep_best(
    best: dict[int, NodeBest],
    placements: Iterable[Placement],
    rejected: Collection[tuple[int, ...]],
) -> None:
    """Record in `best`, for each node, the best of the `placements` that use the node.

    A placement that is not in `rejected` is better than one that is. Otherwise the lower score is
    better.
    """
    for score, nodes in placements:
        is_rejected = nodes in rejected
        for index in nodes:
            known = best.get(index)
            if known is None or (score < known[1] if known[0] == is_rejected else known[0]):
                best[index] = is_rejected, score, nodes


def _score(placement: Placement) -> Any:
    return placement[0]
