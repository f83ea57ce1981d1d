"""Run servers with faults: slow, silent, endless, truncated, wrong types, error statuses.

The servers are RAPI over TLS, LUXI at a Unix socket, and monitoring daemons over HTTP. Each fault
is a function with the connection and the good answer as arguments.
"""

from __future__ import annotations

import gzip
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import trustme

from tests.live.fakes import accept_in_threads

__all__ = [
    "CONNECTING", "HTTP_FAULTS", "JSON_FAULTS", "LUXI_FAULTS", "SLOW", "FaultyServer",
    "faulty_daemons", "faulty_luxi", "faulty_rapi", "plain",
]  # fmt: skip

END = b"\x03"

TRICKLE_SECONDS = 0.02

Fault = Callable[["Talk", bytes], None]


class Talk:
    """One connection; sending stops when the server ends or the client disconnects."""

    def __init__(self, connection: socket.socket, closing: threading.Event) -> None:
        self.connection = connection
        self.closing = closing

    def send(self, data: bytes) -> None:
        """Send all of `data`."""
        self.connection.sendall(data)

    def trickle(self, data: bytes) -> None:
        """Send `data` byte by byte, and then keep the connection open."""
        for byte in data:
            self.send(bytes([byte]))
            if self.closing.wait(TRICKLE_SECONDS):
                return
        self.hold()

    def repeat(self, data: bytes, pause: float = 0.0) -> None:
        """Send `data` repeatedly without end."""
        while not self.closing.wait(pause):
            self.send(data)

    def hold(self) -> None:
        """Send nothing, and keep the connection open."""
        self.closing.wait()


def http(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    """Return the bytes of an HTTP response with `status`, `headers` and `body`."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def plain(value: Any) -> bytes:
    """Return the bytes of a valid HTTP response with the JSON value `value`."""
    return http(json.dumps(value).encode())


def _body(answer: bytes) -> bytes:
    return answer.partition(b"\r\n\r\n")[2]


@cache
def _bomb() -> bytes:
    """Return 256 MiB of spaces, compressed."""
    return http(gzip.compress(b" " * 2**28, 1), "200 OK", "Content-Encoding: gzip")


def _status(code: str, text: bytes) -> Fault:
    return lambda talk, _: talk.send(http(text, code))


def _after(head: bytes, fault: Fault) -> Fault:
    """Return a fault that follows the valid bytes `head`."""

    def begin(talk: Talk, answer: bytes) -> None:
        talk.send(head)
        fault(talk, answer)

    return begin


CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

CONNECTING: dict[str, Fault] = {
    "silent from the beginning": lambda talk, _: talk.hold(),
    "closed at once": lambda talk, _: None,
    "noise instead of TLS": lambda talk, _: talk.send(b"SSH-2.0-x\r\n" * 9),
    "trickling handshake": lambda talk, _: talk.trickle(b"\x16\x03\x03\x40\x00" + b"\x02" * 9999),
}
"""Faults that replace a TLS handshake."""

HTTP_FAULTS: dict[str, Fault] = {
    "silent": lambda talk, _: talk.hold(),
    "trickling": lambda talk, answer: talk.trickle(answer.ljust(9999)),
    "trickling headers": lambda talk, _: talk.trickle(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 9999),
    "trickling body": _after(
        b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n",
        lambda talk, answer: talk.trickle(_body(answer).ljust(9999)),
    ),
    "trickling chunks": _after(
        CHUNKED, lambda talk, _: talk.repeat(b"1\r\n \r\n", TRICKLE_SECONDS)
    ),
    "trickling trailers": _after(
        CHUNKED + b"2\r\n{}\r\n0\r\n", lambda talk, _: talk.repeat(b"X: y\r\n", TRICKLE_SECONDS)
    ),
    "continuing": lambda talk, _: talk.repeat(CONTINUE, TRICKLE_SECONDS),
    "continuing fast": lambda talk, _: talk.repeat(CONTINUE * 99),
    "endless": _after(b"HTTP/1.1 200 OK\r\n\r\n", lambda talk, _: talk.repeat(b" " * 2**16)),
    "endless headers": _after(
        b"HTTP/1.1 200 OK\r\n", lambda talk, _: talk.repeat(b"X: y\r\n" * 99)
    ),
    "endless chunk": _after(CHUNKED + b"-1\r\n", lambda talk, _: talk.repeat(b" " * 2**16)),
    "endless line": lambda talk, _: talk.repeat(b"x" * 2**16),
    "truncated": lambda talk, answer: talk.send(answer[:-9]),
    "truncated headers": lambda talk, answer: talk.send(answer[:20]),
    "truncated chunk": lambda talk, _: talk.send(CHUNKED + b"fff\r\n{"),
    "too much announced": lambda talk, _: talk.send(
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000000\r\n\r\n{"
    ),
    "bad chunk": lambda talk, _: talk.send(CHUNKED + b"what?\r\n{"),
    "closed without an answer": lambda talk, _: None,
    "no HTTP": lambda talk, _: talk.send(b"SSH-2.0-x\r\n"),
    "compressed bomb": lambda talk, _: talk.send(_bomb()),
    "401": _status("401 Unauthorized", b""),
    "403": _status("403 Forbidden", b'{"code": 403, "message": "no", "explain": "no"}'),
    "404": _status("404 Not Found", b'{"message": null, "explain": []}'),
    "500": _status("500 Internal", b'{"message": "Queue drained", "explain": "In trouble"}'),
    "502": _status("502 Bad Gateway", b"<html>"),
    "302": _status("302 Found", b"[1]"),
}
"""Faults that replace a response over HTTP."""

LUXI_FAULTS: dict[str, Fault] = {
    "silent": lambda talk, _: talk.hold(),
    "trickling": lambda talk, answer: talk.trickle(answer[:-1] * 9),
    "endless": lambda talk, _: talk.repeat(b" " * 2**16),
    "truncated": lambda talk, answer: talk.send(answer[:-9]),
    "closed without an answer": lambda talk, _: None,
    "two answers": lambda talk, answer: talk.send(answer * 2),
    "rejected without a reason": lambda talk, _: talk.send(
        b'{"success": false, "result": null}' + END
    ),
    "rejected with an object": lambda talk, _: talk.send(b'{"success": false, "result": {}}' + END),
    "refused": lambda talk, _: talk.send(b'{"success": false, "result": ["E", ["why"]]}' + END),
    "no success": lambda talk, _: talk.send(b'{"result": 1}' + END),
}
"""Faults that replace a response of LUXI."""

JSON_FAULTS = {
    "empty": b"",
    "no JSON": b'{"a": ',
    "no UTF-8": b'{"a": "\xff"}',
    "nested": b"[" * 10**6,
    "long number": b"[" + b"9" * 10**5 + b"]",
    "number": b"3",
    "text": b'"x"',
    "list of lists": b"[[], []]",
    "object": b'{"data": {"a": 1}, "name": 3, "master": []}',
    "nothing": b"null",
}
"""Documents that are no valid answer to any request."""

SLOW = {
    "silent", "silent from the beginning", "trickling handshake", "trickling", "trickling headers",
    "trickling body", "trickling chunks", "trickling trailers", "continuing",
}  # fmt: skip
"""The faults that only a deadline ends."""


class FaultyServer:
    """A server with the fault `fault`, or without a fault if it is None.

    Parameters
    ----------
    listener:
        The socket on which the server listens.
    answer:
        Question, as bytes -> the good answer, as bytes.
    asked:
        The bytes with which each question ends.
    context:
        The settings of TLS; None: the connection is not encrypted.
    """

    def __init__(
        self,
        listener: socket.socket,
        answer: Callable[[bytes], bytes],
        asked: bytes,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self.fault: Fault | None = None
        self.connecting: Fault | None = None
        self.questions = 0
        self._listener = listener
        self._answer = answer
        self._asked = asked
        self._context = context
        self._closing = threading.Event()
        listener.listen()
        threading.Thread(
            target=accept_in_threads, args=(listener, self._serve), daemon=True
        ).start()

    def become(self, fault: Fault | None = None, connecting: Fault | None = None) -> None:
        """Use another fault from now on; close open connections."""
        self.fault, self.connecting = fault, connecting
        self._closing.set()
        self._closing = threading.Event()

    def close(self) -> None:
        """Stop the server."""
        self.become()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self, connection: socket.socket) -> None:
        closing = self._closing
        with suppress(OSError), connection:
            if self.connecting is not None:
                self.connecting(Talk(connection, closing), b"")
                return
            if self._context is not None:
                connection = self._context.wrap_socket(connection, server_side=True)
            with connection:
                self._talk(Talk(connection, closing))

    def _talk(self, talk: Talk) -> None:
        question = b""
        while part := talk.connection.recv(2**16):
            question += part
            if self._asked not in question:
                continue
            self.questions += 1
            answer = self._answer(question)
            question = b""
            if self.fault is not None:
                self.fault(talk, answer)
                return
            talk.send(answer)
            if self._asked != END:
                return


@contextmanager
def _closing(server: FaultyServer) -> Iterator[FaultyServer]:
    try:
        yield server
    finally:
        server.close()


@contextmanager
def faulty_rapi(folder: Path, answers: dict[str, Any]) -> Iterator[tuple[FaultyServer, list[str]]]:
    """Run RAPI with `answers` by resource; yield the server and the options to connect."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{listener.getsockname()[1]}"

    def answer(question: bytes) -> bytes:
        path = question.split()[1].decode().removeprefix("/2/").partition("?")[0]
        return plain(answers[path])

    with _closing(FaultyServer(listener, answer, b"\r\n\r\n", context)) as server:
        yield server, ["-m", address, f"--cacert={folder / 'ca.pem'}"]


@contextmanager
def faulty_luxi(
    folder: Path, result: Callable[[str, list[Any]], Any]
) -> Iterator[tuple[FaultyServer, list[str]]]:
    """Run LUXI with `result` of method and arguments; yield the server and the options."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(folder / "luxi.sock"))

    def answer(question: bytes) -> bytes:
        asked = json.loads(question.removesuffix(END))
        found = result(asked["method"], asked["args"])
        return json.dumps({"success": True, "result": found}).encode() + END

    with _closing(FaultyServer(listener, answer, END)) as server:
        yield server, [f"-L{folder / 'luxi.sock'}"]


@contextmanager
def faulty_daemons(host: str, port: int, load: float = 1.0) -> Iterator[FaultyServer]:
    """Run a monitoring daemon at `host` and `port`."""
    report = {"name": "cpu-avg-load", "data": {"cpu_total": load}}
    listener = socket.create_server((host, port))
    with _closing(FaultyServer(listener, lambda _: plain(report), b"\r\n\r\n")) as server:
        yield server
