"""The one function that runs every command: read, find the result, show it, execute it.

A result is one document. It is shown as text or JSON, and as a page, a drawing, a script and saved
states if options ask for them. With ``--validate`` a command checks its input instead.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

from iallocator.commands import CAMPAIGN, LISTS_GROUP, PLANS, READS_ITSELF, UNMEASURED
from iallocator.commands.command import (
    Result,
    print_json,
    reject_silent_nodes,
    time_of_reading,
)
from iallocator.commands.progress import progress_line
from iallocator.deadline import Deadline, Running, Stopped, limit_reached
from iallocator.engine import effective_settings
from iallocator.errors import (
    NO_INPUT,
    STATUS_INCOMPLETE,
    STATUS_INTERRUPTED,
    STATUS_MISTAKE,
    STDIN,
    IallocatorError,
    UsageError,
    cut,
    one_line,
    say,
    tell,
)
from iallocator.files import WholeOutput, read_file
from iallocator.render import PAGE, RENDERERS, TEXT, drawing_of, pages_of, text_of
from iallocator.render.table import MOST_TERMINAL_ROWS
from iallocator.reply import MOST_WARNINGS
from iallocator.sources import document_path, load, named, source_name, substitute
from iallocator.wire.reading import Reading
from iallocator.written_files import check_writable, is_stdout, write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from typing import Any

    from iallocator.aliases import Json
    from iallocator.commands.command import Command, ShownState
    from iallocator.model.cluster import Cluster
    from iallocator.options.settings import Settings
    from iallocator.options.table import Option
    from iallocator.planners.result import PlanResult
    from iallocator.sources import Source

__all__ = ["read_again", "read_source", "run", "validate", "write_metrics"]

PICTURES = frozenset(
    ["png", "jpg", "jpeg", "gif", "webp", "bmp", "tif", "tiff", "pdf", "ps", "eps", "html", "htm"]
)
"""Endings of file names that ``--graph`` rejects, because drawings are SVG or DOT."""


def run(command: Command) -> int:
    """Run `command`, and return the exit status."""
    settings = command.settings
    settings.check(command.positional)
    _check_outputs(settings, command)

    def again() -> Cluster:
        cluster = read_again(command)
        effective_settings(cluster, {}, settings, [])  # also sets capacity limits of nodes
        return cluster

    if READS_ITSELF not in command.row.traits:
        files = settings.files_of(command.positional)
        command.words = command.positional[: len(command.positional) - len(files)]
        command.positional = files
    module = import_module(f"iallocator.commands.{command.row.module}")
    work = getattr(module, command.name.replace("-", "_"))
    if hasattr(module, "follower"):
        command.follower = module.follower(command)
    silent: Collection[str] = ()
    if getattr(settings, "watch", False):
        from iallocator.commands.rescue_watch import begun_rescue

        settings.resume, silent = begun_rescue(settings)
    if getattr(settings, "resume", ""):
        return _resume(command, again, silent)
    try:
        reads_itself = READS_ITSELF in command.row.traits
        result: Result = work(command) if reads_itself else _find(command, work)
    except IallocatorError as error:
        if not getattr(settings, "nagios", False):
            raise
        print(f"GANETI UNKNOWN - {one_line(str(error))}".replace("|", "/"))
        return STATUS_INCOMPLETE
    except Stopped:
        if command.partial is None:
            return STATUS_INTERRUPTED
        result = command.partial
    execute = getattr(settings, "execute", False) or getattr(settings, "dry_run", False)
    with WholeOutput():
        sound = _show(result, command, put_off=execute and settings.json)
    status = STATUS_INTERRUPTED if result.interrupted else result.status
    if not (execute and sound and result.executable) or result.interrupted:
        return status
    if CAMPAIGN in command.row.traits and not settings.dry_run:
        campaign = import_module("iallocator.commands.campaign")
        return int(campaign.carry_out_campaign(command, result))
    from iallocator.commands.execution import begin, show_report

    cluster = command.source.cluster
    report, ended = begin(
        settings, command.name, result.transition(), cluster, again, command.follower
    )
    with WholeOutput():
        _write_metrics(result, command, report)
        if settings.json:
            _write({**result.json(), "execution": report}, result, command)
        else:
            show_report(report, settings)
    return ended or status


def _resume(command: Command, again: Callable[[], Cluster], silent: Collection[str]) -> int:
    """Resume the execution that ``--resume`` names; return the exit status.

    `again` reads the cluster; `silent` are nodes that need not answer.
    """
    if CAMPAIGN in command.row.traits:
        status: int = import_module("iallocator.commands.campaign").resume_campaign(command)
        return status
    from iallocator.commands.execution import resume
    from iallocator.execution.cluster_check import dead_nodes
    from iallocator.execution.journal import read_journal

    settings = command.settings
    command.dead = {*dead_nodes(read_journal(settings.resume)[0]), *silent}
    return resume(settings, again, command.versioned, command.follower)


def _find(command: Command, work: Callable[[Command, Deadline], Result | PlanResult]) -> Result:
    """Read the cluster, complete the settings from tags, and return the result of `work`."""
    settings = command.settings
    with progress_line("reading the cluster"):
        source = command.source = command.read()
    command.adjust(source)
    if UNMEASURED not in command.row.traits and (
        settings.measures or settings.mond_xen or settings.exit_on_missing_mond_data
    ):
        from iallocator.sources.live.measured import add_measured

        tell(*add_measured(source.cluster, settings))
    requested = command.asked(source)
    effective = command.effective = effective_settings(
        source.cluster, requested, settings, command.warnings
    )
    tell(*command.warnings)
    if getattr(settings, "html", None) is not None:
        from iallocator.documents.cluster_facts import page_seconds

        Running.reserve(page_seconds(source.cluster))
    deadline = Deadline.of_run(effective.planning_seconds)
    if command.row.document not in PLANS:
        result = work(command, deadline)
        assert isinstance(result, Result)
        return result
    from iallocator.commands.planning import Planned

    with progress_line("planning"):
        done = work(command, deadline)
    assert not isinstance(done, Result)
    late = deadline.over()
    if late:
        done.shortfalls.append(limit_reached(effective.planning_seconds))
    late = late and not settings.behaviour.prints_as_htools
    return Planned(done, command, deadline, late)


def read_again(command: Command) -> Cluster:
    """Read the cluster again during the execution of a plan."""
    return read_source(command).cluster


def read_source(command: Command) -> Source:
    """Read the cluster again, and what its source reports in addition."""
    settings = command.settings
    source = load(settings, command.positional, Reading.of(settings), in_run=False)
    reject_silent_nodes(source.cluster, settings, command.dead)
    command.adjust(source)
    return source


def _show(result: Result, command: Command, put_off: bool) -> bool:
    """Show `result` in every form that options request; return whether it may be shown.

    `put_off`: the document of the result is written later, with the report of its execution.
    """
    settings = command.settings
    tell(*_few(list(result.remarks), settings))
    _show_states(result.before, command)
    sound = result.complete()
    if sound:
        if not (put_off and result.executable) or result.interrupted:
            _write(None, result, command)
        _show_states(result.after, command)
        _write_metrics(result, command)
        html = getattr(settings, "html", None)
        if html is not None:
            _write_pages(result, command, html)
    tell(*_few([f"iallocator: {problem}" for problem in result.problems], settings))
    return sound


def _write_metrics(result: Result, command: Command, report: Json | None = None) -> None:
    """Write the metrics of `result`, and of the `report` of its execution, to the file for them."""
    path = getattr(command.settings, "metrics", "")
    if not path:
        return
    from iallocator.documents.metrics import job_metrics

    jobs = [] if report is None else job_metrics(command.name, report)
    write_metrics(path, command.measured([*result.metrics(), *jobs]))


def write_metrics(path: str, metrics: list[Json]) -> None:
    """Write `metrics` as text for Prometheus to the file at `path`."""
    from iallocator.render.metrics import lines_of

    write_file(path, "".join(f"{line}\n" for line in lines_of(metrics)))


def _few(lines: list[str], settings: Any) -> list[str]:
    """Return `lines` for stderr; on a terminal only the first of many, and the number of others."""
    if (
        len(lines) <= MOST_TERMINAL_ROWS
        or settings.verbose
        or getattr(settings, "all_rows", False)
        or settings.behaviour.prints_as_htools
        or not sys.stderr.isatty()
    ):
        return lines
    return [
        *lines[:MOST_WARNINGS],
        f"iallocator: {len(lines) - MOST_WARNINGS} more such lines (-v)",
    ]


def _write_pages(result: Result, command: Command, html: str) -> None:
    """Write the page of `result` to the file `html`, or linked pages into the folder `html`."""
    from shlex import join

    from iallocator.documents.cluster_facts import constraint_list, is_late

    settings, cluster = command.settings, command.cluster
    assert cluster is not None
    folder = _is_folder(html)
    facts = result.facts(PAGE)
    document = result.document()
    steps = len(document.get("transition", {}).get("steps", ()))
    limit = getattr(command, "effective", settings).planning_seconds
    facts = {
        **facts,
        "late": limit_reached(limit) if is_late(cluster, steps, limit) else "",
        "bandwidth": getattr(settings, "bandwidth", 0.0),
        "identity": {
            "source": source_name(settings, command.positional),
            "time": command.time,
            "line": join(["iallocator", *command.arguments]),
        },
    }
    if folder and not facts["late"]:
        facts["rules"] = constraint_list(cluster, command.effective)
    pages = pages_of(command.row.document, document, facts, folder)
    for name, page in pages.items():
        if is_stdout(html):
            print(page)
        else:
            write_file(os.path.join(html, name) if folder else html, page)
    if folder:
        _remove_old_pages(html, pages)


MADE_HERE = b'<meta name="generator" content="iallocator '
"""A text that every HTML page of this program has near its beginning."""


def _remove_old_pages(folder: str, current: Collection[str]) -> None:
    """Remove the pages of an earlier run from `folder`, which has the pages `current` now.

    Other files stay, also those with the name of a page.
    """
    from iallocator.render.page.view import PAGES

    for name in {f"{page}.html" for page in PAGES} - set(current):
        path = os.path.join(folder, name)
        try:
            with open(path, "rb") as stream:
                ours = MADE_HERE in stream.read(4096)
            if ours:
                os.remove(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise UsageError(
                f"--html: cannot remove the old page {path}: {error.strerror}"
            ) from None


def _is_folder(html: str) -> bool:
    """Return whether ``--html`` names a folder: it is one, or the name ends with a slash."""
    return html.endswith(os.sep) or os.path.isdir(html)


def _write(document: Json | None, result: Result, command: Command) -> None:
    """Write the result as text or JSON, the script of commands, and the drawing.

    `document`: the document to write as JSON; None for that of `result`.

    Without ``--json`` the document is written as text, unless standard output takes the page.
    """
    settings = command.settings
    nagios = getattr(settings, "nagios", False)
    if getattr(settings, "json", False):
        print_json(
            command.versioned(result.json() if document is None else document), result.finite
        )
    elif getattr(settings, "machine_readable", "no") in (True, "yes") or nagios:
        print("".join(f"{line}\n" for line in result.machine_lines()), end="")
    elif TEXT in RENDERERS[command.row.document] and not is_stdout(getattr(settings, "html", None)):
        text = text_of(command.row.document, result.document(), result.facts(TEXT), settings)
        print(text, end="")
    commands = getattr(settings, "commands", None)
    if commands is not None and not is_stdout(commands):
        write_file(commands, "\n".join(["#!/bin/sh", "set -e", *result.script(), ""]))
    elif commands is not None and not settings.json:
        print("\n".join(["", *result.script()]))
    graph = getattr(settings, "graph", None)
    if graph is not None:
        drawing = drawing_of(command.row.document, result.transition(), graph)
        if is_stdout(graph):
            print(drawing, end="")
        else:
            write_file(graph, drawing)


def _show_states(states: Iterable[ShownState], command: Command) -> None:
    """List `states` on stderr and save them in files, if options request it."""
    settings = command.settings
    for shown in states:
        if settings.print_nodes is not None or settings.print_instances:
            from iallocator.commands.states import show_state

            group = settings.group if LISTS_GROUP in command.row.traits else ""
            show_state(shown.state(), settings, shown.moment, group)
        if settings.save_cluster and shown.suffix:
            from iallocator.sources.writer import write_text

            state = shown.state()
            text = write_text(
                state.cluster,
                state,
                policy=command.source.policy,
                masters=command.masters,
                backwards=not settings.behaviour.orders_by_name,
            )
            write_file(f"{settings.save_cluster}.{shown.suffix}", text)


def _check_outputs(settings: Any, command: Command) -> None:
    """Reject outputs that cannot be written, before any work begins.

    Standard output takes one of these: plain text, a JSON document, or a page.

    Raises
    ------
    UsageError
        If two options write to standard output, and only one of them can; if a file cannot be
        written; if the name of a drawing has the ending of another kind of picture, or is not
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
    check_writable(graph, given("commands"), given("metrics"))
    writers = {
        "--json": given("json"),
        "--machine-readable": given("machine_readable") in (True, "yes"),
        "--nagios": given("nagios"),
        "-X": given("execute"),
        "--dry-run": given("dry_run"),
        "--print-commands": is_stdout(given("commands")),
        "--graph": is_stdout(graph),
        "--html": is_stdout(html),
    }
    outputs = [option for option, writes in writers.items() if writes]
    for option, excluded in (("--html", outputs[:-1]), ("--graph", ["--json"])):
        others = [other for other in excluded if other in outputs]
        if option in outputs and others:
            raise UsageError(
                f"{option}: expected the name of a file: {others[0]} writes to standard output, too"
            )
    if html is None and "bandwidth" in settings.chosen and not given("estimates_durations"):
        raise UsageError("--bandwidth needs --html: it estimates durations on a page")
    if html is not None:
        from iallocator.render.page.view import check_library

        if not html:
            raise UsageError("--html needs the name of a file")
        check_library()
        if _is_folder(html):
            if READS_ITSELF in command.row.traits:
                raise UsageError(f"--html: expected a file: {command.name} has one page")
            os.makedirs(html, exist_ok=True)
            html = os.path.join(html, "index.html")
        check_writable(html)
    if settings.save_cluster:
        check_writable(*(f"{settings.save_cluster}.{suffix}" for suffix in command.row.states))


INPUTS = frozenset({
    "validate", "json", "ialloc_src", "text_data", "simulate", "luxi", "rapi", "cacert", "insecure",
    "credentials", "compat", "max_input", "config", "no_config", "verbose", "quiet",
})  # fmt: skip
"""The attributes of settings that have an effect with ``--validate``: what is read, and how."""


def validate(
    name: str, settings: Settings, positional: Sequence[str], request: str, table: Sequence[Option]
) -> int:
    """Print the problems of the input of the command `name`; return the exit status.

    The exit status is 0, or 2 if there is a problem.

    As text, valid inputs are on stdout and problems on stderr; with ``--json`` one document on
    stdout has both.  A document is read unless the cluster comes from elsewhere and no request is
    needed.

    Raises
    ------
    UsageError
        For an option of `table` on the command line that has no effect with ``--validate``.
    """
    from iallocator.wire.validation import NEEDED, problems

    for option in table:
        if option.target in settings.chosen - INPUTS:
            raise UsageError(f"--validate only checks the input: {option.names[0]} has no effect")
    files = [*positional, *([settings.ialloc_src] if settings.ialloc_src else [])]
    problems_by_file: dict[str, Sequence[str]] = {}
    elsewhere = settings.names_another_cluster
    if files or request == NEEDED or not elsewhere:
        path = document_path(settings, positional)
        raw = read_file(path, settings.max_input)
        empty = path == STDIN and not raw.strip()
        problems_by_file[path] = [NO_INPUT] if empty else problems(raw, request)
    if elsewhere:
        wrong: list[str] = []
        try:
            substitute(settings, Reading.of(settings))
        except IallocatorError as error:  # the reader stops at the first problem
            wrong.append(str(error))
        problems_by_file[settings.text_data or " ".join(named(settings))] = wrong
    with WholeOutput():
        if getattr(settings, "json", False):
            from iallocator.documents.keys import DOCUMENT_VERSION, VALIDATION, enveloped

            inputs = [
                {"name": path, "problems": [*some]} for path, some in problems_by_file.items()
            ]
            document = {"valid": not any(problems_by_file.values()), "inputs": inputs}
            if getattr(settings, "json", 0) == DOCUMENT_VERSION:
                envelope = {"command": name, "version": DOCUMENT_VERSION, "time": time_of_reading()}
                document = enveloped(VALIDATION, document, envelope)
            print_json(document)
        else:
            for path, problems_of in problems_by_file.items():
                for problem in problems_of:
                    say(f"iallocator: {one_line(problem)}")
                if not problems_of:
                    sys.stdout.buffer.write(f"{one_line(path)}: valid\n".encode())
    return STATUS_MISTAKE if any(problems_by_file.values()) else 0
