"""Test that the progress of a long command is one line on the terminal, and nowhere else."""

from __future__ import annotations

import io
import os
import pty
import select
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import redirect_stderr
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO

import pytest

from iallocator.commands import progress
from tests.paths import ROOT
from tests.patience import PATIENCE
from tests.planners.test_balance_interrupted import unbalanced


class Terminal:
    """A simulated terminal, with the output written to it."""

    def __init__(self, ours: int, stream: TextIO | None = None) -> None:
        self.ours = ours
        self.stream = stream
        self.seen = ""

    def wait_for(self, text: str) -> None:
        """Read until `text` has been written; assert that the output does not end before."""
        while text not in self.seen:
            assert select.select([self.ours], [], [], PATIENCE)[0], f"no {text!r} in {self.seen!r}"
            self.seen += os.read(self.ours, 65536).decode(errors="replace")

    def rest(self) -> str:
        """Return all output until the terminal is closed."""
        try:
            while more := os.read(self.ours, 65536):
                self.seen += more.decode(errors="replace")
        except OSError:  # Linux's end of output
            pass
        return self.seen


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """Yield a terminal on which progress is shown at once if stderr is connected to it."""
    ours, theirs = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "PROGRESS_DELAY", 0.0)
    with open(theirs, "w") as stderr:
        yield Terminal(ours, stderr)
    os.close(ours)


@pytest.mark.parametrize(("count", "words"), [(1, "1 move,"), (2, "2 moves,")])
def test_progress_of_a_plan_counts_moves_in_words(
    count: int, words: str, terminal: Terminal
) -> None:
    """The progress of a plan has the number of its moves, singular for one, and the score."""
    plan: Any = SimpleNamespace(entries=[None] * count, after=1.25)
    with redirect_stderr(terminal.stream), progress.progress_line("planning"):
        progress.say_plan(plan)
        terminal.wait_for(f"{words} score 1.2500")


@pytest.mark.parametrize("library", [True, False])
def test_progress_on_a_terminal_is_one_line_that_is_erased(
    library: bool, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The progress is one line on the terminal, which is erased at the end.

    The test runs with and without the library rich.
    """
    if library:
        pytest.importorskip("rich", reason="rich is not installed")
    else:
        monkeypatch.setitem(sys.modules, "rich.progress", None)
    with redirect_stderr(terminal.stream), progress.progress_line("planning"):
        terminal.wait_for("planning")
        progress.say_share("nodes")(3, 12)
        terminal.wait_for("3 of 12 nodes")
        progress.say_progress("evil \x1b[31m name")
        terminal.wait_for("evil \\x1b[31m name")
    assert terminal.stream
    print("done", file=terminal.stream, flush=True)
    terminal.wait_for("done")
    assert "\x1b[2K" in terminal.seen or "\x1b[K" in terminal.seen
    assert "\x1b[?25l" not in terminal.seen, "a cursor that is hidden stays so after kill -9"
    assert not progress._lines
    assert not any(thread.name == "progress" for thread in threading.enumerate())


def test_progress_is_not_shown_in_a_pipe_or_with_quiet(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No progress is shown in a pipe or with --quiet."""
    monkeypatch.setattr("iallocator.errors.Voice.quiet", True)
    with redirect_stderr(terminal.stream), progress.progress_line("planning"):
        assert not progress._lines
    monkeypatch.setattr("iallocator.errors.Voice.quiet", False)
    with redirect_stderr(io.StringIO()), progress.progress_line("planning"):
        assert not progress._lines


def test_progress_of_a_short_command_loads_nothing() -> None:
    """In its first second, a command does not import the library for progress."""
    script = (
        "import sys; from iallocator.cli import main; "
        "from iallocator.commands import progress; progress.PROGRESS_DELAY = 3600; "
        "main(['balance', '--simulate', 'preferred,3,10g,8g,4']); "
        "print('rich' in sys.modules, file=sys.stdout)"
    )
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, stderr=theirs,
        check=True,
    )  # fmt: skip
    os.close(theirs)
    assert Terminal(ours).rest() == ""
    assert done.stdout.endswith(b"False\n")
    os.close(ours)


AT_THE_LINE = """
import os, signal, threading
from iallocator import process
from iallocator.commands import progress

class Waits(threading.Event):
    times = 0
    def wait(self, seconds):
        self.times += any(letter.isdigit() for letter in progress._lines[-1].text)
        if self.times == 2:  # how far it is stood there once
            os.kill(os.getpid(), signal.SIGINT)
        return super().wait(seconds)

progress.new_event, progress.PROGRESS_DELAY, progress.REDRAW_SECONDS = Waits, 0.0, 0.01
process.run()
"""
"""A script that sends Ctrl-C to itself when the progress is shown."""


@pytest.mark.parametrize(
    "words",
    [
        "balance -t", "capacity -t", "reboot --force -t",
        "place --strategy=pacemaker-balanced -t", "check -t",
    ],
)  # fmt: skip
def test_ctrl_c_on_a_terminal_prints_the_plan_so_far(words: str, tmp_path: Path) -> None:
    """After Ctrl-C on a terminal, the progress is erased and the plan so far is printed."""
    arguments = [sys.executable, "-c", AT_THE_LINE, *words.split(), unbalanced(tmp_path, 40, 1500)]
    ours, theirs = pty.openpty()
    with open(tmp_path / "out", "wb") as out:
        running = subprocess.Popen(
            arguments, cwd=ROOT, stdin=theirs, stderr=theirs, stdout=out,
            start_new_session=True, env=os.environ | {"TERM": "xterm"},
        )  # fmt: skip
    os.close(theirs)
    reported = Terminal(ours).rest()  # reads all the time, otherwise the writer would block
    running.wait(PATIENCE)
    os.close(ours)
    assert ("Ctrl-C" if _has_rich() else "...") in reported
    assert running.returncode == 130, reported
    assert "Traceback" not in reported
    assert "interrupted" in (tmp_path / "out").read_text() + reported


def _has_rich() -> bool:
    try:
        import rich.progress  # noqa: F401
    except ImportError:
        return False
    return True
