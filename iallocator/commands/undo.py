"""The way back of a plan, for the option ``--undo`` of every command that plans moves."""

from __future__ import annotations

from iallocator.commands.execution import told_by
from iallocator.commands.planning import PlanCommand
from iallocator.execution.report import moved_away
from iallocator.planners.undo import plan_undo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.deadline import Deadline
    from iallocator.options.settings import Settings
    from iallocator.planners.result import PlanResult
    from iallocator.sources import Source

__all__ = ["Undo"]


class Undo(PlanCommand):
    """Plans the way back of the instances that the journal has moved away."""

    suffixes = ("original", "undone")

    def adjust(self, source: Source) -> None:
        """Change nothing: options about the cluster are for the search of other plans."""

    def planner(self, source: Source, settings: Settings, deadline: Deadline) -> PlanResult:
        """Plan the moves back, as far as the limits allow."""
        cluster = source.cluster
        _, records = told_by(self.settings.undo)
        now = {one.name: cluster.node_names(one.nodes) for one in cluster.instances}
        moved = moved_away(records, now)
        done = plan_undo(cluster, settings, moved, deadline)
        if not moved:
            done.plan.reason = "the journal has moved no instance that is not back already"
        if done.staying:
            done.remarks.append(
                f"iallocator: {len(done.staying)} of {len(moved)} instances stay where they are: "
                + "; ".join(f"{name}: {why}" for name, why in list(done.staying.items())[:5])
            )
        return done
