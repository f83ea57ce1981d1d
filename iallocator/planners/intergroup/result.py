"""What a planner between groups found."""

from __future__ import annotations

from iallocator.model.state import State
from iallocator.planners.result import GroupRow, PlanResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.model.cluster import Cluster

__all__ = ["IntergroupResult"]


class IntergroupResult(PlanResult):
    """A plan in which instances change their group; a row for every group that has nodes."""

    between_groups = True

    def __init__(self, command: str, cluster: Cluster) -> None:
        super().__init__(command, State(cluster))
        self.groups = [GroupRow(group) for group in cluster.groups if group.nodes]
