"""Compare the answer of a stored case with the stored answer, one line per difference."""

from __future__ import annotations

import json
import os

from iallocator.errors import UsageError
from iallocator.light import ValueObject
from iallocator.replay.cases import read_text
from iallocator.tolerances import WRITTEN_DECIMALS
from iallocator.wire.codec import pretty
from iallocator.written_files import write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeGuard

    from iallocator.replay.cases import Case

__all__ = [
    "CASE_DIFFERS",
    "CASE_ERROR",
    "CASE_MISSING",
    "CASE_OK",
    "CASE_UPDATED",
    "CASE_WRITTEN",
    "Answered",
    "Difference",
    "Outcome",
    "compare",
    "differences",
    "store",
]

WIDE_DIFFERENCE = 88
"""The number of characters from which on a difference is shown on two lines."""

ABSENT_MEMBER = object()


class Difference:
    """One difference between two documents; both values are text.

    ``path`` is the place of the difference: keys and positions joined by ``/``; empty for the whole
    document.
    """

    __slots__ = ("now", "path", "stored")

    def __init__(self, path: str, stored: str, now: str) -> None:
        self.path = path
        self.stored = stored
        self.now = now

    def __str__(self) -> str:
        head = f"{self.path or '(the whole)'}: "
        arrow = " → "
        if len(head) + len(self.stored) + len(self.now) > WIDE_DIFFERENCE:
            arrow = "\n" + " " * (len(head) - 2) + "→ "
        return f"{head}{self.stored}{arrow}{self.now}"


def differences(stored: object, now: object, path: str = "") -> Iterator[Difference]:
    """Yield every difference between `stored` and `now`, in the order of `stored`.

    Lists are compared position by position, numbers to `WRITTEN_DECIMALS` decimals.
    """
    if isinstance(stored, dict) and isinstance(now, dict):
        for key in dict.fromkeys([*stored, *now]):
            yield from differences(
                stored.get(key, ABSENT_MEMBER), now.get(key, ABSENT_MEMBER), _below(path, key)
            )
    elif isinstance(stored, list) and isinstance(now, list):
        for position in range(max(len(stored), len(now))):
            yield from differences(
                _at(stored, position), _at(now, position), _below(path, position)
            )
    else:
        if _is_number(stored) and _is_number(now):
            equal = round(stored, WRITTEN_DECIMALS) == round(now, WRITTEN_DECIMALS)
        else:
            equal = type(stored) is type(now) and stored == now
        if not equal:
            yield Difference(path, _text(stored), _text(now))


def _is_number(value: object) -> TypeGuard[int | float]:
    return type(value) is int or type(value) is float


def _at(values: list[object], position: int) -> object:
    return values[position] if position < len(values) else ABSENT_MEMBER


def _below(path: str, key: object) -> str:
    return f"{path}/{key}" if path else str(key)


def _text(value: object) -> str:
    return "(absent)" if value is ABSENT_MEMBER else json.dumps(value, ensure_ascii=False)


CASE_OK, CASE_UPDATED, CASE_WRITTEN = "ok", "updated", "written"
CASE_DIFFERS, CASE_MISSING, CASE_ERROR = "DIFFERS", "no stored response", "error"


class Answered(ValueObject):
    """The output of the program for a case.

    Attributes
    ----------
    document:
        The response, or ``{"error": ...}``; None for a command that prints text.
    stderr, stdout:
        The texts on stderr and stdout; if there is a `document`, `stdout` is empty.
    status:
        The exit status of a command as a line; "" for 0, and for requests.
    """

    document: dict[str, object] | None
    stderr: str
    stdout: str = ""
    status: str = ""


class Outcome(ValueObject):
    """The outcome of one case; `details` are lines of text."""

    case: Case
    status: str
    details: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Return whether the case has passed."""
        return self.status in (CASE_OK, CASE_UPDATED, CASE_WRITTEN)


def compare(case: Case, answered: Answered, keys: Sequence[str]) -> tuple[str, list[str]]:
    """Return the status of a case, and its differences from the stored answer, as lines.

    `keys`: the only members to compare; empty for all.
    """
    expected = case.stdout if answered.document is None else case.response
    text = read_text(expected)
    if text is None and (expected == case.response or answered.stdout):
        return CASE_MISSING, [f"{expected}: No such file or directory"]
    stored: object = None
    if answered.document is not None:
        try:
            stored = json.loads(text or "")
        except ValueError as error:
            return CASE_ERROR, [f"{case.response}: invalid JSON: {error}"]
    changes = _changes(case, stored, answered, keys)
    return (CASE_DIFFERS if changes else CASE_OK), changes


def _changes(case: Case, stored: object, answered: Answered, keys: Sequence[str]) -> list[str]:
    now: object = answered.document
    if keys:
        stored, now = _only(stored, keys), _only(now, keys)
        if not (stored or now):
            return [f"none of {', '.join(keys)} is in it"]
        return [str(difference) for difference in differences(stored, now)]
    return [
        *map(str, differences(stored, now)),
        *(
            str(difference)
            for path, text in _texts(case, answered)
            for difference in differences(
                read_text(path) or "", text, os.path.basename(path).rpartition(".")[2]
            )
        ),
    ]


def _texts(case: Case, answered: Answered) -> tuple[tuple[str, str], ...]:
    """Return (path, new content) for each file of a case with a text: stderr, stdout, status."""
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
    """Write the new answers; return the status and the differences."""
    if case.captured:
        raise UsageError(f"{case.name}: --update does not change captured calls")
    response = "" if answered.document is None else pretty(answered.document) + "\n"
    new = [(case.response, response)]
    new += _texts(case, answered)
    old = {path: read_text(path) for path, _ in new}
    if all((old[path] or "") == text for path, text in new):
        return CASE_OK, []
    if old[case.response] is None and old[case.stdout] is None:
        status, details = CASE_WRITTEN, []
    else:
        status, text = CASE_UPDATED, old[case.response]
        try:
            stored = None if text is None else json.loads(text)
            details = _changes(case, stored, answered, ()) or ["only its layout"]
        except ValueError as error:
            details = [f"{case.response}: was invalid JSON: {error}"]
    for path, text in new:
        if text:
            write_file(path, text)
            continue
        try:  # no file for an empty text
            if os.path.exists(path):
                os.remove(path)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from None
    return status, details
