"""``iallocator balance-groups``: which instances to move so that groups carry their share.

Exit status 0: there is a plan, if only an empty one; 130: interrupted, what was found
until then is printed; 1: the plan failed the check that every plan goes through before it is
printed; stderr says which limits it breaks.
"""

from __future__ import annotations

from iallocator.commands.shared import between_groups, run_plan
from iallocator.commands.shared.balance_options import DYNU_OPTION, adjust
from iallocator.options.table import Option
from iallocator.options.values import amount, whole
from iallocator.planners.intergroup.balance_groups import (
    Bounds,
    balance_groups,
    check_group_balance,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.sources import Source

__all__ = ["OPTIONS", "USAGE", "Settings", "run"]

USAGE = "[OPTIONS] [FILE]"


class Settings(between_groups.Settings):
    """The settings of this command."""

    dynu_file: str = ""
    max_length: int | None = None
    min_gain: float = 0.0
    cost: float | None = None


OPTIONS = (
    *between_groups.OPTIONS,
    DYNU_OPTION,
    Option("--max-length -l", "max_length", "moves at most", whole, "N"),
    Option("--min-gain -g", "min_gain", "the least gain of a move (default: any)", amount,
           "GAIN"),
    Option("--cost", "cost", "copy this much memory at most", amount, "GIB"),
)  # fmt: skip


class _LoadBalancing(between_groups.BetweenGroups):
    """Balances groups by the loads that a file may say."""

    def __init__(self, settings: Settings) -> None:

        cost = None if settings.cost is None else settings.cost * 1024
        bounds = Bounds(settings.max_length, cost, settings.min_gain)
        super().__init__(
            "balance-groups", settings, lambda c: balance_groups(c, bounds), check_group_balance
        )
        self._settings = settings

    def adjust(self, source: Source) -> None:
        """Take dynamic utilisation from a file."""
        super().adjust(source)
        adjust(source.cluster, self._settings)


def run(settings: Settings, positional: Sequence[str]) -> int:
    """Balance the groups of the cluster in the file (- or none: stdin), print the plan."""
    return run_plan.run_planner(settings, positional, _LoadBalancing(settings))
