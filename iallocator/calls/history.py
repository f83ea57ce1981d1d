"""Read captured calls, and the log of calls."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from stat import S_ISREG

from iallocator.calls.layout import CALL, CALL_REQUEST, file_of, numbered
from iallocator.errors import STATUS_INTERRUPTED, IallocatorError, UsageError
from iallocator.files import read_file
from iallocator.units import LATEST_TIME
from iallocator.wire.codec import decode, dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["Entry", "LoggedCall", "logged_calls", "read_history", "request_files"]


FACTS: dict[str, tuple[type, ...]] = {
    "time": (int, float), "seconds": (int, float), "status": (int,), "pid": (int,),
    "version": (str,), "type": (str,), "asked": (str,), "groups": (int,), "nodes": (int,),
    "instances": (int,), "success": (bool,), "info": (str,), "remarks": (list,), "error": (str,),
}  # fmt: skip
"""Recorded fact -> its possible types; a fact of another type is damaged, and is left out."""


@dataclass(slots=True)
class Entry:
    """One captured call.

    Attributes
    ----------
    number, request:
        The number of the call, and the path of its request.
    time:
        The time at which the request was received, in seconds since 1970.
    facts:
        The facts that were recorded when the call ended (``NUMBER.call.json``); empty if there are
        none.
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
        if self.facts.get("status") == STATUS_INTERRUPTED:
            return "interrupted"
        return "crash" if str(self.facts["error"]).startswith("crash: ") else "error"

    @property
    def answer_text(self) -> str:
        """Return the answer of the call as text; if it has none, the error."""
        return str(self.facts.get("info") or self.facts.get("error") or "")

    def text(self, key: str) -> str:
        """Return the fact `key` of the call as text; "" if it is unknown."""
        return str(self.facts.get(key, ""))

    def document(self) -> dict[str, Any]:
        """Return the call as plain data."""
        head = {"number": self.number, "time": self.time, "outcome": self.outcome}
        return {**head, "request": self.request, **self.facts, **head}


def read_history(folder: str) -> list[Entry]:
    """Return the calls in `folder`, oldest first.

    A call without a request is left out. A call without valid facts about its end has no facts.

    Raises
    ------
    UsageError
        If the folder cannot be read.
    """
    try:
        calls = numbered(folder)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}") from None
    entries = []
    for number in sorted(calls):
        request = file_of(folder, number, CALL_REQUEST)
        try:
            status = os.stat(request)
        except OSError:
            continue
        if not S_ISREG(status.st_mode):  # another program's; reading a pipe would block
            continue
        path, facts = file_of(folder, number, CALL), {}
        if os.path.isfile(path):
            try:
                facts = decode(read_file(path))
                dumps(facts)  # numbers that are too large to be written again
            except (IallocatorError, ValueError):
                facts = {}
        facts = {
            key: value
            for key, value in facts.items()
            if key not in FACTS or type(value) in FACTS[key]
        }
        if not all(isinstance(line, str) for line in facts.get("remarks", ())):
            del facts["remarks"]
        time = facts.get("time", -1)
        if not 0 <= time <= LATEST_TIME:
            time = status.st_mtime
        if not 0 <= facts.get("seconds", 0) <= LATEST_TIME:
            del facts["seconds"]
        entries.append(Entry(number, request, time, facts))
    return entries


def request_files(folder: str) -> list[tuple[float, str]]:
    """Return the time, in seconds since 1970, and the path of each request in `folder`.

    The folder has captured calls, or else other documents: each one may be a request, and its time
    is that of the last change of the file. The oldest call or the first name comes first.

    Raises
    ------
    UsageError
        If the folder cannot be read.
    """
    calls = [(entry.time, entry.request) for entry in read_history(folder)]
    if calls:
        return calls
    paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    documents = [path for path in paths if path.endswith((".json", ".json.gz"))]
    return [(os.lstat(path).st_mtime, path) for path in documents]


@dataclass(slots=True)
class LoggedCall:
    """The outcome of one call, from the log or from a captured call.

    Attributes
    ----------
    kind:
        The type of the request; "unknown" if it was not understood.
    outcome:
        The outcome of the call, one of `OUTCOMES`.
    seconds:
        How long the call took.
    answer:
        The ``info`` of the answer, or the error.
    """

    kind: str
    outcome: str
    seconds: float
    answer: str


LINE = re.compile(r"\S+ iallocator\[\d+\] (.*?); (\d+\.\d+) s(?:, [^;]*)?; (.*)")
"""A line as `iallocator.calls.call.Call` logs it: request, seconds, size of the cluster, answer."""

ERROR = re.compile(r"exit status (\d+): (.*)")


def logged_calls(log: str, capture: str, limit: int) -> Iterator[LoggedCall]:
    """Yield the calls in the file `log`; if it is "", those in the folder `capture`.

    Lines of other programs are left out. A log that does not exist has no calls. `limit`: the most
    bytes of the log.

    Raises
    ------
    UsageError
        If the log or the folder cannot be read.
    """
    if not log:
        for one in read_history(capture) if capture else ():
            kind = one.text("type") or UNKNOWN_TYPE
            time = float(one.facts.get("seconds", 0.0))
            yield LoggedCall(kind, one.outcome, time, one.answer_text)
        return
    if not os.path.exists(log):
        return
    for line in read_file(log, limit).decode("utf-8", "replace").splitlines():
        match = LINE.match(line)
        if match is None:
            continue
        request, seconds, words = match.groups()
        error = ERROR.match(words)
        if error is None:
            outcome = "failed" if words.startswith("Request failed") else "success"
            yield LoggedCall(request.partition(" ")[0], outcome, float(seconds), words)
            continue
        crashed = error[2].startswith("crash: ")
        outcome = "crash" if crashed else "error"
        if int(error[1]) == STATUS_INTERRUPTED:
            outcome = "interrupted"
        understood = ", " in line[match.end(2) : match.start(3)]
        kind = request.partition(" ")[0] if understood else UNKNOWN_TYPE
        yield LoggedCall(kind, outcome, float(seconds), error[2])


UNKNOWN_TYPE = "unknown"
"""The type of a request that was not understood."""
