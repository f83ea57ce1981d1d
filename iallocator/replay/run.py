"""Running stored requests and commands again: the answers now, and how they compare."""

from __future__ import annotations

import json
import os
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from io import BytesIO, StringIO, TextIOWrapper
from time import perf_counter

from iallocator.configuration import configure
from iallocator.deadline import Running
from iallocator.engine import respond
from iallocator.errors import IallocatorError, RequestError, UsageError
from iallocator.files import read_file, write_file
from iallocator.options.parser import parse
from iallocator.options.settings import Settings
from iallocator.replay.cases import read_text
from iallocator.replay.compare import differences

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from iallocator.replay.cases import Case

__all__ = [
    "DIFFERS", "ERROR", "MISSING", "OK", "UPDATED", "WRITTEN", "Answered", "Commands", "How",
    "Outcome", "answer_case", "pretty", "run", "run_case",
]  # fmt: skip

OK, UPDATED, WRITTEN = "ok", "updated", "written"
DIFFERS, MISSING, ERROR = "DIFFERS", "no stored response", "error"


FAILED = 2
"""The exit status of a command that cannot be understood."""


@dataclass(frozen=True, slots=True)
class Commands:
    """The commands that cases may begin with.

    Attributes
    ----------
    names:
        What they are called.
    run:
        Runs one: name, words to exit status.
    accepted:
        Which of some options act in one: name, options to options.

    Both must be functions of a module, for processes to share them.
    """

    names: frozenset[str] = frozenset()
    run: Callable[[str, Sequence[str]], int] | None = None
    accepted: Callable[[str, Sequence[str]], Sequence[str]] | None = None


NO_COMMANDS = Commands()


@dataclass(frozen=True, slots=True)
class How:
    """How cases are run.

    Attributes
    ----------
    options:
        Given to every request, and to commands in which they act, before its own.
    keys:
        The members of the response that are compared, besides ``error``; empty: all,
        and what was written on stderr and stdout, and the exit status.
    update:
        Whether to store the answers instead of comparing.
    commands:
        What stands behind cases that are no requests.
    """

    options: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    update: bool = False
    commands: Commands = NO_COMMANDS


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


def run(cases: Sequence[Case], how: How, jobs: int = 1) -> Iterator[Outcome]:
    """Run `cases` in `jobs` processes; outcomes come in the order of the cases."""
    work = partial(run_case, how=how)
    if jobs == 1:
        yield from map(work, cases)
        return
    import multiprocessing
    from signal import SIG_DFL, SIG_IGN, SIGINT, SIGTERM, signal

    def as_worker() -> None:  # Ctrl-C is for the parent, which ends its workers by SIGTERM
        signal(SIGINT, SIG_IGN)
        signal(SIGTERM, SIG_DFL)

    with multiprocessing.get_context("fork").Pool(min(jobs, len(cases)) or 1, as_worker) as pool:
        yield from pool.imap(work, cases)


def run_case(case: Case, how: How) -> Outcome:
    """Run one case; whatever goes wrong is its outcome."""
    started = perf_counter()
    try:
        with Running():
            answered = answer_case(case, how.options, how.commands)
        status, details = (_store if how.update else _compare)(case, answered, how)
    except UsageError as error:
        status, details = ERROR, [str(error)]
    except Exception:
        from traceback import format_exc

        status, details = ERROR, format_exc().splitlines()
    return Outcome(case, status, tuple(details), perf_counter() - started)


def answer_case(
    case: Case, options: Sequence[str] = (), commands: Commands = NO_COMMANDS
) -> Answered:
    """The answer to the request of `case`, or its command's, with `options` and its own.

    Raises
    ------
    UsageError
        If the request or the options cannot be used at all.
    """
    words = case.options()
    if words and words[0] in commands.names and commands.run is not None:
        given = commands.accepted(words[0], options) if commands.accepted else options
        file = [f"--config={os.path.basename(case.conf)}"] if case.configured else ["--no-config"]
        return _run_command(case, [words[0], *given, *file, *words[1:]], commands.run)
    if case.request == case.args:
        raise UsageError(f"{case.args}: expected a command as its first word")
    settings = Settings()
    parse([*options, *words], settings)
    if case.configured:
        configure(settings, case.conf, (), ())
    raw = read_file(case.request, settings.max_input)
    complaints = StringIO()
    with redirect_stderr(complaints):
        try:
            document = respond(raw, settings).document()
        except RequestError as error:
            document = {"error": str(error)}
    return Answered(json.loads(json.dumps(document)), complaints.getvalue())


def _run_command(
    case: Case, words: list[str], run_command: Callable[[str, Sequence[str]], int]
) -> Answered:
    """Run a command in the folder of its case."""
    as_json = "--json" in words
    complaints = StringIO()
    printed = TextIOWrapper(BytesIO(), encoding="utf-8")
    error = ""
    with (
        chdir(os.path.dirname(case.request) or "."),
        redirect_stderr(complaints),
        redirect_stdout(printed),
    ):
        try:
            status = run_command(words[0], [*words, *case.source()])
        except IallocatorError as found:
            status, error = FAILED, str(found)
    printed.seek(0)
    said = printed.read()
    told = f"{status}\n" if status else ""
    if as_json:
        document = {"error": error} if error else json.loads(said)
        return Answered(document, complaints.getvalue(), status=told)
    stderr = complaints.getvalue() + (f"iallocator: {error}\n" if error else "")
    return Answered(None, stderr, said, told)


def pretty(document: object) -> str:
    """A response as it is stored: indented, members in their order."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _compare(case: Case, answered: Answered, how: How) -> tuple[str, list[str]]:
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
    found = _changes(case, stored, answered, how.keys)
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
            for found in differences(read_text(path) or "", text, _kind(path))
        ),
    ]


def _texts(case: Case, answered: Answered) -> tuple[tuple[str, str], ...]:
    """What is stored as text, and where."""
    return (
        (case.stderr, answered.stderr),
        (case.stdout, answered.stdout),
        (case.status, answered.status),
    )


def _kind(path: str) -> str:
    """What the file at `path` holds: the last part of its name."""
    return os.path.basename(path).rpartition(".")[2]


def _only(document: object, keys: Sequence[str]) -> object:
    if not isinstance(document, dict):
        return document
    return {key: value for key, value in document.items() if key in keys or key == "error"}


def _store(case: Case, answered: Answered, how: How) -> tuple[str, list[str]]:
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
