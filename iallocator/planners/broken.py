"""What instances should rather not do where a plan has them."""

from __future__ import annotations

from iallocator.model.moves import apply_steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from iallocator.constraints.relations import Relations
    from iallocator.model.state import State
    from iallocator.planners.plan import PlannedMove

__all__ = ["note_broken"]


def note_broken(state: State, moves: Iterable[PlannedMove], relations: Relations | None) -> None:
    """Tell every move which wishes its instance breaks after it, as the others are then.

    The moves begin at `state`, which is left as it is.
    """
    if relations is None:
        return
    with state.trial():
        for move in moves:
            name = move.instance.name
            apply_steps(state, move.instance, move.steps)
            broken = relations.broken(name, state.where[name][0], state.where)
            move.broken = [bond.priced for bond in broken if not bond.must]
