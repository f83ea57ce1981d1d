"""Names of the files of captured calls, and the outcomes of calls."""

from __future__ import annotations

import os

from iallocator.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = [
    "CALL",
    "CALL_ARGS",
    "CALL_FILES",
    "CALL_REQUEST",
    "CALL_RESPONSE",
    "CONF",
    "OUTCOMES",
    "file_of",
    "next_number",
    "numbered",
    "referred",
    "request_path",
]

OUTCOMES = ("success", "failed", "error", "crash", "interrupted", "no answer")
"""The outcomes of a call: an answer with success, or without; an error in the request; an error of
this program; a signal; no answer, because the call still runs or was killed."""

CALL_ARGS, CONF, CALL_REQUEST, CALL_RESPONSE, CALL = CALL_FILES = (
    "args", "conf", "request.json.gz", "response.json.gz", "call.json",
)  # fmt: skip

MOST_DIGITS = 18
"""The most digits of the number of a call in a file name."""

FEWEST_DIGITS = 6
"""The fewest digits of a number in a file name; up to a million calls, names sort by number."""


def file_of(folder: str, number: int, kind: str) -> str:
    """Return the path of the file of call `number` with the ending `kind`."""
    return os.path.join(folder, f"{number:0{FEWEST_DIGITS}}.{kind}")


def numbered(folder: str) -> dict[int, list[str]]:
    """Return number of a call in `folder` -> the names of its files; include incomplete calls.

    Raises
    ------
    OSError
        If the folder cannot be read.
    """
    by_number: dict[int, list[str]] = {}
    for name in os.listdir(folder):
        digits, _, kind = name.removeprefix(".").partition(".")
        whole = kind in CALL_FILES and not name.startswith(".")
        half = name.startswith(".") and name.endswith(".new")
        known = (
            FEWEST_DIGITS <= len(digits) <= MOST_DIGITS and digits.isascii() and digits.isdigit()
        )
        if (whole or half) and known and digits == f"{int(digits):0{FEWEST_DIGITS}}":
            by_number.setdefault(int(digits), []).append(name)
    return by_number


def next_number(used_numbers: Collection[int]) -> int:
    """Return the number of the next call, given the `used_numbers`.

    A file of another program may have the largest possible number. Then calls continue after the
    largest number that is followed by a free one.
    """
    number = max(used_numbers, default=0) + 1
    while len(str(number)) > MOST_DIGITS or number in used_numbers:
        number = max((one for one in used_numbers if one + 1 < number), default=0) + 1
    return number


def referred(text: str) -> tuple[str, int] | None:
    """Return folder and number in ``FOLDER#7``; None for another text, or for an existing file."""
    folder, sign, digits = text.rpartition("#")
    known = digits.isascii() and digits.isdigit() and len(digits) <= MOST_DIGITS
    if not sign or not known or os.path.exists(text):
        return None
    return folder or ".", int(digits)


def request_path(text: str) -> str:
    """Return the path of the request of ``FOLDER#7``; any other `text` is returned unchanged.

    Raises
    ------
    UsageError
        If there is no such call.
    """
    reference = referred(text)
    if reference is None:
        return text
    path = file_of(*reference, CALL_REQUEST)
    if not os.path.isfile(path):  # reading a pipe of another program would block
        raise UsageError(f"{text}: no such call; iallocator history {reference[0]} lists them")
    return path
