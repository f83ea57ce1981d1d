"""The commands ``explain`` and ``ask``: why an answer is what it is."""

from __future__ import annotations

import sys

from iallocator.commands.command import Command, Result
from iallocator.commands.earlier_requests import as_then, case_named, since_then
from iallocator.commands.other_options import words_of_question
from iallocator.commands.questions import request_of
from iallocator.engine import read, reading_for
from iallocator.errors import UsageError
from iallocator.explain.explain import explain_request
from iallocator.files import read_file
from iallocator.model.state import State
from iallocator.render.explained import render
from iallocator.render.table import wants_colour
from iallocator.sources import document_path
from iallocator.wire.request import read_request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.aliases import Json
    from iallocator.commands.other_options import Explain as Settings
    from iallocator.explain.explanation import Explanation
    from iallocator.model.cluster import Cluster
    from iallocator.render.page.view import PageView
    from iallocator.requests.existing import Request

__all__ = ["Ask", "Explain"]


class Explain(Command):
    """Explains the answer to a request, or to a captured call."""

    def find(self) -> Result:
        """Explain the answer to the request in the file (- or none: stdin), or a captured call."""
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
        settings = self.settings
        found = explain_request(cluster, request, settings, settings.instance, settings.node)
        return Explained(found, settings, cluster, request)


class Ask(Explain):
    """Answers a question about a cluster, and explains the answer."""

    def find(self) -> Result:
        """Answer the question about the cluster in the file (- or none: stdin), or elsewhere."""
        kind, names, self.positional = words_of_question(self.positional)
        source = self.read()
        raw = request_of(kind, names, self.settings, source)
        request = read_request({"request": raw}, source.cluster, reading_for(self.settings))
        return self._explained(source.cluster, request)


class Explained(Result):
    """An explanation: as text, and as a page with the nodes before and after the answer."""

    finite = True

    def __init__(
        self, explanation: Explanation, settings: Settings, cluster: Cluster, request: Request
    ) -> None:
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
        from iallocator.commands.states import state_after
        from iallocator.documents.moments import cluster_names, nodes_at
        from iallocator.render.page.explain_page import explanation_view

        response = self.explanation.response
        after = state_after(self._cluster, self._request, response["success"], response["result"])
        before = State(self._cluster)
        facts = {
            "cluster": cluster_names(self._cluster),
            "moments": [nodes_at(before, "Before"), nodes_at(after, "After")],
        }
        return explanation_view(self.explanation.document(), facts)
