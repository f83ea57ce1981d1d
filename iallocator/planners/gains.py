"""What each move of a plan is good for: the statistics of the score that it changes."""

from __future__ import annotations

from iallocator.model.moves import apply_steps
from iallocator.scoring.metrics import STATISTICS
from iallocator.scoring.state_score import terms_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.state import State
    from iallocator.planners.plan import PlannedMove

    Changes = list[tuple[str, float]]
    """(statistic, by how much its contribution to the score changes)."""

__all__ = ["changes_of_moves"]

AFFORDABLE = 50_000
"""Moves × nodes of which the statistics are worked out: about three seconds."""


def changes_of_moves(state: State, moves: Sequence[PlannedMove]) -> list[Changes]:
    """Per move how it changes the statistics of the groups of its nodes, made one by one.

    The moves begin at `state`, which is left as it is.  [] where that takes too long.
    """
    nodes = state.cluster.nodes
    if len(moves) * len(nodes) > AFFORDABLE:
        return []
    known: dict[int, list[float]] = {}

    def terms(group: int) -> list[float]:
        return terms_of(state, state.cluster.groups[group].nodes)

    found = []
    with state.trial():
        for move in moves:
            touched = {nodes[index].group.index for index in move.nodes}
            before = {group: known.get(group) or terms(group) for group in touched}
            apply_steps(state, move.instance, move.steps)
            known |= {group: terms(group) for group in touched}
            found.append(
                [
                    (one.name, sum(known[group][k] - before[group][k] for group in touched))
                    for k, one in enumerate(STATISTICS)
                ]
            )
    return found
