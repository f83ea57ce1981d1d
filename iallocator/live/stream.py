"""Connections to servers that may be slow or hostile: no operation outlasts its deadline.

Sockets do not block.  What cannot be done at once waits in `Deadline.wait`, so that the bytes
that trickle in do not prolong the wait, as they do with a timeout of a socket.  The number of
bytes of an answer is limited, too.
"""

from __future__ import annotations

import errno
import io
import os
import socket
from collections import deque
from contextlib import suppress
from functools import partial

from iallocator.deadline import Deadline

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, TypeVar

    Item = TypeVar("Item")
    Result = TypeVar("Result")

__all__ = ["CONNECT_SECONDS", "Stream", "connect", "connect_local", "in_threads"]

CONNECT_SECONDS = 15.0
"""How long finding the address, connecting and the TLS handshake may take together."""

CHUNK = 2**18
"""Bytes that are received at a time."""

NOT_TAKEN = "the question was not taken"

RETRY_SECONDS = 0.05
"""How long to wait before a local server with too many waiting clients is asked again."""


class Stream(io.RawIOBase):
    """A connection whose reading and writing end when its deadline passes.

    Attributes
    ----------
    received:
        Bytes of the present answer that have come.
    ended:
        Whether the server has closed the connection.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self.received = 0
        self.ended = False

    def expect(self, deadline: Deadline, limit: int) -> None:
        """Begin a question and its answer of at most `limit` bytes, to end before `deadline`."""
        self._deadline = deadline
        self._limit = limit
        self.received = 0

    def encrypt(self, context: ssl.SSLContext, host: str, deadline: Deadline) -> bytes:
        """Begin TLS; the certificate of the server.

        Raises
        ------
        OSError
            If that fails, an `ssl.SSLError` in most cases.
        """
        wrapped = context.wrap_socket(
            self._socket, server_hostname=host, do_handshake_on_connect=False
        )
        self._socket = wrapped
        self._patiently(wrapped.do_handshake, deadline, "no TLS handshake")
        return wrapped.getpeercert(binary_form=True) or b""

    def sendall(self, data: bytes) -> None:
        """Send all of `data`."""
        rest = memoryview(data)
        while rest:
            self._deadline.check(NOT_TAKEN)
            sent = self._patiently(partial(self._socket.send, rest), self._deadline, NOT_TAKEN)
            rest = rest[sent:]

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Receive some bytes into `buffer`; how many, 0 at the end.

        Raises
        ------
        OSError
            If the deadline has passed, the answer is too long, or the connection fails.
        """
        came = f"only {self.received} bytes of the answer" if self.received else "no answer"
        self._deadline.check(came)  # a server that never pauses must not prolong it either
        receive = partial(self._socket.recv_into, buffer)
        size = int(self._patiently(receive, self._deadline, came))
        self.received += size
        self.ended = not size
        if self.received > self._limit:
            raise OSError(f"an answer of more than {self._limit} bytes")
        return size

    def receive(self) -> bytes:
        """Some bytes of the answer; errors as `readinto`, and if the server has no more."""
        part = self.read(CHUNK)
        if not part:
            raise ConnectionError(self.closed_words())
        return part

    def closed_words(self) -> str:
        """What to say of a connection that was closed before the end of the answer."""
        if self.received:
            return f"the connection was closed after {self.received} bytes of the answer"
        return "the connection was closed without an answer"

    def makefile(self, mode: str) -> io.BufferedReader:
        """What reads the answer, as the library for HTTP needs it."""
        return io.BufferedReader(self, CHUNK)

    def close(self) -> None:
        """End the connection."""
        self._socket.close()
        super().close()

    def _patiently(self, operation: Callable[[], Any], deadline: Deadline, problem: str) -> Any:
        """The result of `operation`, which is tried again whenever the socket is ready."""
        while True:
            try:
                return operation()
            except BlockingIOError:
                writing = problem == NOT_TAKEN
            except OSError as error:  # of TLS, whose module is not loaded for this
                writing = type(error).__name__ == "SSLWantWriteError"
                if not writing and type(error).__name__ != "SSLWantReadError":
                    raise
            deadline.wait(self._socket.fileno(), problem, writing)


def connect(host: str, port: int, deadline: Deadline) -> Stream:
    """A connection to `host`, at the first of its addresses that answers.

    Raises
    ------
    OSError
        If it has no address, or none answers.
    """
    found = _addresses(host, port, deadline)
    for number, (family, kind, protocol, _, address) in enumerate(found):
        share = deadline.within(deadline.left / (len(found) - number), deadline.limit)
        connection = socket.socket(family, kind, protocol)
        try:
            connection.setblocking(False)
            with suppress(BlockingIOError):
                connection.connect(address)
            share.wait(connection.fileno(), "no connection", writing=True)
            if failed := connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(failed, os.strerror(failed))
        except OSError:
            connection.close()
            if number + 1 == len(found):
                raise
        except BaseException:
            connection.close()
            raise
        else:
            return Stream(connection)
    raise OSError(f"{host} has no address")


def _addresses(host: str, port: int, deadline: Deadline) -> list[Any]:
    """The addresses of `host`, as `socket.getaddrinfo` has them.

    Names are looked up in a thread of its own: the system's function cannot be interrupted.
    """
    kind = socket.SOCK_STREAM
    try:
        return socket.getaddrinfo(host, port, type=kind, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        pass

    def look_up(name: str) -> list[Any]:
        return socket.getaddrinfo(name, port, type=kind)

    problem = f"no address of {host}"
    ((_, found),) = in_threads(look_up, [host], 1, deadline, problem)
    if isinstance(found, UnicodeError):
        raise OSError(f"{host} is no name of a host")
    if isinstance(found, Exception):
        raise found
    return found


def connect_local(path: str, deadline: Deadline) -> Stream:
    """A connection to the Unix socket at `path`.

    Raises
    ------
    OSError
        If there is none, or it is not served.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        while True:
            try:
                connection.connect(path)
            except OSError as error:
                if error.errno != errno.EAGAIN:
                    raise
                deadline.pause(RETRY_SECONDS, "no connection")
            else:
                return Stream(connection)
    except BaseException:
        connection.close()
        raise


def in_threads(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    at_once: int,
    deadline: Deadline,
    problem: str,
) -> Iterator[tuple[Item, Result | Exception]]:
    """Do `work` on all `items`, `at_once` at a time; each with its result or error, as they come.

    The threads end with the process, whatever they wait for.  When the generator is closed no
    more work begins.

    Raises
    ------
    DeadlineError
        If `deadline` passes before all has been done: with `problem`.
    """
    import threading

    waiting = deque(items)
    done: deque[tuple[Item, Result | Exception]] = deque()
    left = len(waiting)
    ours, theirs = socket.socketpair()

    def help_along() -> None:
        while True:
            try:
                item = waiting.popleft()
            except IndexError:
                return
            try:
                done.append((item, work(item)))
            except Exception as error:  # the caller's business
                done.append((item, error))
            with suppress(OSError):  # it waits no more
                theirs.send(b".")

    try:
        for _ in range(min(at_once, left)):
            threading.Thread(target=help_along, daemon=True).start()
        while left:
            deadline.wait(ours.fileno(), problem)
            ours.recv(1)
            yield done.popleft()
            left -= 1
    finally:
        waiting.clear()
        ours.close()
