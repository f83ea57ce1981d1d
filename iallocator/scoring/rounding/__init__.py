"""Equal scores, told apart by what rounding leaves of them, as hail does."""

from __future__ import annotations

from iallocator.scoring.rounding.near_equals import NEAR, FirstDecided, NearEquals
from iallocator.scoring.rounding.running_sums import RunningSums

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.reply import GroupSolution
    from iallocator.scoring.candidates import Candidates

__all__ = ["decided", "decided_now", "tell_apart"]


def decided(
    state: State, scope: Sequence[int], instance: Instance, candidates: Candidates
) -> Candidates:
    """`candidates` for a new instance; the state must not change while they are looked at."""
    return NearEquals(candidates, RunningSums(state, scope, instance).created)


def decided_now(
    state: State, scope: Sequence[int], instance: Instance, candidates: Candidates
) -> Candidates:
    """`candidates` for one that moves and is off the state; only the best of them are decided."""
    return FirstDecided(candidates, RunningSums(state, scope, instance).moved)


def tell_apart(
    state: State, scope: Sequence[int], instance: Instance, offers: Sequence[GroupSolution]
) -> None:
    """Give those of `offers` whose scores are nearly another's the score to its last digit."""
    scored = [offer for offer in offers if offer.nodes and offer.ranked_by == "score"]
    near = [
        one
        for one in scored
        if any(one is not other and abs(one.key - other.key) <= NEAR for other in scored)
    ]
    if near:
        scores = RunningSums(state, scope, instance).created([one.nodes[0] for one in near])
        for one, score in zip(near, scores):
            one.exactly = score
