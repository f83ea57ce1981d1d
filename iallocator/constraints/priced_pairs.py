"""Pairs of nodes whose scores include what soft constraints cost on the primary."""

from __future__ import annotations

from iallocator.scoring.candidates import DECIMALS, Candidates, ScoresOf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from iallocator.aliases import Nodes
    from iallocator.scoring.candidates import Placement

__all__ = ["PricedPairs", "priced"]


def priced(placement: Placement, costs: Mapping[int, float]) -> Placement:
    """Return a placement with a score that includes what its primary costs."""
    score, nodes = placement
    return round(score + costs.get(nodes[0], 0.0), DECIMALS), nodes


class PricedPairs(Candidates):
    """Candidates with the cost of the primary, which all placements of a row share.

    Placements are worked out when they are asked for: there are as many as pairs of nodes.

    Attributes
    ----------
    scores:
        Placement -> score without the cost.
    """

    def __init__(self, candidates: Candidates, costs: Mapping[int, float]) -> None:
        self._candidates = candidates
        self._costs = costs
        self.feasible = candidates.feasible
        self.failures = candidates.failures
        self.scores: dict[Nodes, float] = ScoresOf(candidates)

    def rows(self) -> int:
        return self._candidates.rows()

    def row(self, number: int) -> Iterator[Placement]:
        for placement in self._candidates.row(number):
            self.scores[placement[1]] = placement[0]
            yield priced(placement, self._costs)

    def open(self, number: int) -> tuple[tuple[int, ...], list[int]]:
        return self._candidates.open(number)
