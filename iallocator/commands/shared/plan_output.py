"""What the commands that plan have in common: options, and how a plan is written."""

from __future__ import annotations

from iallocator.errors import UsageError, cut
from iallocator.files import check_writable, is_stdout, write_file
from iallocator.options.table import Option
from iallocator.wire.codec import pretty

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, Protocol

    from iallocator.aliases import Json
    from iallocator.model.state import State
    from iallocator.options.settings import Settings
    from iallocator.render.page.view import PageView
    from iallocator.sources import Source

    class PlanSettings(Protocol):
        """How a plan is to be written."""

        json: bool
        commands: str | None
        html: str | None


__all__ = [
    "COMMANDS_OPTION", "GRAPH_OPTION", "HTML_OPTION", "INTERRUPTED", "JSON_OPTION",
    "VERIFY_OPTION", "check_graph", "check_outputs", "check_saving", "print_json",
    "show_state_of", "write_graph", "write_html", "write_plan",
]  # fmt: skip

PICTURES = frozenset(
    ["png", "jpg", "jpeg", "gif", "webp", "bmp", "tif", "tiff", "pdf", "ps", "eps", "html", "htm"]
)
"""Endings of names that promise what is not drawn."""

INTERRUPTED = 130
"""Exit status after Ctrl-C."""

JSON_OPTION = Option("--json", "json", "write the plan as one JSON document")
COMMANDS_OPTION = Option(
    "--print-commands -C", "commands",
    "print the commands that carry it out, in job sets, or write them to FILE", str, "[=FILE]",
    bare="-",
)  # fmt: skip
GRAPH_OPTION = Option(
    "--graph", "graph",
    "draw the steps and what they wait for: an SVG file, or else DOT (- or none: stdout)", str,
    "[=FILE]", bare="-",
)  # fmt: skip
HTML_OPTION = Option("--html", "html", "write a page for a browser", str, "FILE")
VERIFY_OPTION = Option(
    "--verify-plan",
    "verify_plan",
    "try other orders of the steps on the model, too, and say that all is well",
)


def check_saving(settings: Settings, *suffixes: str) -> None:
    """Say before the work begins that the states could not be saved.

    Raises
    ------
    UsageError
        If a file with one of these suffixes cannot be written.
    """
    if settings.save_cluster:
        check_writable(*(f"{settings.save_cluster}.{suffix}" for suffix in suffixes))


def print_json(document: object) -> None:
    """A document for programs, one member a line."""
    print(pretty(document))


def show_state_of(
    found: Callable[[], State],
    source: Source,
    settings: Settings,
    moment: str,
    suffix: str,
    master: str = "",
    group: str = "",
) -> None:
    """The lists that were asked for on stderr, and the state as text in the file with `suffix`.

    `found` makes it, where it is asked for.  `suffix` "": in no file.  `group`: the lists are
    of this one only.  `master`: the master node, if the source does not name it.
    """
    if settings.print_nodes is not None or settings.print_instances:
        from iallocator.render.states.before_after import show_state

        show_state(found(), settings, moment, group)
    if settings.save_cluster and suffix:
        from iallocator.sources.writer import write_text

        state = found()
        text = write_text(
            state.cluster,
            state,
            policy=source.policy,
            master=master or source.master,
            backwards=not settings.behaviour.orders_by_name,
        )
        write_file(f"{settings.save_cluster}.{suffix}", text)


def check_graph(path: str | None, files: Sequence[str] = ()) -> None:
    """Reject a picture that nobody draws, or that cannot be written.

    Raises
    ------
    UsageError
        If `path` ends like a picture that is no SVG, or cannot be written; if a picture is among
        the `files` to read, because the option's value stands apart from it.
    """
    for name in files if path == "-" else ():
        if name.rpartition(".")[2].lower() in (*PICTURES, "svg", "dot"):
            raise UsageError(f"--graph: its file must be attached: --graph={cut(name)}")
    ending = (path or "").rpartition(".")[2].lower()
    if ending in PICTURES:
        raise UsageError(f"--graph: expected FILE.svg, or another name for DOT, got .{ending}")
    check_writable(path)


def write_graph(path: str | None, transition: Json) -> None:
    """A transition, as plain data, as a graph to the file `path`; None: not asked for."""
    if path is None:
        return
    from iallocator.render.transition.graph import graph

    drawn = graph(transition, path)
    if is_stdout(path):
        print(drawn, end="")
    else:
        write_file(path, drawn)


def check_outputs(settings: Any) -> None:
    """Reject outputs that cannot be written, before any work begins.

    Standard output takes one thing: text for people, a JSON document, or a page.

    Raises
    ------
    UsageError
        If two options write to standard output what cannot follow each other; if the page
        cannot be written, or the template library is missing.
    """

    def given(name: str) -> Any:
        return getattr(settings, name, None)  # not every command has every option

    html = settings.html
    writers = {
        "--json": given("json"),
        "--machine-readable": given("machine_readable") in (True, "yes"),
        "-X": given("execute"),
        "--print-commands": is_stdout(given("commands")),
        "--graph": is_stdout(given("graph")),
        "--html": is_stdout(html),
    }
    asked = [option for option, writes in writers.items() if writes]
    for option, excluded in (("--html", asked[:-1]), ("--graph", ["--json"])):
        others = [other for other in excluded if other in asked]
        if option in asked and others:
            raise UsageError(
                f"{option}: expected the name of a file: {others[0]} writes to standard output, too"
            )
    if html is None:
        return
    from iallocator.render.page.html import check_library

    if not html:
        raise UsageError("--html needs the name of a file")
    check_library()
    check_writable(html)


def write_html(path: str | None, view: Callable[[], PageView]) -> None:
    """The page to the file `path`, or to stdout for ``-``; None: not asked for."""
    if path is None:
        return
    from iallocator.render.page.html import html_of

    page = html_of(view())
    if is_stdout(path):
        print(page)
    else:
        write_file(path, page)


def write_plan(
    settings: PlanSettings,
    document: Callable[[], object],
    lines: Callable[[], Iterable[str]],
    commands: Callable[[], Sequence[str]],
) -> None:
    """The plan in the form that was asked for."""
    if settings.json:
        print_json(document())
    elif not is_stdout(settings.html):
        for line in lines():
            print(line)
    if settings.commands is None:
        return
    if not is_stdout(settings.commands):
        write_file(settings.commands, "\n".join(["#!/bin/sh", "set -e", *commands(), ""]))
    elif not settings.json:
        print("\n".join(["", *commands()]))
