"""An instance that is to move, and what came of it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from iallocator.aliases import Nodes
    from iallocator.model.instance import Instance
    from iallocator.placement.results import MoveResult

    Made = list[tuple[Instance, MoveResult]]
    """What came of several, in the order in which they were made."""

__all__ = ["MoveTask"]


class MoveTask:
    """An instance that is to move.

    Attributes
    ----------
    best:
        Makes the best outcome of moving it, as the state is then.
    places:
        Lists, with its score, every place it may have, on a state that none of the
        instances is in.
    exactly:
        Makes the outcome of moving it to just these nodes, as the state is then.
    """

    __slots__ = ("best", "exactly", "instance", "places")

    def __init__(
        self,
        instance: Instance,
        best: Callable[[], MoveResult],
        places: Callable[[], Iterable[tuple[float, Nodes]]],
        exactly: Callable[[Nodes], MoveResult],
    ) -> None:
        self.instance = instance
        self.best = best
        self.places = places
        self.exactly = exactly
