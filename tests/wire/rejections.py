"""Documents that are answered, and what is said of those that are not."""

from __future__ import annotations

from typing import Any

from tests.command import complaint, run

from .corpus import as_raw, base

__all__ = ["good", "rejection"]


def rejection(raw: bytes) -> str:
    """What the program says of a document that it cannot understand."""
    return complaint(run("-", stdin=raw))


def good(**members: Any) -> bytes:
    """A document that is answered."""
    return as_raw({**base("modern", "allocate"), **members})
