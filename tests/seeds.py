"""How many generated worlds a test looks at: some in `make test`, many in `make conformance`."""

from __future__ import annotations

import os

__all__ = ["THOROUGH", "seeds"]

THOROUGH = bool(os.environ.get("IALLOCATOR_THOROUGH"))


def seeds(some: int, many: int, start: int = 0) -> range:
    """The numbers of the worlds to look at, from `start` on.

    What hundreds say as well as thousands is said by `some` of them each time; `many` count
    where the environment has ``IALLOCATOR_THOROUGH``, as in ``make conformance``.
    """
    return range(start, start + (many if THOROUGH else some))
