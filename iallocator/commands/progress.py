"""How far a command is: one line on the terminal, for what takes more than a moment.

Nothing is loaded and nothing shown before a second is over, nor where stderr is no terminal,
nor for who wants quiet.  The line is drawn by a thread of its own, so that it moves while
the work is in the middle of something.
"""

from __future__ import annotations

import os
import sys
from time import monotonic

from iallocator.errors import Voice, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event

    from iallocator.planners.plan import Plan

__all__ = ["progress_line", "say_plan", "say_progress", "say_share"]

SOON = 1.0
"""Seconds before anything is shown."""

EVERY = 0.1
"""Seconds between two drawings."""

HINT = "Ctrl-C ends it"


def new_event() -> Event:
    """What a line waits for; threads are loaded only where there is one."""
    from threading import Event

    return Event()


class _Line:
    """What the line says now; `part` is how much is done, 0 to 1, None if nobody knows."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.part: float | None = None
        self.over = new_event()
        self._since = monotonic()

    def draw(self) -> None:
        """Show it until it is over."""
        if self.over.wait(SOON):
            return
        try:
            from rich.progress import Progress
        except ImportError:
            while not self.over.wait(EVERY):
                print(f"\r\x1b[K{shown(self.text)} ...", end="", file=sys.stderr, flush=True)
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        else:
            self._draw_with(Progress)

    def _draw_with(self, library: type) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, SpinnerColumn, TextColumn

        class Terminal(Console):
            """One whose cursor nobody has to bring back, however the program ends."""

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
            task = bar.add_task(shown(self.text), total=None, seconds=int(SOON))
            while not self.over.wait(EVERY):
                total = None if self.part is None else 1.0
                bar.update(
                    task, description=shown(self.text), completed=self.part, total=total,
                    seconds=int(monotonic() - self._since),
                )  # fmt: skip
                bar.refresh()


_lines: list[_Line] = []
"""The one that is shown is the last."""


class progress_line:  # noqa: N801  # used like a function, and needs no more than this
    """A ``with`` block that shows how far it is; at its end the line is gone."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._line: _Line | None = None

    def __enter__(self) -> None:
        if not _wanted():
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


def _wanted() -> bool:
    return (
        sys.stderr is not None
        and sys.stderr.isatty()
        and not Voice.quiet
        and os.environ.get("TERM") != "dumb"
    )


def say_progress(text: str) -> None:
    """Let the line say `text`, if there is one."""
    if _lines:
        _lines[-1].text, _lines[-1].part = text, None


def say_share(what: str) -> Callable[[int, int], None]:
    """Tells how many of how many are done: ``12 of 40 nodes``."""

    def tell(done: int, total: int) -> None:
        if _lines:
            _lines[-1].text, _lines[-1].part = f"{done} of {total} {what}", done / max(total, 1)

    return tell


def say_plan(plan: Plan) -> None:
    """Tell how far a plan is that grows move by move."""
    if _lines:
        say_progress(f"{len(plan.entries)} moves, score {plan.after:.8f}")
