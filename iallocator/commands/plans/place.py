"""``iallocator place``: the whole cluster placed anew by one of Pacemaker's strategies.

Exit status 0: there is an answer, even if instances stay out; 1: the plan failed
the check that every plan goes through before it is printed; stderr says which limits it breaks.
"""

from __future__ import annotations

from iallocator.commands.shared import run_plan
from iallocator.commands.shared.progress import say_share
from iallocator.engine import request_in
from iallocator.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from iallocator.deadline import Deadline
    from iallocator.model.cluster import Cluster
    from iallocator.options import settings as options
    from iallocator.planners.result import PlanResult
    from iallocator.requests import Allocate, Request
    from iallocator.sources import Source

__all__ = ["OPTIONS", "USAGE", "Settings", "run"]

USAGE = "[OPTIONS] [FILE]"

OPTIONS = run_plan.OPTIONS

Settings = run_plan.Settings

PACEMAKER = "pacemaker-"


class _Placing(run_plan.Planner):
    """Places the cluster, and the new instances of the document's request."""

    command = "place"
    suffix = "placed"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._request: Request | None = None

    def asked(self, source: Source) -> Mapping[str, Any]:
        """What the request asks for."""
        self._request = request_in(source.document, source.cluster, self._settings)
        return self._request.asked if self._request else {}

    def plan(self, source: Source, settings: options.Settings, deadline: Deadline) -> PlanResult:
        """Place everybody."""
        from iallocator.planners.place.place import in_document_order, place_anew

        cluster = source.cluster
        strategy = _strategy(cluster, settings)
        if not strategy.startswith(PACEMAKER):
            raise UsageError(
                f"place follows Pacemaker's rules: --strategy {PACEMAKER}default, -utilization, "
                f"-balanced or -minimal, got {strategy}"
            )
        names = None if source.document is None else list(source.document["instances"])
        instances = in_document_order(cluster, names)
        wanted = _wanted(self._request)
        return place_anew(cluster, settings, strategy, instances, wanted, say_share("instances"))


def run(settings: Settings, positional: Sequence[str]) -> int:
    """Place the cluster in the file (- or none: stdin), and the new instances of its request."""
    return run_plan.run_planner(settings, positional, _Placing(settings))


def _strategy(cluster: Cluster, whole: options.Settings) -> str:
    """The one strategy for all groups."""
    named = {whole.by_group.get(g.index, whole).strategy for g in cluster.groups if g.nodes}
    if len(named) > 1:
        raise UsageError(
            f"the tags of groups name several strategies, {', '.join(sorted(named))}; "
            "place needs one: --strategy"
        )
    return named.pop() if named else whole.strategy


def _wanted(request: Request | None) -> Sequence[Allocate]:
    """The new instances of a request; others ask for none."""
    return [one for one in request.new if one.recreated is None] if request else ()
