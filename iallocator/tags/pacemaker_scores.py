"""Pacemaker's scores: integers that saturate at a million, which is infinity."""

from __future__ import annotations

__all__ = ["INFINITY", "add", "read_score", "shown"]

INFINITY = 1_000_000

WORDS = {"INFINITY": INFINITY, "+INFINITY": INFINITY, "-INFINITY": -INFINITY}


def read_score(text: str) -> int:
    """An integer, clamped to ±`INFINITY`, or one of ``INFINITY``, ``-INFINITY``.

    Raises
    ------
    ValueError
        If `text` is neither.
    """
    value = WORDS.get(text)
    return max(-INFINITY, min(INFINITY, int(text))) if value is None else value


def add(one: int, other: int) -> int:
    """The sum; minus infinity wins over plus infinity, and that over every number."""
    for infinite in (-INFINITY, INFINITY):
        if infinite in (one, other):
            return infinite
    return max(-INFINITY, min(INFINITY, one + other))


def shown(score: int) -> str:
    """The score as tags write it."""
    if abs(score) < INFINITY:
        return str(score)
    return "INFINITY" if score > 0 else "-INFINITY"
