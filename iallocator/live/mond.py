"""Read the reports of the monitoring daemons, one on each node: JSON over HTTP.

Any node can make its daemon say anything, so time and size of what daemons answer are limited.
"""

from __future__ import annotations

from iallocator.deadline import Deadline, DeadlineError
from iallocator.errors import RequestError
from iallocator.live.stream import ANSWER_SECONDS, LiveError, ask, in_threads, why
from iallocator.wire.codec import decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["ask_daemons"]

PORT = 1815

LIMIT = 2**20
"""Bytes of a report, at most: the loads of more than 10 000 instances."""

AT_ONCE = 16
"""Daemons that are asked at a time."""

LATER = 0.1
"""Seconds after the deadline in which the threads, which know more, say what was late."""


def ask_daemons(nodes: Sequence[str], report: str, deadline: Deadline) -> dict[str, dict[str, Any]]:
    """Ask the daemon of every node for its report called `report`.

    Returns node -> report.

    Raises
    ------
    LiveError
        As soon as one daemon does not answer as it should: a part of the reports is of no use.
    """

    def question(node: str) -> dict[str, Any]:
        target = f"/1/report/default/{report}"
        within = deadline.within(ANSWER_SECONDS)
        status, raw = ask(node, PORT, "GET", target, within, LIMIT)
        if status != 200:
            raise OSError(f"HTTP {status}")
        return decode(raw)

    found: dict[str, dict[str, Any]] = {}
    try:
        last = Deadline(deadline.left + LATER, deadline.limit)
        for node, outcome in in_threads(question, nodes, AT_ONCE, last, "no report"):
            if isinstance(outcome, OSError | ValueError | RequestError):
                raise LiveError(node, why(outcome))
            if isinstance(outcome, Exception):
                raise outcome
            found[node] = outcome
    except DeadlineError as error:
        late = next(node for node in nodes if node not in found)
        raise LiveError(late, str(error)) from None
    return found
