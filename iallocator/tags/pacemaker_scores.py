"""Pacemaker's scores: integers up to a million, which counts as infinite."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    Score = TypeVar("Score", int, float)

__all__ = [
    "INFINITE_SCORE", "SCORE_WORDS", "add", "is_infinite", "read_integer", "read_score",
    "score_in_tags",
]  # fmt: skip

INFINITE_SCORE = 1_000_000
"""The score that counts as infinite, no unit; as of Pacemaker."""

DECIMAL_CHARACTERS = frozenset("0123456789.+-")
"""The characters of a number with a decimal point."""

SCORE_WORDS = {
    "INFINITY": INFINITE_SCORE,
    "+INFINITY": INFINITE_SCORE,
    "-INFINITY": -INFINITE_SCORE,
}


def read_score(text: str, whole: bool = True) -> float:
    """Return the score in `text`: a number within ±`INFINITE_SCORE`, or a word for an infinity.

    The number is an integer, unless `whole` is False: scores of Pacemaker are integers.

    Raises
    ------
    ValueError
        If `text` is neither a number nor an infinity.
    """
    value: float | None = SCORE_WORDS.get(text)
    if value is not None:
        return value
    if not whole and DECIMAL_CHARACTERS.issuperset(text) and "." in text:
        value = float(text)  # raises the error
    else:
        value = read_integer(text)
    return max(-INFINITE_SCORE, min(INFINITE_SCORE, value))


def is_infinite(text: str) -> bool:
    """Return whether `text` is a score that counts as infinite, of either sign."""
    try:
        return abs(read_score(text, whole=False)) >= INFINITE_SCORE
    except ValueError:
        return False


def read_integer(text: str) -> int:
    """Return the integer in `text`, of any length; values of more than 20 digits are clamped.

    Raises
    ------
    ValueError
        If `text` is not an integer.
    """
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"an integer, got {text!r}")
    size = int("9" * 20 if len(digits.lstrip("0")) > 20 else digits.lstrip("0") or "0")
    return -size if text[0] == "-" else size


def add(one: Score, other: Score) -> Score:
    """Return the sum of two scores; -infinity + infinity is -infinity."""
    for infinite in (-INFINITE_SCORE, INFINITE_SCORE):
        if infinite in (one, other):
            return infinite
    return max(-INFINITE_SCORE, min(INFINITE_SCORE, one + other))


def score_in_tags(score: float) -> str:
    """Return `score` as text for a tag: a number, or a word for an infinity."""
    if abs(score) < INFINITE_SCORE:
        return f"{score:.12g}"
    return "INFINITY" if score > 0 else "-INFINITY"
