"""The journal of an execution: a file with one JSON object per line, flushed to the disk.

Its first line says what is carried out; each further one what is about to happen, or has
happened.  A last line without its end was never finished: whatever it announced did not happen.
"""

from __future__ import annotations

import os
from time import time

from iallocator.errors import RequestError, UsageError
from iallocator.execution.errors import ExecutionError
from iallocator.wire.c_json import dumps
from iallocator.wire.read import decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import BinaryIO

    from iallocator.aliases import Json


__all__ = ["FORMAT", "Journal", "default_path", "read_journal"]

FORMAT = 1


class Journal:
    """Appends events to the file at `path`, which is made, or continued after its last whole line.

    `sync` brings a file to the disk; by default `os.fsync`.
    """

    def __init__(self, path: str, sync: Callable[[int], None] | None = None) -> None:
        self.path = path
        self._sync = sync or os.fsync
        self._file: BinaryIO | None = None

    @classmethod
    def create(cls, path: str, head: Json, sync: Callable[[int], None] | None = None) -> Journal:
        """A new journal that begins with `head`.

        Raises
        ------
        UsageError
            If the file exists, or cannot be made.
        """
        journal = cls(path, sync)
        try:
            os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        except FileExistsError:
            raise UsageError(f"{path}: exists; --resume continues it") from None
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from None
        journal._file = os.fdopen(handle, "ab", buffering=0)
        journal.write({"event": "begin", "format": FORMAT, **head})
        _sync_directory(path, journal._sync)
        return journal

    @classmethod
    def reopen(cls, path: str, sync: Callable[[int], None] | None = None) -> Journal:
        """A journal to be continued; what a crash left of its last line is cut off."""
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
        """Append an event; it is on the disk when this returns.

        Raises
        ------
        ExecutionError
            If that cannot be: nothing more may be done then.
        """
        assert self._file is not None
        line = dumps({**event, "time": round(time(), 3)}).encode() + b"\n"
        try:
            while line:
                line = line[self._file.write(line) :]
            self._sync(self._file.fileno())
        except OSError as error:
            raise ExecutionError(
                f"{self.path}: {error.strerror}: without a journal nothing more is done"
            ) from None

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def _sync_directory(path: str, sync: Callable[[int], None]) -> None:
    handle = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    try:
        sync(handle)
    except OSError:
        pass  # some file systems do not know it; the file itself is on the disk
    finally:
        os.close(handle)


def read_journal(path: str) -> tuple[Json, list[Json]]:
    """The head of a journal, and its events.

    Raises
    ------
    UsageError
        If it is none.
    """
    try:
        with open(path, "rb") as file:
            lines = file.read().split(b"\n")[:-1]
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    events = list(_decoded(path, lines))
    if not events or events[0].get("event") != "begin":
        raise UsageError(f"{path}: no journal of an execution")
    if events[0].get("format") != FORMAT:
        raise UsageError(f"{path}: a journal of another format, {events[0].get('format')}")
    return events[0], events[1:]


def _decoded(path: str, lines: Iterable[bytes]) -> Iterable[Json]:
    for number, line in enumerate(lines, start=1):
        try:
            yield decode(line)
        except RequestError as error:
            raise UsageError(f"{path}: line {number}: {error}") from None


def default_path(command: str, run: str) -> str:
    """Where the journal of an execution is if nobody says."""
    base = "/var/lib"
    if os.geteuid() != 0:
        base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(base, "iallocator", f"{command}-{run}.journal")
