"""``iallocator explain``: why the answer to a request is what it is."""

from __future__ import annotations

import sys

from iallocator.commands.shared.plan_output import (
    HTML_OPTION,
    check_graph,
    check_outputs,
    write_graph,
    write_html,
)
from iallocator.engine import read
from iallocator.errors import UsageError
from iallocator.explain.explain import explain_request
from iallocator.files import WholeOutput, is_stdout, read_file
from iallocator.model.state import State
from iallocator.options import settings as options
from iallocator.options.table import Option
from iallocator.render.explanation.text import render
from iallocator.render.states.before_after import state_after
from iallocator.render.table import wants_colour
from iallocator.sources import document_path
from iallocator.wire.codec import pretty

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.explain.explanation import Explanation
    from iallocator.model.cluster import Cluster
    from iallocator.render.page.view import PageView
    from iallocator.requests import Request

__all__ = ["OPTIONS", "USAGE", "Settings", "check_forms", "run", "write_explanation"]

USAGE = "[OPTIONS] [FILE|FOLDER#CALL]"

OPTIONS = (
    Option("--json", "json", "write the explanation as one JSON document"),
    Option("--brief", "brief", "only what was decided, or what came closest"),
    Option("--instance", "instance", "only the decision about this instance", str, "NAME"),
    Option("--node", "node", "only what this node says: why it is not the answer", str, "NAME"),
    Option("--graph", "graph", "draw the steps of moves and what they wait for: SVG, or else DOT",
           str, "FILE"),
    HTML_OPTION,
)  # fmt: skip


class Settings(options.Settings):
    """The settings of every request, and the form of the explanation."""

    json: bool = False
    brief: bool = False
    instance: str | None = None
    node: str | None = None
    graph: str | None = None
    html: str | None = None


def run(settings: Settings, positional: Sequence[str]) -> int:
    """Explain the answer to the request in the file (- or none: stdin), or to a captured call.

    The exit status is 0 whether the request can be satisfied or not.
    """
    from iallocator.commands.shared.captured import as_then, case_named, since_then

    check_forms(settings)
    path = document_path(settings, positional)
    case = case_named([*positional, settings.ialloc_src])
    if case is not None:
        settings = as_then(case, settings, "explain")
    cluster, request = read(read_file(path, settings.max_input), settings)
    found = explain_request(cluster, request, settings, settings.instance, settings.node)
    if case is not None:
        found.remarks += since_then(case, found.response)
    write_explanation(found, settings, cluster, request)
    return 0


def check_forms(settings: Settings) -> None:
    """Reject, before any work, what cannot be written."""
    if settings.brief and settings.node is not None:
        raise UsageError("--brief and --node exclude each other")
    check_graph(settings.graph)
    check_outputs(settings)


def write_explanation(
    explanation: Explanation, settings: Settings, cluster: Cluster, request: Request
) -> None:
    """The explanation, its page, and the drawing of its steps, in the form that is asked for."""
    if settings.graph is not None and "transition" not in explanation.response:
        raise UsageError("--graph draws the steps of moves, and this answer has none")
    with WholeOutput():
        if not is_stdout(settings.html):
            sys.stdout.buffer.write(_form(explanation, settings).encode())
            sys.stdout.buffer.flush()
        if settings.graph is not None:
            write_graph(settings.graph, explanation.response["transition"])
        write_html(settings.html, lambda: _page(explanation, cluster, request))


def _page(explanation: Explanation, cluster: Cluster, request: Request) -> PageView:
    """The page, with the nodes before and after the answer."""
    from iallocator.render.page.explain_page import explanation_view

    response = explanation.response
    after = state_after(cluster, request, response["success"], response["result"])
    return explanation_view(explanation, State(cluster), after)


def _form(explanation: Explanation, settings: Settings) -> str:
    if settings.json:
        return pretty(explanation.document(settings.brief)) + "\n"

    return render(explanation, wants_colour(sys.stdout), settings.brief, settings.node or "")
