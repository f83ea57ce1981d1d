"""Equal scores, told apart by what rounding leaves of them, as hail does."""

from __future__ import annotations

from iallocator.scoring.rounding.near_equals import FirstDecided, NearEquals
from iallocator.scoring.rounding.running_sums import RunningSums

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.scoring.candidates import Candidates

__all__ = ["decided", "decided_now"]


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
