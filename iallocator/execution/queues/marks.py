"""How jobs of an execution are known again in the queue: by a mark in their reason trail.

The trail of each opcode gets ``[source, text, nanoseconds]``: what the administrator gave as a
reason, if anything, and the mark ``(RUN/JOB/ATTEMPT)``.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

__all__ = ["SOURCE", "marks_in", "reason_trail"]

SOURCE = "iallocator"

MARK = re.compile(r"\(([0-9a-z-]+)/(\d+)/(\d+)\)$")


def reason_trail(text: str, mark: str, now: int) -> list[list[Any]]:
    """The entries of an opcode; `mark`: ``RUN/JOB/ATTEMPT``, `now`: nanoseconds since 1970."""
    texts = [text, f"({mark})"] if text else [f"({mark})"]
    return [[SOURCE, one, now] for one in texts]


def marks_in(opcodes: Iterable[Any], run: str) -> set[str]:
    """The marks ``JOB/ATTEMPT`` of `run` in the reason trails of opcodes as the queue has them."""
    found = set()
    for opcode in opcodes:
        trail = opcode.get("reason") if isinstance(opcode, dict) else None
        for entry in trail or ():
            mark = MARK.search(str(entry[1])) if len(entry) > 1 else None
            if mark and mark[1] == run:
                found.add(f"{mark[2]}/{mark[3]}")
    return found
