"""Stored requests on disk, and what belongs to each.

==================  =====================  ==================  ================
request             response               options             on stderr
==================  =====================  ==================  ================
request.json        response.json          args                stderr
NAME.request.json   NAME.response.json     NAME.args           NAME.stderr
NAME.json           NAME.response.json     NAME.args           NAME.stderr
==================  =====================  ==================  ================

All but the request may be absent.  The third form must be named; the others are
found in folders.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass

from iallocator.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Case", "case_of", "find_cases"]

REQUEST, RESPONSE = "request.json", "response.json"


@dataclass(frozen=True, slots=True)
class Case:
    """One stored request: its name as shown, and the paths of its files."""

    name: str
    request: str
    response: str
    args: str
    stderr: str

    def options(self) -> list[str]:
        """The options stored with the request: one a line, or as words of a shell.

        Raises
        ------
        UsageError
            If they cannot be told apart.
        """
        try:
            return shlex.split(read_text(self.args) or "", comments=True)
        except ValueError as error:
            raise UsageError(f"{self.args}: {error}") from None


def find_cases(paths: Sequence[str]) -> list[Case]:
    """The cases in `paths`, each once; those of a folder in the order of their names.

    Folders are searched recursively.  A stored response that is named is passed over, so
    that ``*.json`` may be written.

    Raises
    ------
    UsageError
        If a path does not exist, or there is no request.
    """
    found: dict[str, Case] = {}
    for path in paths:
        if not os.path.exists(path):
            raise UsageError(f"{path}: No such file or directory")
        requests = list(_requests_in(path)) if os.path.isdir(path) else [path]
        if not requests:
            raise UsageError(f"{path}: no request.json or *.request.json in it")
        for request in requests:
            if not _is_response(request):
                found.setdefault(os.path.realpath(request), case_of(request))
    if not found:
        raise UsageError(f"{' '.join(paths)}: no requests, only responses")
    return list(found.values())


def _requests_in(folder: str) -> Iterator[str]:
    for where, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            if name == REQUEST or name.endswith("." + REQUEST):
                yield os.path.join(where, name)


def _is_response(path: str) -> bool:
    name = os.path.basename(path)
    return name == RESPONSE or name.endswith("." + RESPONSE)


def case_of(request: str) -> Case:
    """The case of a request in the file `request`."""
    folder, name = os.path.split(request)
    if name == REQUEST:
        stem, shown = "", folder or "."
    elif name.endswith("." + REQUEST):
        stem, shown = name.removesuffix(REQUEST), request.removesuffix("." + REQUEST)
    else:
        stem, shown = name.removesuffix(".json") + ".", request

    def beside(what: str) -> str:
        return os.path.join(folder, stem + what)

    return Case(shown, request, beside(RESPONSE), beside("args"), beside("stderr"))


def read_text(path: str) -> str | None:
    """What the file at `path` says, or None if there is none.

    Raises
    ------
    UsageError
        If it cannot be read, or holds no text.
    """
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: invalid UTF-8: {error}") from None
