"""``iallocator compress``: which whole groups could be emptied, and the moves that empty one.

Exit status 0: there is a plan, if only an empty one; 130: interrupted, what was found
until then is printed; 1: the plan failed the check that every plan goes through before it is
printed; stderr says which limits it breaks.
"""

from __future__ import annotations

from iallocator.commands.shared import between_groups, run_plan
from iallocator.planners.intergroup.compress import check_compression, compress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["OPTIONS", "USAGE", "Settings", "run"]

USAGE = "[OPTIONS] [FILE]"

Settings = between_groups.Settings

OPTIONS = between_groups.OPTIONS


def run(settings: between_groups.Settings, positional: Sequence[str]) -> int:
    """Compress the cluster in the file (- or none: stdin), print the plan."""
    planner = between_groups.BetweenGroups("compress", settings, compress, check_compression)
    return run_plan.run_planner(settings, positional, planner)
