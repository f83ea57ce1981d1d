"""``iallocator redistribute``: which instances to move to other groups so that all are healthy.

Exit status 0: there is a plan, if only an empty one; 130: interrupted, what was found
until then is printed; 1: ``--verify-plan`` found something wrong.
"""

from __future__ import annotations

from iallocator.commands.shared import intergroup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["OPTIONS", "USAGE", "Settings", "run"]

USAGE = "[OPTIONS] [FILE]"

Settings = intergroup.Settings

OPTIONS = intergroup.OPTIONS


def run(settings: intergroup.Settings, positional: Sequence[str]) -> int:
    """Redistribute the cluster in the file (- or none: stdin), print the plan."""
    from iallocator.planners.intergroup.redistribute import check_redistribution, redistribute

    return intergroup.plan_between(settings, positional, redistribute, check_redistribution)
