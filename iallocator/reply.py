"""Answers, before they are written."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["Reply", "warnings_beyond"]

WARNING = "Warning: "
"""What remarks begin with that a person should know."""

WARNED = 3
"""Warnings, and lines of one, that ``info`` repeats; it stays one bearable line."""


class Reply:
    """A response.

    Attributes
    ----------
    success:
        Whether the request can be satisfied.
    info:
        One line for people; operators' scripts match its words.
    result:
        What Ganeti reads, by request type; [] without success.
    solutions:
        The ranked alternatives, ready to be encoded.
    transition:
        Of moves: their steps and what each waits for, ready to be encoded; else None.
    remarks:
        Lines for stderr: nothing of the answer, but worth knowing.
    interrupted:
        Whether Ctrl-C ended a search for a better answer.
    """

    __slots__ = ("info", "interrupted", "remarks", "result", "solutions", "success", "transition")

    def __init__(
        self, success: bool, info: str, result: Any, solutions: Sequence[dict[str, Any]]
    ) -> None:
        self.success = success
        self.info = info
        self.result = result
        self.solutions = solutions
        self.transition: dict[str, Any] | None = None
        self.remarks: list[str] = []
        self.interrupted = False

    def document(self) -> dict[str, Any]:
        """The members of the response, in their order."""
        prefix = "Request successful: " if self.success else "Request failed: "
        document = {
            "success": self.success,
            "info": prefix + self.info,
            "result": self.result if self.success else [],
            "solutions": list(self.solutions),
        }
        if self.transition is not None:
            document["transition"] = self.transition
        return document


def warnings_beyond(info: str, remarks: Sequence[str]) -> list[str]:
    """The warnings among `remarks` that `info` does not say yet, as clauses for it.

    Ganeti shows nobody what a plugin says on stderr, as long as it answers.  Lines that
    begin with blanks belong to the warning before them.
    """
    warnings: list[tuple[str, list[str]]] = []
    for remark in remarks:
        if remark.startswith(WARNING):
            warnings.append((remark.removeprefix(WARNING), []))
        elif remark.startswith(" ") and warnings:
            warnings[-1][1].append(remark.strip(" -"))
    told = []
    for text, details in warnings:
        more = f", and {len(details) - WARNED} more" if len(details) > WARNED else ""
        told.append(f"{text} {', '.join(details[:WARNED])}{more}" if details else text)
    new = [text for text in dict.fromkeys(told) if text not in info]
    rest = [f"{len(new) - WARNED} more warnings"] if len(new) > WARNED else []
    return new[:WARNED] + rest
