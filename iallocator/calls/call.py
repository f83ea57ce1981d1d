"""One call of the program by Ganeti: its log line, and its files in the folder of captured calls.

A call whose options cannot be understood is logged too, if its options name a log.
"""

from __future__ import annotations

import os
import zlib
from contextlib import nullcontext, suppress
from time import localtime, monotonic, strftime, time

from iallocator import __version__
from iallocator.calls.layout import (
    ARGS,
    CALL,
    CONF,
    DAY,
    DIGITS,
    REQUEST,
    RESPONSE,
    file_of,
    next_number,
    numbered,
)
from iallocator.deadline import Stopped
from iallocator.errors import INTERRUPTED, IallocatorError, UsageError, one_line, tell
from iallocator.options.parser import last_value, words_of
from iallocator.options.settings import Settings, configuration_path
from iallocator.options.table import COMMON
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
"""Instead of the name of a file."""

SOCKET = "/dev/log"


def write_line(target: str, line: str, status: int) -> None:
    """Append `line` to the file `target`, or tell it the system's log.

    `status` is the exit status: other ones than 0 are errors there.  Lines of processes that
    write at the same time do not mix; nobody waits for who reads a pipe.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    if target == SYSLOG:
        os.stat(SOCKET)  # the library says nothing where nobody listens
        import syslog

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
"""Options that are no part of what was asked."""

NOT_UNDERSTOOD = "request not understood"

FAILED = 2
"""Exit status if memory is not enough."""


class Call:
    """A ``with`` block in which a request is answered: however it ends, that is noted.

    Attributes
    ----------
    problems:
        What could not be noted, in words.
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
        status, told, answer = _of_error(error)
        self._end(status, told, answer, {"error": told})
        tell(*(f"Warning: {problem}" for problem in self.problems))

    def came(self, raw: bytes) -> bytes:
        """Record a request before any work on it; return `raw` again."""
        if self._settings.capture:
            self._noting(self._capture, raw)
        return raw

    def understood(self, cluster: Cluster, request: Request) -> None:
        """Record what the request asks for."""
        self._facts = {
            "type": request.kind,
            "asked": request.summary(cluster),
            "groups": len(cluster.groups),
            "nodes": len(cluster.nodes),
            "instances": len(cluster.instances),
        }

    def answered(self, reply: Reply, encoded: bytes) -> bool:
        """Record an answer; return whether warnings about the recording itself were added to it."""
        info = reply.document()["info"]
        status = INTERRUPTED if reply.interrupted else 0
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
        store.begin(_arguments(self._settings))
        try:
            store.rotate()
            if filed := _configuration(self._settings):
                store.put(CONF, filed.encode())
            store.put(REQUEST, raw)
        except OSError:
            store.drop()
            raise
        self._store = store

    def _end(self, status: int, told: str, answer: bytes, outcome: dict[str, Any]) -> None:
        """Capture the outcome, and log it."""
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
            told = told if "info" in facts else f"exit status {status}: {told}"
            line = one_line(f"{what}; {seconds:.3f} s{size}; {told}")
            self._noting(write_line, self._settings.log, line, status)

    def _noting(self, act: Callable[..., None], *given: Any) -> None:
        """Do it; what goes wrong is kept, and nothing more is captured then."""
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
        store.put(RESPONSE, answer)
    store.put(CALL, dumps(facts).encode("utf-8", "backslashreplace") + b"\n")


def _of_error(error: BaseException) -> tuple[int, str, bytes]:
    """Exit status, words, and what stands for the response, of what ended a call."""
    if isinstance(error, IallocatorError):
        told = str(error)
        return error.exit_status, told, dumps({"error": told}).encode("utf-8", "replace") + b"\n"
    if isinstance(error, Stopped):
        return INTERRUPTED, "interrupted", b""
    if isinstance(error, MemoryError):
        return FAILED, "not enough memory", b""
    if isinstance(error, OSError):
        return 1, f"{error.filename or 'standard output'}: {error.strerror or error}", b""
    return 1, f"crash: {type(error).__name__}: {error}", b""


def _arguments(settings: Settings) -> str:
    """Return the options of the command line, one on each line, as words of a shell."""
    words = words_of(settings, settings.chosen - NOT_KEPT, COMMON)
    return "".join(f"{_quoted(word)}\n" for word in words)


def _quoted(word: str) -> str:
    plain = word.replace("-", "").replace("_", "").replace("=", "").replace(".", "")
    if plain.isascii() and plain.isalnum():
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"


def _configuration(settings: Settings) -> str:
    """Return the options that come from a file, as a file with the same options."""
    names = {option.target: option.names[0].removeprefix("--") for option in COMMON}
    kept = settings.origins.keys() - NOT_KEPT
    return "".join(
        # JSON is TOML, except for one character
        f"{names[target]} = {dumps(getattr(settings, target))}\n".replace("\x7f", "\\u007f")
        for target in sorted(kept)
    )


LEVEL = 1
"""Of compression: half as small again would take three times as long."""

GZIP_WINDOW = 31
"""Makes zlib write what gzip reads."""


class Store:
    """One call in a folder of captured calls.

    Files are readable for their owner only.  Each appears whole under its name, or not at
    all; other files of the folder are let alone.

    Parameters
    ----------
    folder:
        Must exist.
    keep:
        How many calls are kept at most, this one among them.
    days:
        How old calls become at most.
    """

    def __init__(self, folder: str, keep: int, days: float) -> None:
        self._folder = folder
        self._keep = keep
        self._days = days
        self.number = 0

    def begin(self, arguments: str) -> None:
        """Take the next number, and keep the arguments under it.

        Raises
        ------
        OSError
            As all methods, if that cannot be written; nothing is left of it then.
        """
        number = next_number(numbered(self._folder))
        while True:
            path = file_of(self._folder, number, ARGS)
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
        """Delete what there is of this call, as far as that goes."""
        with suppress(OSError):
            for name in numbered(self._folder).get(self.number, ()):
                os.unlink(os.path.join(self._folder, name))

    def put(self, kind: str, raw: bytes) -> None:
        """Write one file of the call; compressed, if its name says so."""
        if kind.endswith(".gz"):
            packer = zlib.compressobj(LEVEL, zlib.DEFLATED, GZIP_WINDOW)
            raw = packer.compress(raw) + packer.flush()
        beside = os.path.join(self._folder, f".{self.number:0{DIGITS}}.{kind}.{os.getpid()}.new")
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            _fill(handle, raw)
            os.replace(beside, file_of(self._folder, self.number, kind))
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(beside)
            raise

    def rotate(self) -> None:
        """Delete the calls that are too many or too old; never this one."""
        calls = numbered(self._folder)
        oldest_first = sorted(calls)
        limit = time() - self._days * DAY
        for position, number in enumerate(oldest_first):
            if number >= self.number:
                return
            newest = 0.0  # when the last of its files was written
            for name in calls[number]:
                with suppress(FileNotFoundError):
                    path = os.path.join(self._folder, name)
                    newest = max(newest, os.stat(path).st_mtime)
            many = len(oldest_first) - position > self._keep
            if not many and newest > limit:
                return
            for name in calls[number]:
                # another process deletes, too; a folder is nobody's call
                with suppress(FileNotFoundError, IsADirectoryError):
                    os.unlink(os.path.join(self._folder, name))


def _fill(handle: int, raw: bytes) -> None:
    with open(handle, "wb") as file:
        file.write(raw)


def logged(
    arguments: Sequence[str], settings: Settings, commands: Collection[str]
) -> AbstractContextManager[object]:
    """A ``with`` block that logs what ends it, where `arguments` or the file say that calls are.

    `settings` are as far as they could be understood.
    """
    settings.log = last_value(arguments, "log") or settings.log or _of_file(arguments, commands)
    return Call(settings) if settings.log else nullcontext()


def _of_file(arguments: Sequence[str], commands: Collection[str]) -> str:
    """Where the configuration file says that calls are logged; "" if it does not."""
    from iallocator.configuration import Configuration

    named = Settings()
    named.config = last_value(arguments, "config") or ""
    named.no_config = last_value(arguments, "no_config") in ("", "yes")
    path = configuration_path(named)
    try:
        return Configuration(path, commands).text("log") if path else ""
    except UsageError:
        return ""
