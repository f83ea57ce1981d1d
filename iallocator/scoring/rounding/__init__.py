"""Equal scores, told apart by what rounding leaves of them, as hail does."""

from __future__ import annotations

from iallocator.scoring.rounding.near_equals import NEAR, FirstDecided, NearEquals
from iallocator.scoring.rounding.running_sums import RunningSums

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.scoring.candidates import Candidates, Placement

__all__ = ["decided", "decided_now", "exactly"]


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


def exactly(
    state: State, scope: Sequence[int], instance: Instance, placements: Sequence[Placement]
) -> list[float | None]:
    """The score of each of `placements` to the last digit; None where no other one is near it."""
    near = [
        any(one is not other and abs(one[0] - other[0]) <= NEAR for other in placements)
        for one in placements
    ]
    if not any(near):
        return [None] * len(placements)
    asked = [nodes for (_, nodes), doubtful in zip(placements, near) if doubtful]
    scores = iter(RunningSums(state, scope, instance).created(asked))
    return [next(scores) if doubtful else None for doubtful in near]
