"""Test the RAPI client against a server in this process, with real certificates."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from iallocator.deadline import Deadline
from iallocator.errors import UsageError
from iallocator.live.rapi import RapiClient, base_address
from iallocator.live.stream import LiveError, ServerError
from tests.patience import PATIENCE

from .fakes import FakeRapi, Raw, fake_rapi

_LATE = Event()
"""Event that lets the server send its slow answer."""


def _reply(method: str, path: str, body: Any) -> Any:
    """Return the answer of the server to a request."""
    known = {
        "/2/broken": Raw(200, b'{"a": '),
        "/2/secret": Raw(401, b""),
        "/2/none": Raw(404, b'{"message": "Not Found", "explain": "no such thing", "code": 404}'),
        "/2/fault": Raw(502, b"<html>"),
        "/2/moved": Raw(302, b""),
    }
    if path == "/2/slow":
        _LATE.wait()
    return known.get(path, [method, path, body])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeRapi]:
    """Yield a RAPI server for the tests of this module."""
    with fake_rapi(tmp_path_factory.mktemp("rapi"), _reply) as server:
        yield server


@pytest.fixture(autouse=True)
def _no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Ignore the credentials of the user that runs the tests."""
    monkeypatch.setenv("NETRC", str(tmp_path / "no-netrc"))
    monkeypatch.delenv("IALLOCATOR_RAPI_USER", raising=False)


def test_rapi_methods_send_path_query_and_body_and_return_the_value(server: FakeRapi) -> None:
    """A RAPI call sends method, path, query and body, and returns the value."""
    client = RapiClient(server.address, cacert=server.cacert)
    assert client.get("/2/nodes?bulk=1") == ["GET", "/2/nodes?bulk=1", None]
    assert client.put("/2/a", {"x": 1}) == ["PUT", "/2/a", {"x": 1}]
    assert client.post("/2/a", query={"n": ["b", "c d"]}) == ["POST", "/2/a?n=b&n=c+d", None]
    assert client.delete("/2/a", {"dry": 1}) == ["DELETE", "/2/a?dry=1", None]
    assert server.asked[-1][3] == ""


@pytest.mark.parametrize(
    ("path", "problem", "status"),
    [
        ("/2/secret", "user or password is wrong or missing", 401),
        ("/2/none", "no such thing", 404),
        ("/2/fault", "HTTP 502", 502),
        ("/2/moved", "HTTP 302", 302),
    ],
)
def test_rejected_rapi_call_raises_the_error_of_the_server(
    server: FakeRapi, path: str, problem: str, status: int
) -> None:
    """A rejected RAPI call raises the error of the server with the HTTP status.

    A password is not sent to the target of a redirection.
    """
    with pytest.raises(ServerError, match=problem) as caught:
        RapiClient(server.address, cacert=server.cacert).get(path)
    assert caught.value.status == status
    assert str(caught.value).startswith(f"https://{server.address}{path}: ")


def test_rapi_answer_that_is_not_json_is_an_error(server: FakeRapi) -> None:
    """A RAPI answer that is not JSON is an error that names the address."""
    with pytest.raises(LiveError, match="/2/broken: invalid JSON"):
        RapiClient(server.address, cacert=server.cacert).get("/2/broken")


def test_late_rapi_answer_is_an_error(server: FakeRapi) -> None:
    """A late RAPI answer is an error that names the limit."""
    with pytest.raises(LiveError, match=r"/2/slow: no answer within 0\.05 s"):
        RapiClient(server.address, cacert=server.cacert).get("/2/slow", Deadline(0.05))
    _LATE.set()


def test_rapi_answer_that_is_cut_off_is_an_error(tmp_path: Path) -> None:
    """A RAPI answer with fewer bytes than announced is an error."""

    def cut(*_: Any) -> Raw:
        return Raw(200, b"[1, 2]", announced=100)

    with (
        fake_rapi(tmp_path, cut) as server,
        pytest.raises(LiveError, match=r"/2/x: .*closed after"),
    ):
        RapiClient(server.address, cacert=server.cacert).get("/2/x", Deadline(PATIENCE))


def test_rapi_certificate_without_a_trusted_issuer_is_rejected(server: FakeRapi) -> None:
    """A certificate without a trusted issuer is rejected, except with --insecure."""
    with pytest.raises(LiveError, match="certificate is not trusted"):
        RapiClient(server.address).get("/2/a")
    address = server.address.replace("localhost", "127.0.0.1")
    with pytest.raises(LiveError, match="certificate is not trusted"):
        RapiClient(address, cacert=server.cacert).get("/2/a")
    assert RapiClient(server.address, insecure=True).get("/2/a") == ["GET", "/2/a", None]


def test_rapi_certificate_given_as_cacert_may_have_any_name(server: FakeRapi) -> None:
    """A certificate given by --cacert is accepted with any host name.

    Ganeti's own certificate has no name, and is identified by its content.
    """
    address = server.address.replace("localhost", "127.0.0.1")
    client = RapiClient(address, cacert=server.own_certificate)
    assert [client.get("/2/a")[0], client.get("/2/b")[1]] == ["GET", "/2/b"]


def test_invalid_rapi_cacert_is_a_usage_error(tmp_path: Path) -> None:
    """An invalid file for --cacert is an error of the command line."""
    (tmp_path / "text").write_text("hello")
    for name in ("text", "missing"):
        with pytest.raises(UsageError, match=name):
            RapiClient("localhost", cacert=str(tmp_path / name))


def test_rapi_host_that_does_not_answer_is_an_error(tmp_path: Path) -> None:
    """A RAPI host without a server is an error."""
    with fake_rapi(tmp_path, _reply) as server:
        pass
    with pytest.raises(LiveError, match="Connection refused"):
        RapiClient(server.address).get("/2/a")


@pytest.mark.parametrize(
    ("address", "base"),
    [
        ("cluster", "https://cluster:5080"),
        ("cluster:99", "https://cluster:99"),
        ("[::1]:99", "https://[::1]:99"),
        ("http://cluster:1/", "http://cluster:1"),
    ],
)
def test_base_address_completes_the_host(address: str, base: str) -> None:
    """A RAPI address is completed with HTTPS and port 5080."""
    assert base_address(address) == base


@pytest.mark.parametrize("address", ["", "ftp://x", "https://", "a b", "x:y", "https://u:p@x"])
def test_base_address_rejects_an_invalid_address(address: str) -> None:
    """An invalid RAPI address, also one with a password, is rejected."""
    with pytest.raises(UsageError):
        base_address(address)


def _authorization(user: str, password: str) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


def test_rapi_credentials_come_from_file_environment_or_netrc(
    server: FakeRapi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RAPI credentials are read from a file, the environment or netrc, in this order."""

    def authorization(credentials: str = "") -> str:
        client = RapiClient(server.address, cacert=server.cacert, credentials=credentials)
        client.get("/2/a")
        return server.asked[-1][3]

    netrc = tmp_path / "netrc"
    netrc.write_text("machine localhost login ann password n1\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    assert authorization() == _authorization("ann", "n1")
    monkeypatch.setenv("IALLOCATOR_RAPI_USER", "eve")
    monkeypatch.setenv("IALLOCATOR_RAPI_PASSWORD", "e:2")
    assert authorization() == _authorization("eve", "e:2")
    users = tmp_path / "users"
    users.write_text("# users\n\nfox {cleartext}f3 write\n")
    assert authorization(str(users)) == _authorization("fox", "f3")


@pytest.mark.parametrize(("name", "text"), [("c", "alone\n"), ("c", ""), ("missing", None)])
def test_rapi_credentials_that_are_unusable_are_a_usage_error(
    tmp_path: Path, name: str, text: str | None
) -> None:
    """A file without user and password is an error of the command line."""
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=name):
        RapiClient("localhost", credentials=str(tmp_path / name))


def test_rapi_netrc_that_is_damaged_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged netrc file is an error that names the line."""
    (tmp_path / "netrc").write_text("machine\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with pytest.raises(UsageError, match="netrc:2"):
        RapiClient("localhost")
