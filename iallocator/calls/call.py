"""One call of the program as Ganeti makes it: noted as it begins, and again as it ends."""

from __future__ import annotations

import os
from time import monotonic, time

from iallocator import __version__
from iallocator.calls.layout import CALL, CONF, REQUEST, RESPONSE
from iallocator.calls.log import write_line
from iallocator.deadline import Stopped
from iallocator.errors import IallocatorError, one_line, tell
from iallocator.options.parser import words_of
from iallocator.options.table import COMMON
from iallocator.wire.c_json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any

    from iallocator.calls.store import Store
    from iallocator.model.cluster import Cluster
    from iallocator.options.settings import Settings
    from iallocator.reply import Reply
    from iallocator.requests import Request

__all__ = ["Call"]

NOT_KEPT = {
    "log", "capture", "capture_keep", "capture_days", "config", "no_config", "ialloc_src",
    "validate", "help", "version", "save_cluster", "print_nodes", "print_instances",
}  # fmt: skip
"""Options that are no part of what was asked."""

FAILED, INTERRUPTED = 2, 130
"""Exit statuses."""


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
        """Note that a request came, before anything is done about it; `raw` again."""
        if self._settings.capture:
            self._noting(self._capture, raw)
        return raw

    def understood(self, cluster: Cluster, request: Request) -> None:
        """Note what is asked for."""
        from iallocator.calls.words import asked

        self._facts = {
            "type": request.kind,
            "asked": asked(cluster, request),
            "groups": len(cluster.groups),
            "nodes": len(cluster.nodes),
            "instances": len(cluster.instances),
        }

    def answered(self, reply: Reply, encoded: bytes) -> bool:
        """Note an answer; whether there is now more to say in it: what could not be noted."""
        info = reply.document()["info"]
        status = INTERRUPTED if reply.interrupted else 0
        outcome = {"success": reply.success, "info": info, "remarks": [*reply.remarks]}
        self._end(status, info, encoded, outcome)
        for problem in self.problems:
            reply.info += f"; {problem}"
            reply.remarks.append(f"Warning: {problem}")
        return bool(self.problems)

    def _capture(self, raw: bytes) -> None:
        from iallocator.calls.store import Store

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
        """Capture what came of it, and log it."""
        self._ended = True
        seconds = round(monotonic() - self._began, 6)
        head = {"time": round(self._time, 3), "seconds": seconds, "status": status}
        facts = {**head, "pid": os.getpid(), "version": __version__, **self._facts, **outcome}
        store = self._store
        if store is not None:
            self._noting(_put_end, store, answer, facts)
        if self._settings.log:
            self._noting(write_line, self._settings.log, _line(facts, told), status)

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


def _line(facts: dict[str, Any], told: str) -> str:
    """A call as a line: request, duration, cluster size, answer."""
    what = f"{facts['type']} {facts['asked']}" if "type" in facts else "request not understood"
    size = ""
    if "nodes" in facts:
        size = f", {facts['nodes']} nodes, {facts['instances']} instances"
    told = told if "info" in facts else f"exit status {facts['status']}: {told}"
    return one_line(f"{what}; {facts['seconds']:.3f} s{size}; {told}")


def _arguments(settings: Settings) -> str:
    """The options of the command line, one a line, as words of a shell."""
    words = words_of(settings, settings.chosen - NOT_KEPT, COMMON)
    return "".join(f"{_quoted(word)}\n" for word in words)


def _quoted(word: str) -> str:
    plain = word.replace("-", "").replace("_", "").replace("=", "").replace(".", "")
    if plain.isascii() and plain.isalnum():
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"


def _configuration(settings: Settings) -> str:
    """What a file said, as a file that says the same."""
    names = {option.target: option.names[0].removeprefix("--") for option in COMMON}
    kept = settings.origins.keys() - NOT_KEPT
    return "".join(
        f"{names[target]} = {_toml(getattr(settings, target))}\n" for target in sorted(kept)
    )


def _toml(value: Any) -> str:
    """JSON is TOML, but for one character."""
    return dumps(value).replace("\x7f", "\\u007f")
