"""One question over HTTP, on a connection of its own: the answer is limited in time and size."""

from __future__ import annotations

from http.client import HTTPException, HTTPResponse

from iallocator.live.stream import CONNECT_SECONDS, connect

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from iallocator.deadline import Deadline
    from iallocator.live.stream import Stream

__all__ = ["Answer", "FingerprintError", "ask"]

CHUNK = 2**20
"""Bytes of the body that are asked for at a time: a server may announce any number of them."""

Answer = tuple[int, bytes]
"""The HTTP status, and the body."""


class FingerprintError(OSError):
    """The certificate of the server is not the expected one."""


def ask(
    host: str,
    port: int,
    method: str,
    target: str,
    deadline: Deadline,
    limit: int,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    context: ssl.SSLContext | None = None,
    fingerprint: str = "",
) -> Answer:
    """Ask the server at `host` and `port`, and return its whole answer.

    Parameters
    ----------
    host, port:
        Where the server is: a name, or an address without brackets.
    method:
        ``GET``, for example.
    target:
        Path and query.
    deadline:
        When the whole must have ended: name, connection, handshake, headers and body.
    limit:
        Bytes of the answer, headers included, at most.
    headers, body:
        What is sent besides.
    context:
        For TLS; None for a connection that is not encrypted.
    fingerprint:
        SHA-256 of the certificate that the server must have; "" for any that `context` accepts.

    Raises
    ------
    OSError
        If there is no whole answer; its text is for people.
    """
    connecting = deadline.within(CONNECT_SECONDS)
    stream = connect(host, port, connecting)
    with stream:
        if context is not None:
            _check(fingerprint, stream.encrypt(context, host, connecting))
        stream.expect(deadline, limit)
        lines = [f"{method} {target} HTTP/1.1", f"Host: {_host_header(host, port)}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        lines += ["Accept-Encoding: identity", "Connection: close"]
        if body or method in ("PUT", "POST"):
            lines.append(f"Content-Length: {len(body)}")
        stream.sendall("\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + body)
        return _answer(stream, method)


def _host_header(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _check(fingerprint: str, certificate: bytes) -> None:
    if not fingerprint:
        return
    import hashlib

    if hashlib.sha256(certificate).hexdigest() != fingerprint:
        raise FingerprintError("its certificate is not trusted: it is that of another host")


def _answer(stream: Stream, method: str) -> Answer:
    """The answer, as soon as all of it has come."""
    response = HTTPResponse(stream, method=method)  # type: ignore[arg-type]
    try:
        response.begin()
        coding = response.getheader("Content-Encoding") or "identity"
        if coding != "identity":
            raise OSError("the answer is compressed, which was not asked for")
        body = bytearray()
        while part := response.read(CHUNK):
            body += part
        if response.length:
            raise HTTPException
    except (HTTPException, ValueError):
        if stream.ended:
            raise ConnectionError(stream.closed_words()) from None
        raise OSError("the answer is not valid HTTP") from None
    return response.status, bytes(body)
