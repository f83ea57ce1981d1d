"""LUXI: questions and orders to the master's daemons through a Unix socket.

A message is a JSON object followed by the byte 3.  A question is ``{"method": M, "args":
A}``, the answer ``{"success": bool, "result": R}``.
"""

from __future__ import annotations

import os

from iallocator.deadline import Deadline
from iallocator.errors import RequestError
from iallocator.files import LIMIT
from iallocator.live.stream import (
    CONNECT_SECONDS,
    LiveError,
    ServerError,
    Stream,
    connect_local,
    why,
)
from iallocator.wire.codec import decode, dumps
from iallocator.wire.fields import describe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["DEFAULT_SOCKETS", "LuxiClient"]

DEFAULT_SOCKETS = ("/var/run/ganeti/socket/ganeti-query", "/run/ganeti/socket/ganeti-query")
"""Where the socket is if nobody says; the first that exists."""

END = b"\x03"

ANSWER_SECONDS = 60.0
"""How long a question and its answer may take if the caller sets no deadline."""


class LuxiClient:
    """A connection, made when it is needed, and again after a failure; nothing is asked twice.

    Parameters
    ----------
    path:
        The socket; "" for the first of `DEFAULT_SOCKETS` that exists.
    limit:
        Bytes of an answer, at most.
    """

    def __init__(self, path: str = "", limit: int = LIMIT) -> None:
        found = [default for default in DEFAULT_SOCKETS if os.path.exists(default)]
        self.path = path or (found or DEFAULT_SOCKETS)[0]
        self._limit = limit
        self._stream: Stream | None = None

    def __enter__(self) -> LuxiClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection, if there is one."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def call(
        self, method: str, arguments: Sequence[Any] = (), deadline: Deadline | None = None
    ) -> Any:
        """Return the result of `method`; its whole answer must come before `deadline`.

        Raises
        ------
        ServerError
            If the cluster rejects.
        LiveError
            If it is not reached, or its answer is late, incomplete or not understood.  Whether
            it has heard the question is then unknown.
        """
        where = f"{self.path}: {method}"
        question = dumps({"method": method, "args": list(arguments)}).encode() + END
        try:
            deadline = deadline or Deadline(ANSWER_SECONDS)
            if self._stream is None:
                self._stream = connect_local(self.path, deadline.within(CONNECT_SECONDS))
            self._stream.expect(deadline, self._limit)
            self._stream.sendall(question)
            answer = bytearray()
            part = b""
            while END not in part:
                part = self._stream.receive()
                answer += part
            return _result(where, bytes(answer).removesuffix(END))
        except ServerError:
            raise
        except (OSError, ValueError) as error:
            self.close()
            raise LiveError(where, why(error)) from None
        except BaseException:  # what is left of the answer must not be taken for the next one
            self.close()
            raise


def _result(where: str, raw: bytes) -> Any:
    """Return the result in the answer `raw`.

    Raises
    ------
    ValueError
        If it is no answer.
    ServerError
        If the answer is a failure: with the class of the exception, if there is one.
    """
    try:
        answer = decode(raw)
    except RequestError as error:
        raise ValueError(str(error)) from None
    if not isinstance(answer.get("success"), bool) or "result" not in answer:
        raise ValueError("expected an answer with success and result")
    if answer["success"]:
        return answer["result"]
    result, kind = answer["result"], ""
    if isinstance(result, list) and len(result) == 2 and isinstance(result[0], str):
        kind, details = result
        words = details if isinstance(details, list) else [details]
        problem = f"{kind}: {', '.join(map(str, words))}"
    elif isinstance(result, str) and result.strip():
        problem = result
    elif not result:
        problem = "refused without a reason"
    else:
        problem = f"refused with {describe(result)} for a reason"
    raise ServerError(where, problem, kind)
