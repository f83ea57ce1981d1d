"""The commands ``explain`` and ``ask``: why an answer is what it is."""

from __future__ import annotations

import sys

from iallocator.commands import questions
from iallocator.commands.command import Command, Result
from iallocator.commands.shared_options import HTML_OPTION
from iallocator.errors import UsageError
from iallocator.options.settings import Settings as Common
from iallocator.options.table import Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Json
    from iallocator.explain.explanation import Explanation
    from iallocator.model.cluster import Cluster
    from iallocator.render.page.view import PageView
    from iallocator.requests import Request

__all__ = ["Ask", "Explain", "ExplainSettings"]

OPTIONS = (
    Option("--json", "json", "write the explanation as one JSON document"),
    Option("--brief", "brief", "only what was decided, or what came closest"),
    Option("--instance", "instance", "only the decision about this instance", str, "NAME"),
    Option("--node", "node", "only what this node says: why it is not the answer", str, "NAME"),
    Option("--graph", "graph", "draw the steps of moves and what they wait for: SVG, or else DOT",
           str, "FILE"),
    HTML_OPTION,
)  # fmt: skip


class ExplainSettings(Common):
    """The settings of every request, and the form of the explanation."""

    json: bool = False
    brief: bool = False
    instance: str | None = None
    node: str | None = None
    graph: str | None = None
    html: str | None = None


class AskSettings(ExplainSettings, questions.Settings):
    """The question, and the form of the explanation."""


class Explain(Command):
    """``iallocator explain``: why the answer to a request is what it is."""

    usage = "[OPTIONS] [FILE|FOLDER#CALL]"
    options: Sequence[Option] = OPTIONS
    settings_type: type[Common] = ExplainSettings

    def check(self) -> None:
        """Reject a short form of all nodes together with one node."""
        if self.settings.brief and self.settings.node is not None:
            raise UsageError("--brief and --node exclude each other")

    def find(self) -> Result:
        """Explain the answer to the request in the file (- or none: stdin), or a captured call."""
        from iallocator.commands.earlier_requests import as_then, case_named, since_then
        from iallocator.engine import read
        from iallocator.files import read_file
        from iallocator.sources import document_path

        path = document_path(self.settings, self.positional)
        case = case_named([*self.positional, self.settings.ialloc_src])
        if case is not None:
            self.settings = as_then(case, self.settings, "explain")
        raw = read_file(path, self.settings.max_input)
        found = self._explained(*read(raw, self.settings))
        if case is not None:
            found.explanation.remarks += since_then(case, found.explanation.response)
        return found

    def _explained(self, cluster: Cluster, request: Request) -> Explained:
        from iallocator.explain.explain import explain_request

        settings = self.settings
        found = explain_request(cluster, request, settings, settings.instance, settings.node)
        return Explained(found, settings, cluster, request)


class Ask(Explain):
    """``iallocator ask``: what the answer to a question would be, and why; nothing is touched.

    Exit status 0 whether the request can be satisfied or not.
    """

    usage = (
        "allocate|evacuate NODE,...|relocate INSTANCE|change-group INSTANCE,... "
        "[OPTIONS] [FILE|-t FILE|-L|-m ADDRESS]"
    )
    options = (*questions.OPTIONS, *OPTIONS)
    settings_type = AskSettings

    @staticmethod
    def files_of(positional: Sequence[str]) -> Sequence[str]:
        """Return those of the words that are files: the others are the question."""
        return questions.words_of(positional)[2]

    def check(self) -> None:
        """Split the question from the files."""
        self._kind, self._names, self.positional = questions.words_of(self.positional)
        super().check()

    def find(self) -> Result:
        """Answer the question about the cluster in the file (- or none: stdin), or elsewhere."""
        from iallocator.engine import reading_for
        from iallocator.wire.request import read_request

        source = self.read()
        raw = questions.request_of(self._kind, self._names, self.settings, source)
        request = read_request({"request": raw}, source.cluster, reading_for(self.settings))
        return self._explained(source.cluster, request)


class Explained(Result):
    """An explanation: as text, and as a page with the nodes before and after the answer."""

    finite = True

    def __init__(
        self, explanation: Explanation, settings: ExplainSettings, cluster: Cluster,
        request: Request,
    ) -> None:  # fmt: skip
        super().__init__()
        if settings.graph is not None and "transition" not in explanation.response:
            raise UsageError("--graph draws the steps of moves, and this answer has none")
        self.explanation = explanation
        self._settings = settings
        self._cluster = cluster
        self._request = request

    def document(self) -> Json:
        """Return the explanation as plain data."""
        return self.explanation.document(self._settings.brief)

    def text(self) -> str:
        """Return the explanation as text for people."""
        from iallocator.render.explained import render
        from iallocator.render.table import wants_colour

        settings = self._settings
        return render(
            self.explanation, wants_colour(sys.stdout), settings.brief, settings.node or ""
        )

    def transition(self) -> Json:
        """Return the steps of the answer."""
        transition: Json = self.explanation.response["transition"]
        return transition

    def page(self) -> PageView:
        """Return the page."""
        from iallocator.model.state import State
        from iallocator.render.page.explain_page import explanation_view
        from iallocator.render.states.before_after import state_after

        response = self.explanation.response
        after = state_after(self._cluster, self._request, response["success"], response["result"])
        return explanation_view(self.explanation, State(self._cluster), after)
