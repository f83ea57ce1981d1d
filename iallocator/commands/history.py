"""The command ``history``."""

from __future__ import annotations

import sys
import time

from iallocator.calls.history import read_history
from iallocator.commands.command import Command, Result
from iallocator.engine import read
from iallocator.errors import IallocatorError, UsageError, tell
from iallocator.files import read_file
from iallocator.render.table import Column, Page, Table, wants_colour

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.calls.history import Entry
    from iallocator.commands.other_options import History as Settings

__all__ = ["History"]

LONGEST = 100
"""Characters of an answer in the table."""

DAY = 86400
"""Seconds."""


class History(Command):
    """Lists the captured calls of a folder."""

    settings: Settings

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
            try:  # the call was not noted when it ended: find out what was asked
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
        super().__init__({"calls": [entry.document() for entry in entries]})
        self._entries = entries

    def text(self) -> str:
        """Return the calls as a table."""
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
