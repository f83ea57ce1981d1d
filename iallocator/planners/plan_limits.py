"""What a plan is held to, and when a balancing stops, whoever makes it."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from iallocator.deadline import Deadline
from iallocator.scoring.metrics import RESERVED_TOTAL, STATISTICS
from iallocator.tolerances import LEAST_GAIN, LEAST_GAIN_FROM, LEAST_SCORE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from iallocator.constraints.relations import Relations
    from iallocator.model.cluster import Group
    from iallocator.model.state import State
    from iallocator.options.settings import Settings

__all__ = ["PlanLimits", "StopCriteria", "lowest_score"]


@dataclass(slots=True)
class PlanLimits:
    """What a plan is held to.

    Attributes
    ----------
    settings:
        Those that count, with the groups' own: N+1, soft limits.
    relations:
        What binds instances to each other; None if nothing does.
    between_groups:
        Whether instances may change their group.
    leaving, coming:
        Indices of nodes that are empty and off in the end, and that are powered on at first.
    hopeless:
        Indices of nodes whose failure is lost whatever the plan does; ``strict`` forgives it.
    left_out:
        Names of instances that do not run in the end, wherever they are: nothing is judged
        by them.
    returns:
        Whether everybody comes back in the end: soft limits hold nobody who goes to its mirror, or
        home again.
    min_disk:
        Share of every node's disk that stays free.
    """

    settings: Settings
    relations: Relations | None = None
    _: KW_ONLY
    between_groups: bool = False
    leaving: frozenset[int] = frozenset()
    coming: frozenset[int] = frozenset()
    hopeless: frozenset[int] = frozenset()
    left_out: Collection[str] = ()
    min_disk: float = 0.0
    returns: bool = False

    def of(self, group: Group) -> Settings:
        """The settings of a group."""
        return self.settings.by_group.get(group.index, self.settings)

    def forced(self, state: State, before: Sequence[int], target: int) -> bool:
        """Whether soft limits do not hold a move from the nodes `before` to the node `target`."""
        nodes = state.cluster.nodes
        if self.of(nodes[target].group).ignore_soft_errors:
            return True
        if not (self.settings.behaviour.frees_online_nodes or self.leaving.isdisjoint(before)):
            return True  # hsqueeze takes nodes that it frees for dead
        return any(not nodes[index].online for index in before)


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
    deadline:
        Ends the search; leaves time for the moves that are found.
    """

    __slots__ = (
        "cost", "deadline", "lookahead", "max_length", "min_gain", "min_gain_limit", "min_score",
    )  # fmt: skip

    def __init__(
        self,
        *,
        min_score: float = LEAST_SCORE,
        max_length: int | None = None,
        min_gain: float = LEAST_GAIN,
        min_gain_limit: float = LEAST_GAIN_FROM,
        cost: float | None = None,
        lookahead: bool = False,
        deadline: Deadline | None = None,
    ) -> None:
        self.min_score = min_score
        self.max_length = max_length
        self.min_gain = min_gain
        self.min_gain_limit = min_gain_limit
        self.cost = cost
        self.lookahead = lookahead
        self.deadline = deadline or Deadline(None)

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
    weight = STATISTICS[RESERVED_TOTAL].weight
    return float(weight * mirrored / total * largest / (total - largest))
