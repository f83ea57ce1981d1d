"""The answer to a request, before it is encoded."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["Reply", "few_details", "warnings_beyond"]

WARNING = "Warning: "
"""The beginning of remarks that need attention."""

MOST_WARNINGS = 3
"""The most warnings in ``info``, and the most lines of each, so that ``info`` stays short."""


class Reply:
    """The answer to a request.

    Attributes
    ----------
    success:
        Whether the request can be satisfied.
    info:
        One readable line; scripts of operators match its words.
    result:
        The part of the response that Ganeti reads; its form depends on the request type. [] without
        success.
    solutions:
        The ranked alternatives, ready to be encoded.
    transition:
        For moves: their steps with dependencies, ready to be encoded; else None.
    remarks:
        Lines for stderr that are not part of the answer.
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
        """Return the members of the response, in their order."""
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


def few_details(remarks: Sequence[str]) -> list[str]:
    """Return `remarks` with the first details of each warning, and the number of the others."""
    lines: list[str] = []
    details = 0
    for remark in [*remarks, ""]:
        if remark.startswith(" "):
            details += 1
            if details <= MOST_WARNINGS:
                lines.append(remark)
            continue
        if details > MOST_WARNINGS:
            lines.append(f"  - {details - MOST_WARNINGS} more (-v)")
        details = 0
        lines.append(remark)
    return lines[:-1]


def warnings_beyond(info: str, remarks: Sequence[str]) -> list[str]:
    """Return the warnings among `remarks` that `info` does not contain, as clauses for it.

    Ganeti does not show the stderr of a plugin as long as the plugin answers. Lines that begin with
    blanks belong to the warning before them.
    """
    warnings: list[tuple[str, list[str]]] = []
    for remark in remarks:
        if remark.startswith(WARNING):
            warnings.append((remark.removeprefix(WARNING), []))
        elif remark.startswith(" ") and warnings:
            warnings[-1][1].append(remark.strip(" -"))
    texts = []
    for text, details in warnings:
        more = f", and {len(details) - MOST_WARNINGS} more" if len(details) > MOST_WARNINGS else ""
        texts.append(f"{text} {', '.join(details[:MOST_WARNINGS])}{more}" if details else text)
    new = [text for text in dict.fromkeys(texts) if text not in info]
    left = len(new) - MOST_WARNINGS
    rest = [f"{left} more warning{'s' if left > 1 else ''}"] if left > 0 else []
    return new[:MOST_WARNINGS] + rest
