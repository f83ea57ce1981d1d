"""What a planner between groups found."""

from __future__ import annotations

from iallocator.deadline import Stopped
from iallocator.model.state import State
from iallocator.planners.result import GroupRow, PlanResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from iallocator.placement.context import Context
    from iallocator.planners.plan import PlannedMove

__all__ = ["IntergroupResult", "until_stopped"]


class IntergroupResult(PlanResult):
    """A plan in which instances change their group; a row for every group that has nodes.

    Attributes
    ----------
    deadline:
        Ends the planning.
    """

    between_groups = True

    def __init__(self, command: str, context: Context) -> None:
        super().__init__(command, State(context.cluster), context.bonds.demands())
        self.deadline = context.deadline
        self.groups = [GroupRow(group) for group in context.cluster.groups if group.nodes]

    def add(self, moves: Iterable[PlannedMove]) -> None:
        """Append moves, and leave time for them."""
        before = len(self.moves)
        super().add(moves)
        self.deadline.spare(len(self.moves) - before)


def until_stopped(done: IntergroupResult, run: Callable[[], str]) -> None:
    """Let `run` add moves to `done`, and say why it ends; a signal and the deadline end it, too.

    Then the moves that were added until then are the plan, and the state that `run` works
    on may be anything.
    """
    try:
        done.plan.reason = run()
        done.deadline.quiet()
    except Stopped as stop:
        done.plan.end(stop)
