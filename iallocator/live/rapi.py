"""Send questions and jobs to a cluster over HTTPS (RAPI).

Certificates are verified against those that the system trusts, or against those in a file.

User and password are never read from the command line, which every user of a machine can see. The
first of these sources that has them is used: ``--credentials FILE`` (a line ``USER PASSWORD``, as
in the users file of RAPI itself), the environment variables ``IALLOCATOR_RAPI_USER`` and
``IALLOCATOR_RAPI_PASSWORD``, the netrc file (``$NETRC``, or ``~/.netrc``).
"""

from __future__ import annotations

import netrc
import os
from base64 import b64encode
from html import unescape
from urllib.parse import urlencode, urlsplit

from iallocator.deadline import Deadline
from iallocator.errors import RequestError, UsageError
from iallocator.files import LARGEST_INPUT, read_file
from iallocator.live.stream import (
    ANSWER_SECONDS,
    LiveError,
    Server,
    ServerError,
    ask,
    why,
)
from iallocator.wire.codec import decode_any, dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping
    from typing import Any

__all__ = ["PASSWORD", "RAPI_PORT", "USER", "RapiClient", "base_address", "find_credentials"]

USER = "IALLOCATOR_RAPI_USER"
PASSWORD = "IALLOCATOR_RAPI_PASSWORD"

CLEARTEXT = "{cleartext}"
"""An optional prefix of passwords in the users file of RAPI; it is removed."""


def find_credentials(host: str, path: str = "") -> tuple[str, str] | None:
    """Return user and password for `host`, or None if no source has them.

    `path`: a file with user and password; "" for none.

    Raises
    ------
    UsageError
        If `path`, or another source that is set, lacks the user or the password.
    """
    if path:
        for line in read_file(path).decode("utf-8", "replace").splitlines():
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if len(words) >= 2:
                return words[0], words[1].removeprefix(CLEARTEXT)
            break
        raise UsageError(f"{path}: expected a line with user and password")
    if os.environ.get(USER):
        return os.environ[USER], os.environ.get(PASSWORD, "")

    path = os.environ.get("NETRC") or os.path.expanduser("~/.netrc")
    if not os.path.exists(path):
        return None
    try:
        entry = netrc.netrc(path).authenticators(host)
    except netrc.NetrcParseError as error:
        raise UsageError(f"{path}:{error.lineno}: {error.msg}") from None
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    return (entry[0], entry[2] or "") if entry else None


RAPI_PORT = 5080
"""The port of RAPI, if an address has none."""

STANDARD_PORTS = {"https": 443, "http": 80}
"""Scheme of an address with ``//`` -> its port, if the address has none."""

NAME_MISMATCH = (62, 64)
"""OpenSSL's error codes for a certificate of another host, or of another address."""


def base_address(address: str) -> str:
    """Return the first part of every URL of the cluster at `address`.

    ``HOST`` means ``https://HOST:5080``, ``HOST:PORT`` means ``https://HOST:PORT``. An address with
    ``//`` is used unchanged.

    Raises
    ------
    UsageError
        If `address` is not an address, or contains a user and a password.
    """
    if "//" in address:
        whole = address.rstrip("/")
    else:
        whole = f"https://{address}" if ":" in address else f"https://{address}:{RAPI_PORT}"
    try:
        parts = urlsplit(whole)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not good or whole.split() != [whole]:
        raise UsageError(f"{address!r} is no address of a cluster: HOST, HOST:PORT or https://...")
    if "@" in parts.netloc:
        raise UsageError(
            "do not put credentials in the address, because the process list shows them: "
            "use --credentials FILE, the environment, or a netrc file"
        )
    return whole


class RapiClient:
    """The cluster at `address`; every question has a connection of its own.

    Parameters
    ----------
    address:
        ``HOST``, ``HOST:PORT``, or a URL with ``//``.
    cacert:
        A file with the trusted certificates; "" for those of the system. If the file contains one
        certificate, which is the server's own, the name in the certificate is not checked, because
        the certificate that Ganeti creates for itself has no name.
    insecure:
        Whether every certificate is trusted.
    credentials:
        The path of a file with user and password; "" for the other sources of credentials.
    limit:
        Largest size of an answer in bytes.
    """

    def __init__(
        self,
        address: str,
        *,
        cacert: str = "",
        insecure: bool = False,
        credentials: str = "",
        limit: int = LARGEST_INPUT,
    ) -> None:
        self.base = base_address(address)
        if cacert and insecure:
            raise UsageError("--cacert and --insecure exclude each other")
        self._limit = limit
        self._context = _context(cacert, insecure)
        self._fingerprint = ""
        self._pinned = _pinned(cacert) if cacert else None
        login = find_credentials(urlsplit(self.base).hostname or "", credentials)
        self._headers = _headers(login)

    def get(self, path: str, deadline: Deadline | None = None) -> Any:
        """Return the resource at `path` (for example ``/2/nodes?bulk=1``)."""
        return self.call("GET", path, deadline=deadline)

    def put(self, path: str, body: Any = None, query: Mapping[str, Any] | None = None) -> Any:
        """Change the resource at `path`; return a job's id if the change is made by a job."""
        return self.call("PUT", path, body, query)

    def post(self, path: str, body: Any = None, query: Mapping[str, Any] | None = None) -> Any:
        """Add to the resource at `path`; return a job's id if the change is made by a job."""
        return self.call("POST", path, body, query)

    def delete(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """Delete the resource at `path`; return a job's id if the change is made by a job."""
        return self.call("DELETE", path, None, query)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        deadline: Deadline | None = None,
    ) -> Any:
        """Send a request; return the JSON value of the answer, which must arrive before `deadline`.

        `query`: the parameters after ``?``; a list gives one parameter several values.

        Raises
        ------
        ServerError
            If the cluster rejects the request.
        LiveError
            If the cluster cannot be reached, or its answer is late, incomplete or invalid. Then it
            is unknown whether the cluster has received the request.
        """
        url = self.base + path + (f"?{urlencode(query, doseq=True)}" if query else "")
        where = url if method == "GET" else f"{method} {url}"
        sent = b"" if body is None else dumps(body).encode()
        status, raw = self._exchange(where, method, url, sent, deadline or Deadline(ANSWER_SECONDS))
        if not 200 <= status < 300:
            raise _rejected(where, status, raw)
        try:
            return decode_any(raw)
        except RequestError as error:
            raise LiveError(where, str(error)) from None

    def _exchange(
        self, where: str, method: str, url: str, body: bytes, deadline: Deadline
    ) -> tuple[int, bytes]:
        """Send a request; return the HTTP status and the body of the answer."""
        parts = urlsplit(url)
        secure = parts.scheme == "https"
        try:
            server = Server(
                parts.hostname or "",
                parts.port or STANDARD_PORTS[parts.scheme],
                self._context if secure else None,
                self._fingerprint,
            )
            target = parts.path + (f"?{parts.query}" if parts.query else "")
            return ask(
                server, method, target, deadline, self._limit, headers=self._headers, body=body
            )
        except (OSError, ValueError) as error:
            import ssl

            # True if the certificate was rejected only because of the name in it
            named = (
                isinstance(error, ssl.SSLCertVerificationError)
                and error.verify_code in NAME_MISMATCH
            )
            if self._pinned is None or not named:
                raise LiveError(where, _reason(error)) from None
        (self._context, self._fingerprint), self._pinned = self._pinned, None
        return self._exchange(where, method, url, body, deadline)  # no question has been sent yet


def _context(cacert: str, insecure: bool) -> ssl.SSLContext:
    """Return the TLS context with the trusted certificates."""
    import ssl

    if cacert:
        try:
            return _trusting(cacert)
        except OSError as error:
            raise UsageError(f"{cacert}: {error.strerror or 'no certificate in it'}") from None
    context = ssl.create_default_context()
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _trusting(cacert: str) -> ssl.SSLContext:
    """Return a TLS context that trusts all certificates in the file, also those of servers."""
    import ssl

    context = ssl.create_default_context(cafile=cacert)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _pinned(cacert: str) -> tuple[ssl.SSLContext, str] | None:
    """Return a TLS context for the only certificate in the file, and its SHA-256 fingerprint.

    None if the file does not have exactly one certificate. The context does not check host names.
    """
    import hashlib
    import ssl

    text = read_file(cacert).decode("ascii", "replace")
    start, end = text.find(ssl.PEM_HEADER), text.find(ssl.PEM_FOOTER)
    if text.count(ssl.PEM_HEADER) != 1 or end < start:
        return None
    der = ssl.PEM_cert_to_DER_cert(text[start : end + len(ssl.PEM_FOOTER)])
    context = _trusting(cacert)
    context.check_hostname = False
    return context, hashlib.sha256(der).hexdigest()


def _headers(login: tuple[str, str] | None) -> dict[str, str]:
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    if login is not None:
        headers["Authorization"] = "Basic " + b64encode(":".join(login).encode()).decode()
    return headers


def _rejected(where: str, status: int, raw: bytes) -> ServerError:
    """Return an exception for the answer `raw` of an HTTP request that failed with `status`.

    Ganeti sends two texts: ``message`` is the reason, ``explain`` the general meaning of the
    status.
    """
    if status == 401:
        return ServerError(where, "user or password is wrong or missing (HTTP 401)", "", status)
    try:
        answer = decode_any(raw)
    except RequestError:
        answer = None
    said = answer if isinstance(answer, dict) else {}
    words = [said.get("message"), said.get("explain")]
    texts = dict.fromkeys(" ".join(unescape(w).split()) for w in words if isinstance(w, str))
    texts.pop("", None)
    return ServerError(where, f"{': '.join(texts) or 'rejected'} (HTTP {status})", "", status)


def _reason(error: Exception) -> str:
    """Return the reason in `error` why a request has no answer, as plain text."""
    import ssl

    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLEOFError):
        return "the connection was closed during the TLS handshake"
    if isinstance(error, ssl.SSLError) and error.reason:
        return f"TLS failed: {error.reason.lower().replace('_', ' ')}"
    return why(error)
