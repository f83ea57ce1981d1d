"""Test SIGINT and SIGTERM at any moment: the plan so far, exit status 130 or 143, no traceback."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from iallocator import deadline
from iallocator.commands import COMMANDS
from iallocator.deadline import Deadline, Running, Stopped
from tests.builders import allocate, as_bytes, cluster
from tests.command import COMMAND
from tests.paths import ROOT
from tests.patience import PATIENCE
from tests.planners.test_balance_interrupted import unbalanced
from tests.seeds import seeds

SCRIPT = """
from iallocator import process

heed = process._on_signal

def heed_and_report(handler):
    heed(handler)
    open({!r}, "w").close()

process._on_signal = heed_and_report
process.run()
"""
"""A script that creates a file when the program has installed its signal handlers."""

FIFTH_STEP = """
import os
from iallocator import process
from iallocator.planners.balance.scan.scan import MoveScan

best, steps = MoveScan.best, []

def interrupted(*arguments, **more):
    steps.append(1)
    if len(steps) == 5:
        os.kill(os.getpid(), {})
    return best(*arguments, **more)

MoveScan.best = interrupted
process.run()
"""
"""A script that sends itself a signal when the fifth move is searched."""

STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143}


def heeding(folder: Path, *arguments: str) -> tuple[subprocess.Popen[bytes], Path]:
    """Start the program, which creates the returned file when its handlers are installed."""
    ready = folder / "ready"
    command = [sys.executable, "-c", SCRIPT.format(str(ready)), *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe), ready


def wait_for(file: Path, running: subprocess.Popen[bytes]) -> None:
    """Wait until the process creates `file`."""
    while not file.exists():
        assert running.poll() is None or file.exists(), running.communicate()
        time.sleep(0.001)


@pytest.mark.parametrize("number", STATUS)
def test_signal_while_planning_prints_the_plan_so_far(
    number: signal.Signals, tmp_path: Path
) -> None:
    """After a signal during planning, `balance` prints the moves so far as a document."""
    done = subprocess.run(
        [sys.executable, "-c", FIFTH_STEP.format(int(number)), "balance", "--json", "-t",
         unbalanced(tmp_path, 12, 60)],
        cwd=ROOT, capture_output=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (STATUS[number], b"")
    plan = json.loads(done.stdout)
    assert plan["groups"][0]["reason"] == "interrupted"
    assert len(plan["moves"]) == 4


@pytest.mark.parametrize("number", STATUS)
@pytest.mark.parametrize("milliseconds", [30, 60, 100, 200])
def test_signal_at_any_moment_shows_no_traceback(
    number: signal.Signals, milliseconds: int, tmp_path: Path
) -> None:
    """A signal at any moment causes no traceback and no incomplete document.

    Signals are sent after the start of the interpreter, before which the program has no handler.
    """
    running, ready = heeding(tmp_path, "balance", "--json", "-t", unbalanced(tmp_path))
    wait_for(ready, running)
    time.sleep(milliseconds / 1000)
    running.send_signal(number)
    out, err = running.communicate(timeout=PATIENCE)
    assert running.returncode in (STATUS[number], 0), err
    assert b"Traceback" not in err
    if out:
        json.loads(out)


@pytest.mark.parametrize("start", ["bin/iallocator", "iallocator/__main__.py"])
def test_ctrl_c_while_the_program_is_being_loaded_shows_no_traceback(
    start: str, tmp_path: Path
) -> None:
    """Ctrl-C while modules are imported causes no traceback."""
    package = tmp_path / "iallocator"
    package.mkdir()
    (package / "process.py").write_text("import os\nos.kill(os.getpid(), 2)\nraise SystemExit(7)\n")
    script = Path(shutil.copy(ROOT / start, tmp_path / "start.py"))
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")


def test_signal_while_reading_ends_the_program(tmp_path: Path) -> None:
    """A signal while a document is read ends the program without output."""
    running, ready = heeding(tmp_path)
    wait_for(ready, running)
    running.send_signal(signal.SIGTERM)
    out, err = running.communicate(timeout=PATIENCE)
    assert running.returncode == 143
    assert (out, err) == (b"", b"")


@pytest.mark.parametrize("arguments", [[], ["explain", "-"], ["constraints", "-"]])
def test_output_in_another_encoding_loses_nothing(arguments: list[str]) -> None:
    """If standard output is ASCII, names with other letters cause no error."""
    document = allocate(cluster({"größe": 2}), name="mörder")
    done = subprocess.run(
        [*COMMAND, *arguments], input=as_bytes(document), capture_output=True, check=False,
        cwd=ROOT, env=os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr


def test_replay_with_processes_prints_no_traceback(tmp_path: Path) -> None:
    """`replay -j 2` prints nothing on stderr when it ends its processes."""
    (tmp_path / "a.request.json").write_bytes(as_bytes(allocate(cluster(2))))
    (tmp_path / "b.request.json").write_bytes(as_bytes(allocate(cluster(3))))
    for _ in range(3):
        done = subprocess.run(
            [*COMMAND, "replay", "--update", "-j", "2", str(tmp_path)],
            capture_output=True,
            check=False,
            cwd=ROOT,
        )
        assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("number", STATUS)
def test_signal_ends_replay_before_the_next_case(number: signal.Signals, tmp_path: Path) -> None:
    """A signal ends replay: the interrupted case is not stored, and later cases do not run."""
    cases = 60
    for k in range(cases):
        (tmp_path / f"{k:02}.request.json").write_bytes(as_bytes(allocate(cluster(99))))
    running = subprocess.Popen(
        [*COMMAND, "replay", "--update", str(tmp_path)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert running.stdout is not None
    first = running.stdout.readline()
    running.send_signal(number)
    rest, err = running.communicate(timeout=PATIENCE)
    lines = [line for line in (first + rest).splitlines() if line.startswith("written")]
    assert running.returncode == STATUS[number], err
    assert 1 <= len(lines) < cases
    assert len(list(tmp_path.glob("*.response.json"))) == len(lines)


LATE_WORKER = """
import os, time
from iallocator.process import run

started = []
os.register_at_fork(
    before=lambda: started.append(1),
    after_in_child=lambda: time.sleep(3 * (len(started) == 2)),
)
run()
"""
"""A script in which the second child process is ready only after 3 s."""


def test_replay_ends_while_a_worker_is_still_starting(tmp_path: Path) -> None:
    """`replay` ends without waiting for a process that is still starting."""
    for name in "ab":
        (tmp_path / f"{name}.request.json").write_bytes(as_bytes(allocate(cluster(2))))
    words = ["replay", "--update", "-j", "2", str(tmp_path)]
    running = subprocess.Popen(
        [sys.executable, "-c", LATE_WORKER, *words],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0,
    )  # fmt: skip
    try:
        _, err = running.communicate(timeout=PATIENCE)
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.communicate()
    assert (running.returncode, err) == (0, "")
    assert len(list(tmp_path.glob("*.response.json"))) == 2


PIPE = 4096
"""Bytes that fit into a pipe without a reader."""

LONG = {
    signal.SIGINT: ("balance --json -l60 -t unbalanced", "constraints --all -t unbalanced",
                    "--top=999 doc"),
    signal.SIGTERM: (
        "capacity --json -l30 -t unbalanced", "constraints --all --json -t unbalanced",
        "explain --json doc",
    ),
}  # fmt: skip
"""Command lines with more output than a pipe holds."""


def interrupted_while_printing(arguments: list[str], number: signal.Signals) -> tuple[int, bytes]:
    """Return status and output of a program that gets a signal after its first byte."""
    ours, theirs = os.pipe()
    fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, PIPE)
    running = subprocess.Popen(
        [*COMMAND, *arguments], cwd=ROOT, stdout=theirs, stderr=subprocess.DEVNULL
    )
    os.close(theirs)
    first = os.read(ours, 1)
    running.send_signal(number)
    with open(ours, "rb") as rest:
        out = first + rest.read()
    return running.wait(PATIENCE), out


@pytest.mark.parametrize(
    ("number", "words"), [(number, words) for number, every in LONG.items() for words in every]
)
def test_signal_while_printing_completes_the_output(
    number: signal.Signals, words: str, tmp_path: Path
) -> None:
    """After a signal during printing, the output is complete; the exit status names the signal."""
    files = {"unbalanced": unbalanced(tmp_path, instances=80), "doc": str(tmp_path / "doc")}
    Path(files["doc"]).write_bytes(as_bytes(allocate(cluster(99))))
    arguments = [files.get(word, word) for word in words.split()]
    whole = subprocess.run([*COMMAND, *arguments], cwd=ROOT, capture_output=True, check=True).stdout
    assert len(whole) > 2 * PIPE
    assert interrupted_while_printing(arguments, number) == (STATUS[number], whole)


SOMEWHEN = {
    "ask": "ask allocate --memory=1G --disk=1G --template=plain --json -t unbalanced",
    "balance": "balance --json -t unbalanced",
    "balance-groups": "balance-groups --json -t unbalanced",
    "capacity": "capacity --json -l30 -t unbalanced",
    "check": "check --json -l2 -t unbalanced",
    "compress": "compress --json -t unbalanced",
    "config": "config --json doc",
    "constraints": "constraints --all --json -t unbalanced",
    "explain": "explain --json doc",
    "history": "history --json calls",
    "maintain": "maintain --json --force --after=stay -t unbalanced",
    "make-room": "make-room --json doc",
    "metrics": "metrics --json -t unbalanced",
    "place": "place --json --strategy=pacemaker-minimal -t unbalanced",
    "reboot": "reboot --json --force -t unbalanced",
    "redistribute": "redistribute --json -t unbalanced",
    "repair": "repair --json -t unbalanced",
    "replay": "replay doc",
    "rescue": "rescue node00 --json -t unbalanced",
    "report": "report -t unbalanced",
    "show": "show --json doc",
    "snapshot": "snapshot --form=json doc",
    "squeeze": "squeeze --json --master-node=node00 -t unbalanced",
    "": "doc",
}
"""A command line for every command that takes a while."""


def test_table_of_commands_to_interrupt_is_complete() -> None:
    """Every command has a command line to be interrupted."""
    assert set(SOMEWHEN) == {"", *COMMANDS}


@pytest.mark.parametrize("command", SOMEWHEN)
def test_signal_at_a_random_moment_leaves_a_complete_answer_or_none(
    command: str, tmp_path: Path
) -> None:
    """At a random moment, a signal leaves a complete document on stdout, or nothing."""
    if command == "report":
        pytest.importorskip("jinja2", reason="the template library is not installed")
    names = {name: str(tmp_path / name) for name in ("doc", "calls")}
    files = {"unbalanced": unbalanced(tmp_path, 12, 60), **names}
    Path(files["doc"]).write_bytes(as_bytes(allocate(cluster(99))))
    Path(files["calls"]).mkdir()
    (Path(files["calls"]) / "000001.request.json.gz").write_bytes(as_bytes(allocate(cluster(99))))
    arguments = [files.get(word, word) for word in SOMEWHEN[command].split()]
    for seed in seeds(1, 4):
        rng = Random(f"{command}{seed}")
        number = rng.choice(list(STATUS))
        running, ready = heeding(tmp_path, *arguments)
        wait_for(ready, running)
        time.sleep(rng.random() * 0.4)
        running.send_signal(number)
        out, err = running.communicate(timeout=PATIENCE)
        assert running.returncode in (STATUS[number], 0, 1), err
        assert b"Traceback" not in err
        if out and command == "report":
            assert out.endswith(b"</html>\n")
        elif out and command != "replay":
            json.loads(out)
        ready.unlink()


IN_A_CALLBACK = """
import signal, sys, weakref
from iallocator import cli, deadline, process

class Kept: pass

def main():
    kept = Kept()
    reference = weakref.ref(kept, lambda _: signal.raise_signal(int(sys.argv[1])))
    del kept  # the callback runs here: what it raised would be lost
    try:
        deadline.check()
    except deadline.Stopped:
        print("stopped")
        return 130
    return 0

cli.main = main
process.run()
"""
"""A script that receives a signal in a callback, where Python ignores exceptions."""


@pytest.mark.parametrize("number", STATUS)
def test_signal_in_a_callback_ends_the_next_loop(number: signal.Signals) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", IN_A_CALLBACK, str(int(number))],
        capture_output=True, cwd=ROOT, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout, ended.stderr) == (STATUS[number], b"stopped\n", b"")


def test_second_signal_ends_the_program_at_once(tmp_path: Path) -> None:
    """A second signal ends the program at once, even if it does not check for signals."""
    script = (
        "import os, signal\nfrom iallocator import cli, process\n"
        "def main():\n    os.kill(os.getpid(), 2)\n    print('alive', flush=True)\n"
        "    os.kill(os.getpid(), 2)\n    print('still alive', flush=True)\n"
        "cli.main = main\nprocess.run()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, cwd=ROOT, timeout=PATIENCE, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"alive\n", b"")


@pytest.mark.parametrize("number", STATUS)
def test_signal_while_a_pipe_has_no_writer_ends_the_program(
    number: signal.Signals, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    running, ready = heeding(tmp_path, "show", str(tmp_path / "pipe"))
    wait_for(ready, running)
    time.sleep(0.3)
    running.send_signal(number)
    out, err = running.communicate(timeout=PATIENCE)
    assert (running.returncode, out, err) == (STATUS[number], b"", b"")


def test_signal_precedes_the_simultaneous_end_of_a_pipe() -> None:
    """A program that is interrupted while its input ends reports the signal only."""
    reader, writer = os.pipe()

    def end_both(*_: object) -> None:
        deadline.interrupt()
        os.close(writer)

    before = signal.signal(signal.SIGALRM, end_both)
    try:
        with Running():
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(Stopped):
                Deadline(PATIENCE).wait(reader, "no input")
    finally:
        signal.signal(signal.SIGALRM, before)
        os.close(reader)
