"""A history in a folder: one file per day, ``2026-01-02.jsonl``, with one JSON object per line.

Files of days that are too old are removed. A line that is damaged or incomplete is left out and
counted.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime

from iallocator.errors import UsageError, tell
from iallocator.files import read_file
from iallocator.units import DAY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from iallocator.aliases import Json

__all__ = ["DayFiles", "day_file", "time_words"]

ENDING = ".jsonl"


def time_words(moment: float) -> str:
    """Return a time (UTC), given in seconds since 1970, as text: ``2026-01-02T03:10:00Z``."""
    return datetime.fromtimestamp(moment, UTC).isoformat().replace("+00:00", "Z")


class DayFiles:
    """The files of a history, one for each day.

    Attributes
    ----------
    folder:
        The folder, as the option ``--history`` names it.
    days:
        The number of days for which files are kept.
    damaged:
        How many lines or files could not be read. A caller that rejects a line adds 1.
    """

    def __init__(self, folder: str, days: int) -> None:
        self.folder = folder
        self.days = days
        self.damaged = 0

    def lines(self, now: float, limit: int) -> Iterator[tuple[str, str]]:
        """Yield the name of the file and the line, for every line of the days until `now`.

        `now`: seconds since 1970. `limit`: most bytes of a file. A larger file counts as damaged.

        Raises
        ------
        UsageError
            If the folder cannot be made or read.
        """
        try:
            os.makedirs(self.folder, exist_ok=True)
            names = sorted(os.listdir(self.folder))
        except OSError as error:
            raise UsageError(f"--history: {self.folder}: {error.strerror}") from None
        for name in names:
            if not name.endswith(ENDING) or not self._first(now) <= name <= day_file(now):
                continue
            try:
                raw = read_file(os.path.join(self.folder, name), limit)
            except UsageError:
                self.damaged += 1
                continue
            for line in raw.decode("utf-8", "replace").splitlines():
                yield name, line

    def warn_of_damage(self) -> None:
        """Report on stderr how many lines or files are damaged, if any are."""
        if self.damaged:
            tell(f"Warning: {self.folder}: {self.damaged} damaged lines or files are left out")

    def add(self, moment: float, document: Json) -> None:
        """Append `document` to the file of its day, and remove the files that are too old.

        The newest files stay, one for each day to keep and one more, however old they are.

        Raises
        ------
        UsageError
            If the file cannot be written.
        """
        path = os.path.join(self.folder, day_file(moment))
        line = f"{json.dumps(document, separators=(',', ':'))}\n".encode()
        try:
            with open(path, "a+b") as file:
                if file.tell():
                    file.seek(-1, os.SEEK_END)
                    if file.read(1) != b"\n":  # a run that was killed left half a line
                        line = b"\n" + line
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
            # A clock that is wrong once must not remove all files: the newest ones stay
            names = sorted(name for name in os.listdir(self.folder) if name.endswith(ENDING))
            for name in names[: -self.days - 1]:
                if name < self._first(moment):
                    os.remove(os.path.join(self.folder, name))
        except OSError as error:
            raise UsageError(f"--history: {path}: {error.strerror}") from None

    def _first(self, now: float) -> str:
        return day_file(now - self.days * DAY)


def day_file(moment: float) -> str:
    """Return the name of the file of the day (UTC) with `moment`, in seconds since 1970."""
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d}{ENDING}"
