"""The errors that reach a person.

Three kinds of failure exist.  Unusable input raises one of these and ends with
exit status 2 and one line on stderr.  A request without a solution is no error:
it is an answer with ``success: false``.  Anything else is a bug of ours and is
left to show its traceback.
"""

from __future__ import annotations

__all__ = ["IallocatorError", "RequestError", "UsageError", "one_line"]

LONGEST_LINE = 1000
"""Characters of a line on stderr; names in a damaged document have any length."""


class IallocatorError(Exception):
    """Base of the errors that end the program with exit status 2."""


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


def one_line(text: str) -> str:
    """`text` fit for one line: without control characters, its middle cut out if it is long."""
    if len(text) > LONGEST_LINE:
        text = f"{text[: LONGEST_LINE // 2]} ... {text[-LONGEST_LINE // 2 :]}"
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )
