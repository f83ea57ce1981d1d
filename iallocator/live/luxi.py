"""Send questions and jobs to the master's daemons through a Unix socket (LUXI).

A message is a JSON object followed by the byte 3. A question is ``{"method": M, "args": A}``, the
answer is ``{"success": bool, "result": R}``.
"""

from __future__ import annotations

import os

from iallocator.deadline import Deadline
from iallocator.errors import RequestError
from iallocator.files import LARGEST_INPUT
from iallocator.live.stream import (
    ANSWER_SECONDS,
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
"""Default paths of the socket; the first that exists is used."""

END = b"\x03"


class LuxiClient:
    """A connection to the master's daemons; it is opened on demand and after a failure.

    A question without an answer is not sent again.

    Parameters
    ----------
    path:
        The path of the socket; "" for the first of `DEFAULT_SOCKETS` that exists.
    limit:
        Largest size of an answer in bytes.
    """

    def __init__(self, path: str = "", limit: int = LARGEST_INPUT) -> None:
        sockets = [default for default in DEFAULT_SOCKETS if os.path.exists(default)]
        self.path = path or (sockets or DEFAULT_SOCKETS)[0]
        self._limit = limit
        self._stream: Stream | None = None

    def __enter__(self) -> LuxiClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, if it is open."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def call(
        self, method: str, arguments: Sequence[Any] = (), deadline: Deadline | None = None
    ) -> Any:
        """Return the result of `method`; its whole answer must arrive before `deadline`.

        Raises
        ------
        ServerError
            If the cluster rejects the question.
        LiveError
            If the cluster cannot be reached, or its answer is late, incomplete or invalid. Then it
            is unknown whether the cluster has received the question.
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
        except BaseException:  # the rest of this answer must not be read as the next one
            self.close()
            raise


def _result(where: str, raw: bytes) -> Any:
    """Return the result in the answer `raw`.

    Raises
    ------
    ValueError
        If `raw` does not have the form of an answer.
    ServerError
        If the answer reports a failure; the error has the class of Ganeti's exception, if the
        answer names it.
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
        problem = "rejected without a reason"
    else:
        problem = f"rejected with {describe(result)} for a reason"
    raise ServerError(where, problem, kind)
