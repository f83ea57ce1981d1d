"""The journal of an execution: a file with one JSON object per line, flushed to the disk.

The first line describes the execution. Each further line is an event that is about to happen, or
has happened. A last line without its end was not written completely, so that its event has not
happened. A journal without a complete first line has no content, and may be written again.

When a journal is read, every member is checked. Therefore callers find every member that they use,
with the right type.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from time import time

from iallocator.errors import RequestError, UsageError
from iallocator.execution.jobs import ExecutionError
from iallocator.wire.codec import decode, dumps
from iallocator.wire.fields import (
    boolean,
    child,
    describe,
    members,
    name_of,
    names,
    objects,
    one_of,
    text,
)  # fmt: skip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, BinaryIO

    from iallocator.aliases import Json


__all__ = ["JOURNAL_FORMAT", "Journal", "default_path", "never_begun", "read_journal"]

JOURNAL_FORMAT = 1
"""The version of the journal."""

BEGIN = "begin"

HEAD_BEGINS = dumps({"event": BEGIN}).encode()[:-1]
"""The beginning of the first line of every journal."""


class Journal:
    """Appends events to a journal file.

    The file is created, or continued after its last complete line. `sync` flushes a file to the
    disk; by default `os.fsync`.
    """

    def __init__(self, path: str, sync: Callable[[int], None] | None = None) -> None:
        self.path = path
        self._sync = sync or os.fsync
        self._file: BinaryIO | None = None

    @classmethod
    def create(cls, path: str, head: Json, sync: Callable[[int], None] | None = None) -> Journal:
        """Return a new journal that begins with `head`.

        The first line is written to the disk completely, or not at all. A file at `path` that has
        no more than the beginning of a first line is replaced.

        Raises
        ------
        UsageError
            If the file exists, or cannot be created.
        ExecutionError
            If the file cannot be written.
        """
        journal = cls(path, sync)
        try:
            os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    unused = never_begun(file.read())
                if unused:
                    os.unlink(path)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        except FileExistsError:
            raise UsageError(f"{path}: exists; --resume continues it") from None
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from None
        journal._file = os.fdopen(handle, "ab", buffering=0)
        try:
            journal.write({"event": BEGIN, "format": JOURNAL_FORMAT, **head})
        except ExecutionError:
            journal.close()
            with suppress(OSError):
                os.unlink(path)
            raise
        with suppress(OSError):  # not all file systems support it; the file itself is on the disk
            folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
            try:
                journal._sync(folder)
            finally:
                os.close(folder)
        return journal

    @classmethod
    def reopen(cls, path: str, sync: Callable[[int], None] | None = None) -> Journal:
        """Open the journal at `path` to append events; remove an incomplete last line."""
        journal = cls(path, sync)
        try:
            with open(path, "rb") as file:
                whole = file.read().rfind(b"\n") + 1
            journal._file = open(path, "ab", buffering=0)  # noqa: SIM115
            journal._file.truncate(whole)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from None
        return journal

    def write(self, event: Json) -> None:
        """Append an event, and flush it to the disk.

        Raises
        ------
        ExecutionError
            If the file cannot be written; no further action is allowed then.
        """
        assert self._file is not None
        line = dumps({**event, "time": round(time(), 3)}).encode() + b"\n"
        try:
            while line:
                line = line[self._file.write(line) :]
            self._sync(self._file.fileno())
        except OSError as error:
            raise ExecutionError(
                f"{self.path}: {error.strerror}: the execution stops without a journal"
            ) from None

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def never_begun(content: bytes) -> bool:
    """Return whether a file with this content is what a killed process left of a first line.

    The first line is on the disk before the first job is submitted.
    """
    return b"\n" not in content and HEAD_BEGINS.startswith(content[: len(HEAD_BEGINS)])


def read_journal(path: str) -> tuple[Json, list[Json]]:
    """Return the head of the journal at `path`, and its events; check every member.

    Raises
    ------
    UsageError
        If the file is no journal, or is damaged; the error names the line.
    """
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    if never_begun(content):
        raise UsageError(f"{path}: the journal is empty: nothing was begun, run without --resume")
    lines = content.split(b"\n")
    events = []
    for number, line in enumerate(lines[:-1], start=1):
        try:
            one = decode(line)
            if number > 1:
                for key, check in EVENTS[one_of(one, "event", tuple(EVENTS))].items():
                    check(one, key)
            elif one.get("event") == BEGIN and one.get("format") == JOURNAL_FORMAT:
                _check_head(one)
        except RequestError as error:
            raise UsageError(f"{path}: line {number}: {error}") from None
        events.append(one)
    if not events or events[0].get("event") != BEGIN:
        raise UsageError(f"{path}: no journal of an execution")
    if events[0].get("format") != JOURNAL_FORMAT:
        raise UsageError(
            f"{path}: a journal of another format, {describe(events[0].get('format'))}"
        )
    return events[0], events[1:]


def _check_head(head: Json) -> None:
    """Raise a `RequestError` if a member of the first line is missing, or has a wrong value."""
    for key in ("run", "command", "cluster"):
        name_of(head, key)
    boolean(head, "singly")
    names(head, "unable")
    names(head, "candidates", [])
    text(head, "reason")
    if head.get("priority") is not None:
        _integer(head, "priority")
    for node, expected in members(head, "expected").items():
        with _below(f"expected/{node}"):
            boolean(expected, "offline")
            names(expected, "stay")
    with _below("transition"):
        # Check the steps, and that steps and jobs name earlier steps only, each in one job
        transition = child(head, "transition")
        known: set[int] = set()
        for position, step in enumerate(objects(transition, "steps")):
            with _below(f"steps/{position}"):
                _check_step(step)
                others = _integers(step, "after")
                if step["number"] in known or not known.issuperset(others):
                    raise RequestError("after", "expected numbers of earlier steps")
                known.add(step["number"])
        waits = {step["number"]: step["after"] for step in transition["steps"]}
        for position, job in enumerate(objects(transition, "jobs")):
            with _below(f"jobs/{position}"):
                chain = _integers(job, "steps")
                wrong = not chain or chain != sorted(set(chain)) or not known.issuperset(chain)
                if wrong or any(not {*waits[later]} <= {*chain} for later in chain[1:]):
                    raise RequestError("steps", "expected steps that wait for each other only")
                known.difference_update(chain)


def _check_step(step: Json) -> None:
    """Check a step of a plan: of an instance with its nodes before and after, or of a node."""
    _integer(step, "number")
    name_of(step, "kind")
    for position, opcode in enumerate(objects(step, "opcodes")):
        with _below(f"opcodes/{position}"):
            name_of(opcode, "OP_ID")
    if "node" in step:
        name_of(step, "node")
        names(step, "tags", [])
        return
    name_of(step, "instance")
    names(step, "from")
    if not names(step, "to"):
        raise RequestError("to", "expected at least one node, got an empty array")
    if "repair" in step:
        with _below("repair"):
            repair = child(step, "repair")
            name_of(repair, "type")
            name_of(repair, "id")
            _integer(repair, "seconds")


def _integer(raw: Json, key: str) -> int:
    value = raw.get(key)
    if type(value) is not int:
        raise RequestError(key, f"expected an integer, got {describe(value)}")
    return value


def _integers(raw: Json, key: str) -> list[int]:
    value = raw.get(key)
    if type(value) is not list or any(type(one) is not int for one in value):
        raise RequestError(key, f"expected a list of integers, got {describe(value)}")
    return value


def _pairs(raw: Json, key: str) -> None:
    """Check the list `raw[key]` of pairs: number of a job in the plan, and id in the queue."""
    value = raw.get(key)
    for pair in value if type(value) is list else [value]:
        if type(pair) is not list or [type(one) for one in pair] != [int, int]:
            raise RequestError(key, "expected a list of pairs of integers")


@contextmanager
def _below(prefix: str) -> Iterator[None]:
    """Return a ``with`` block that puts `prefix` before the path in an error."""
    try:
        yield
    except RequestError as error:
        raise error.below(prefix) from None


def default_path(command: str, run: str) -> str:
    """Return the default path of the journal of an execution."""
    base = "/var/lib"
    if os.geteuid() != 0:
        base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(base, "iallocator", f"{command}-{run}.journal")


EVENTS: dict[str, dict[str, Callable[[Json, str], Any]]] = {
    "submit": {"jobs": _integers},
    "accepted": {"ids": _pairs},
    "absent": {"jobs": _integers},
    "withdraw": {"jobs": _integers, "becomes": name_of},
    "ended": {
        "job": _integer, "status": name_of, "why": text, "begun": boolean, "done": _integer,
    },
    "refused": {"job": _integer, "why": text},
    "by hand": {"jobs": _integers},
    "confirmed": {"jobs": _integers},
    "working": {"job": _integer, "boot": text},
    "worked": {"job": _integer},
    "work failed": {"job": _integer, "why": text, "keep": boolean},
    "away": {"job": _integer, "done": _integer, "why": text},
    "retry": {"job": _integer, "steps": _integers},
}  # fmt: skip
"""Event -> its members, each with its check; `Records.apply` has their meaning."""
