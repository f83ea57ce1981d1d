"""Connections to servers that may be slow or hostile: each operation ends at its deadline.

Sockets do not block. An operation that cannot be completed at once waits in `Deadline.wait`.
Therefore, bytes that arrive slowly do not prolong the wait. With the timeout of a socket, they
would. The number of bytes of an answer is limited, too. `ask` sends one HTTP request on a
connection of its own.
"""

from __future__ import annotations

import errno
import io
import os
import socket
import threading
from collections import deque
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from iallocator.deadline import Deadline
from iallocator.errors import IallocatorError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any, TypeVar


__all__ = [
    "ANSWER_SECONDS",
    "CONNECT_SECONDS",
    "Answer",
    "FingerprintError",
    "LiveError",
    "Server",
    "ServerError",
    "Stream",
    "ask",
    "connect",
    "connect_local",
    "in_threads",
    "why",
]

if TYPE_CHECKING:
    Item = TypeVar("Item")

    Result = TypeVar("Result")


ANSWER_SECONDS = 60.0
"""Seconds for a question to a server and its answer, unless the caller sets less."""

CONNECT_SECONDS = 15.0
"""Seconds for finding the address, connecting and the TLS handshake together."""

RECEIVED_AT_ONCE = 2**18
"""Bytes received at a time."""

NOT_TAKEN = "the question was not taken"

RETRY_SECONDS = 0.05
"""Seconds before the next attempt to connect to a local server with too many waiting clients."""


class Stream(io.RawIOBase):
    """A connection with reads and writes that end when its deadline passes.

    Attributes
    ----------
    received:
        Number of bytes of the current answer that have arrived.
    ended:
        True if the server has closed the connection.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self.received = 0
        self.ended = False

    def expect(self, deadline: Deadline, limit: int) -> None:
        """Set the limits of the next answer: `deadline`, and `limit` in bytes."""
        self._deadline = deadline
        self._limit = limit
        self.received = 0

    def encrypt(self, context: ssl.SSLContext, host: str, deadline: Deadline) -> bytes:
        """Begin TLS, and return the certificate of the server.

        Raises
        ------
        OSError
            If the handshake fails; in most cases an `ssl.SSLError`.
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
        """Return true: the stream can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Receive some bytes into `buffer`; return their number, 0 at the end.

        Raises
        ------
        OSError
            If the deadline has passed, the answer is too long, or the connection fails.
        """
        came = f"only {self.received} bytes of the answer" if self.received else "no answer"
        self._deadline.check(came)  # a server that never pauses must not prolong the wait either
        receive = partial(self._socket.recv_into, buffer)
        size = int(self._patiently(receive, self._deadline, came))
        self.received += size
        self.ended = not size
        if self.received > self._limit:
            raise OSError(f"an answer of more than {self._limit} bytes")
        return size

    def receive(self) -> bytes:
        """Receive some bytes of the answer, and return them.

        Raises
        ------
        OSError
            If the deadline has passed, the answer is too long, the connection fails, or the server
            has closed it.
        """
        part = self.read(RECEIVED_AT_ONCE)
        if not part:
            raise ConnectionError(self.closed_words())
        return part

    def closed_words(self) -> str:
        """Return the error text for a connection that was closed before the end of the answer."""
        if self.received:
            return f"the connection was closed after {self.received} bytes of the answer"
        return "the connection was closed without an answer"

    def makefile(self, mode: str) -> io.BufferedReader:
        """Return a reader of the answer, which the library for HTTP requires."""
        return io.BufferedReader(self, RECEIVED_AT_ONCE)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()
        super().close()

    def _patiently(self, operation: Callable[[], Any], deadline: Deadline, problem: str) -> Any:
        """Return the result of `operation`; repeat it when the socket is ready, until success."""
        while True:
            try:
                return operation()
            except BlockingIOError:
                writing = problem == NOT_TAKEN
            except (
                OSError
            ) as error:  # the error classes of TLS are in a module that is not loaded for this
                writing = type(error).__name__ == "SSLWantWriteError"
                if not writing and type(error).__name__ != "SSLWantReadError":
                    raise
            deadline.wait(self._socket.fileno(), problem, writing)


def connect(host: str, port: int, deadline: Deadline) -> Stream:
    """Return a connection to `host`, at the first of its addresses that answers.

    Raises
    ------
    OSError
        If the host has no address, or none answers.
    """
    addresses = _addresses(host, port, deadline)
    for number, (family, kind, protocol, _, address) in enumerate(addresses):
        share = deadline.within(deadline.left / (len(addresses) - number), deadline.limit)
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
            if number + 1 == len(addresses):
                raise
        except BaseException:
            connection.close()
            raise
        else:
            return Stream(connection)
    raise OSError(f"{host} has no address")


def _addresses(host: str, port: int, deadline: Deadline) -> list[Any]:
    """Return the addresses of `host`, in the form of `socket.getaddrinfo`.

    Names are looked up in a separate thread, because the system's function cannot be interrupted.
    """
    kind = socket.SOCK_STREAM
    try:
        return socket.getaddrinfo(host, port, type=kind, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        pass

    def look_up(name: str) -> list[Any]:
        return socket.getaddrinfo(name, port, type=kind)

    problem = f"no address of {host}"
    ((_, addresses),) = in_threads(look_up, [host], 1, deadline, problem)
    if isinstance(addresses, UnicodeError):
        raise OSError(f"{host} is no name of a host")
    if isinstance(addresses, Exception):
        raise addresses
    return addresses


def connect_local(path: str, deadline: Deadline) -> Stream:
    """Return a connection to the Unix socket at `path`.

    Raises
    ------
    OSError
        If the socket does not exist, or no process serves it.
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
    """Call `work` on all `items`, `at_once` at a time; yield each item with its result or error.

    Results are yielded as they arrive. The threads end with the process. When the generator is
    closed, no further call begins.

    Raises
    ------
    DeadlineError
        If `deadline` passes before all calls have ended; the error has the text `problem`.
    """
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
            except Exception as error:  # the caller handles it
                done.append((item, error))
            with suppress(OSError):  # the generator is closed
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


BYTES_PER_READ = 2**20
"""Bytes of the body of an answer that are read at a time: a server may announce any length."""

Answer = tuple[int, bytes]
"""An HTTP answer: status, and body."""


class FingerprintError(OSError):
    """The certificate of the server is not the expected one."""


class Server(NamedTuple):
    """An HTTP server, and how to connect to it.

    Attributes
    ----------
    host, port:
        The address of the server: a name or an IP address without brackets, and a port.
    context:
        The TLS context; None for a connection that is not encrypted.
    fingerprint:
        SHA-256 of the certificate that the server must have; "" for any that `context` accepts.
    """

    host: str
    port: int
    context: ssl.SSLContext | None = None
    fingerprint: str = ""


def ask(
    server: Server,
    method: str,
    target: str,
    deadline: Deadline,
    limit: int,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
) -> Answer:
    """Send an HTTP request to `server`, and return its whole answer.

    Parameters
    ----------
    server:
        The server, and how to connect to it.
    method:
        The HTTP method, for example ``GET``.
    target:
        The path and the query of the resource.
    deadline:
        The time limit for the whole exchange: look-up of the name, connection, handshake, headers
        and body.
    limit:
        Largest size of the answer in bytes, headers included.
    headers, body:
        The headers and the body of the request.

    Raises
    ------
    OSError
        If there is no whole answer; the text of the error is readable.
    """
    host, port = server.host, server.port
    connecting = deadline.within(CONNECT_SECONDS)
    stream = connect(host, port, connecting)
    with stream:
        if server.context is not None:
            certificate = stream.encrypt(server.context, host, connecting)
            if server.fingerprint:
                import hashlib

                if hashlib.sha256(certificate).hexdigest() != server.fingerprint:
                    problem = "its certificate is not trusted: it is that of another host"
                    raise FingerprintError(problem)
        stream.expect(deadline, limit)
        shown = f"[{host}]" if ":" in host else host
        lines = [f"{method} {target} HTTP/1.1", f"Host: {shown}:{port}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        lines += ["Accept-Encoding: identity", "Connection: close"]
        if body or method in ("PUT", "POST"):
            lines.append(f"Content-Length: {len(body)}")
        stream.sendall("\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + body)
        return _answer(stream, method)


def _answer(stream: Stream, method: str) -> Answer:
    """Read the whole answer to a request by `method`, and return it."""
    # loads ssl and the parser of e-mails, which LUXI does not need
    from http.client import HTTPException, HTTPResponse

    response = HTTPResponse(stream, method=method)  # type: ignore[arg-type]
    try:
        response.begin()
        coding = response.getheader("Content-Encoding") or "identity"
        if coding != "identity":
            raise OSError("the answer is compressed, which was not asked for")
        body = bytearray()
        while part := response.read(BYTES_PER_READ):
            body += part
        if response.length:
            raise HTTPException
    except (HTTPException, ValueError):
        if stream.ended:
            raise ConnectionError(stream.closed_words()) from None
        raise OSError("the answer is not valid HTTP") from None
    return response.status, bytes(body)


class LiveError(IallocatorError):
    """A cluster cannot be reached, or its answer is invalid.

    Parameters
    ----------
    where:
        The socket or the address of the cluster, and the question.
    problem:
        The error, in words.
    """

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")
        self.where = where
        self.problem = problem


class ServerError(LiveError):
    """The cluster received the question and rejected it.

    Attributes
    ----------
    kind:
        The class of Ganeti's exception, ``JobLost`` for example; "" if the answer does not name it.
    status:
        The HTTP status for RAPI; 0 for LUXI.
    """

    def __init__(self, where: str, problem: str, kind: str = "", status: int = 0) -> None:
        super().__init__(where, problem)
        self.kind = kind
        self.status = status


def why(error: Exception) -> str:
    """Return why a server was not reached or its answer not read, as plain text."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or "the connection failed"
