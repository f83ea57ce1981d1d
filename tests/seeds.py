"""Define how many generated cases a test uses: few in `make test`, many in `make conformance`."""

from __future__ import annotations

import os

__all__ = ["THOROUGH", "seeds"]

THOROUGH = bool(os.environ.get("IALLOCATOR_THOROUGH"))

PORTION = os.environ.get("IALLOCATOR_SEEDS", "")
"""Seeds of every generated test as ``START:COUNT``, for long runs in portions."""


def seeds(some: int, many: int, start: int = 0) -> range:
    """Return the seeds of the cases, beginning with `start`.

    Without the environment variable ``IALLOCATOR_THOROUGH`` there are `some` seeds, with it `many`,
    as in ``make conformance``. ``IALLOCATOR_SEEDS=START:COUNT`` replaces both.
    """
    if PORTION:
        first, count = map(int, PORTION.split(":"))
        return range(first, first + count)
    return range(start, start + (many if THOROUGH else some))
