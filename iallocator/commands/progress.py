"""Show the progress of a command in one line on the terminal.

Nothing is loaded or shown in the first second, if stderr is not a terminal, or with ``--quiet``.  A
thread draws the line, so that it moves during a long computation.
"""

from __future__ import annotations

import os
import sys
from time import monotonic

from iallocator.errors import Voice, many, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event

    from iallocator.planners.plan import Plan

__all__ = ["progress_line", "say_plan", "say_progress", "say_share"]

PROGRESS_DELAY = 1.0
"""Seconds before anything is shown."""

REDRAW_SECONDS = 0.1
"""Seconds between two drawings."""

HINT = "Ctrl-C ends it"


def new_event() -> Event:
    """Return an event that ends a progress line; `threading` is loaded only if there is a line."""
    from threading import Event

    return Event()


class _Line:
    """A progress line; `part`: the share that is done, 0 to 1; None if it is unknown."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.part: float | None = None
        self.over = new_event()
        self._since = monotonic()

    def draw(self) -> None:
        """Show the progress line until the work ends."""
        if self.over.wait(PROGRESS_DELAY):
            return
        try:
            from rich.progress import Progress
        except ImportError:
            while not self.over.wait(REDRAW_SECONDS):
                print(f"\r\x1b[K{printable(self.text)} ...", end="", file=sys.stderr, flush=True)
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        else:
            self._draw_with(Progress)

    def _draw_with(self, library: type) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, SpinnerColumn, TextColumn

        class Terminal(Console):
            """A terminal with a cursor that is never hidden, because the program may be killed."""

            def show_cursor(self, show: bool = True) -> bool:
                return False

        columns = (
            SpinnerColumn("line"), TextColumn("{task.description}", markup=False), BarColumn(16),
            TextColumn("{task.fields[seconds]} s"), TextColumn(HINT, style="dim"),
        )  # fmt: skip
        console = Terminal(file=sys.stderr)
        bar = library(
            *columns, console=console, auto_refresh=False, transient=True,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        with bar:
            task = bar.add_task(printable(self.text), total=None, seconds=int(PROGRESS_DELAY))
            while not self.over.wait(REDRAW_SECONDS):
                total = None if self.part is None else 1.0
                bar.update(
                    task, description=printable(self.text), completed=self.part, total=total,
                    seconds=int(monotonic() - self._since),
                )  # fmt: skip
                bar.refresh()


_lines: list[_Line] = []
"""The active progress lines; the last one is shown."""


class progress_line:  # noqa: N801  # it is used like a function
    """Shows a progress line during a ``with`` block, and removes it at the end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._line: _Line | None = None

    def __enter__(self) -> None:
        on_terminal = sys.stderr is not None and sys.stderr.isatty()
        if not on_terminal or Voice.quiet or os.environ.get("TERM") == "dumb":
            return
        from threading import Thread

        self._line = line = _Line(self._text)
        self._drawer = Thread(target=line.draw, name="progress", daemon=True)
        _lines.append(line)
        self._drawer.start()

    def __exit__(self, *_: object) -> None:
        if self._line is None:
            return
        self._line.over.set()
        self._drawer.join()
        _lines.remove(self._line)


def say_progress(text: str) -> None:
    """Change the text of the progress line, if there is one."""
    if _lines:
        _lines[-1].text, _lines[-1].part = text, None


def say_share(what: str) -> Callable[[int, int], None]:
    """Return a function that shows how many are done: ``12 of 40 nodes``."""

    def show(done: int, total: int) -> None:
        if _lines:
            _lines[-1].text, _lines[-1].part = f"{done} of {total} {what}", done / max(total, 1)

    return show


def say_plan(plan: Plan) -> None:
    """Show the number of moves of a plan, and its score."""
    if _lines:
        say_progress(f"{many(len(plan.entries), 'move')}, score {plan.after:.4f}")
