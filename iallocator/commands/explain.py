"""``iallocator explain``: why the answer to a request is what it is."""

from __future__ import annotations

import sys

from iallocator import options
from iallocator.errors import UsageError
from iallocator.files import WholeOutput, read_file
from iallocator.options import Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.explain.explanation import Explanation

__all__ = ["OPTIONS", "USAGE", "Settings", "check_forms", "run", "write_explanation"]

USAGE = "[OPTIONS] [FILE|FOLDER#CALL]"

OPTIONS = (
    Option("--json", "json", "write the explanation as one JSON document"),
    Option("--brief", "brief", "only what was decided, or what came closest"),
    Option("--instance", "instance", "only the decision about this instance", str, "NAME"),
    Option("--node", "node", "only what this node says: why it is not the answer", str, "NAME"),
    Option("--graph", "graph", "draw the steps of moves and what they wait for: SVG, or else DOT",
           str, "FILE"),
)  # fmt: skip


class Settings(options.Settings):
    """The settings of every request, and the form of the explanation."""

    json: bool = False
    brief: bool = False
    instance: str | None = None
    node: str | None = None
    graph: str | None = None


def run(settings: Settings, positional: Sequence[str]) -> int:
    """Explain the answer to the request in the file (- or none: stdin), or to a captured call.

    The exit status is 0 whether the request can be satisfied or not.
    """
    from iallocator.commands.shared.captured import as_then, case_named, since_then
    from iallocator.explain.explain import explain
    from iallocator.sources import document_path

    check_forms(settings)
    path = document_path(settings, positional)
    case = case_named([*positional, settings.ialloc_src])
    if case is not None:
        settings = as_then(case, settings, "explain")
    found = explain(read_file(path, settings.max_input), settings, settings.instance, settings.node)
    if case is not None:
        found.remarks += since_then(case, found.response)
    write_explanation(found, settings)
    return 0


def check_forms(settings: Settings) -> None:
    """Refuse, before any work, what cannot be written."""
    from iallocator.commands.shared.plan_output import check_graph

    if settings.brief and settings.node is not None:
        raise UsageError("--brief and --node exclude each other")
    check_graph(settings.graph)


def write_explanation(explanation: Explanation, settings: Settings) -> None:
    """The explanation, and the drawing of its steps, in the form that is asked for."""
    from iallocator.commands.shared.plan_output import write_graph

    with WholeOutput():
        sys.stdout.buffer.write(_form(explanation, settings).encode())
        sys.stdout.buffer.flush()
        if "transition" in explanation.response:
            write_graph(settings.graph, explanation.response["transition"])


def _form(explanation: Explanation, settings: Settings) -> str:
    if settings.json:
        from iallocator.wire.write import pretty

        return pretty(explanation.document(settings.brief)) + "\n"
    from iallocator.render.table import wants_colour
    from iallocator.render.text import render

    return render(explanation, wants_colour(sys.stdout), settings.brief, settings.node or "")
