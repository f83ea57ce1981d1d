"""What comes of a stored case: how the answer now compares with what is stored beside it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from iallocator.errors import UsageError
from iallocator.files import write_file
from iallocator.replay.cases import read_text
from iallocator.replay.compare import differences

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.replay.cases import Case

__all__ = [
    "DIFFERS", "ERROR", "MISSING", "OK", "UPDATED", "WRITTEN", "Answered", "Outcome", "compare",
    "pretty", "store",
]  # fmt: skip

OK, UPDATED, WRITTEN = "ok", "updated", "written"
DIFFERS, MISSING, ERROR = "DIFFERS", "no stored response", "error"


@dataclass(frozen=True, slots=True)
class Answered:
    """What the program says.

    Attributes
    ----------
    document:
        The response, or ``{"error": ...}``; None for a command that prints text.
    stderr, stdout:
        As text; of a document only the first.
    status:
        The exit status of a command as a line; "" for 0, and for requests.
    """

    document: dict[str, object] | None
    stderr: str
    stdout: str = ""
    status: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one case; `details` are lines for people."""

    case: Case
    status: str
    details: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong with it."""
        return self.status in (OK, UPDATED, WRITTEN)


def pretty(document: object) -> str:
    """A response as it is stored: indented, members in their order."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def compare(case: Case, answered: Answered, keys: Sequence[str]) -> tuple[str, list[str]]:
    """The status of a case, and what differs from what is stored, if only of the members `keys`."""
    expected = case.stdout if answered.document is None else case.response
    text = read_text(expected)
    if text is None and (expected == case.response or answered.stdout):
        return MISSING, [f"{expected}: No such file or directory"]
    stored: object = None
    if answered.document is not None:
        try:
            stored = json.loads(text or "")
        except ValueError as error:
            return ERROR, [f"{case.response}: invalid JSON: {error}"]
    found = _changes(case, stored, answered, keys)
    return (DIFFERS if found else OK), found


def _changes(case: Case, stored: object, answered: Answered, keys: Sequence[str]) -> list[str]:
    now: object = answered.document
    if keys:
        stored, now = _only(stored, keys), _only(now, keys)
        if not (stored or now):
            return [f"none of {', '.join(keys)} is in it"]
        return [str(found) for found in differences(stored, now)]
    return [
        *map(str, differences(stored, now)),
        *(
            str(found)
            for path, text in _texts(case, answered)
            for found in differences(
                read_text(path) or "", text, os.path.basename(path).rpartition(".")[2]
            )
        ),
    ]


def _texts(case: Case, answered: Answered) -> tuple[tuple[str, str], ...]:
    """What is stored as text, and where."""
    return (
        (case.stderr, answered.stderr),
        (case.stdout, answered.stdout),
        (case.status, answered.status),
    )


def _only(document: object, keys: Sequence[str]) -> object:
    if not isinstance(document, dict):
        return document
    return {key: value for key, value in document.items() if key in keys or key == "error"}


def store(case: Case, answered: Answered) -> tuple[str, list[str]]:
    """Write what is new, and say what that changes."""
    if case.captured:
        raise UsageError(f"{case.name}: a captured call stays as it was answered")
    new = [(case.response, "" if answered.document is None else pretty(answered.document))]
    new += _texts(case, answered)
    old = {path: read_text(path) for path, _ in new}
    if all((old[path] or "") == text for path, text in new):
        return OK, []
    if old[case.response] is None and old[case.stdout] is None:
        status, details = WRITTEN, []
    else:
        status, details = UPDATED, _updated(case, old[case.response], answered)
    for path, text in new:
        _write(path, text)
    return status, details


def _updated(case: Case, old: str | None, answered: Answered) -> list[str]:
    try:
        stored = None if old is None else json.loads(old)
    except ValueError as error:
        return [f"{case.response}: was invalid JSON: {error}"]
    return _changes(case, stored, answered, ()) or ["only its layout"]


def _write(path: str, text: str) -> None:
    """Make the file at `path` say `text`; no file for no text."""
    if text:
        write_file(path, text)
        return
    try:
        if os.path.exists(path):
            os.remove(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
