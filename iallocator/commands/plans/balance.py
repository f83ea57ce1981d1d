"""``iallocator balance``: which instances to move: broken musts first, then the score.

Exit status 0: there is a plan, if only an empty one; 130: interrupted, what was found
until then is printed; 1: the plan failed the check that every plan goes through before it is
printed; stderr says which limits it breaks.
"""

from __future__ import annotations

from iallocator.commands.shared import balance_options, run_plan
from iallocator.commands.shared.progress import say_plan
from iallocator.errors import UsageError
from iallocator.options.table import Option
from iallocator.planners.balance.balance import balance_cluster

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.deadline import Deadline
    from iallocator.options import settings as options
    from iallocator.planners.result import PlanResult
    from iallocator.sources import Source

__all__ = ["OPTIONS", "USAGE", "Settings", "run"]

USAGE = "[OPTIONS] [FILE]"


class Settings(run_plan.Settings, balance_options.Settings):
    """The settings of this command."""


OPTIONS = (
    *run_plan.OPTIONS,
    *balance_options.OPTIONS,
    Option("--group -G", "group", "balance this group (name or uuid)", str, "GROUP"),
    Option("--all-groups", "all_groups", "balance every group, not only the worst"),
)


class _Balancing(run_plan.Planner):
    """Balances one group, or all."""

    command = "balance"
    suffix = "balanced"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def adjust(self, source: Source) -> None:
        """Take dynamic utilisation from a file."""
        balance_options.adjust(source.cluster, self._settings)

    def plan(self, source: Source, settings: options.Settings, deadline: Deadline) -> PlanResult:
        """Plan within groups."""
        wishes = balance_options.balance_options_of(self._settings, settings, deadline)
        return balance_cluster(source.cluster, wishes, say_plan)

    def group(self) -> str:
        """As ``--group`` says."""
        return self._settings.group

    def min_disk(self) -> float:
        """As ``--min-disk`` says."""
        return self._settings.min_disk


def run(settings: Settings, positional: Sequence[str]) -> int:
    """Balance the cluster in the file (- or none: stdin), print the plan."""
    if settings.all_groups and settings.group:
        raise UsageError("--group and --all-groups exclude each other")
    return run_plan.run_planner(settings, positional, _Balancing(settings))
