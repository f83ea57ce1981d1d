"""The errors that are reported to the user.

There are three kinds of failure. Invalid input raises one of these errors; the program ends with
exit status 2 and one line on stderr. A request without a solution is not an error, but an answer
with ``success: false``. Any other exception is a bug, and its traceback is printed.
"""

from __future__ import annotations

import posix  # `os` loads more: see `iallocator.light`
import sys

from iallocator.light import variable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Never, TextIO

__all__ = [
    "FEW_NAMES",
    "MOST_NAMES",
    "NO_INPUT",
    "STATUS_INCOMPLETE",
    "STATUS_INTERRUPTED",
    "STATUS_MISTAKE",
    "STATUS_SIGNALLED",
    "STDIN",
    "FileError",
    "IallocatorError",
    "InFile",
    "RequestError",
    "UsageError",
    "Voice",
    "assert_never",
    "cut",
    "many",
    "named",
    "one_line",
    "printable",
    "say",
    "tell",
    "terminal_width",
]

NARROWEST_TERMINAL, WIDEST_TERMINAL, IN_PIPE = 60, 200, 100
"""Columns of text: the bounds on a terminal, and the width elsewhere."""

DIGITS_OF_WIDTH = 6
"""A value of ``COLUMNS`` with this number of digits, or more, is not accepted as a width."""

STATUS_MISTAKE = 2
"""Exit status if input or command line cannot be understood, or memory does not suffice."""

STATUS_INCOMPLETE = 3
"""Exit status if the time limit ended an analysis that had found nothing wrong until then."""

STATUS_SIGNALLED = 128
"""Exit status after a signal, without the number of the signal; as of shells."""

STATUS_INTERRUPTED = STATUS_SIGNALLED + 2
"""Exit status after Ctrl-C, which is signal 2."""

STDIN = "-"
"""The name of standard input on the command line."""

NO_INPUT = (
    "standard input: expected a JSON document, got nothing; name FILE or another source of a "
    "cluster, see iallocator help"
)
"""The error message if standard input has no content."""

FEW_NAMES, MOST_NAMES = 3, 5
"""The most names in the middle of a sentence, and at its end; others are counted, or left out."""

LONGEST_LINE = 1000
"""Most characters of a line on stderr; names in a damaged document may be longer."""

LONGEST_WORD = 60
"""Most characters of a word from a document or the command line in a message."""


class IallocatorError(Exception):
    """Base of the errors that end the program, with exit status 2 or their own."""

    exit_status = STATUS_MISTAKE


class UsageError(IallocatorError):
    """The command line is invalid."""


class NotFoundError(UsageError):
    """An option names a node, an instance or a group that the cluster does not have.

    This class is not a `LookupError`, because an uncaught `LookupError` is a bug.
    """


class RequestError(IallocatorError):
    """The document is invalid.

    Parameters
    ----------
    where:
        Path into the document, keys joined by ``/``; empty for the document itself.
    problem:
        What was expected, and what was found.
    """

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}" if where else problem)
        self.where = where
        self.problem = problem

    def below(self, prefix: str) -> RequestError:
        """Return this error with ``prefix`` before its path."""
        return RequestError(f"{prefix}/{self.where}" if self.where else prefix, self.problem)


class FileError(RequestError):
    """The document in a file is invalid: `where` is the name of the file, `problem` the error."""


class InFile:
    """Names a file in each `RequestError` that leaves the block; standard input has no name."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        """Begin the block."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Raise an error of the block again, with the name of the file before it."""
        if isinstance(error, RequestError) and self._path != STDIN:
            raise FileError(self._path, str(error)) from None


def printable(text: str) -> str:
    """Return `text` with codes for characters that do not print.

    Names, tags and reasons are foreign data. Their characters could control a terminal, break a
    line or change the direction of writing.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def cut(word: str) -> str:
    """Return `word` for a message, without its end if it is long."""
    return word if len(word) <= LONGEST_WORD else f"{word[: LONGEST_WORD - 3]}..."


def named(names: Sequence[str], most: int = MOST_NAMES) -> str:
    """Return ``node1, node2``; of more names than `most`, the first and the number of others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def many(count: int, noun: str, plural: str = "") -> str:
    """Return ``1 move`` or ``2 moves``; `plural` is for nouns with another plural."""
    return f"{count} {noun}" if count == 1 else f"{count} {plural or noun + 's'}"


def one_line(text: str) -> str:
    """Return `text` as one line of limited length, without its middle if it is long."""
    if len(text) > LONGEST_LINE:
        text = f"{text[: LONGEST_LINE // 2]} ... {text[-LONGEST_LINE // 2 :]}"
    return printable(text)


def tell(*lines: str) -> None:
    """Print `lines` to stderr, if that is open; never to stdout, which has the answer.

    With ``--quiet`` only errors are printed: lines that begin with the name of the program.
    """
    for line in lines:
        if not Voice.quiet or line.startswith("iallocator: "):
            say(printable(line))


def say(text: str) -> None:
    """Print `text` and the end of a line to stderr, if that is open.

    If writing fails (a full disk, a pipe without a reader), stderr counts as closed from then on:
    the answer is more important.
    """
    if sys.stderr is not None:
        try:
            print(text, file=sys.stderr)
        except OSError:
            sys.stderr = None


def terminal_width(stream: TextIO) -> int:
    """Return how many columns text for `stream` may have: those of its terminal, within bounds.

    On a terminal, the environment variable ``COLUMNS`` has precedence.
    """
    try:
        columns = posix.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):  # not a terminal, or a stream without a file
        return IN_PIPE
    chosen = variable("COLUMNS") or ""
    if chosen.isascii() and chosen.isdigit() and len(chosen) < DIGITS_OF_WIDTH:
        columns = int(chosen)
    return min(max(columns, NARROWEST_TERMINAL), WIDEST_TERMINAL) if columns else IN_PIPE


def assert_never(value: Never) -> Never:
    """Mark code that no value reaches; the type checker verifies it.

    `typing.assert_never` does the same, but loading `typing` costs a small request too much.
    """
    raise AssertionError(f"unexpected {value!r}")


class Voice:
    """How much is printed to stderr; `quiet`: errors only."""

    quiet = False
