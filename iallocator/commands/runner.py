"""The one function that runs every command: read, find the result, show it, carry it out.

A result is one document.  It is shown as text or JSON, and as a page, a drawing, a script and
saved states if options ask for them.
"""

from __future__ import annotations

from iallocator.commands.command import print_json, reject_silent_nodes
from iallocator.commands.progress import progress_line
from iallocator.deadline import Deadline, Stopped
from iallocator.engine import effective_settings, reading_for
from iallocator.errors import INTERRUPTED, UsageError, cut, tell
from iallocator.files import WholeOutput, check_writable, is_stdout, write_file
from iallocator.sources import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from iallocator.aliases import Json
    from iallocator.commands.command import Command, Result, ShownState
    from iallocator.model.cluster import Cluster

__all__ = ["read_again", "run"]

PICTURES = frozenset(
    ["png", "jpg", "jpeg", "gif", "webp", "bmp", "tif", "tiff", "pdf", "ps", "eps", "html", "htm"]
)
"""Endings of names that promise what is not drawn."""


def run(command: Command) -> int:
    """Run `command`, and return the exit status."""
    settings = command.settings
    settings.check(command.positional)
    _check_outputs(settings, command)

    def again() -> Cluster:
        return read_again(command)

    if getattr(settings, "resume", ""):
        from iallocator.commands.execution import resume

        return resume(settings, again, command.follower())
    try:
        found = command.find() or _find(command)
    except Stopped:
        partial = command.stopped()
        if partial is None:
            return INTERRUPTED
        found = partial
    execute = getattr(settings, "execute", False)
    with WholeOutput():
        sound = _show(found, command, put_off=execute and settings.json)
    status = INTERRUPTED if found.interrupted else found.status
    if not (execute and sound and found.executable) or found.interrupted:
        return status
    from iallocator.commands.execution import begin, show_report

    cluster = command.source.cluster
    report, ended = begin(
        settings, command.name, found.transition(), cluster, again, command.follower()
    )
    with WholeOutput():
        if settings.json:
            _write({**found.document(), "execution": report}, found, settings)
        else:
            show_report(report, settings)
    return max(status, ended)


def _find(command: Command) -> Result:
    """Read the cluster of `command`, complete the settings from tags, and plan."""
    settings = command.settings
    with progress_line("reading the cluster"):
        source = command.source = command.read()
    command.adjust(source)
    if command.measured and (
        settings.measures or settings.mond_xen or settings.exit_on_missing_mond_data
    ):
        from iallocator.sources.live.measured import add_measured

        tell(*add_measured(source.cluster, settings))
    asked = command.asked(source)
    effective = command.effective = effective_settings(
        source.cluster, asked, settings, command.warnings
    )
    tell(*command.warnings)
    return command.plan(source, effective, Deadline.of_run(effective.planning_seconds))


def read_again(command: Command) -> Cluster:
    """Read the cluster anew while a plan is carried out."""
    settings = command.settings
    source = load(settings, command.positional, reading_for(settings), in_run=False)
    reject_silent_nodes(source.cluster, settings)
    command.adjust(source)
    return source.cluster


def _show(found: Result, command: Command, put_off: bool) -> bool:
    """Show `found` in every form that options ask for; return whether it is sound.

    `put_off`: its document is written later, with the report of its execution.
    """
    settings = command.settings
    tell(*found.remarks)
    _show_states(found.before, command)
    sound = found.complete()
    if sound:
        if not (put_off and found.executable) or found.interrupted:
            _write(None, found, settings)
        _show_states(found.after, command)
        html = getattr(settings, "html", None)
        if html is not None:
            from iallocator.render.page.html import html_of

            page = html_of(found.page())
            if is_stdout(html):
                print(page)
            else:
                write_file(html, page)
    tell(*(f"iallocator: {problem}" for problem in found.problems))
    return sound


def _write(document: Json | None, found: Result, settings: Any) -> None:
    """Write the document, by default that of `found`, the script, and the drawing."""
    if getattr(settings, "json", False):
        print_json(found.document() if document is None else document, found.finite)
    elif not is_stdout(getattr(settings, "html", None)):
        print(found.text(), end="")
    commands = getattr(settings, "commands", None)
    if commands is not None and not is_stdout(commands):
        write_file(commands, "\n".join(["#!/bin/sh", "set -e", *found.script(), ""]))
    elif commands is not None and not settings.json:
        print("\n".join(["", *found.script()]))
    graph = getattr(settings, "graph", None)
    if graph is not None:
        from iallocator.render.drawing import graph as drawn

        drawing = drawn(found.transition(), graph)
        if is_stdout(graph):
            print(drawing, end="")
        else:
            write_file(graph, drawing)


def _show_states(states: Iterable[ShownState], command: Command) -> None:
    """List `states` on stderr, and save them as text, as far as options ask for that."""
    settings = command.settings
    for shown in states:
        if settings.print_nodes is not None or settings.print_instances:
            from iallocator.commands.states import show_state

            group = settings.group if command.lists_group else ""
            show_state(shown.state(), settings, shown.moment, group)
        if settings.save_cluster and shown.suffix:
            from iallocator.sources.writer import write_text

            state = shown.state()
            text = write_text(
                state.cluster,
                state,
                policy=command.source.policy,
                master=command.master,
                backwards=not settings.behaviour.orders_by_name,
            )
            write_file(f"{settings.save_cluster}.{shown.suffix}", text)


def _check_outputs(settings: Any, command: Command) -> None:
    """Reject outputs that cannot be written, before any work begins.

    Standard output takes one of these: text for people, a JSON document, or a page.

    Raises
    ------
    UsageError
        If two options write to standard output what cannot follow each other; if a file cannot
        be written; if a drawing has the name of a picture that is no SVG, or its name is not
        attached to the option; if the template library of pages is missing.
    """

    def given(name: str) -> Any:
        return getattr(settings, name, None)  # not every command has every option

    html, graph = given("html"), given("graph")
    for name in command.positional if graph == "-" else ():
        if name.rpartition(".")[2].lower() in (*PICTURES, "svg", "dot"):
            raise UsageError(f"--graph: its file must be attached: --graph={cut(name)}")
    ending = (graph or "").rpartition(".")[2].lower()
    if ending in PICTURES:
        raise UsageError(f"--graph: expected FILE.svg, or another name for DOT, got .{ending}")
    check_writable(graph, given("commands"))
    writers = {
        "--json": given("json"),
        "--machine-readable": given("machine_readable") in (True, "yes"),
        "-X": given("execute"),
        "--print-commands": is_stdout(given("commands")),
        "--graph": is_stdout(graph),
        "--html": is_stdout(html),
    }
    asked = [option for option, writes in writers.items() if writes]
    for option, excluded in (("--html", asked[:-1]), ("--graph", ["--json"])):
        others = [other for other in excluded if other in asked]
        if option in asked and others:
            raise UsageError(
                f"{option}: expected the name of a file: {others[0]} writes to standard output, too"
            )
    if html is not None:
        from iallocator.render.page.html import check_library

        if not html:
            raise UsageError("--html needs the name of a file")
        check_library()
        check_writable(html)
    if settings.save_cluster:
        check_writable(*(f"{settings.save_cluster}.{suffix}" for suffix in command.suffixes))
