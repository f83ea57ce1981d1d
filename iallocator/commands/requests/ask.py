"""``iallocator ask``: what the answer to a question would be, and why; nothing is touched.

Exit status 0 whether the request can be satisfied or not.
"""

from __future__ import annotations

from iallocator.commands.requests import explain as explain_command
from iallocator.commands.shared import questions
from iallocator.commands.shared.source import load_source
from iallocator.engine import reading_for
from iallocator.explain.explain import explain_request
from iallocator.wire.request import read_request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["OPTIONS", "USAGE", "Settings", "files_of", "run"]

USAGE = (
    "allocate|evacuate NODE,...|relocate INSTANCE|change-group INSTANCE,... "
    "[OPTIONS] [FILE|-t FILE|-L|-m ADDRESS]"
)

OPTIONS = (*questions.OPTIONS, *explain_command.OPTIONS)


class Settings(explain_command.Settings, questions.Settings):
    """The question, and the form of the explanation."""


def files_of(positional: Sequence[str]) -> Sequence[str]:
    """Those of the words that are files: the others are the question."""
    return questions.words_of(positional)[2]


def run(settings: Settings, positional: Sequence[str]) -> int:
    """Answer the question about the cluster in the file (- or none: stdin), or elsewhere."""
    kind, names, files = questions.words_of(positional)
    explain_command.check_forms(settings)
    source = load_source(settings, files)
    raw = questions.request_of(kind, names, settings, source)
    request = read_request({"request": raw}, source.cluster, reading_for(settings))
    found = explain_request(source.cluster, request, settings, settings.instance, settings.node)
    explain_command.write_explanation(found, settings, source.cluster, request)
    return 0
