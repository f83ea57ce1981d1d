"""LUXI: questions and orders to the master's daemons through a Unix socket.

A message is a JSON object followed by the byte 3.  A question is ``{"method": M, "args":
A}``, the answer ``{"success": bool, "result": R}``.
"""

from __future__ import annotations

import os
import socket
from time import monotonic

from iallocator.errors import RequestError
from iallocator.files import LIMIT
from iallocator.live.errors import LiveError, ServerError
from iallocator.wire.c_json import dumps
from iallocator.wire.read import decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["DEFAULT_SOCKETS", "LuxiClient"]

DEFAULT_SOCKETS = ("/var/run/ganeti/socket/ganeti-query", "/run/ganeti/socket/ganeti-query")
"""Where the socket is if nobody says; the first that exists."""

END = b"\x03"

CONNECT_SECONDS = 15.0
ANSWER_SECONDS = 60.0

CHUNK = 1024**2


class LuxiClient:
    """A connection, made when it is needed, and again after a failure; nothing is asked twice.

    Parameters
    ----------
    path:
        The socket; "" for the first of `DEFAULT_SOCKETS` that exists.
    """

    def __init__(self, path: str = "") -> None:
        found = [default for default in DEFAULT_SOCKETS if os.path.exists(default)]
        self.path = path or (found or DEFAULT_SOCKETS)[0]
        self._socket: socket.socket | None = None

    def __enter__(self) -> LuxiClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection, if there is one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def call(
        self, method: str, arguments: Sequence[Any] = (), seconds: float = ANSWER_SECONDS
    ) -> Any:
        """The result of `method`; the whole answer must come within so many `seconds`.

        Raises
        ------
        ServerError
            If the cluster refuses.
        LiveError
            If it is not reached, or its answer is late, incomplete or not understood.  Whether
            it has heard the question is then unknown.
        """
        where = f"{self.path}: {method}"
        question = dumps({"method": method, "args": list(arguments)}).encode() + END
        try:
            raw = self._exchange(question, monotonic() + seconds)
            return _result(where, raw)
        except TimeoutError:
            self.close()
            raise LiveError(where, f"no answer within {seconds:g} s") from None
        except OSError as error:
            self.close()
            raise LiveError(where, error.strerror or str(error)) from None
        except ValueError as error:
            self.close()
            raise LiveError(where, str(error)) from None

    def _exchange(self, question: bytes, end: float) -> bytes:
        """Ask, and read up to the byte that ends the answer."""
        if self._socket is None:
            self._socket = _connected(self.path)
        self._socket.settimeout(max(0.001, end - monotonic()))
        self._socket.sendall(question)
        parts: list[bytes] = []
        size = 0
        while not (parts and parts[-1].endswith(END)):
            self._socket.settimeout(max(0.001, end - monotonic()))
            part = self._socket.recv(CHUNK)
            if not part:
                raise ValueError(
                    f"the connection was closed after {size} bytes of the answer"
                    if size
                    else "the connection was closed without an answer"
                )
            parts.append(part)
            size += len(part)
            if size > LIMIT:
                raise ValueError(f"an answer of more than {LIMIT} bytes")
        return b"".join(parts)[:-1]


def _connected(path: str) -> socket.socket:
    """A connection to the socket at `path`."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(CONNECT_SECONDS)
        connection.connect(path)
    except OSError:
        connection.close()
        raise
    return connection


def _result(where: str, raw: bytes) -> Any:
    """What the answer `raw` brings.

    Raises
    ------
    ValueError
        If it is no answer.
    """
    try:
        answer = decode(raw)
    except RequestError as error:
        raise ValueError(str(error)) from None
    if not isinstance(answer.get("success"), bool) or "result" not in answer:
        raise ValueError("expected an answer with success and result")
    if answer["success"]:
        return answer["result"]
    kind, problem = _failure(answer["result"])
    raise ServerError(where, problem, kind)


def _failure(result: Any) -> tuple[str, str]:
    """Class of the exception, "" if there is none, and the sentence that goes with it."""
    if isinstance(result, list) and len(result) == 2 and isinstance(result[0], str):
        kind, details = result
        words = details if isinstance(details, list) else [details]
        return kind, f"{kind}: {', '.join(map(str, words))}"
    return "", str(result)
