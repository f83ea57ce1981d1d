"""The command ``place``."""

from __future__ import annotations

from iallocator.commands.planning import PlanCommand
from iallocator.commands.progress import say_share
from iallocator.errors import UsageError
from iallocator.planners.place.place import in_document_order, place_anew

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.deadline import Deadline
    from iallocator.options.settings import Settings
    from iallocator.planners.result import PlanResult
    from iallocator.sources import Source

__all__ = ["Place"]

PACEMAKER = "pacemaker-"


class Place(PlanCommand):
    """Places the whole cluster anew by one of Pacemaker's strategies."""

    suffixes = ("original", "placed")
    reads_request = True

    def planner(self, source: Source, settings: Settings, deadline: Deadline) -> PlanResult:
        """Place all instances of the cluster, and the new ones of the request."""
        cluster = source.cluster
        groups = [group.index for group in cluster.groups if group.nodes]
        named = {settings.by_group.get(index, settings).strategy for index in groups}
        if len(named) > 1:
            raise UsageError(
                f"the tags of groups name several strategies, {', '.join(sorted(named))}; "
                "place needs one: --strategy"
            )
        strategy = named.pop() if named else settings.strategy
        if not strategy.startswith(PACEMAKER):
            raise UsageError(
                f"place follows Pacemaker's rules: --strategy {PACEMAKER}default, -utilization, "
                f"-balanced or -minimal, got {strategy}"
            )
        names = None if source.document is None else list(source.document["instances"])
        instances = in_document_order(cluster, names)
        new = self.request.new if self.request else ()
        wanted = [one for one in new if one.recreated is None]
        return place_anew(cluster, settings, strategy, instances, wanted, say_share("instances"))
