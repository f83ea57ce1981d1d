"""The command ``balance``."""

from __future__ import annotations

from iallocator.commands import balance_options
from iallocator.commands.planning import PLAN_OPTIONS, PlanCommand, PlanSettings
from iallocator.commands.progress import say_plan
from iallocator.errors import UsageError
from iallocator.options.table import Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.deadline import Deadline
    from iallocator.options.settings import Settings as Common
    from iallocator.planners.result import PlanResult
    from iallocator.sources import Source

__all__ = ["Balance"]


class Settings(PlanSettings, balance_options.Settings):
    """The settings of this command."""


OPTIONS = (
    *PLAN_OPTIONS,
    *balance_options.OPTIONS,
    Option("--group -G", "group", "balance this group (name or uuid)", str, "GROUP"),
    Option("--all-groups", "all_groups", "balance every group, not only the worst"),
)


class Balance(PlanCommand):
    """``iallocator balance``: which instances to move: broken musts first, then the score.

    Exit status 0: there is a plan, if only an empty one; 130: interrupted, what was found
    until then is printed; 1: the plan failed the check that every plan goes through before it is
    printed; stderr says which limits it breaks.
    """

    options = OPTIONS
    settings_type = Settings
    suffix = "balanced"
    settings: Settings

    def check(self) -> None:
        """Reject one group and all groups."""
        if self.settings.all_groups and self.settings.group:
            raise UsageError("--group and --all-groups exclude each other")
        super().check()

    def adjust(self, source: Source) -> None:
        """Take dynamic utilisation from a file."""
        balance_options.adjust(source.cluster, self.settings)

    def planner(self, source: Source, settings: Common, deadline: Deadline) -> PlanResult:
        """Plan moves within groups."""
        from iallocator.planners.balance.balance import balance_cluster

        wanted = balance_options.balance_options_of(self.settings, settings, deadline)
        return balance_cluster(source.cluster, wanted, say_plan)

    def group(self) -> str:
        """Return the group of ``--group``."""
        return self.settings.group

    def min_disk(self) -> float:
        """Return the share of ``--min-disk``."""
        return self.settings.min_disk
