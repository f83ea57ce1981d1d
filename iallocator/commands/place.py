"""``iallocator place``: the whole cluster placed anew by one of Pacemaker's strategies.

Exit status 0: there is an answer, even if instances stay out; 1: ``--verify-plan`` found
something wrong with the steps.
"""

from __future__ import annotations

import sys

from iallocator import options
from iallocator.commands.shared.plan_output import (
    COMMANDS_OPTION,
    GRAPH_OPTION,
    JSON_OPTION,
    VERIFY_OPTION,
    show_state_of,
    write_graph,
    write_plan,
)
from iallocator.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.requests import Allocate, Request

__all__ = ["OPTIONS", "USAGE", "Settings", "run"]

USAGE = "[OPTIONS] [FILE]"

OPTIONS = (JSON_OPTION, COMMANDS_OPTION, GRAPH_OPTION, VERIFY_OPTION)

PACEMAKER = "pacemaker-"


class Settings(options.Settings):
    """The settings of this command."""

    json: bool = False
    commands: str | None = None
    graph: str | None = None
    verify_plan: bool = False


def run(settings: Settings, positional: Sequence[str]) -> int:
    """Place the cluster in the file (- or none: stdin), and the new instances of its request."""
    from iallocator.commands.shared.source import load_source
    from iallocator.engine import request_in, settle
    from iallocator.planners.place.result import in_document_order, place_anew
    from iallocator.planners.place.telling import command_lines, placed_document, placed_lines

    source = load_source(settings, positional)
    cluster = source.cluster
    request = request_in(source.document, cluster, settings)
    remarks: list[str] = []
    whole = settle(cluster, request.asked if request else {}, settings, remarks)
    strategy = _strategy(cluster, whole)
    if not strategy.startswith(PACEMAKER):
        raise UsageError(
            f"place follows Pacemaker's rules: --strategy {PACEMAKER}default, -utilization, "
            f"-balanced or -minimal, got {strategy}"
        )
    names = None if source.document is None else list(source.document["instances"])
    instances = in_document_order(cluster, names)
    placed = place_anew(cluster, whole, strategy, instances, _wanted(request))
    for remark in [*remarks, *placed.remarks]:
        print(remark, file=sys.stderr)
    show_state_of(placed.before, source, settings, "Initial", "original")
    show_state_of(placed.after, source, settings, "Final", "placed")
    write_plan(
        settings,
        lambda: placed_document(placed),
        lambda: placed_lines(placed),
        lambda: command_lines(placed),
    )
    write_graph(settings.graph, placed.transition.document())
    problems: list[str] = []
    if settings.verify_plan:
        from iallocator.transition.verify import check

        problems = check(placed.before, placed.transition)
    for problem in problems:
        print(f"iallocator: {problem}", file=sys.stderr)
    return 1 if problems else 0


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
    from iallocator.requests import Allocate, MultiAllocate

    if isinstance(request, MultiAllocate):
        return request.wanted
    if isinstance(request, Allocate) and request.recreated is None:
        return [request]
    return ()
