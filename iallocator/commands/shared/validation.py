"""``--validate``: whether what a command would read can be read, and nothing else."""

from __future__ import annotations

import sys

from iallocator.errors import IallocatorError, one_line, say
from iallocator.files import read_file
from iallocator.wire.validation.validate import NEEDED, OPTIONAL, UNREAD, problems

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iallocator.options.settings import Settings

__all__ = ["request_of", "validate"]

REQUEST = {
    "explain": NEEDED,
    "make-room": OPTIONAL,
    "place": OPTIONAL,
    "config": OPTIONAL,
    "constraints": OPTIONAL,
}
"""Command -> what it does with the request of its document; others do not read it."""


def request_of(command: str) -> str:
    """What `command` does with the request of its document."""
    return REQUEST.get(command, UNREAD)


def validate(settings: Settings, positional: Sequence[str], request: str) -> int:
    """Every problem on stderr, what is valid on stdout; the exit status: 0, or 2 for problems.

    A document is read unless the cluster comes from elsewhere and no request is needed.
    """
    from iallocator.sources import document_path, named

    files = [*positional, *([settings.ialloc_src] if settings.ialloc_src else [])]
    wrong = False
    elsewhere = settings.names_another_cluster
    if files or request == NEEDED or not elsewhere:
        path = document_path(settings, positional)
        wrong = _say(path, problems(read_file(path, settings.max_input), request))
    if elsewhere:
        name = settings.text_data or " ".join(named(settings))
        wrong |= _say(name, list(_problems_elsewhere(settings)))
    return 2 if wrong else 0


def _problems_elsewhere(settings: Settings) -> Iterator[str]:
    """The first problem of a cluster that comes from elsewhere: its reader stops there."""
    from iallocator.engine import reading_for
    from iallocator.sources import substitute

    try:
        substitute(settings, reading_for(settings))
    except IallocatorError as error:
        yield str(error)


def _say(name: str, found: Sequence[str]) -> bool:
    """Say what is wrong with `name`, or that nothing is; whether something is."""
    for problem in found:
        say(f"iallocator: {one_line(problem)}")
    if not found:
        sys.stdout.buffer.write(f"{one_line(name)}: valid\n".encode())
    return bool(found)
