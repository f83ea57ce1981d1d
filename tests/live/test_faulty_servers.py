"""Test every command that reads a cluster against slow and faulty servers."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from iallocator.sources.live import measured
from tests.builders import Json
from tests.command import COMMAND, ENVIRONMENT, Done, run
from tests.patience import PATIENCE

from .cluster_answers import luxi_answer, rapi_answers, write_answers
from .faulty import (
    CONNECTING,
    HTTP_FAULTS,
    JSON_FAULTS,
    LUXI_FAULTS,
    SLOW,
    FaultyServer,
    Talk,
    faulty_daemons,
    faulty_luxi,
    faulty_rapi,
    http,
)

COMMANDS = {
    "ask": ["ask", "allocate", "--memory=1G", "--disk=1G", "--template=plain"],
    "place": ["place", "--strategy=pacemaker-balanced"],
    **{
        name: [name]
        for name in (
            "balance", "balance-groups", "capacity", "check", "compress", "constraints",
            "maintain", "reboot", "redistribute", "repair", "report", "show", "snapshot", "squeeze",
        )
    },
    "rescue": ["rescue", "node1.example.com"],
    "make-room": ["make-room", "--request=allocate --memory 1G --disk 1G --template plain"],
    "request": ["FILE"],
    "explain": ["explain", "FILE"],
    "config": ["config"],
}  # fmt: skip
"""Command lines of every command that reads a running cluster."""

LITTLE = "--max-input=300000"
"""Option with a limit above a good answer, which an endless answer soon reaches."""

FOREIGN = re.compile(
    r"BadStatusLine|IncompleteRead|LineTooLong|RemoteDisconnected|Errno|Exception|[a-z]Error"
    r"|Traceback|: None|<class|urllib"
)
"""Pattern of words of Python libraries, which no message has."""


def error_line(done: Done, *causes: str) -> str:
    """Return the only line on stderr; assert that stdout is empty and the status is 2."""
    error = done.stderr.decode()
    assert (done.returncode, done.stdout, error.count("\n")) == (2, b"", 1), (causes, done)
    assert not FOREIGN.search(error), (causes, error)
    return error


def of_bytes(data: bytes) -> Callable[[Talk, bytes], None]:
    """Return the fault that replaces the answer by `data`."""
    return lambda talk, _: talk.send(data)


def patience(fault: str) -> list[str]:
    """Return an option that shortens the time limit for faults that only the limit ends."""
    return ["--read-timeout=0.15"] if fault in SLOW else []


def words_of(command: str, folder: Path) -> list[str]:
    """Return the arguments of a command, without those for the source of the cluster."""
    request = {"type": "relocate", "name": "inst1.example.com",
               "relocate_from": ["node2.example.com"]}  # fmt: skip
    (folder / "request.json").write_text(json.dumps({"request": request}))
    return [str(folder / "request.json") if w == "FILE" else w for w in COMMANDS[command]]


@pytest.mark.parametrize("command", COMMANDS)
def test_faulty_rapi_ends_every_command_with_one_line(command: str, tmp_path: Path) -> None:
    """With a faulty RAPI, each command ends with one line on stderr within the time limit."""
    words = [*words_of(command, tmp_path), LITTLE]
    with faulty_rapi(tmp_path, rapi_answers()) as (server, reach):
        assert run(*words, *reach).returncode in (0, 1)
        for name, fault in HTTP_FAULTS.items():
            server.become(fault)
            message = error_line(run(*words, *reach, *patience(name)), name)
            assert ("(--read-timeout)" in message) == (name in SLOW), (name, message)
        for name, fault in CONNECTING.items():
            server.become(None, fault)
            message = error_line(run(*words, *reach, *patience(name)), name)
            assert ("no TLS handshake within" in message) == (name in SLOW), (name, message)
        for name, data in JSON_FAULTS.items():
            server.become(of_bytes(http(data)))
            error_line(run(*words, *reach), name)


@pytest.mark.parametrize("command", COMMANDS)
def test_faulty_luxi_ends_every_command_with_one_line(command: str, tmp_path: Path) -> None:
    """With a faulty LUXI, each command ends with one line on stderr within the time limit."""
    words = [*words_of(command, tmp_path), LITTLE]
    with faulty_luxi(tmp_path, partial(luxi_answer, rapi_answers())) as (server, reach):
        assert run(*words, *reach).returncode in (0, 1)
        for name, fault in LUXI_FAULTS.items():
            server.become(fault)
            message = error_line(run(*words, *reach, *patience(name)), name)
            assert ("(--read-timeout)" in message) == (name in SLOW), (name, message)
        for name, data in JSON_FAULTS.items():
            server.become(of_bytes(data + b"\x03"))
            error_line(run(*words, *reach), name)
            server.become(of_bytes(b'{"success": true, "result": ' + data + b"}\x03"))
            error_line(run(*words, *reach), name)


MEASURING = [
    name
    for name in COMMANDS
    if name not in ("capacity", "constraints", "place", "snapshot", "request", "config", "explain")
]


@pytest.fixture
def one_node(tmp_path: Path) -> list[str]:
    """Return options to read a cluster of one node, at a loopback address of its own."""
    answers = rapi_answers()
    rng = Random(os.urandom(8))
    host = f"127.{rng.randrange(1, 255)}.{rng.randrange(1, 255)}.{rng.randrange(1, 255)}"
    answers["nodes"] = answers["nodes"][:1]
    answers["nodes"][0]["name"] = answers["info"]["master"] = host
    answers["instances"] = []
    return [host, "-m", write_answers(tmp_path / "one", answers)]


@pytest.mark.parametrize("command", MEASURING)
def test_faulty_daemon_is_a_warning_of_every_command(
    command: str, tmp_path: Path, one_node: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a faulty monitoring daemon, each command warns and uses no measured loads."""
    host, *reach = one_node
    words = [*words_of(command, tmp_path), *reach]
    without = run(*words)
    with faulty_daemons(host, 0) as server:
        monkeypatch.setattr(measured, "MONITORING_PORT", server._listener.getsockname()[1])
        assert b"does not count" not in run(*words, "--mond").stderr
        faults = HTTP_FAULTS | {name: of_bytes(http(data)) for name, data in JSON_FAULTS.items()}
        for name, fault in faults.items():
            server.become(fault)
            done = run(*words, "--mond", *patience(name))
            error = (done.stderr + (done.stdout if command == "ask" else b"")).decode()
            assert done.returncode == without.returncode, (name, error)
            if command not in ("ask", "report"):  # which show the warning
                assert done.stdout == without.stdout, name
            warning = " ".join(error.split())  # which ask breaks into lines
            assert f"node {host.split('.')[0]}" in warning, name
            assert "no measured load counts" in warning, name
            assert ("(--read-timeout)" in warning) == (name in SLOW), (name, warning)
            assert not FOREIGN.search(error), (name, error)


def test_faulty_daemon_with_exit_on_missing_is_status_1(
    one_node: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --exit-on-missing-mond-data, a faulty monitoring daemon is an error, status 1."""
    host, *reach = one_node
    with faulty_daemons(host, 0) as server:
        monkeypatch.setattr(measured, "MONITORING_PORT", server._listener.getsockname()[1])
        server.become(HTTP_FAULTS["trickling"])
        strict = ["--mond", "--exit-on-missing-mond-data", "--read-timeout=0.1"]
        done = run("check", *reach, *strict)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"within the 0.1 s" in done.stderr


ODD: tuple[Any, ...] = (
    None, True, 3, -1, 1.5, 1e300, "x", "", [], [3], [None], [["x"]], {}, {"a": 1},
)  # fmt: skip


@pytest.mark.parametrize("what", ["info", "groups", "nodes", "instances", "networks"])
def test_fields_of_wrong_types_are_reported_in_one_line_or_accepted(
    what: str, tmp_path: Path
) -> None:
    """A field of a wrong type in any answer is reported in one line, or is accepted."""
    command = ["check", "balance"]
    good = rapi_answers()
    first = good[what] if what == "info" else good[what][0]
    keys = [[key] for key in first]
    keys += [[k, inner] for k in first if isinstance(first[k], dict) for inner in first[k]]
    for number, key in enumerate(keys):
        for odd in ODD:
            answers = deepcopy(good)
            inner = answers[what] if what == "info" else answers[what][0]
            for part in key[:-1]:
                inner = inner[part]
            inner[key[-1]] = odd
            address = write_answers(tmp_path / "odd", answers)
            done = run(command[number % 2], "--no-simulation" if number % 2 == 0 else "-l1",
                       "-m", address)  # fmt: skip
            if done.returncode == 2:
                error_line(done, what, str(key), str(odd))
            assert b"Traceback" not in done.stderr


def start(*words: str, script: str = "") -> subprocess.Popen[bytes]:
    """Start the program with the arguments `words` in a separate process."""
    command = [sys.executable, "-c", script] if script else COMMAND
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*command, *words], env=os.environ | ENVIRONMENT, stdout=pipe, stderr=pipe
    )


def seconds_of(*words: str, script: str = "", enough: float = 0.0) -> tuple[float, str]:
    """Return the seconds that the program needs, and its stderr.

    On a busy machine, the best of up to five runs is returned; a run within `enough` seconds ends
    the series.
    """
    best, error = 1e9, ""
    for _ in range(5):
        if best <= enough:
            break
        began = time.monotonic()
        process = start(*words, script=script)
        out, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, out) == (2, b""), err
        best, error = min(best, time.monotonic() - began), err.decode()
    return best, error


NO_NAMES = """
import socket, time
known = socket.getaddrinfo
def getaddrinfo(*words, flags=0, **more):
    if flags & socket.AI_NUMERICHOST:
        return known(*words, flags=flags, **more)
    time.sleep(3600)
socket.getaddrinfo = getaddrinfo
from iallocator import process
process.run()
"""
"""A script that runs the program with a name server that does not answer."""

SLOWEST = ("silent", "trickling", "continuing fast", "trickling handshake")


@pytest.fixture
def startup() -> float:
    """Return the seconds in which the program starts and fails to connect to a server."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    return seconds_of("balance", "-m", f"127.0.0.1:{port}")[0]


def test_time_limit_ends_reading_within_half_a_second(tmp_path: Path, startup: float) -> None:
    """The time limit ends reading within half a second, and the message names the limit.

    LUXI and RAPI are tested in every phase.
    """
    message = "within the 0.5 s for the whole run (--time-limit)"
    with faulty_rapi(tmp_path, rapi_answers()) as (server, reach):
        for name in SLOWEST:
            server.become(HTTP_FAULTS.get(name), CONNECTING.get(name))
            words = ["balance", *reach, "--time-limit=0.5"]
            took, error = seconds_of(*words, enough=startup + 1)
            assert message in error, (name, error)
            assert took < startup + 1, name
    with faulty_luxi(tmp_path, partial(luxi_answer, rapi_answers())) as (server, reach):
        server.become(LUXI_FAULTS["trickling"])
        words = ["balance", *reach, "--time-limit=0.5"]
        took, error = seconds_of(*words, enough=startup + 1)
        assert message in error
        assert took < startup + 1
    words = ["balance", "-m", "cluster.example.com", "--time-limit=0.5"]
    took, error = seconds_of(*words, script=NO_NAMES, enough=startup + 1)
    assert f"no address of cluster.example.com {message}" in error
    assert took < startup + 1


def test_reading_the_whole_cluster_has_one_deadline(tmp_path: Path) -> None:
    """One time limit applies to all answers together."""

    def slowly(talk: Talk, answer: bytes) -> None:
        time.sleep(0.15)
        talk.send(answer)

    with faulty_rapi(tmp_path, rapi_answers()) as (server, reach):
        server.become(slowly)
        message = error_line(run("show", *reach, "--read-timeout=0.4"))
        assert "within the 0.4 s for reading the cluster (--read-timeout)" in message
        assert server.questions < 5
        assert run("show", *reach, "--read-timeout=60").returncode == 0


STOPPED = {signal.SIGINT: 130, signal.SIGTERM: 143}


def stopped(process: subprocess.Popen[bytes], server: FaultyServer | None, number: int) -> int:
    """Return the exit status of a program that gets a signal after its first request."""
    end = time.monotonic() + PATIENCE
    while server is not None and not server.questions:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.01)
    time.sleep(0.1 if server is not None else 1.0)
    process.send_signal(number)
    began = time.monotonic()
    process.communicate(timeout=PATIENCE)
    assert time.monotonic() - began < 10
    return process.returncode


@pytest.mark.parametrize("number", STOPPED)
def test_first_signal_ends_reading(
    number: signal.Signals, tmp_path: Path, one_node: list[str]
) -> None:
    """The first signal ends reading by RAPI, LUXI, name resolution or monitoring daemons."""
    with faulty_rapi(tmp_path, rapi_answers()) as (server, reach):
        server.become(HTTP_FAULTS["trickling"])
        assert stopped(start("check", *reach), server, number) == STOPPED[number]
    with faulty_luxi(tmp_path, partial(luxi_answer, rapi_answers())) as (server, reach):
        server.become(LUXI_FAULTS["trickling"])
        assert stopped(start("check", *reach), server, number) == STOPPED[number]
    process = start("check", "-m", "cluster.example.com", script=NO_NAMES)
    assert stopped(process, None, number) == STOPPED[number]
    host, *reach = one_node
    with faulty_daemons(host, measured.MONITORING_PORT) as server:
        server.become(HTTP_FAULTS["trickling"])
        assert stopped(start("check", *reach, "--mond"), server, number) == STOPPED[number]


@pytest.mark.parametrize("name", ["endless", "compressed bomb", "endless chunk", "endless headers"])
def test_daemon_does_not_fill_the_memory(name: str, one_node: list[str]) -> None:
    """A monitoring daemon with an endless report does not fill the memory.

    A report is read up to 1 MiB; the whole program uses less than 100 MiB.
    """
    host, *reach = one_node
    with faulty_daemons(host, measured.MONITORING_PORT) as server:
        server.become(HTTP_FAULTS[name])
        process = start("show", *reach, "--mond")
        highest = 0
        while process.poll() is None:
            status = Path(f"/proc/{process.pid}/status").read_text()
            if found := re.search(r"VmHWM:\s*(\d+)", status):
                highest = int(found[1])
            time.sleep(0.002)
        _, err = process.communicate()
    assert process.returncode == 0
    assert b"no measured load counts" in err
    assert 0 < highest < 150 * 1024


def test_drained_queue_is_reported_once_and_at_once(tmp_path: Path) -> None:
    """A drained queue is reported once, with its reason, and without retries.

    RAPI answers HTTP 500 and has the reason in ``message``.
    """
    answers: Json = rapi_answers()
    with faulty_rapi(tmp_path, answers) as (server, reach):

        def reject_changes(question: bytes) -> bytes:
            if question.startswith(b"GET"):
                path = question.split()[1].decode().removeprefix("/2/").partition("?")[0]
                return http(json.dumps(answers[path]).encode())
            message = {"code": 500, "message": "Queue drained",
                    "explain": "Server got itself in trouble"}  # fmt: skip
            return http(json.dumps(message).encode(), "500 Internal Server Error")

        server._answer = reject_changes
        journal = str(tmp_path / "journal")
        done = run("balance", *reach, "-X", f"--journal={journal}", "--reason=test")
    assert done.returncode == 1
    error = done.stderr.decode()
    assert error.count("Queue drained: Server got itself in trouble (HTTP 500)") == 1
    assert "looking for the jobs" not in error


def test_execution_ends_if_a_server_becomes_very_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a server becomes very slow, an execution ends at the limit and releases its lock."""
    folder = tmp_path / "run"
    monkeypatch.setattr("iallocator.execution.lock.run_directory", lambda: str(folder))
    monkeypatch.setattr("iallocator.execution.session.PAUSES", (0, 0))
    with faulty_rapi(tmp_path, rapi_answers()) as (server, reach):

        def later(talk: Talk, answer: bytes) -> None:
            if server.questions > 6:  # the cluster as it was planned on, and its name
                HTTP_FAULTS["trickling"](talk, answer)
            talk.send(answer)

        server.become(later)
        words = ["balance", *reach, "-X", f"--journal={tmp_path / 'journal'}"]
        done = run(*words, "--read-timeout=0.3", "--time-limit=60")
        error = done.stderr.decode()
        assert done.returncode == 1, error
        assert "within the 0.3 s for reading the cluster (--read-timeout)" in error
        assert "goes on" in error
        server.become(None)
        assert run(*words[:-1], f"--resume={tmp_path / 'journal'}", "--dry-run").returncode == 0
