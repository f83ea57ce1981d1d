"""Run the program on valid and invalid documents, and return the error about invalid ones."""

from __future__ import annotations

from typing import Any

from tests.command import complaint, run

from .corpus import as_raw, base

__all__ = ["good", "rejection"]


def rejection(raw: bytes) -> str:
    """Return the error of the program about an invalid document."""
    return complaint(run("-", stdin=raw))


def good(**members: Any) -> bytes:
    """Return a valid document with `members` added to its request."""
    return as_raw({**base("modern", "allocate"), **members})
