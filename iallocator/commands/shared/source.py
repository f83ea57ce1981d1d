"""What a command that reads one document begins with: the cluster, and what was read."""

from __future__ import annotations

import sys

from iallocator.engine import reading_for, summary
from iallocator.sources import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.options import Settings
    from iallocator.sources import Source

__all__ = ["load_source"]


def load_source(settings: Settings, positional: Sequence[str]) -> Source:
    """The cluster that a command is to work on; with ``-v`` what was read is said on stderr.

    Raises
    ------
    UsageError, RequestError
        As `iallocator.sources.load`.
    """
    source = load(settings, positional, reading_for(settings))
    if settings.verbose:
        print(summary(source.cluster), file=sys.stderr)
    return source
