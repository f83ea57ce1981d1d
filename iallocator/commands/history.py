"""The command ``history``."""

from __future__ import annotations

import sys
import time
from typing import get_args

from iallocator.calls.history import OUTCOMES, read_history
from iallocator.commands.command import Command, Result
from iallocator.errors import IallocatorError, UsageError, tell
from iallocator.options.settings import Settings as Common
from iallocator.options.table import Option
from iallocator.options.values import Choice, amount, whole_between
from iallocator.requests import Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Json
    from iallocator.calls.history import Entry

__all__ = ["History"]

TYPES = tuple(request.kind for request in get_args(Request))

LONGEST = 100
"""Characters of an answer in the table."""

DAY = 86400
"""Seconds."""


class Settings(Common):
    """Which calls, and the form of the list."""

    json: bool = False
    type: str = ""
    outcome: str = ""
    text: str = ""
    days: float | None = None
    last: int | None = None


OPTIONS = (
    Option("--json", "json", "write the calls as one JSON document"),
    Option("--type", "type", "only requests of this type", Choice(*TYPES), "TYPE"),
    Option("--outcome", "outcome", "only calls that ended so: " + ", ".join(OUTCOMES),
           Choice(*OUTCOMES), "OUTCOME"),
    Option("--text", "text", "only calls in which this stands: in what was asked, or answered",
           str, "TEXT"),
    Option("--days", "days", "only calls that are not older", amount, "DAYS"),
    Option("--last", "last", "only the last N of them", whole_between(1), "N"),
)  # fmt: skip


class History(Command):
    """``iallocator history``: the captured calls of a folder, as a table."""

    usage = "[OPTIONS] FOLDER"
    options = OPTIONS
    settings_type = Settings
    settings: Settings

    def check(self) -> None:
        """Reject anything but one folder."""
        if len(self.positional) != 1:
            raise UsageError("history needs one folder of captured calls")

    def find(self) -> Result:
        """Read the calls in the folder, oldest first."""
        folder, settings = self.positional[0], self.settings
        found = read_history(folder)
        if not found:
            raise UsageError(f"{folder}: no captured calls; --capture FOLDER keeps them")
        if settings.verbose:
            tell(f"read {len(found)} calls")
        for entry in found:
            if entry.facts:
                continue
            # The call was not noted when it ended: find out what was asked
            from iallocator.engine import read
            from iallocator.files import read_file

            try:
                cluster, request = read(read_file(entry.request, settings.max_input), settings)
            except IallocatorError:  # then it is not known
                continue
            entry.facts = {"type": request.kind, "asked": request.summary(cluster)}
        wanted = [entry for entry in found if _wanted(entry, settings)][-(settings.last or 0) :]
        if not wanted:
            tell(f"none of {len(found)} captured calls matches")
        return Calls(wanted)


class Calls(Result):
    """Captured calls."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        super().__init__()
        self._entries = entries

    def document(self) -> Json:
        """Return the calls as plain data."""
        return {"calls": [entry.document() for entry in self._entries]}

    def text(self) -> str:
        """Return the calls as a table."""
        from iallocator.render.table import Column, Page, Table, wants_colour

        if not self._entries:
            return ""
        table = Table(
            Column("call", number=True), Column("time"), Column("request"), Column("asked"),
            Column("outcome"), Column("seconds", number=True), Column("why"),
        )  # fmt: skip
        for entry in self._entries:
            when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.time))
            seconds = entry.facts.get("seconds")
            table.add(
                str(entry.number), when, entry.text("type"), entry.text("asked"), entry.outcome,
                "" if seconds is None else f"{seconds:.3f}",
                "" if entry.outcome == "success" else entry.answer_text[:LONGEST],
            )  # fmt: skip
        page = Page(wants_colour(sys.stdout))
        page.table(table, indent=0)
        return page.text()


def _wanted(entry: Entry, settings: Settings) -> bool:
    since = 0.0 if settings.days is None else time.time() - settings.days * DAY
    return (
        settings.type in ("", entry.text("type"))
        and settings.outcome in ("", entry.outcome)
        and settings.text in f"{entry.text('asked')}\n{entry.answer_text}"
        and entry.time >= since
    )
