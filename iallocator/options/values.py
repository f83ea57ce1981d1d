"""What the words on a command line may be, and what they mean.

A reader takes text and returns a value; a `ValueError` says what it expects.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "HIGHEST", "amount", "byte_size", "choice", "file_name", "name_list", "number_between",
    "score", "share", "signed", "strategy", "whole", "whole_between",
]  # fmt: skip

UNITS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
"""What sizes are written in."""

HIGHEST = 2**53
"""The largest number that an option takes: beyond it, floats skip whole numbers."""


def whole_between(lowest: int, highest: int = HIGHEST) -> Callable[[str], int]:
    """Reads a whole number within these bounds, both included."""

    def read(text: str) -> int:
        digits = text.lstrip("0") or "0"
        known = text.isascii() and text.isdigit() and len(digits) <= len(str(highest))
        if not known or not lowest <= int(digits) <= highest:
            raise ValueError(f"a whole number from {lowest} to {highest}")
        return int(digits)

    return read


whole = whole_between(0)


def number_between(lowest: float, highest: float = HIGHEST) -> Callable[[str], float]:
    """Reads a decimal number within these bounds, both included."""

    def read(text: str) -> float:
        try:
            value = float(text) if set(text) <= set("0123456789.+-eE") else None
        except ValueError:
            value = None
        if value is None or not lowest <= value <= highest:
            raise ValueError(f"a number from {lowest} to {highest}")
        return value

    return read


signed = number_between(-HIGHEST)
amount = number_between(0)
share = number_between(0, 1)


def byte_size(text: str) -> int:
    """Bytes, or KiB, MiB, GiB, TiB with ``k``, ``m``, ``g``, ``t`` after the number."""
    digits = text[:-1] if text[-1:].lower() in UNITS else text
    try:
        return whole_between(1)(digits) * UNITS.get(text[-1:].lower(), 1)
    except ValueError:
        raise ValueError("a size like 500000, 64m or 2g") from None


def name_list(text: str) -> list[str]:
    """Names with commas between them."""
    found = text.split(",")
    if not all(found):
        raise ValueError("names with commas between them")
    return found


def file_name(text: str) -> str:
    """A name that can be opened."""
    if not text or "\0" in text:
        raise ValueError("the name of a file")
    return text


def strategy(text: str) -> str:
    """The name of a strategy; what knows them all loads late."""
    from iallocator.ranking import strategy_name

    return strategy_name(text)


def score(text: str) -> int:
    """A whole number of either sign, or ``INFINITY``, or ``-INFINITY``."""
    from iallocator.tags.pacemaker_scores import read_score

    try:
        return read_score(text)
    except ValueError:
        raise ValueError("a whole number, INFINITY or -INFINITY") from None


def choice(*values: str) -> Callable[[str], str]:
    """One of `values`."""

    def read(text: str) -> str:
        if text not in values:
            raise ValueError("one of " + ", ".join(values))
        return text

    return read
