"""Running stored requests again: the answers now, and how they compare."""

from __future__ import annotations

import json
import os
from contextlib import redirect_stderr
from dataclasses import dataclass
from functools import partial
from io import StringIO
from time import perf_counter

from iallocator.engine import respond
from iallocator.errors import RequestError, UsageError
from iallocator.files import read_file
from iallocator.options import Settings, parse
from iallocator.replay.cases import read_text
from iallocator.replay.compare import differences

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iallocator.replay.cases import Case

__all__ = [
    "DIFFERS", "ERROR", "MISSING", "OK", "UPDATED", "WRITTEN", "Answered", "How", "Outcome",
    "answer_case", "pretty", "run", "run_case",
]  # fmt: skip

OK, UPDATED, WRITTEN = "ok", "updated", "written"
DIFFERS, MISSING, ERROR = "DIFFERS", "no stored response", "error"


@dataclass(frozen=True, slots=True)
class How:
    """How cases are run.

    Attributes
    ----------
    options:
        Given to every request, before its own.
    keys:
        The members of the response that are compared, besides ``error``; empty: all,
        and what was written on stderr.
    update:
        Whether to store the answers instead of comparing.
    """

    options: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    update: bool = False


@dataclass(frozen=True, slots=True)
class Answered:
    """What the program says: the response, or ``{"error": ...}``; and its stderr."""

    document: dict[str, object]
    stderr: str


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


def run(cases: Sequence[Case], how: How, jobs: int = 1) -> Iterator[Outcome]:
    """Run `cases` in `jobs` processes; outcomes come in the order of the cases."""
    work = partial(run_case, how=how)
    if jobs == 1:
        yield from map(work, cases)
        return
    import multiprocessing

    with multiprocessing.Pool(min(jobs, len(cases)) or 1) as pool:
        yield from pool.imap(work, cases)


def run_case(case: Case, how: How) -> Outcome:
    """Run one case; whatever goes wrong is its outcome."""
    started = perf_counter()
    try:
        answered = answer_case(case, how.options)
        status, details = (_store if how.update else _compare)(case, answered, how)
    except UsageError as error:
        status, details = ERROR, [str(error)]
    except Exception:
        from traceback import format_exc

        status, details = ERROR, format_exc().splitlines()
    return Outcome(case, status, tuple(details), perf_counter() - started)


def answer_case(case: Case, options: Sequence[str] = ()) -> Answered:
    """The answer to the request of `case`, with `options` and its own.

    Raises
    ------
    UsageError
        If the request or the options cannot be used at all.
    """
    settings = Settings()
    parse([*options, *case.options()], settings)
    raw = read_file(case.request)
    complaints = StringIO()
    with redirect_stderr(complaints):
        try:
            document = respond(raw, settings).document()
        except RequestError as error:
            document = {"error": str(error)}
    return Answered(json.loads(json.dumps(document)), complaints.getvalue())


def pretty(document: object) -> str:
    """A response as it is stored: indented, members in their order."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _compare(case: Case, answered: Answered, how: How) -> tuple[str, list[str]]:
    text = read_text(case.response)
    if text is None:
        return MISSING, [f"{case.response}: No such file or directory"]
    try:
        stored = json.loads(text)
    except ValueError as error:
        return ERROR, [f"{case.response}: invalid JSON: {error}"]
    found = _changes(case, stored, answered, how.keys)
    return (DIFFERS if found else OK), found


def _changes(
    case: Case, stored: object, answered: Answered, keys: Sequence[str]
) -> list[str]:
    now: object = answered.document
    if not keys:
        return [
            *map(str, differences(stored, now)),
            *map(str, differences(read_text(case.stderr) or "", answered.stderr, "stderr")),
        ]
    return [str(found) for found in differences(_only(stored, keys), _only(now, keys))]


def _only(document: object, keys: Sequence[str]) -> object:
    if not isinstance(document, dict):
        return document
    return {key: value for key, value in document.items() if key in keys or key == "error"}


def _store(case: Case, answered: Answered, how: How) -> tuple[str, list[str]]:
    """Write what is new, and say what that changes."""
    old, new = read_text(case.response), pretty(answered.document)
    if old is None:
        _write(case.response, new)
        _write(case.stderr, answered.stderr)
        return WRITTEN, []
    if old == new and (read_text(case.stderr) or "") == answered.stderr:
        return OK, []
    try:
        details = _changes(case, json.loads(old), answered, ())
    except ValueError as error:
        details = [f"{case.response}: was invalid JSON: {error}"]
    _write(case.response, new)
    _write(case.stderr, answered.stderr)
    return UPDATED, details or ["only its layout"]


def _write(path: str, text: str) -> None:
    """Make the file at `path` say `text`; no file for no text."""
    try:
        if text:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        elif os.path.exists(path):
            os.remove(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
