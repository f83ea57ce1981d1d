"""Define the limits against which every plan is checked, and when a balancing stops."""

from __future__ import annotations

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

__all__ = ["PlanLimits", "PowerChanges", "StopCriteria", "lowest_score"]


class PowerChanges:
    """The nodes that a plan switches, by index.

    Attributes
    ----------
    off:
        Nodes that are empty at the end of the plan, and are then powered off.
    on:
        Nodes that are powered on before the first move.
    """

    __slots__ = ("off", "on")

    def __init__(self, off: frozenset[int] = frozenset(), on: frozenset[int] = frozenset()) -> None:
        self.off = off
        self.on = on


NO_POWER_CHANGES = PowerChanges()


class PlanLimits:
    """The limits against which a plan is checked.

    Attributes
    ----------
    settings:
        The settings of the run and of each group: N+1, soft limits.
    relations:
        The affinity constraints; None if there are none.
    between_groups:
        Whether instances may change their group.
    power:
        The nodes that the plan powers off and on.
    intolerable_nodes:
        Indices of nodes. No plan can make their failures tolerated, so ``strict`` ignores them.
    left_out:
        Names of instances that do not run in the end. No limit is checked for them.
    returns:
        Whether every instance returns in the end. Soft limits are not checked for an instance that
        fails over to its secondary or returns.
    min_disk:
        The share of the disk of every node that stays free, from 0 to 1.
    """

    __slots__ = (
        "between_groups", "intolerable_nodes", "left_out", "min_disk", "power", "relations",
        "returns", "settings",
    )  # fmt: skip

    def __init__(
        self,
        settings: Settings,
        relations: Relations | None = None,
        *,
        between_groups: bool = False,
        power: PowerChanges = NO_POWER_CHANGES,
        intolerable_nodes: frozenset[int] = frozenset(),
        left_out: Collection[str] = (),
        min_disk: float = 0.0,
        returns: bool = False,
    ) -> None:
        self.settings = settings
        self.relations = relations
        self.between_groups = between_groups
        self.power = power
        self.intolerable_nodes = intolerable_nodes
        self.left_out = left_out
        self.min_disk = min_disk
        self.returns = returns

    def of(self, group: Group) -> Settings:
        """Return the settings of `group`, or those of the run if the group has none of its own."""
        return self.settings.by_group.get(group.index, self.settings)

    def forced(self, state: State, before: Sequence[int], target: int) -> bool:
        """Return whether a move from the nodes `before` to `target` may exceed soft limits."""
        nodes = state.cluster.nodes
        if self.of(nodes[target].group).ignore_soft_errors:
            return True
        if not (self.settings.behaviour.frees_online_nodes or self.power.off.isdisjoint(before)):
            return True  # hsqueeze treats nodes that it frees as dead
        return any(not nodes[index].online for index in before)


class StopCriteria:
    """The criteria by which a balancing stops, and by which a move is worth making.

    Attributes
    ----------
    min_score:
        The balancing stops if the score is at most the lowest possible score plus `min_score`.
    max_length:
        The maximum number of moves; None: any number.
    min_gain, min_gain_limit:
        While the score is at most `min_gain_limit`, a move must lower it by `min_gain` or more.
    cost:
        The maximum amount of data to copy, in MiB; None: any amount.
    compound:
        Whether to try swaps and chains of several moves if no single move lowers the score.
    deadline:
        Ends the search early enough to verify the moves that were found.
    """

    __slots__ = (
        "compound", "cost", "deadline", "max_length", "min_gain", "min_gain_limit", "min_score",
    )  # fmt: skip

    def __init__(
        self,
        *,
        min_score: float = LEAST_SCORE,
        max_length: int | None = None,
        min_gain: float = LEAST_GAIN,
        min_gain_limit: float = LEAST_GAIN_FROM,
        cost: float | None = None,
        compound: bool = False,
        deadline: Deadline | None = None,
    ) -> None:
        self.min_score = min_score
        self.max_length = max_length
        self.min_gain = min_gain
        self.min_gain_limit = min_gain_limit
        self.cost = cost
        self.compound = compound
        self.deadline = deadline or Deadline(None)

    def gain_wanted(self, score: float) -> float:
        """Return by how much a move must lower `score`; 0: by any amount."""
        return 0.0 if score > self.min_gain_limit else self.min_gain


def length_reached(most: int) -> str:
    """Return in words that a plan ends at the maximum number of moves, which is `most`."""
    return f"limit of {most} {'move' if most == 1 else 'moves'} reached (--max-length)"


def lowest_score(state: State, scope: Sequence[int]) -> float:
    """Return a lower bound of the score of the nodes `scope`, reached by a perfect balance.

    The bound is above 0 because some memory is reserved for secondaries. In a perfect balance, the
    memory of all mirrored instances is spread over the nodes in proportion to their memory. If the
    largest node fails, the other nodes must have the memory for its share.
    """
    sizes = [state.cluster.nodes[index].total_memory for index in scope]
    total, largest = sum(sizes), max(sizes, default=0)
    if total <= largest:
        return 0.0
    reserved = sum(sum(state.peers[index].values()) for index in scope)
    weight = STATISTICS[RESERVED_TOTAL].weight
    return float(weight * reserved / total * largest / (total - largest))
