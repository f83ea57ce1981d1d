"""What a planner between groups found: moves, what is said of each group, and why it ends there."""

from __future__ import annotations

from iallocator.model.state import State
from iallocator.planners.plan import Plan, replay

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from iallocator.model.cluster import Cluster, Group
    from iallocator.planners.plan import PlannedMove

    Json = dict[str, object]

__all__ = ["GroupRow", "SuperPlan"]


class GroupRow:
    """What is said of one group.

    Attributes
    ----------
    members:
        As plain data, beside ``group`` and ``reason``; see ``schemas/plan.schema.json``.
    cells:
        The same as words for a line of a table.
    reason:
        For people; "" if there is nothing to explain.
    """

    __slots__ = ("cells", "group", "members", "reason")

    def __init__(self, group: Group) -> None:
        self.group = group
        self.members: Json = {}
        self.cells: tuple[str, ...] = ()
        self.reason = ""

    def document(self) -> Json:
        """As plain data."""
        return {"group": self.group.name, **self.members, "reason": self.reason}


class SuperPlan:
    """A plan between groups.

    Attributes
    ----------
    plan:
        The moves, the scores, and why it ends where it ends.
    before:
        The state that it begins at.
    groups:
        One row per group that has nodes, in their order.
    members:
        What the command adds to the plan as plain data.
    score:
        What the scores of the plan are, in words.
    heads:
        Of the cells of the rows.
    problems:
        What a check found to be wrong.
    """

    __slots__ = ("before", "groups", "heads", "members", "plan", "problems", "score")

    def __init__(self, command: str, cluster: Cluster, score: str, *heads: str) -> None:
        self.plan = Plan(command, 0.0)
        self.before = State(cluster)
        self.groups = [GroupRow(group) for group in cluster.groups if group.nodes]
        self.members: Json = {}
        self.score = score
        self.heads = heads
        self.problems: list[str] = []

    @property
    def cluster(self) -> Cluster:
        """The cluster."""
        return self.before.cluster

    @property
    def moves(self) -> list[PlannedMove]:
        """In the order in which they are to be made."""
        return self.plan.moves

    def row(self, group: Group) -> GroupRow:
        """What is said of `group`."""
        return next(row for row in self.groups if row.group is group)

    def after(self) -> State:
        """The state once all moves are made."""
        state = State(self.cluster)
        replay(state, self.moves)
        return state

    def add(self, moves: Iterable[PlannedMove]) -> None:
        """Append moves."""
        self.plan.moves += moves
