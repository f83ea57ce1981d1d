"""Read captured calls."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from stat import S_ISREG

from iallocator.calls.layout import CALL, REQUEST, file_of, numbered
from iallocator.errors import INTERRUPTED, IallocatorError, UsageError
from iallocator.files import read_file
from iallocator.wire.codec import decode, dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Entry", "read_history"]

LATEST = 253_402_300_799
"""The last second of a year with four digits."""


@dataclass(slots=True)
class Entry:
    """Represent one captured call.

    Attributes
    ----------
    number, request:
        Its number, and the path of the request.
    time:
        When it was received, in seconds since 1970.
    facts:
        The facts recorded at its end, as in ``NUMBER.call.json``; empty without an end.
    """

    number: int
    request: str
    time: float
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def outcome(self) -> str:
        """Return the outcome of the call, one of `OUTCOMES`."""
        if "success" in self.facts:
            return "success" if self.facts["success"] else "failed"
        if "error" not in self.facts:
            return "no answer"
        if self.facts.get("status") == INTERRUPTED:
            return "interrupted"
        return "crash" if str(self.facts["error"]).startswith("crash: ") else "error"

    @property
    def answer_text(self) -> str:
        """Return the answer of the call as text; if it has none, the error."""
        return str(self.facts.get("info") or self.facts.get("error") or "")

    def text(self, key: str) -> str:
        """Return a property of the call as text; "" if it is unknown."""
        return str(self.facts.get(key, ""))

    def document(self) -> dict[str, Any]:
        """Return the call as plain data."""
        head = {"number": self.number, "time": self.time, "outcome": self.outcome}
        return {**head, "request": self.request, **self.facts, **head}


def read_history(folder: str) -> list[Entry]:
    """Return the calls in `folder`, oldest first.

    A call without a request is left out; one without an end, or with a damaged one, has no facts.

    Raises
    ------
    UsageError
        If it cannot be read.
    """
    try:
        calls = numbered(folder)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}") from None
    entries = []
    for number in sorted(calls):
        request = file_of(folder, number, REQUEST)
        try:
            found = os.stat(request)
        except OSError:
            continue
        if not S_ISREG(found.st_mode):  # another program's; reading a pipe would block
            continue
        path, facts = file_of(folder, number, CALL), {}
        if os.path.isfile(path):
            try:
                facts = decode(read_file(path))
                dumps(facts)  # numbers that are too large to be written again
            except (IallocatorError, ValueError):
                facts = {}
        time = facts.get("time")
        if not isinstance(time, (int, float)) or not 0 <= time <= LATEST:
            time = found.st_mtime
        seconds = facts.get("seconds", 0)
        if not isinstance(seconds, (int, float)) or not 0 <= seconds <= LATEST:
            del facts["seconds"]
        entries.append(Entry(number, request, time, facts))
    return entries
