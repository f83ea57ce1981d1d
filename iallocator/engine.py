"""Answer a request: read its bytes, place the instances, and return the reply."""

from __future__ import annotations

from iallocator.deadline import (
    TIME_IS_UP,
    Deadline,
    Running,
    Stopped,
    limit_reached,
    reading_note,
)
from iallocator.errors import NO_INPUT, STDIN, InFile, RequestError, many
from iallocator.light import copy
from iallocator.reply import Reply, warnings_beyond
from iallocator.units import GIB
from iallocator.wire.codec import decode
from iallocator.wire.document import read_cluster
from iallocator.wire.reading import Reading
from iallocator.wire.request import read_request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.state import State
    from iallocator.options.settings import Settings
    from iallocator.placement.context import Context
    from iallocator.placement.trace import Trace
    from iallocator.requests.existing import Request

    Heard = Callable[[Cluster, Request], None]
    """A function that is called with the cluster and the request of a document."""

__all__ = [
    "decide",
    "effective_settings",
    "inconsistencies",
    "read",
    "request_in",
    "respond",
    "summary",
]  # fmt: skip

LEAST_SECONDS = 0.2
"""Seconds that a request may take whatever the limit: ``--time-limit=0`` only forbids searches."""

ANSWERING_SECONDS = 0.2
"""Seconds after the limit in which an answer is completed; then "time is up" is the answer.

N+1 simulations and exact searches end at the limit, and the best placement known by then counts."""


def read(raw: bytes, settings: Settings, path: str = STDIN) -> tuple[Cluster, Request]:
    """Return the cluster and the request in the document `raw`.

    If `settings` name another source of the cluster (``-t`` or ``--simulate``), the cluster comes
    from there.

    `path`: the file of the document; errors contain its name.
    """
    if path == STDIN and not raw.strip():
        raise RequestError("", NO_INPUT)
    with InFile(path):
        document = decode(raw)
    reading = Reading.of(settings)
    cluster = None
    if settings.names_another_cluster:
        from iallocator.sources import substitute

        other = substitute(settings, reading)
        cluster = other.cluster if other else None
    with InFile(path):
        cluster = cluster or read_cluster(document, reading)
        request = read_request(document, cluster, reading)
    Running.has_read()
    return cluster, request


def request_in(document: Any, cluster: Cluster, settings: Settings) -> Request | None:
    """Return the request of a captured `document` about `cluster`; None if there is none."""
    if document is None or "request" not in document:
        return None
    return read_request(document, cluster, Reading.of(settings))


def respond(raw: bytes, settings: Settings, heard: Heard | None = None, path: str = STDIN) -> Reply:
    """Answer the request document `raw` of the file `path`.

    `heard` is called with the cluster and the request once they are read.
    """
    cluster, request = read(raw, settings, path)
    if heard is not None:
        heard(cluster, request)
    return decide(cluster, request, settings)


def decide(
    cluster: Cluster, request: Request, settings: Settings, trace: Trace | None = None
) -> Reply:
    """Answer `request` within the time limit, reporting decisions to `trace`."""
    from iallocator.handlers import handler_for  # here: not every command decides a request

    warnings: list[str] = []
    if cluster.assumed_offline:
        from iallocator.sources.live.load import warnings_of_silent_nodes

        warnings += warnings_of_silent_nodes(cluster)
    if settings.mond or settings.mond_data or settings.mond_xen:
        from iallocator.sources.live.measured import add_measured

        warnings += add_measured(cluster, settings)
    settings = effective_settings(cluster, request.asked, settings, warnings)
    seconds = settings.planning_seconds
    searching = max(seconds, LEAST_SECONDS)
    deadline = Deadline.of_run(searching)
    try:
        with Deadline.of_run(searching + ANSWERING_SECONDS):
            context, remarks = _context(cluster, request, settings, trace, deadline)
            remarks += warnings
            reply = handler_for(request.kind)(context, request)
    except Stopped as stop:
        if stop.interrupted:
            raise
        if trace is not None:
            trace.ended()
        late = f"{TIME_IS_UP}: no answer within {seconds:g} s{reading_note(seconds)}"
        return _with_remarks(Reply(False, late, [], []), warnings, settings)
    if settings.make_room:
        from iallocator.planners.make_room.make_room import add_room

        add_room(reply, cluster, request, settings, deadline, request.coming)
    for name, why in context.affinity.unsupported(request.coming).items():
        reply.info += f"; {name} {why}"
        context.remarks.append(f"Warning: {name} {why}")
    for text in context.tag_findings(request.concerned(cluster)):
        if f"Warning: {text}" not in context.remarks:  # as a strategy may have reported
            reply.info += f"; {text}"
            context.remarks.append(f"Warning: {text}")
    if context.effort.undecided:
        limit = f"within {seconds:g} s" if deadline.over() else "within its budget of work"
        undecided = (
            f"N+1 of {context.effort.undecided} placements undecided {limit}, counted as FailN1"
        )
        reply.info += f"; {undecided}"
    if deadline.over():
        reply.info += f"; {limit_reached(seconds)}"
    reply.interrupted |= context.interrupted
    return _with_remarks(reply, remarks + context.remarks, settings)


def _context(
    cluster: Cluster, request: Request, settings: Settings, trace: Trace | None, deadline: Deadline
) -> tuple[Context, list[str]]:
    """Return the context in which `request` is answered, and remarks about the cluster."""
    from iallocator.placement.context import Context

    groups = 1 if request.stays_in_group else len(cluster.groups)
    candidates = candidates_of(cluster, request)
    context = Context(cluster, settings, candidates, request.coming, trace, deadline, groups)
    if trace is not None:
        trace.begin(context)
    remarks = inconsistencies(context.state)
    if settings.verbose and not settings.quiet:
        remarks.append(f"{summary(cluster)}; request: {request.kind}")
    return context, remarks


def inconsistencies(state: State) -> list[str]:
    """Return a warning that lists the nodes with inconsistent data; [] if there are none."""
    lines = [
        f"  - node {node.name} is missing {memory:.0f} MB ram and {disk // GIB:.0f} GB disk"
        for node, memory, disk in state.unexplained()
    ]
    return ["Warning: cluster has inconsistent data:", *lines] if lines else []


def _with_remarks(reply: Reply, remarks: list[str], settings: Settings) -> Reply:
    """Return `reply` with `remarks` for stderr, and with the warnings among them in ``info``."""
    reply.remarks = remarks
    if remarks and settings.behaviour.warns_in_info:
        reply.info = "; ".join([reply.info, *warnings_beyond(reply.info, remarks)])
    return reply


def effective_settings(
    cluster: Cluster, requested: Mapping[str, Any], settings: Settings, remarks: list[str]
) -> Settings:
    """Return `settings`, completed from the request's keys `requested` and from tags.

    The names of the nodes to which new instances are restricted become full names; an unknown name
    raises `NotFoundError`. The code that completes settings (`iallocator.settings`) is loaded only
    if there is a key or tag.
    """
    if settings.restrict_allocation_to and settings.behaviour.looks_names_up:
        # `settings` that name the nodes for new instances by their whole names
        from iallocator.names import whole_names

        known = [node.name for node in cluster.nodes]
        named = copy(settings)
        named.restrict_allocation_to = whole_names(
            settings.restrict_allocation_to, known, "--restrict-allocation-to", "node"
        )
        settings = named
    prefix = settings.tag_prefix
    owners = [cluster.tags, *[group.tags for group in cluster.groups]]
    if requested or any(tag.startswith(prefix) for tags in owners for tag in tags):
        from iallocator.settings import effective

        settings = effective(settings, cluster, requested, remarks)
    if settings.behaviour.reads_settings and (
        settings.strategy != "score" or settings.memory_ratio != 1 or settings.by_group
    ):
        # Let nodes advertise the memory that the strategies of their groups advertise, or lend
        # the memory that the ratio of their group allows
        from iallocator.ranking.advertised import advertise

        whole = settings

        def settings_of(group: Group) -> Settings:
            return whole.by_group.get(group.index, whole)

        advertise(cluster, settings_of, settings.tag_prefix)
    if settings.behaviour.reads_settings:
        start = f"{prefix}disk-reserve:"
        if (
            settings.disk_reserve != "0"
            or settings.by_group
            or any(tag.startswith(start) for node in cluster.nodes for tag in node.tags)
        ):
            from iallocator.settings import reserve_disk

            reserve_disk(cluster, settings, remarks)
    return settings


def summary(cluster: Cluster) -> str:
    """Return the numbers of groups, nodes and instances that were read, in words."""
    online = sum(1 for node in cluster.nodes if node.online)
    return (
        f"read {many(len(cluster.groups), 'group')}, {many(len(cluster.nodes), 'node')} "
        f"({online} online), {many(len(cluster.instances), 'instance')}"
    )


def candidates_of(cluster: Cluster, request: Request) -> list[tuple[int, int]]:
    """Return the numbers of nodes and of pairs that are scored for each instance of the request."""
    pairs = sum(len(group.nodes) ** 2 for group in cluster.groups) if request.scores_pairs else 0
    return [
        (len(cluster.nodes), pairs if instance.required_nodes == 2 else 0)
        for instance in request.concerned(cluster)
    ]
