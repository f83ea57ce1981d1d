"""RAPI: questions and orders to a cluster over HTTPS.

Certificates are verified against those that the system trusts, or those in a file.
"""

from __future__ import annotations

from time import monotonic
from urllib.parse import urlencode, urlsplit

from iallocator.errors import RequestError, UsageError
from iallocator.files import LIMIT, read_file
from iallocator.live.credentials import find_credentials
from iallocator.live.errors import LiveError, ServerError
from iallocator.wire.c_json import dumps
from iallocator.wire.read import decode_any

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping
    from typing import Any

    import urllib3
    from urllib3.response import BaseHTTPResponse

__all__ = ["RapiClient", "base_address"]

PORT = 5080

CONNECT_SECONDS = 15.0
ANSWER_SECONDS = 60.0

CHUNK = 1024**2

NAME_MISMATCH = (62, 64)
"""OpenSSL: the certificate is that of another host, or of another address."""


def base_address(address: str) -> str:
    """What every URL of the cluster at `address` begins with.

    ``HOST`` means ``https://HOST:5080``, ``HOST:PORT`` means ``https://HOST:PORT``; an address
    with ``//`` is taken as it is.

    Raises
    ------
    UsageError
        If it is none, or has a user and a password in it.
    """
    if "//" in address:
        whole = address.rstrip("/")
    else:
        whole = f"https://{address}" if ":" in address else f"https://{address}:{PORT}"
    try:
        parts = urlsplit(whole)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not good or whole.split() != [whole]:
        raise UsageError(f"{address!r} is no address of a cluster: HOST, HOST:PORT or https://...")
    if "@" in parts.netloc:
        raise UsageError(
            "user and password do not belong into an address, where everybody sees them: "
            "use --credentials FILE, the environment, or a netrc file"
        )
    return whole


class RapiClient:
    """The cluster at `address`; a connection is made when it is needed, nothing is asked twice.

    Parameters
    ----------
    address:
        See `base_address`.
    cacert:
        A file with the certificates that are trusted; "" for those of the system.  If the one
        certificate in it is the server's own, the name in it does not matter: the one that
        Ganeti makes for itself has none.
    insecure:
        Trust every certificate.
    credentials:
        A file with user and password, see `iallocator.live.credentials`.
    """

    def __init__(
        self, address: str, *, cacert: str = "", insecure: bool = False, credentials: str = ""
    ) -> None:
        self.base = base_address(address)
        if cacert and insecure:
            raise UsageError("--cacert and --insecure exclude each other")
        self._pool = _pool(cacert, insecure)
        self._pinned = _pinned(cacert) if cacert else None
        login = find_credentials(urlsplit(self.base).hostname or "", credentials)
        self._headers = _headers(login)

    def get(self, path: str, seconds: float = ANSWER_SECONDS) -> Any:
        """What the resource at `path` (``/2/nodes?bulk=1``) is."""
        return self.call("GET", path, seconds=seconds)

    def put(self, path: str, body: Any = None, query: Mapping[str, Any] | None = None) -> Any:
        """Change the resource at `path`; the result is a job's id, where it takes one."""
        return self.call("PUT", path, body, query)

    def post(self, path: str, body: Any = None, query: Mapping[str, Any] | None = None) -> Any:
        """Add to the resource at `path`; the result is a job's id, where it takes one."""
        return self.call("POST", path, body, query)

    def delete(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """Delete the resource at `path`; the result is a job's id, where it takes one."""
        return self.call("DELETE", path, None, query)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        seconds: float = ANSWER_SECONDS,
    ) -> Any:
        """The answer's JSON value; all of it must come within so many `seconds`.

        `query`: what follows ``?``; lists are several values of one name.

        Raises
        ------
        ServerError
            If the cluster refuses.
        LiveError
            If it is not reached, or its answer is late, incomplete or not understood.  Whether
            it has heard the question is then unknown.
        """
        url = self.base + path + (f"?{urlencode(query, doseq=True)}" if query else "")
        raw, status = self._exchange(method, url, body, seconds)
        where = url if method == "GET" else f"{method} {url}"
        if not 200 <= status < 300:
            raise _refused(where, status, raw)
        try:
            return decode_any(raw)
        except RequestError as error:
            raise LiveError(where, str(error)) from None

    def _exchange(self, method: str, url: str, body: Any, seconds: float) -> tuple[bytes, int]:
        import urllib3

        try:
            return self._try(method, url, body, seconds)
        except urllib3.exceptions.NewConnectionError as error:  # some are TimeoutErrors, too
            raise LiveError(url, _reason(error)) from None
        except (urllib3.exceptions.TimeoutError, TimeoutError):
            raise LiveError(url, f"no answer within {seconds:g} s") from None
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            if self._pinned is None or not _has_another_name(error):
                raise LiveError(url, _reason(error)) from None
        self._pool, self._pinned = self._pinned, None  # nothing has been asked yet
        return self._exchange(method, url, body, seconds)

    def _try(self, method: str, url: str, body: Any, seconds: float) -> tuple[bytes, int]:
        import urllib3

        end = monotonic() + seconds
        answer = self._pool.request(
            method,
            url,
            body=None if body is None else dumps(body).encode(),
            headers=self._headers,
            timeout=urllib3.Timeout(connect=min(CONNECT_SECONDS, seconds), read=seconds),
            retries=False,
            redirect=False,
            preload_content=False,
        )
        return _read(answer, end), answer.status


def _pool(cacert: str, insecure: bool) -> urllib3.PoolManager:
    """What keeps the connections, and verifies certificates."""
    try:
        import urllib3
    except ImportError:
        raise UsageError(
            "-m needs the Python package urllib3: pip install 'iallocator[live]'"
        ) from None
    import ssl

    context = ssl.create_default_context()
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    elif cacert:
        try:
            context = _trusting(cacert)
        except OSError as error:
            raise UsageError(f"{cacert}: {error.strerror or 'no certificate in it'}") from None
    return urllib3.PoolManager(ssl_context=context)


def _trusting(cacert: str) -> ssl.SSLContext:
    """Trusts the certificates in the file, be they those of authorities or not."""
    import ssl

    context = ssl.create_default_context(cafile=cacert)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _pinned(cacert: str) -> urllib3.PoolManager | None:
    """Trusts the one certificate in the file, whatever name it has; None if there are more."""
    import hashlib
    import ssl

    import urllib3

    text = read_file(cacert).decode("ascii", "replace")
    start, end = text.find(ssl.PEM_HEADER), text.find(ssl.PEM_FOOTER)
    if text.count(ssl.PEM_HEADER) != 1 or end < start:
        return None
    der = ssl.PEM_cert_to_DER_cert(text[start : end + len(ssl.PEM_FOOTER)])
    context = _trusting(cacert)
    context.check_hostname = False
    fingerprint = hashlib.sha256(der).hexdigest()
    return urllib3.PoolManager(ssl_context=context, assert_fingerprint=fingerprint)


def _headers(login: tuple[str, str] | None) -> dict[str, str]:
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    if login is not None:
        from base64 import b64encode

        headers["Authorization"] = "Basic " + b64encode(":".join(login).encode()).decode()
    return headers


def _read(answer: BaseHTTPResponse, end: float) -> bytes:
    """All of the answer, which must be complete before `end`."""
    parts: list[bytes] = []
    size = 0
    for part in answer.stream(CHUNK):
        parts.append(part)
        size += len(part)
        if size > LIMIT:
            raise ValueError(f"an answer of more than {LIMIT} bytes")
        if monotonic() > end:
            raise TimeoutError
    return b"".join(parts)


def _refused(where: str, status: int, raw: bytes) -> ServerError:
    """What the answer `raw` with an error's `status` says."""
    if status == 401:
        return ServerError(where, "user or password is wrong or missing (HTTP 401)", "", status)
    try:
        answer = decode_any(raw)
    except RequestError:
        answer = None
    said = answer if isinstance(answer, dict) else {}
    words = [str(said[key]) for key in ("message", "explain") if said.get(key)]
    return ServerError(where, words[-1] if words else f"HTTP {status}", "", status)


def _has_another_name(error: Exception) -> bool:
    """Whether a certificate was refused for the name in it alone."""
    found = _refused_certificate(error)
    return found is not None and found.verify_code in NAME_MISMATCH


def _refused_certificate(error: BaseException | None) -> ssl.SSLCertVerificationError | None:
    """What speaks against the certificate, if `error` comes from that."""
    import ssl

    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error


def _reason(error: Exception) -> str:
    """One sentence out of the error of an error of an error."""
    refused = _refused_certificate(error)
    if refused is not None:
        return f"its certificate is not trusted: {refused.verify_message}"
    if "ingerprint" in str(error):  # of a certificate that the first try found to be another's
        return "its certificate is not trusted: it is that of another host"
    if "IncompleteRead" in str(error):  # its words are those of a program
        return "the connection was closed in the middle of the answer"
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, OSError) and inner.strerror:
            return inner.strerror
        inner = inner.__cause__ or inner.__context__
    return str(error)
