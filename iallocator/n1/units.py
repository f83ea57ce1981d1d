"""Instances that must be on one node need one node that takes them all when theirs fails.

Only those that run on the failing node move together.  Mirrored ones fail over to where
their secondaries are, each by itself: if that parts them, a must is broken (`check` says
so), but nobody is lost.  Those that are created anew are counted apart from those that move.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.instance import Instance

__all__ = ["combined"]


def combined(item: Sequence[Instance]) -> Instance:
    """One instance that adds to a node what all of `item` add, to be scored as one."""
    whole = item[0].as_template(item[0].template)
    whole.as_primary = tuple(map(sum, zip(*(one.as_primary for one in item))))
    whole.exclusion = tuple(dict.fromkeys(tag for one in item for tag in one.exclusion))
    whole.local = any(one.local for one in item)
    whole.desired = frozenset().union(*(one.desired for one in item))
    return whole
