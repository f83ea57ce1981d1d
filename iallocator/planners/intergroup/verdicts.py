"""What becomes of a group, in one word for programs; the reason beside it is for people."""

from __future__ import annotations

__all__ = ["FOUND", "IMPOSSIBLE", "NOTHING", "OUT_OF_TIME", "UNDECIDED", "unfinished"]

FOUND = "found"
"""There are moves for all that has to leave."""

IMPOSSIBLE = "impossible"
"""Proved: there are none."""

OUT_OF_TIME = "out of time"
"""None were found, and time, or what may be spent, was over before that was proved."""

UNDECIDED = "undecided"
"""None were found; more was not asked for, or somebody interrupted."""

NOTHING = "nothing to do"
"""Nothing has to leave."""


def unfinished(interrupted: bool) -> str:
    """The verdict on a group that a plan did not come to; `interrupted` by a person."""
    return UNDECIDED if interrupted else OUT_OF_TIME
