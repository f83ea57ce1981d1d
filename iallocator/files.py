"""Reading documents from files."""

from __future__ import annotations

import sys

from iallocator.errors import UsageError

__all__ = ["read_file"]


def read_file(path: str) -> bytes:
    """The bytes of the file at `path`; of standard input if it is ``-``.

    Raises
    ------
    UsageError
        If it cannot be read.
    """
    try:
        if path == "-":
            return sys.stdin.buffer.read()
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
