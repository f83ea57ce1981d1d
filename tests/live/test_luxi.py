"""Test the LUXI client against a server in this process."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import Any

import pytest

from iallocator.deadline import Deadline
from iallocator.live.luxi import LuxiClient
from iallocator.live.stream import LiveError, ServerError

from .fakes import fake_luxi


def test_luxi_calls_return_results_one_after_the_other(tmp_path: Path) -> None:
    """LUXI calls on one connection return their results in order, also large ones."""

    def answer(method: str, arguments: list[Any]) -> Any:
        return [method, arguments, "\u00e9" * 300_000]

    with fake_luxi(tmp_path, answer) as server, LuxiClient(server.path) as client:
        assert client.call("Query", ["node", ["name"], None])[:2] == [
            "Query", ["node", ["name"], None],
        ]  # fmt: skip
        assert client.call("QueryClusterInfo") == ["QueryClusterInfo", [], "\u00e9" * 300_000]
    assert [method for method, _ in server.asked] == ["Query", "QueryClusterInfo"]


@pytest.mark.parametrize(
    ("output", "problem", "kind"),
    [
        ("Invalid question", "Invalid question", ""),
        (["OpPrereqError", ["no such thing", "unknown_entity"]],
         "OpPrereqError: no such thing, unknown_entity", "OpPrereqError"),
        (["JobLost", ["Job 7 lost"]], "JobLost: Job 7 lost", "JobLost"),
    ],
)  # fmt: skip
def test_rejected_luxi_call_raises_the_error_of_the_server(
    tmp_path: Path, output: Any, problem: str, kind: str
) -> None:
    """A rejected LUXI call raises the text of the error; the connection can be used again."""

    def answer(method: str, _: list[Any]) -> Any:
        if method == "Bad":
            raise RuntimeError(output)
        return 1

    with fake_luxi(tmp_path, answer) as server, LuxiClient(server.path) as client:
        with pytest.raises(ServerError) as caught:
            client.call("Bad")
        assert (caught.value.problem, caught.value.kind) == (problem, kind)
        assert str(caught.value) == f"{server.path}: Bad: {problem}"
        assert client.call("Good") == 1


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b'{"success": true, "resu', "closed after 23 bytes of the answer"),
        (b"", "closed without an answer"),
        (b"no json\x03", "invalid JSON"),
        (b"[1]\x03", "expected a JSON object"),
        (b'{"success": 1, "result": 2}\x03', "expected an answer with success and result"),
        (b'{"success": true, "result": 1}\x03{"success": true, "result": 2}\x03', "invalid JSON"),
    ],
)
def test_luxi_answer_that_is_damaged_is_an_error_and_ends_the_connection(
    tmp_path: Path, raw: bytes, problem: str
) -> None:
    """A damaged LUXI answer is an error and closes the connection."""
    answers = [raw, 5]
    with fake_luxi(tmp_path, lambda *_: answers.pop(0)) as server:
        client = LuxiClient(server.path)
        with pytest.raises(LiveError, match=problem) as caught:
            client.call("Query")
        assert not isinstance(caught.value, ServerError)
        assert client.call("Query") == 5
        client.close()


def test_luxi_answer_that_is_late_is_an_error_that_names_the_limit(tmp_path: Path) -> None:
    """A late LUXI answer is an error that names the limit for the complete answer."""
    late = Event()
    with fake_luxi(tmp_path, lambda *_: late.wait()) as server:
        client = LuxiClient(server.path)
        with pytest.raises(LiveError, match=r"Query: no answer within 0\.05 s"):
            client.call("Query", deadline=Deadline(0.05))
        late.set()
        client.close()


def test_luxi_socket_without_a_server_is_an_error_that_names_it(tmp_path: Path) -> None:
    """A LUXI socket without a server, or a path that is too long, is an error that names it."""
    with fake_luxi(tmp_path, lambda *_: 1) as server:
        pass
    for path, problem in (
        (server.path, "Connection refused"),
        (str(tmp_path / "none"), "No such file or directory"),
        ("/" + "x" * 200, "too long"),
    ):
        with pytest.raises(LiveError, match=problem) as caught:
            LuxiClient(path).call("Query")
        assert str(caught.value).startswith(f"{path}: ")
