"""Run fake servers for LUXI and RAPI in this process, with answers from a test."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import trustme

Answer = Callable[[str, list[Any]], Any]
"""Function of LUXI method and arguments, which returns the result, or bytes to be sent."""

Reply = Callable[[str, str, Any], Any]
"""Function of RAPI method, path and body, which returns a JSON value, or `Raw`."""


class Raw(NamedTuple):
    """A reply with a status and bytes; it is cut off if it has fewer bytes than announced."""

    status: int
    content: bytes
    announced: int | None = None


def accept_in_threads(listener: socket.socket, serve: Callable[[socket.socket], None]) -> None:
    """Serve each connection in a separate thread, until `listener` is closed."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


class FakeLuxi:
    """A LUXI server at a socket in `folder`; `asked` has the received calls."""

    def __init__(self, folder: Path, answer: Answer) -> None:
        self.path = str(folder / "luxi.sock")
        self.asked: list[tuple[str, list[Any]]] = []
        self._answer = answer
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.path)
        self._listener.listen()
        threading.Thread(
            target=accept_in_threads, args=(self._listener, self._serve), daemon=True
        ).start()

    def close(self) -> None:
        """Stop accepting connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self, connection: socket.socket) -> None:
        waiting = b""
        with connection, suppress(ConnectionError):  # the client has given up
            while part := connection.recv(65536):
                *messages, waiting = (waiting + part).split(b"\x03")
                for message in messages:
                    raw = self._respond(json.loads(message))
                    connection.sendall(raw)
                    if not raw.endswith(b"\x03"):
                        return

    def _respond(self, question: dict[str, Any]) -> bytes:
        self.asked.append((question["method"], question["args"]))
        try:
            result, success = self._answer(question["method"], question["args"]), True
        except RuntimeError as error:  # the daemons' answer to a wrong question
            result, success = error.args[0], False
        if isinstance(result, bytes):
            return result
        return json.dumps({"success": success, "result": result}).encode() + b"\x03"


@contextmanager
def fake_luxi(folder: Path, answer: Answer) -> Iterator[FakeLuxi]:
    """Run a LUXI server for the time of a block."""
    server = FakeLuxi(folder, answer)
    try:
        yield server
    finally:
        server.close()


class FakeRapi:
    """A RAPI server at localhost, with a certificate that `cacert` verifies.

    `asked` has the received requests: method, path, body and authorization.
    """

    def __init__(self, folder: Path, reply: Reply) -> None:
        self.asked: list[tuple[str, str, Any, str]] = []
        authority = trustme.CA()
        self.cacert = str(folder / "ca.pem")
        authority.cert_pem.write_to_path(self.cacert)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        own = authority.issue_cert("localhost")
        own.configure_cert(context)
        own.cert_chain_pems[0].write_to_path(str(folder / "own.pem"))
        self.own_certificate = str(folder / "own.pem")
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(reply, self.asked))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        self.address = f"localhost:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()


def _handler(reply: Reply, asked: list[tuple[str, str, Any, str]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def _respond(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = json.loads(raw) if raw else None
            asked.append((self.command, self.path, body, self.headers.get("Authorization") or ""))
            output = reply(self.command, self.path, body)
            answer = output if isinstance(output, Raw) else Raw(200, json.dumps(output).encode())
            size = len(answer.content) if answer.announced is None else answer.announced
            self.send_response(answer.status)
            self.send_header("Content-Length", str(size))
            self.end_headers()
            self.close_connection = size > len(answer.content)
            with suppress(ConnectionError):  # the client has given up
                self.wfile.write(answer.content)
                self.wfile.flush()

        do_GET = do_PUT = do_POST = do_DELETE = _respond  # noqa: N815 - the library's names

        def log_message(self, format: str, *args: object) -> None:
            """Write no log."""

    return Handler


@contextmanager
def fake_rapi(folder: Path, reply: Reply) -> Iterator[FakeRapi]:
    """Run a RAPI server for the time of a block."""
    server = FakeRapi(folder, reply)
    try:
        yield server
    finally:
        server.close()
