"""Record one call of the plugin by Ganeti: a line in the log, and files of the captured call.

A call with invalid options is logged, too, if these options name a log.
"""

from __future__ import annotations

import os
import syslog
import zlib
from contextlib import nullcontext, suppress
from time import localtime, monotonic, strftime, time

from iallocator import __version__
from iallocator.calls.layout import (
    CALL,
    CALL_ARGS,
    CALL_REQUEST,
    CALL_RESPONSE,
    CONF,
    FEWEST_DIGITS,
    file_of,
    next_number,
    numbered,
)
from iallocator.deadline import Stopped
from iallocator.errors import (
    STATUS_INTERRUPTED,
    STATUS_MISTAKE,
    FileError,
    IallocatorError,
    UsageError,
    one_line,
    tell,
)
from iallocator.options.parser import last_value, words_of
from iallocator.options.settings import Settings, configuration_path
from iallocator.options.table import COMMON
from iallocator.units import DAY
from iallocator.wire.codec import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Any

    from iallocator.model.cluster import Cluster
    from iallocator.reply import Reply
    from iallocator.requests.existing import Request

__all__ = ["SYSLOG", "Call", "Store", "logged", "write_line"]

SYSLOG = "syslog"
"""The name of the system log, in place of a file."""

SOCKET = "/dev/log"


def write_line(target: str, line: str, status: int) -> None:
    """Append `line` to the file `target`, or send it to the system log.

    `status` is the exit status; the system log has the line as an error unless it is 0. Lines of
    processes that write at the same time do not mix. Writing never waits for the reader of a pipe.

    Raises
    ------
    OSError
        If the line cannot be written.
    """
    if target == SYSLOG:
        os.stat(SOCKET)  # the library reports no error if no daemon listens
        syslog.openlog("iallocator", syslog.LOG_PID, syslog.LOG_DAEMON)
        syslog.syslog(syslog.LOG_ERR if status else syslog.LOG_INFO, line)
        return
    stamp = strftime("%Y-%m-%dT%H:%M:%S%z", localtime())
    raw = f"{stamp} iallocator[{os.getpid()}] {line}\n".encode("utf-8", "backslashreplace")
    how = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY
    handle = os.open(target, how, 0o600)
    try:
        if os.write(handle, raw) < len(raw):
            raise OSError(0, "only part of the line could be written", target)
    finally:
        os.close(handle)


NOT_KEPT = {
    "log", "capture", "capture_keep", "capture_days", "config", "no_config", "ialloc_src",
    "validate", "help", "version", "save_cluster", "print_nodes", "print_instances",
}  # fmt: skip
"""Attributes of options that do not change the answer, so that captured calls leave them out."""

NOT_UNDERSTOOD = "request not understood"


class Call:
    """A ``with`` block in which a request is answered; its outcome is recorded, however it ends.

    Attributes
    ----------
    problems:
        Messages about parts that could not be recorded.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._began, self._time = monotonic(), time()
        self._store: Store | None = None
        self._facts: dict[str, Any] = {}
        self._ended = False
        self.problems: list[str] = []

    def __enter__(self) -> Call:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None or self._ended:
            return
        # Exit status, words, and what is stored in place of the response
        status, words, answer = 1, f"crash: {type(error).__name__}: {error}", b""
        if isinstance(error, IallocatorError):
            status = error.exit_status
            # Ganeti's files have other names each time
            words = error.problem if isinstance(error, FileError) else str(error)
            answer = dumps({"error": words}).encode("utf-8", "replace") + b"\n"
        elif isinstance(error, Stopped):
            status, words = STATUS_INTERRUPTED, "interrupted"
        elif isinstance(error, MemoryError):
            status, words = STATUS_MISTAKE, "not enough memory"
        elif isinstance(error, OSError):
            words = f"{error.filename or 'standard output'}: {error.strerror or error}"
        self._end(status, words, answer, {"error": words})
        tell(*(f"Warning: {problem}" for problem in self.problems))

    def came(self, raw: bytes) -> bytes:
        """Record the request document `raw` before any work on it, and return it unchanged."""
        if self._settings.capture:
            self._noting(self._capture, raw)
        return raw

    def understood(self, cluster: Cluster, request: Request) -> None:
        """Record the request type and its main values for the log line."""
        self._facts = {
            "type": request.kind,
            "asked": request.summary(cluster),
            "groups": len(cluster.groups),
            "nodes": len(cluster.nodes),
            "instances": len(cluster.instances),
        }

    def answered(self, reply: Reply, encoded: bytes) -> bool:
        """Record an answer; return whether warnings about the recording were added to it."""
        info = reply.document()["info"]
        status = STATUS_INTERRUPTED if reply.interrupted else 0
        outcome = {"success": reply.success, "info": info, "remarks": [*reply.remarks]}
        self._end(status, info, encoded, outcome)
        for problem in self.problems:
            reply.info += f"; {problem}"
            reply.remarks.append(f"Warning: {problem}")
        return bool(self.problems)

    def _capture(self, raw: bytes) -> None:

        store = Store(
            self._settings.capture, self._settings.capture_keep, self._settings.capture_days
        )
        # The options of the command line, one on each line, as words of a shell
        words = words_of(self._settings, self._settings.chosen - NOT_KEPT, COMMON)
        store.begin("".join(f"{_quoted(word)}\n" for word in words))
        # The options that come from a file; JSON is TOML, except for one character
        names = {option.target: option.names[0].removeprefix("--") for option in COMMON}
        filed = "".join(
            f"{names[target]} = {dumps(getattr(self._settings, target))}\n".replace(
                "\x7f", "\\u007f"
            )
            for target in sorted(self._settings.origins.keys() - NOT_KEPT)
        )
        try:
            store.rotate()
            if filed:
                store.put(CONF, filed.encode())
            store.put(CALL_REQUEST, raw)
        except OSError:
            store.drop()
            raise
        self._store = store

    def _end(self, status: int, words: str, answer: bytes, outcome: dict[str, Any]) -> None:
        """Write the outcome of the call to its files, and a line to the log."""
        self._ended = True
        seconds = round(monotonic() - self._began, 6)
        head = {"time": round(self._time, 3), "seconds": seconds, "status": status}
        facts = {**head, "pid": os.getpid(), "version": __version__, **self._facts, **outcome}
        store = self._store
        if store is not None:
            self._noting(_put_end, store, answer, facts)
        if self._settings.log:
            # A call as a line: request, duration, cluster size, answer
            what = f"{facts['type']} {facts['asked']}" if "type" in facts else NOT_UNDERSTOOD
            size = ""
            if "nodes" in facts:
                size = f", {facts['nodes']} nodes, {facts['instances']} instances"
            words = words if "info" in facts else f"exit status {status}: {words}"
            line = one_line(f"{what}; {seconds:.3f} s{size}; {words}")
            self._noting(write_line, self._settings.log, line, status)

    def _noting(self, act: Callable[..., None], *given: Any) -> None:
        """Call `act`; if it fails, keep the error in `problems`, and capture nothing more."""
        try:
            act(*given)
        except (OSError, ValueError) as error:
            what = f"--log={self._settings.log}: this call is not logged"
            if act is not write_line:
                self._store = None
                what = f"--capture={self._settings.capture}: this call is not captured"
            self.problems.append(one_line(f"{what}: {getattr(error, 'strerror', '') or error}"))


def _put_end(store: Store, answer: bytes, facts: dict[str, Any]) -> None:
    if answer:
        store.put(CALL_RESPONSE, answer)
    store.put(CALL, dumps(facts).encode("utf-8", "backslashreplace") + b"\n")


def _quoted(word: str) -> str:
    plain = word.replace("-", "").replace("_", "").replace("=", "").replace(".", "")
    if plain.isascii() and plain.isalnum():
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"


COMPRESSION_LEVEL = 1
"""The level of compression; a level with half the size would take three times as long."""

GZIP_WINDOW = 31
"""The value of ``wbits`` with which zlib writes the format of gzip."""


class Store:
    """One call in a folder of captured calls.

    Only the owner can read the files. Each file appears completely under its name, or not at all.
    Other files of the folder are not touched.

    Parameters
    ----------
    folder:
        An existing folder.
    keep:
        The most calls that are kept in the folder, including this one.
    days:
        The number of days after which a call is deleted.
    """

    def __init__(self, folder: str, keep: int, days: float) -> None:
        self._folder = folder
        self._keep = keep
        self._days = days
        self.number = 0

    def begin(self, arguments: str) -> None:
        """Reserve the next number in the folder, and write the arguments of the call to its file.

        Raises
        ------
        OSError
            If a file cannot be written; no part of it remains then.
        """
        number = next_number(numbered(self._folder))
        while True:
            path = file_of(self._folder, number, CALL_ARGS)
            try:
                handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                break
            except FileExistsError:  # by another process, at this moment
                number += 1
        self.number = number
        try:
            _fill(handle, arguments.encode("utf-8", "surrogateescape"))
        except OSError:
            os.unlink(path)
            raise

    def drop(self) -> None:
        """Delete the files of this call, if that is possible."""
        with suppress(OSError):
            for name in numbered(self._folder).get(self.number, ()):
                os.unlink(os.path.join(self._folder, name))

    def put(self, kind: str, raw: bytes) -> None:
        """Write the file of the call with the ending `kind`, compressed if that is ``.gz``."""
        if kind.endswith(".gz"):
            packer = zlib.compressobj(COMPRESSION_LEVEL, zlib.DEFLATED, GZIP_WINDOW)
            raw = packer.compress(raw) + packer.flush()
        number = f"{self.number:0{FEWEST_DIGITS}}"
        beside = os.path.join(self._folder, f".{number}.{kind}.{os.getpid()}.new")
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            _fill(handle, raw)
            os.replace(beside, file_of(self._folder, self.number, kind))
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(beside)
            raise

    def rotate(self) -> None:
        """Delete the calls that are too old or too many, except this one; keep the newest calls."""
        calls = numbered(self._folder)
        oldest_first = sorted(calls)
        limit = time() - self._days * DAY
        for position, number in enumerate(oldest_first):
            if number >= self.number:
                return
            newest = 0.0  # the time of its newest file
            for name in calls[number]:
                with suppress(FileNotFoundError):
                    path = os.path.join(self._folder, name)
                    newest = max(newest, os.stat(path).st_mtime)
            many = len(oldest_first) - position > self._keep
            if not many and newest > limit:
                return
            for name in calls[number]:
                # another process deletes, too; a folder is not a call
                with suppress(FileNotFoundError, IsADirectoryError):
                    os.unlink(os.path.join(self._folder, name))


def _fill(handle: int, raw: bytes) -> None:
    with open(handle, "wb") as file:
        file.write(raw)


def logged(
    arguments: Sequence[str], settings: Settings, commands: Collection[str]
) -> AbstractContextManager[object]:
    """Return a ``with`` block that logs its error, if options or the configuration name a log.

    `settings`: the settings that were parsed before the error.
    """
    settings.log = last_value(arguments, "log") or settings.log
    if not settings.log:
        from iallocator.configuration import Configuration

        named = Settings()
        named.config = last_value(arguments, "config") or ""
        named.no_config = last_value(arguments, "no_config") in ("", "yes")
        path = configuration_path(named)
        with suppress(UsageError):
            settings.log = Configuration(path, commands).text("log") if path else ""
    return Call(settings) if settings.log else nullcontext()
