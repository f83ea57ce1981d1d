"""``iallocator history``: the captured calls of a folder, as a table."""

from __future__ import annotations

import sys
import time

from iallocator.calls.history import OUTCOMES, read_history
from iallocator.calls.layout import asked
from iallocator.commands.shared.plan_output import print_json
from iallocator.engine import read
from iallocator.errors import IallocatorError, UsageError, tell
from iallocator.files import WholeOutput, read_file
from iallocator.options import settings as options
from iallocator.options.table import Option
from iallocator.options.values import amount, choice, whole_between
from iallocator.render.table import Column, Page, Table, wants_colour

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.calls.history import Entry

__all__ = ["OPTIONS", "USAGE", "Settings", "run"]

USAGE = "[OPTIONS] FOLDER"

TYPES = (
    "allocate", "multi-allocate", "allocate-secondary", "relocate", "node-evacuate",
    "change-group", "multi-evacuate",
)  # fmt: skip

LONGEST = 100
"""Characters of an answer in the table."""

DAY = 86400
"""Seconds."""

OPTIONS = (
    Option("--json", "json", "write the calls as one JSON document"),
    Option("--type", "type", "only requests of this type", choice(*TYPES), "TYPE"),
    Option("--outcome", "outcome", "only calls that ended so: " + ", ".join(OUTCOMES),
           choice(*OUTCOMES), "OUTCOME"),
    Option("--text", "text", "only calls in which this stands: in what was asked, or answered",
           str, "TEXT"),
    Option("--days", "days", "only calls that are not older", amount, "DAYS"),
    Option("--last", "last", "only the last N of them", whole_between(1), "N"),
)  # fmt: skip


class Settings(options.Settings):
    """Which calls, and the form of the list."""

    json: bool = False
    type: str = ""
    outcome: str = ""
    text: str = ""
    days: float | None = None
    last: int | None = None


def run(settings: Settings, positional: Sequence[str]) -> int:
    """List the calls in the folder, oldest first."""
    if len(positional) != 1:
        raise UsageError("history needs one folder of captured calls")
    found = read_history(positional[0])
    if not found:
        raise UsageError(f"{positional[0]}: no captured calls; --capture FOLDER keeps them")
    if settings.verbose:
        tell(f"read {len(found)} calls")
    for entry in found:
        _complete(entry, settings)
    wanted = [entry for entry in found if _wanted(entry, settings)][-(settings.last or 0) :]
    if not wanted:
        tell(f"none of {len(found)} captured calls matches")
    with WholeOutput():
        if settings.json:
            print_json({"calls": [entry.document() for entry in wanted]})
        elif wanted:
            _table(wanted)
    return 0


def _complete(entry: Entry, settings: Settings) -> None:
    """Find out what was asked in a call that was not noted in the end."""
    if entry.facts:
        return
    try:
        cluster, request = read(read_file(entry.request, settings.max_input), settings)
    except IallocatorError:  # then it is not known
        return
    entry.facts = {"type": request.kind, "asked": asked(cluster, request)}


def _wanted(entry: Entry, settings: Settings) -> bool:
    since = 0.0 if settings.days is None else time.time() - settings.days * DAY
    return (
        settings.type in ("", entry.text("type"))
        and settings.outcome in ("", entry.outcome)
        and settings.text in f"{entry.text('asked')}\n{entry.answer_text}"
        and entry.time >= since
    )


def _table(found: Sequence[Entry]) -> None:
    table = Table(
        Column("call", number=True), Column("time"), Column("request"), Column("asked"),
        Column("outcome"), Column("seconds", number=True), Column("why"),
    )  # fmt: skip
    for entry in found:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.time))
        seconds = entry.facts.get("seconds")
        table.add(
            str(entry.number), when, entry.text("type"), entry.text("asked"), entry.outcome,
            f"{seconds:.3f}" if isinstance(seconds, (int, float)) else "",
            "" if entry.outcome == "success" else entry.answer_text[:LONGEST],
        )  # fmt: skip
    page = Page(wants_colour(sys.stdout))
    page.table(table, indent=0)
    sys.stdout.write(page.text())
