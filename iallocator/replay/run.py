"""Run stored requests and commands again, and compare the answers with the stored ones.

The outcomes can be written as JUnit XML for programs for continuous integration.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from functools import partial
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from time import perf_counter
from traceback import format_exc

from iallocator.configuration import configure
from iallocator.deadline import SIGNALLED, Running, Stopped, interrupted
from iallocator.engine import respond
from iallocator.errors import STATUS_MISTAKE, IallocatorError, RequestError, UsageError
from iallocator.files import read_file
from iallocator.light import ValueObject
from iallocator.options.parser import parse
from iallocator.options.settings import Settings
from iallocator.replay.cases import read_text
from iallocator.replay.outcome import CASE_ERROR, Answered, Outcome, compare, store
from iallocator.written_files import write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from iallocator.replay.cases import Case

__all__ = ["HTOOLS", "Commands", "How", "answer_case", "run", "run_case", "write_junit"]


class Commands(ValueObject):
    """The commands that cases may begin with.

    Attributes
    ----------
    names:
        The names of the commands.
    run:
        Function that runs a command: its name and arguments -> exit status.
    accepted:
        Function that returns the options with an effect on a command: its name and options ->
        options.

    `run` and `accepted` must be functions of a module, so that processes can share them.
    """

    names: frozenset[str] = frozenset()
    run: Callable[[str, Sequence[str]], int] | None = None
    accepted: Callable[[str, Sequence[str]], Sequence[str]] | None = None


NO_COMMANDS = Commands()

HTOOLS = "htools"
"""The word before the name of a program of htools."""


class How(ValueObject):
    """The options for running cases.

    Attributes
    ----------
    options:
        Options for every request, and for commands on which they have an effect. The options of a
        case follow them.
    keys:
        The members of the response that are compared, in addition to ``error``. Without any, all
        members, stderr, stdout and the exit status are compared.
    update:
        Whether to store the answers instead of comparing them.
    commands:
        The commands of cases that are no requests.
    """

    options: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    update: bool = False
    commands: Commands = NO_COMMANDS


def run(cases: Sequence[Case], how: How, jobs: int = 1) -> Iterator[Outcome]:
    """Run `cases` in `jobs` processes; outcomes have the order of the cases."""
    work = partial(run_case, how=how)
    if jobs == 1:
        yield from map(work, cases)
        return
    import multiprocessing

    def as_worker() -> None:  # Ctrl-C is for the parent, which ends its workers by SIGTERM
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})

    # A worker that is still starting has the handler of the parent, which would not end it.
    # Therefore SIGTERM waits until the worker is ready.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        pool = multiprocessing.get_context("fork").Pool(min(jobs, len(cases)) or 1, as_worker)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    with pool:
        yield from pool.imap(work, cases)


def run_case(case: Case, how: How) -> Outcome:
    """Run one case, and return its outcome; an error is an outcome, too.

    Raises
    ------
    Stopped
        If a signal has come. The answer may be incomplete then, and is neither compared nor stored.
    """
    started = perf_counter()
    try:
        with Running():
            answered = answer_case(case, how.options, how.commands, how.update)
        if interrupted():
            raise Stopped(SIGNALLED)
        status, details = store(case, answered) if how.update else compare(case, answered, how.keys)
    except UsageError as error:
        status, details = CASE_ERROR, [str(error)]
    except Stopped:
        raise
    except Exception:
        status, details = CASE_ERROR, format_exc().splitlines()
    return Outcome(case, status, tuple(details), perf_counter() - started)


def answer_case(
    case: Case,
    options: Sequence[str] = (),
    commands: Commands = NO_COMMANDS,
    update: bool = False,
) -> Answered:
    """Return the answer to the request or command of `case`.

    `options`: options in addition to those of the case. `commands`: the commands that a case can
    run.

    `update`: whether the answer will replace the stored one.

    Raises
    ------
    UsageError
        If the request or the options are invalid.
    """
    words = case.options()
    if words[:1] == [HTOOLS]:
        return _run_program(case, words)
    if words and words[0] in commands.names and commands.run is not None:
        given = commands.accepted(words[0], options) if commands.accepted else options
        file = [f"--config={os.path.basename(case.conf)}"] if case.configured else ["--no-config"]
        if not update and _stored_by_first_version(case):
            words = ["--json=1" if word == "--json" else word for word in words]
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
    """Run a command in the folder of its case, and return its output, without the present time."""
    as_json = any(word == "--json" or word.startswith("--json=") for word in words)
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
        except IallocatorError as mistake:
            status, error = STATUS_MISTAKE, str(mistake)
    printed.seek(0)
    said = printed.read()
    status_line = f"{status}\n" if status else ""
    if as_json:
        document = {"error": error} if error else json.loads(said)
        document.pop("time", None)
        return Answered(document, complaints.getvalue(), status=status_line)
    stderr = complaints.getvalue() + (f"iallocator: {error}\n" if error else "")
    return Answered(None, stderr, said, status_line)


def _run_program(case: Case, words: list[str]) -> Answered:
    """Run a program of htools by name in the folder of its case, and return its output.

    It runs in a process of its own, as with ``iallocator htools NAME``.
    """
    root = Path(__file__).resolve().parents[2]  # where the packages of this program are
    done = subprocess.run(
        [sys.executable, "-m", "iallocator", *words, *case.source()],
        cwd=os.path.dirname(case.request) or ".",
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    status = f"{done.returncode}\n" if done.returncode else ""
    return Answered(None, done.stderr, done.stdout, status)


def _stored_by_first_version(case: Case) -> bool:
    """Return whether the stored document of a command has no envelope: version 0.1 wrote it."""
    try:
        stored = json.loads(read_text(case.response) or "")
    except ValueError:
        return False
    return isinstance(stored, dict) and not stored.keys() & {"version", "error"}


JUNIT_HEAD = "<?xml version='1.0' encoding='utf-8'?>\n"

SUITE = "iallocator replay"


def write_junit(path: str, outcomes: Sequence[Outcome]) -> None:
    """Write `outcomes` to the file at `path`.

    Raises
    ------
    UsageError
        If the file cannot be written.
    """
    failed = [outcome for outcome in outcomes if not outcome.passed]
    errors = sum(1 for outcome in failed if outcome.status == CASE_ERROR)
    numbers = {
        "name": SUITE,
        "tests": str(len(outcomes)),
        "failures": str(len(failed) - errors),
        "errors": str(errors),
        "time": f"{sum(outcome.seconds for outcome in outcomes):.6f}",
    }
    from xml.etree.ElementTree import Element, SubElement, indent, tostring

    root = Element("testsuites", numbers)
    suite = SubElement(root, "testsuite", numbers)
    for outcome in outcomes:
        folder, name = os.path.split(outcome.case.name)
        attributes = {
            "classname": _clean(folder) or SUITE,
            "name": _clean(name),
            "file": _clean(outcome.case.request),
            "time": f"{outcome.seconds:.6f}",
        }
        case = SubElement(suite, "testcase", attributes)
        if not outcome.passed:
            kind = "error" if outcome.status == CASE_ERROR else "failure"
            result = SubElement(case, kind, {"message": outcome.status, "type": kind})
            result.text = _clean("\n".join(outcome.details))
    indent(root)
    write_file(path, JUNIT_HEAD + tostring(root, encoding="unicode"))


def _clean(text: str) -> str:
    """Return `text` without the characters that XML cannot contain."""
    unknown = "\N{REPLACEMENT CHARACTER}"
    return "".join(c if c.isprintable() or c in "\n\t" else unknown for c in text)
