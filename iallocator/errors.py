"""The errors that reach a person.

Three kinds of failure exist.  Unusable input raises one of these and ends with
exit status 2 and one line on stderr.  A request without a solution is no error:
it is an answer with ``success: false``.  Anything else is a bug of ours and is
left to show its traceback.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Never

__all__ = [
    "INTERRUPTED",
    "IallocatorError",
    "RequestError",
    "UsageError",
    "Voice",
    "assert_never",
    "cut",
    "one_line",
    "say",
    "shown",
    "tell",
]

INTERRUPTED = 130
"""Exit status after Ctrl-C."""

LONGEST_LINE = 1000
"""Characters of a line on stderr; names in a damaged document have any length."""

LONGEST_WORD = 60
"""Characters of a word of somebody else's in such a line."""


class IallocatorError(Exception):
    """Base of the errors that end the program: with exit status 2, or their own."""

    exit_status = 2


class UsageError(IallocatorError):
    """The command line cannot be understood."""


class NotFoundError(UsageError):
    """An option names a node, an instance or a group that the cluster does not have.

    Not a `LookupError`: one of those that reaches the top is a bug of ours.
    """


class RequestError(IallocatorError):
    """The document cannot be understood.

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
        """The same problem, seen from further up: ``prefix`` goes before the path."""
        return RequestError(f"{prefix}/{self.where}" if self.where else prefix, self.problem)


def shown(text: str) -> str:
    """`text` as a terminal, a table or a drawing may have it.

    Names, tags and reasons are data of others: what could steer a terminal, break a line or
    turn the direction of writing around stands there as its code.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def cut(word: str) -> str:
    """`word` as a message may quote it: its end is left out if it is long."""
    return word if len(word) <= LONGEST_WORD else f"{word[: LONGEST_WORD - 3]}..."


def one_line(text: str) -> str:
    """`text` as one line of bearable length: its middle is cut out if it is long."""
    if len(text) > LONGEST_LINE:
        text = f"{text[: LONGEST_LINE // 2]} ... {text[-LONGEST_LINE // 2 :]}"
    return shown(text)


def tell(*lines: str) -> None:
    """Say `lines` on stderr, if that is open; never on stdout, where the answer goes.

    Who wants quiet hears complaints only: lines that begin with the name of the program.
    """
    for line in lines:
        if not Voice.quiet or line.startswith("iallocator: "):
            say(shown(line))


def say(text: str) -> None:
    """Write `text` and the end of a line to stderr, if that is open.

    Where it cannot be written (a full disk, a reader who left) stderr counts as closed from
    then on: what is said there is worth less than the answer.
    """
    if sys.stderr is not None:
        try:
            print(text, file=sys.stderr)
        except OSError:
            sys.stderr = None


def assert_never(value: Never) -> Never:
    """Mark code that no value reaches; the type checker verifies it.

    `typing.assert_never` does the same, but loading `typing` costs a small request too much.
    """
    raise AssertionError(f"unexpected {value!r}")


class Voice:
    """How much is said on stderr; `quiet`: complaints only."""

    quiet = False
