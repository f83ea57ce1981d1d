"""The command ``place``."""

from __future__ import annotations

from iallocator.commands.planning import PlanCommand
from iallocator.commands.progress import say_share
from iallocator.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from iallocator.deadline import Deadline
    from iallocator.options.settings import Settings as Common
    from iallocator.planners.result import PlanResult
    from iallocator.requests import Request
    from iallocator.sources import Source

__all__ = ["Place"]

PACEMAKER = "pacemaker-"


class Place(PlanCommand):
    """``iallocator place``: the whole cluster placed anew by one of Pacemaker's strategies.

    Exit status 0: there is an answer, even if instances stay out; 1: the plan failed
    the check that every plan goes through before it is printed; stderr says which limits it breaks.
    """

    suffix = "placed"
    _request: Request | None = None

    def asked(self, source: Source) -> Mapping[str, Any]:
        """Return the settings of the document's request, if it has one."""
        from iallocator.engine import request_in

        self._request = request_in(source.document, source.cluster, self.settings)
        return self._request.asked if self._request else {}

    def planner(self, source: Source, settings: Common, deadline: Deadline) -> PlanResult:
        """Place all instances of the cluster, and the new ones of the request."""
        from iallocator.planners.place.place import in_document_order, place_anew

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
        new = self._request.new if self._request else ()
        wanted = [one for one in new if one.recreated is None]
        return place_anew(cluster, settings, strategy, instances, wanted, say_share("instances"))
