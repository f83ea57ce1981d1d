"""One move that a scan found."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.model.instance import Instance
    from iallocator.planners.balance.move_kinds import MoveKind

__all__ = ["FoundMove"]


class FoundMove:
    """A move of `instance` (on the nodes `before`) with, or to, the node `target`."""

    __slots__ = ("before", "instance", "kind", "score", "target")

    def __init__(
        self, score: float, instance: Instance, before: tuple[int, ...], kind: MoveKind, target: int
    ) -> None:
        self.score = score
        self.instance = instance
        self.before = before
        self.kind = kind
        self.target = target
