"""When a balancer stops, and what it may spend."""

from __future__ import annotations

from iallocator.scoring.metrics import STATISTICS
from iallocator.tolerances import LEAST_SCORE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iallocator.model.state import State

__all__ = ["StopCriteria", "lowest_score"]


class StopCriteria:
    """When to stop.

    Attributes
    ----------
    min_score:
        Above the lowest score that the cluster can have: good enough.
    max_length:
        Moves at most; None: any number.
    min_gain, min_gain_limit:
        A move must gain `min_gain` once the score is at or below `min_gain_limit`.
    cost:
        MiB that may be copied; None: any amount.
    lookahead:
        Whether to try exchanges of two instances where no single move helps.
    expired:
        Says whether time is up.
    spare:
        Hears how many more moves, or fewer, time is to be left for.
    """

    __slots__ = (
        "cost", "expired", "lookahead", "max_length", "min_gain", "min_gain_limit", "min_score",
        "spare",
    )  # fmt: skip

    def __init__(
        self,
        *,
        min_score: float = LEAST_SCORE,
        max_length: int | None = None,
        min_gain: float = 0.01,
        min_gain_limit: float = 0.1,
        cost: float | None = None,
        lookahead: bool = False,
        expired: Callable[[], bool] = lambda: False,
        spare: Callable[[int], None] = lambda moves: None,
    ) -> None:
        self.min_score = min_score
        self.max_length = max_length
        self.min_gain = min_gain
        self.min_gain_limit = min_gain_limit
        self.cost = cost
        self.lookahead = lookahead
        self.expired = expired
        self.spare = spare

    def gain_wanted(self, score: float) -> float:
        """The least that a move must gain at this score; 0 means anything above it."""
        return 0.0 if score > self.min_gain_limit else self.min_gain


def lowest_score(state: State, scope: Sequence[int]) -> float:
    """The score of a perfectly balanced cluster: mirrors need some memory kept free.

    The memory of all mirrored instances, spread evenly over the nodes by their size;
    when the largest node fails, the others must hold its share.
    """
    sizes = [state.cluster.nodes[index].total_memory for index in scope]
    total, largest = sum(sizes), max(sizes, default=0)
    if total <= largest:
        return 0.0
    mirrored = sum(sum(state.peers[index].values()) for index in scope)
    weight = next(s.weight for s in STATISTICS if s.name == "reserved_mem_total")
    return float(weight * mirrored / total * largest / (total - largest))
