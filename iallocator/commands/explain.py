"""The commands ``explain`` and ``ask``: explain an answer, and answer a question."""

from __future__ import annotations

from iallocator.calls.layout import referred
from iallocator.commands.command import Result
from iallocator.commands.other_options import words_of_question
from iallocator.commands.questions import in_group, request_of
from iallocator.engine import read
from iallocator.errors import InFile, UsageError
from iallocator.explain.explain import explain_request
from iallocator.model.state import State
from iallocator.planners.eligible import set_offline
from iallocator.render import TEXT
from iallocator.sources import document_path, read_document
from iallocator.wire.codec import decode
from iallocator.wire.reading import Reading
from iallocator.wire.request import read_request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.aliases import Json
    from iallocator.commands.command import Command
    from iallocator.commands.other_options import Explain
    from iallocator.model.cluster import Cluster
    from iallocator.requests.existing import Request

__all__ = ["ask", "explain"]


def explain(command: Command) -> Result:
    """Explain the answer to the request in a file (``-`` or none: stdin), or to a captured call."""
    own: Explain = command.settings
    path = document_path(own, command.positional)
    named = [*command.positional, own.ialloc_src]
    case = None
    if any(map(referred, named)):
        from iallocator.commands.earlier_requests import as_then, case_named, change_since_capture

        case = case_named(named)
    if case is not None:
        command.settings = as_then(case, own, "explain")
        command.settings.group, command.settings.offline = own.group, own.offline
    settings = command.settings
    raw = read_document(settings, path)
    if raw.strip() and b'"request"' not in raw:
        with InFile(path):
            decode(raw)  # reports bytes that are no document
        raise UsageError(
            f"{path}: the document has no request; iallocator ask answers questions about a cluster"
        )
    cluster, request = read(raw, settings, path)
    command.cluster = cluster
    if own.group:
        request_of_group = in_group(decode(raw)["request"], cluster, settings)
        request = read_request({"request": request_of_group}, cluster, Reading.of(settings))
    set_offline(cluster, own.offline)
    result = Explained(settings, cluster, request)
    if case is not None:
        result.explanation.remarks += change_since_capture(case, result.explanation.response)
    return result


def ask(command: Command) -> Result:
    """Answer the question about the cluster in a file (``-`` or none: stdin) or another source."""
    kind, names, command.positional = words_of_question(command.positional)
    command.words = names
    source = command.read()
    set_offline(source.cluster, command.settings.offline)
    raw = request_of(kind, names, command.settings, source)
    request = read_request({"request": raw}, source.cluster, Reading.of(command.settings))
    return Explained(command.settings, source.cluster, request)


class Explained(Result):
    """An explanation: as text, or as a page with the nodes before and after."""

    finite = True

    def __init__(self, settings: Explain, cluster: Cluster, request: Request) -> None:
        super().__init__()
        self.explanation = explain_request(
            cluster, request, settings, settings.instance, settings.node
        )
        if settings.graph is not None and "transition" not in self.explanation.response:
            raise UsageError("--graph draws the steps of moves, and this answer has none")
        self._settings = settings
        self._cluster = cluster
        self._request = request

    def document(self) -> Json:
        """Return the explanation as plain data."""
        if not self._document:
            self._document = self.explanation.document()
        return self._document

    def json(self) -> Json:
        """Return the explanation; with ``--brief`` the decisions without their reasons."""
        brief = self._settings.brief
        return self.explanation.brief_document() if brief else self.document()

    def transition(self) -> Json:
        """Return the steps of the answer."""
        transition: Json = self.explanation.response["transition"]
        return transition

    def facts(self, medium: str) -> Json:
        """Return the part that the text shows, or for the page the nodes before and after."""
        if medium == TEXT:
            return {"brief": self._settings.brief, "node": self._settings.node or ""}
        from iallocator.commands.states import state_after
        from iallocator.documents.cluster_facts import inventory, nodes_at

        response = self.explanation.response
        after = state_after(self._cluster, self._request, response["success"], response["result"])
        before = State(self._cluster)
        return {
            "cluster": inventory(self._cluster),
            "states": [nodes_at(before, "Before"), nodes_at(after, "After")],
        }
