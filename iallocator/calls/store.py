"""Writing captured calls into a folder, and deleting old ones."""

from __future__ import annotations

import os
import zlib
from contextlib import suppress
from time import time

from iallocator.calls.layout import ARGS, DIGITS, file_of, next_number, numbered

__all__ = ["Store"]

LEVEL = 1
"""Of compression: half as small again would take three times as long."""

GZIP_WINDOW = 31
"""Makes zlib write what gzip reads."""

DAY = 86400.0
"""Seconds."""


class Store:
    """One call in a folder of captured calls.

    Files are readable for their owner only.  Each appears whole under its name, or not at
    all; other files of the folder are let alone.

    Parameters
    ----------
    folder:
        Must exist.
    keep:
        How many calls are kept at most, this one among them.
    days:
        How old calls become at most.
    """

    def __init__(self, folder: str, keep: int, days: float) -> None:
        self._folder = folder
        self._keep = keep
        self._days = days
        self.number = 0

    def begin(self, arguments: str) -> None:
        """Take the next number, and keep the arguments under it.

        Raises
        ------
        OSError
            As all methods, if that cannot be written; nothing is left of it then.
        """
        number = next_number(numbered(self._folder))
        while True:
            path = file_of(self._folder, number, ARGS)
            try:
                handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                break
            except FileExistsError:  # by another process, at this moment
                number += 1
        self.number = number
        try:
            _fill(handle, arguments.encode("utf-8", "surrogateescape"))
        except OSError:
            os.unlink(path)
            raise

    def drop(self) -> None:
        """Delete what there is of this call, as far as that goes."""
        with suppress(OSError):
            for name in numbered(self._folder).get(self.number, ()):
                os.unlink(os.path.join(self._folder, name))

    def put(self, kind: str, raw: bytes) -> None:
        """Write one file of the call; compressed, if its name says so."""
        if kind.endswith(".gz"):
            packer = zlib.compressobj(LEVEL, zlib.DEFLATED, GZIP_WINDOW)
            raw = packer.compress(raw) + packer.flush()
        beside = os.path.join(self._folder, f".{self.number:0{DIGITS}}.{kind}.{os.getpid()}.new")
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            _fill(handle, raw)
            os.replace(beside, file_of(self._folder, self.number, kind))
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(beside)
            raise

    def rotate(self) -> None:
        """Delete the calls that are too many or too old; never this one."""
        calls = numbered(self._folder)
        oldest_first = sorted(calls)
        limit = time() - self._days * DAY
        for position, number in enumerate(oldest_first):
            if number >= self.number:
                return
            many = len(oldest_first) - position > self._keep
            if not many and self._newest(calls[number]) > limit:
                return
            for name in calls[number]:
                # another process deletes, too; a folder is nobody's call
                with suppress(FileNotFoundError, IsADirectoryError):
                    os.unlink(os.path.join(self._folder, name))

    def _newest(self, names: list[str]) -> float:
        """When the last of these files was written, in seconds; 0 if all are gone."""
        newest = 0.0
        for name in names:
            with suppress(FileNotFoundError):
                newest = max(newest, os.stat(os.path.join(self._folder, name)).st_mtime)
        return newest


def _fill(handle: int, raw: bytes) -> None:
    with open(handle, "wb") as file:
        file.write(raw)
