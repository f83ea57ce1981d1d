"""Add the penalties of violated soft constraints to the scores of candidates."""

from __future__ import annotations

from iallocator.scoring.candidates import Candidates, ListedCandidates, ScoresOf
from iallocator.tolerances import SCORE_DECIMALS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from iallocator.aliases import Nodes
    from iallocator.constraints.no_affinity import NoAffinity
    from iallocator.model.instance import Instance
    from iallocator.scoring.candidates import Placement

__all__ = ["with_penalties"]


def with_penalty(placement: Placement, costs: Mapping[int, float]) -> Placement:
    """Return a placement with the penalty of its primary added to its score."""
    score, nodes = placement
    return round(score + costs.get(nodes[0], 0.0), SCORE_DECIMALS), nodes


class PairsWithPenalties(Candidates):
    """Candidates with the penalty of the primary, which all placements of a row share.

    Placements are computed when they are read: there are as many as pairs of nodes.

    Attributes
    ----------
    scores:
        Placement -> its score without the penalty.
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
            yield with_penalty(placement, self._costs)

    def open(self, number: int) -> tuple[tuple[int, ...], list[int]]:
        return self._candidates.open(number)


def with_penalties(
    affinity: NoAffinity, instance: Instance, candidates: Candidates
) -> tuple[Candidates, dict[Nodes, float]]:
    """Return `candidates` with the penalties of their primaries, and the scores without them.

    The scores are empty if there are no penalties.
    """
    if not affinity.may_cost(instance):
        return candidates, {}
    costs = affinity.costs(instance, candidates.open_primaries())
    if not costs:
        return candidates, {}
    if candidates.rows() > 1:
        pairs = PairsWithPenalties(candidates, costs)
        return pairs, pairs.scores
    row = list(candidates.everything())
    scores = {nodes: score for score, nodes in row}
    with_costs = [with_penalty(placement, costs) for placement in row]
    return ListedCandidates([with_costs], candidates.failures), scores
