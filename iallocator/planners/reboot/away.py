"""What comes of taking nodes away: the moves that empty them, or why they cannot be away."""

from __future__ import annotations

from iallocator.model.moves import FAILOVER, FAILOVER_TO, REPLACE_SECONDARY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.model.moves import ElementaryMove
    from iallocator.planners.plan import PlannedMove

__all__ = ["Away", "way_back"]


class Away:
    """What comes of taking some nodes away.

    Attributes
    ----------
    moves:
        That empty them, in an order in which they can be made.
    reason:
        Why they cannot be away at the same time; "" if they can.
    short:
        The failure that would not be survived meanwhile; "" for none.
    homeless:
        Whether somebody found no place, or none that keeps N+1.
    """

    __slots__ = ("homeless", "moves", "reason", "short")

    def __init__(self) -> None:
        self.moves: list[PlannedMove] = []
        self.reason = ""
        self.short = ""
        self.homeless = False


def way_back(move: PlannedMove) -> list[ElementaryMove]:
    """The steps that bring an instance back to where `move` found it."""
    if len(move.before) == 1:
        return [(FAILOVER_TO, move.before[0])]
    primary, mirror = move.before
    if move.after == (mirror, primary):
        return [(FAILOVER, primary)]
    if move.after[0] == primary:
        return [(REPLACE_SECONDARY, mirror)]
    return [(REPLACE_SECONDARY, primary), (FAILOVER, primary)]
