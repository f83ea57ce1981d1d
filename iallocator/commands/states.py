"""Show the cluster before and after a request on stderr, and save it as text files."""

from __future__ import annotations

import sys

from iallocator.documents.lists import instance_table, node_table
from iallocator.engine import decide, read
from iallocator.errors import STDIN, say, tell, terminal_width
from iallocator.model.state import State
from iallocator.planners.eligible import group_named
from iallocator.render.table import MOST_TERMINAL_ROWS, listed, option_for_all
from iallocator.written_files import check_writable, write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, TextIO

    from iallocator.engine import Heard
    from iallocator.model.cluster import Cluster
    from iallocator.options.settings import Settings
    from iallocator.reply import Reply
    from iallocator.requests.existing import Request

__all__ = ["lists_of", "respond", "show_state", "state_after"]

BEFORE_ENDING, AFTER_ENDING = "pre-ialloc", "post-ialloc"
"""Endings of the names of the files with the states before and after a request."""


def respond(raw: bytes, settings: Settings, heard: Heard | None = None, path: str = STDIN) -> Reply:
    """Answer the request document `raw` of the file `path`; show and save both states.

    The states are those before and after the request. `heard` is called with the cluster and the
    request once they are read.

    Raises
    ------
    UsageError
        If a field is not known, or a file cannot be written; if possible, before the request is
        answered.
    """
    if settings.save_cluster:
        check_writable(
            f"{settings.save_cluster}.{BEFORE_ENDING}", f"{settings.save_cluster}.{AFTER_ENDING}"
        )
    cluster, request = read(raw, settings, path)
    if heard is not None:
        heard(cluster, request)
    before = State(cluster)
    show_state(before, settings, "Initial")
    _save(before, settings, "before", BEFORE_ENDING)
    reply = decide(cluster, request, settings)
    after = state_after(cluster, request, reply.success, reply.result)
    show_state(after, settings, "Final")
    _save(after, settings, "after", AFTER_ENDING)
    return reply


def show_state(state: State, settings: Settings, moment: str, group: str = "") -> None:
    """Show the lists that options request on stderr; `moment` is ``Initial`` or ``Final``.

    `group`: the name or uuid of the only group that is listed; "" for all.
    """
    backwards = not settings.behaviour.orders_by_name
    shown = "".join(
        f"\n{moment} {title}:\n{text}"
        for title, text in _lists(state, settings, backwards, sys.stderr, group)
    )
    if shown:
        say(shown)


def lists_of(state: State, settings: Settings, backwards: bool, group: str = "") -> list[str]:
    """Return the lists that options request; `backwards`: the cluster was read last node first.

    `group`: the name or uuid of the only group that is listed; "" for all.
    """
    return [text for _, text in _lists(state, settings, backwards, sys.stdout, group)]


def _lists(
    state: State, settings: Settings, backwards: bool, stream: TextIO, group: str = ""
) -> Iterator[tuple[str, str]]:
    """Yield the title of each list, and the list as it is shown on `stream`.

    On a terminal, a command shows the first rows, unless it has the option for all rows.
    """
    only, width, rows = None, terminal_width(stream), 0
    all_rows = getattr(settings, "all_rows", None)  # None: a request has no such option
    if all_rows is False and stream.isatty() and not settings.behaviour.prints_as_htools:
        rows = MOST_TERMINAL_ROWS
    option = option_for_all(settings) if rows else ""
    units = "" if backwards else " (memory in MiB, disk in GiB)"
    if group:
        only = group_named(state.cluster, group)
    if settings.print_instances:
        yield (
            f"instance map{units}",
            listed(instance_table(state, backwards, only), width, rows, option),
        )
    if settings.print_nodes is not None:
        table = node_table(state, settings.print_nodes, backwards, only)
        yield f"cluster status{units}", listed(table, width, rows, option)


def _save(state: State, settings: Settings, moment: str, suffix: str) -> None:
    if not settings.save_cluster:
        return
    from iallocator.sources.writer import write_text

    path = f"{settings.save_cluster}.{suffix}"
    write_file(
        path, write_text(state.cluster, state, backwards=not settings.behaviour.orders_by_name)
    )
    tell(f"The cluster state {moment} iallocator run has been written to file '{path}'")


def state_after(cluster: Cluster, request: Request, success: bool, result: Any) -> State:
    """Return the state of the cluster after the changes in the `result` of a reply."""
    state = State(cluster)
    if not success:
        return state
    index = {node.name: node.index for node in cluster.nodes}
    for instance, names in request.placements(cluster, result):
        present = state.where.get(instance.name)
        if present is not None:
            state.remove(state.primaries[present[0]][instance.name], present)
        state.place(instance, tuple([index[name] for name in names]))
    return state
