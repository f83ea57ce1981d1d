"""Test the log line and the captured files of a call, and the answer if these cannot be written."""

from __future__ import annotations

import gzip
import json
import os
import signal
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from iallocator import engine
from iallocator.calls import call as log
from iallocator.cli import main
from iallocator.deadline import SIGNALLED, Stopped
from tests.aliases import Capture
from tests.builders import allocate_rbd, as_bytes, cluster, rbd

KINDS = ("args", "call.json", "request.json.gz", "response.json.gz")


class Plugin:
    """A request, a folder for captured calls, and a log file."""

    def __init__(self, folder: Path, capsys: Capture) -> None:
        self.request = folder / "request.json"
        self.calls = folder / "calls"
        self.calls.mkdir()
        self.log = folder / "log"
        self.raw = as_bytes(allocate_rbd(cluster(3), "web"))
        self._capsys = capsys

    def run(self, *words: str, raw: bytes = b"") -> tuple[int, str, str]:
        """Return the exit status, stdout and stderr of a captured call."""
        self.request.write_bytes(raw or self.raw)
        status = main([f"--log={self.log}", f"--capture={self.calls}", *words, str(self.request)])
        output = self._capsys.readouterr()
        return status, output.out, output.err

    def kept(self, number: int, kind: str) -> bytes:
        """Return the content of the file `kind` of call number `number`."""
        raw = (self.calls / f"{number:06}.{kind}").read_bytes()
        return gzip.decompress(raw) if kind.endswith(".gz") else raw

    def call(self, number: int) -> dict[str, Any]:
        """Return the facts that were recorded at the end of call number `number`."""
        found: dict[str, Any] = json.loads(self.kept(number, "call.json"))
        return found

    def names(self) -> list[str]:
        """Return the names of the files in the folder with captured calls, sorted."""
        return sorted(path.name for path in self.calls.iterdir())


@pytest.fixture
def plugin(tmp_path: Path, capsys: Capture) -> Plugin:
    """Return a plugin with a folder and a log of its own."""
    return Plugin(tmp_path, capsys)


def test_call_is_kept_whole_and_readable_for_the_owner_only(plugin: Plugin) -> None:
    """A call stores request, answer and options byte by byte, readable for the owner only.

    The log gets one line.
    """
    old, before = os.umask(0), time.time()
    try:
        status, out, err = plugin.run("--top=2", "--ignore-soft-errors=")
    finally:
        os.umask(old)
    assert (status, err) == (0, "")
    assert plugin.names() == [f"000001.{kind}" for kind in KINDS]
    assert plugin.kept(1, "request.json.gz") == plugin.raw
    assert plugin.kept(1, "response.json.gz").decode() == out
    assert plugin.kept(1, "args") == b"--ignore-soft-errors\n--top=2\n"
    call = plugin.call(1)
    assert (call["type"], call["nodes"], call["success"]) == ("allocate", 3, True)
    assert call["asked"].startswith("web: rbd, ")
    assert before - 0.001 <= call["time"] <= time.time() + 0.001  # it is rounded
    for path in (plugin.log, *plugin.calls.iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    line = plugin.log.read_text()
    assert line.count("\n") == 1
    assert f"iallocator[{os.getpid()}] allocate web: rbd, " in line
    assert f"{call['seconds']:.3f} s, 3 nodes, 0 instances; {json.loads(out)['info']}" in line


def test_invalid_request_is_kept_with_its_error(plugin: Plugin) -> None:
    """An invalid request is stored with its error, without the name of Ganeti's temporary file."""
    status, out, err = plugin.run(raw=b'{"request": 3}')
    assert (status, out) == (2, "")
    file, _, error = err.removeprefix("iallocator: ").rstrip("\n").partition(": ")
    assert file.endswith("/request.json")
    assert json.loads(plugin.kept(1, "response.json.gz")) == {"error": error}
    assert plugin.call(1)["status"] == 2
    assert f"request not understood; {plugin.call(1)['seconds']:.3f} s; exit status 2: {error}" in (
        plugin.log.read_text()
    )


@pytest.mark.parametrize(
    ("error", "reported", "status"),
    [
        (RuntimeError("oh"), "crash: RuntimeError: oh", 1),
        (Stopped(SIGNALLED), "interrupted", 130),
    ],
)
def test_call_without_an_answer_is_kept(
    error: BaseException,
    reported: str,
    status: int,
    plugin: Plugin,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A call without an answer is stored, with the traceback or the signal that ended it."""

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(engine, "decide", fail)
    if isinstance(error, RuntimeError):
        with pytest.raises(RuntimeError):
            plugin.run()
    else:
        assert plugin.run()[0] == status
    assert plugin.names() == [f"000001.{kind}" for kind in KINDS if kind != "response.json.gz"]
    assert (plugin.call(1)["error"], plugin.call(1)["status"]) == (reported, status)
    assert plugin.call(1)["type"] == "allocate"
    assert reported in plugin.log.read_text()


def test_request_is_kept_before_it_is_computed(plugin: Plugin) -> None:
    """If the process is killed before its answer, the request is already stored."""
    script = (
        "import os, signal, iallocator.engine as engine\n"
        "engine.decide = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "from iallocator.cli import main\nmain()"
    )
    words = [sys.executable, "-c", script, f"--capture={plugin.calls}"]
    done = subprocess.run(words, input=plugin.raw, check=False)
    assert done.returncode == -signal.SIGKILL
    assert plugin.names() == ["000001.args", "000001.request.json.gz"]
    assert plugin.kept(1, "request.json.gz") == plugin.raw


def test_answer_of_a_request_out_of_time_is_kept(plugin: Plugin) -> None:
    """The answer of a request that ran out of time is stored."""
    assert plugin.run("--time-limit=0", "--optimal")[0] == 0
    assert "info" in plugin.call(1)


@pytest.mark.parametrize("wrong", ["missing", "file"])
def test_unwritable_folder_is_a_warning_in_the_answer(
    wrong: str, plugin: Plugin, tmp_path: Path
) -> None:
    """If the folder or the log cannot be written, the answer has a warning, and the status is 0."""
    (tmp_path / "file").write_text("")
    status, out, err = plugin.run(f"--capture={tmp_path / wrong}", f"--log={tmp_path}")
    answer = json.loads(out)
    assert (status, answer["success"]) == (0, True)
    for what in (f"--capture={tmp_path / wrong}: this call is not captured: ",
                 f"--log={tmp_path}: this call is not logged: Is a directory"):  # fmt: skip
        assert what in answer["info"]
        assert f"Warning: {what}" in err


@pytest.mark.parametrize(("limit", "left"), [(100, []), (1500, KINDS)])
def test_full_disk_is_a_warning_in_the_answer(
    limit: int, left: tuple[str, ...], plugin: Plugin
) -> None:
    """If the disk is full, the answer has a warning, and no incomplete file is left."""
    raw = as_bytes(allocate_rbd(cluster(3), "w" * 2000))
    script = (
        "import resource\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, resource.RLIM_INFINITY))\n"
        "from iallocator.cli import main\nmain()"
    )
    words = [sys.executable, "-c", script, f"--capture={plugin.calls}"]
    done = subprocess.run(words, input=raw, capture_output=True, check=True)
    answer = json.loads(done.stdout)
    assert answer["success"]
    assert f"--capture={plugin.calls}: this call is not captured: File too large" in answer["info"]
    assert plugin.names() == [f"000001.{kind}" for kind in left if kind != "call.json"]
    if left:
        assert plugin.kept(1, "request.json.gz") == raw


def test_log_pipe_without_a_reader_does_not_delay_the_answer(
    plugin: Plugin, tmp_path: Path
) -> None:
    """If the log is a pipe without a reader, the program does not wait for one."""
    os.mkfifo(tmp_path / "pipe")
    status, out, _ = plugin.run(f"--log={tmp_path / 'pipe'}")
    assert status == 0
    assert "this call is not logged: No such device or address" in json.loads(out)["info"]


def test_number_of_kept_calls_is_limited(plugin: Plugin) -> None:
    """--capture-keep deletes the oldest calls, also incomplete ones; other files stay."""
    (plugin.calls / "notes.txt").write_text("mine")
    (plugin.calls / ".000001.request.json.gz.99.new").write_text("half")
    for _ in range(4):
        plugin.run("--capture-keep=2")
    assert plugin.names() == sorted(
        ["notes.txt", *(f"{number:06}.{kind}" for number in (4, 5) for kind in KINDS)]
    )


def test_calls_that_are_too_old_are_deleted(plugin: Plugin) -> None:
    """--capture-days deletes old calls, but never the present one."""
    for _ in range(3):
        plugin.run()
    then = time.time() - 2.5 * 86400
    for number in (1, 2):
        for kind in KINDS:
            os.utime(plugin.calls / f"{number:06}.{kind}", (then, then))
    plugin.run("--capture-days=3")
    assert len(plugin.names()) == 4 * len(KINDS)
    plugin.run("--capture-days=2")
    assert {name[:6] for name in plugin.names()} == {"000003", "000004", "000005"}
    plugin.run("--capture-days=0")
    assert {name[:6] for name in plugin.names()} == {"000006"}


def test_simultaneous_calls_have_different_numbers(plugin: Plugin) -> None:
    """Calls of several processes that write into one folder and one log are all stored."""
    words = [sys.executable, "-m", "iallocator", f"--capture={plugin.calls}", f"--log={plugin.log}"]

    def call(_: int) -> bytes:
        return subprocess.run(words, input=plugin.raw, capture_output=True, check=True).stdout

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(call, range(6)))
    assert not any(b"not captured" in answer for answer in answers)
    assert plugin.names() == sorted(f"{n:06}.{kind}" for n in range(1, 7) for kind in KINDS)
    lines = plugin.log.read_text().splitlines()
    assert len(lines) == 6
    assert all(" allocate web: rbd, " in line for line in lines)


def test_log_writes_control_characters_as_codes(plugin: Plugin) -> None:
    """The log has control characters of names as codes."""
    plugin.run(raw=as_bytes(allocate_rbd(cluster(2), "we\nb\x1b[2J")))
    assert "allocate we\\nb\\x1b[2J: rbd" in plugin.log.read_text()


def test_log_of_the_system_is_reported(
    plugin: Plugin, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The system log gets invalid requests as errors; if it is missing, a warning is printed."""
    logged: list[tuple[int, str]] = []
    fake = ModuleType("syslog")
    fake.LOG_PID, fake.LOG_DAEMON, fake.LOG_ERR, fake.LOG_INFO = 1, 2, 3, 6  # type: ignore[attr-defined]
    fake.openlog = lambda *_: None  # type: ignore[attr-defined]
    fake.syslog = lambda weight, line: logged.append((weight, line))  # type: ignore[attr-defined]
    monkeypatch.setattr("iallocator.calls.call.syslog", fake)
    monkeypatch.setattr(log, "SOCKET", str(plugin.calls))
    plugin.run("--log=syslog")
    plugin.run("--log=syslog", raw=b"{}")
    assert [weight for weight, _ in logged] == [6, 3]
    assert logged[0][1].startswith("allocate web: rbd, ")
    monkeypatch.setattr(log, "SOCKET", str(tmp_path / "absent"))
    assert (
        "--log=syslog: this call is not logged" in json.loads(plugin.run("--log=syslog")[1])["info"]
    )


MISUSED = {
    "--n1=wrong": "--n1: expected one of",
    "--wish": "unknown option --wish",
    "--capture-keep=3": "needs --capture FOLDER",
    "second.json": "one request file at most",
}
"""Invalid options -> the error that is logged."""


@pytest.mark.parametrize("known", ["before", "after", "file", "damaged file"])
@pytest.mark.parametrize("word", MISUSED)
def test_invalid_options_are_logged(
    word: str, known: str, plugin: Plugin, tmp_path: Path, capsys: Capture
) -> None:
    """A call with invalid options is logged with the error that Ganeti received."""
    file = tmp_path / "conf"
    damage = "wish = 1" if known == "damaged file" else ""
    file.write_text(f'log = "{plugin.log}"\n{damage}\n')
    where = {"before": [f"--log={plugin.log}"], "after": []}.get(known, [f"--config={file}"])
    words = [*where, word, "doc.json", *([f"--log={plugin.log}"] if known == "after" else [])]
    assert main(words) == 2
    output = capsys.readouterr().err
    assert "exit status 2: " + output.removeprefix("iallocator: ") in plugin.log.read_text()
    assert MISUSED[word] in output or known == "damaged file"


def test_invalid_options_without_a_log_are_not_logged(plugin: Plugin, capsys: Capture) -> None:
    """With --no-config, invalid options are not written to the log of the configuration."""
    assert main(["--n1=wrong", "--no-config", "doc.json"]) == 2
    assert capsys.readouterr().err.startswith("iallocator: --n1: expected one of")
    assert not plugin.log.exists()


def test_limits_of_kept_calls_are_rejected_if_none_is_kept(capsys: Capture) -> None:
    """--capture-keep and --capture-days without --capture are rejected."""
    assert main(["--capture-keep=3", "-"]) == 2
    assert "needs --capture FOLDER" in capsys.readouterr().err


def test_answer_contains_warnings_that_ganeti_would_drop(plugin: Plugin) -> None:
    """The answer contains the first warnings, which Ganeti would drop; not with --compat hail."""
    there = {"old": rbd("node1", memory=100)}
    document = allocate_rbd(cluster(6, instances=there), "web")
    for node in document["nodes"].values():
        node["free_memory"] -= 1000
    document["cluster_tags"] = ["iallocator:strategy:bets"]
    info = json.loads(plugin.run(raw=as_bytes(document))[1])["info"]
    assert (
        "; cluster has inconsistent data: node node1 is missing 1000 MB ram and 0 GB disk, " in info
    )
    assert info.count("is missing") == 3
    assert ", and 3 more; tag of the cluster: iallocator:strategy:bets does not count: " in info
    assert (
        "does not count"
        not in json.loads(plugin.run("--compat=hail", raw=as_bytes(document))[1])["info"]
    )
