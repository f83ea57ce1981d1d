"""``iallocator redistribute``: which instances to move to other groups so that all are healthy.

Exit status 0: there is a plan, if only an empty one; 130: interrupted, what was found
until then is printed; 1: the plan failed the check that every plan goes through before it is
printed.  Groups whose repair breaks a limit are left out then; stderr says which, and why.
"""

from __future__ import annotations

from iallocator.commands.shared import between_groups, run_plan
from iallocator.planners.intergroup.redistribute import redistribute

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["OPTIONS", "USAGE", "Settings", "run"]

USAGE = "[OPTIONS] [FILE]"

Settings = between_groups.Settings

OPTIONS = between_groups.OPTIONS


def run(settings: between_groups.Settings, positional: Sequence[str]) -> int:
    """Redistribute the cluster in the file (- or none: stdin), print the plan."""
    planner = between_groups.BetweenGroups("redistribute", settings, redistribute)
    return run_plan.run_planner(settings, positional, planner)
