"""The commands that move instances between groups: balance-groups, compress, redistribute."""

from __future__ import annotations

from iallocator.commands.balance_options import DYNU_OPTION, adjust
from iallocator.commands.planning import PLAN_OPTIONS, PlanCommand, PlanSettings
from iallocator.commands.progress import say_progress
from iallocator.commands.shared_options import OFFLINE_OPTION
from iallocator.deadline import Deadline
from iallocator.options.table import Option
from iallocator.options.values import amount, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.options.settings import Settings as Common
    from iallocator.planners.intergroup.context import IntergroupContext, IntergroupResult
    from iallocator.planners.result import PlanResult
    from iallocator.sources import Source

__all__ = ["BalanceGroups", "Compress", "Redistribute"]

OPTIONS = (*PLAN_OPTIONS, OFFLINE_OPTION)


class Settings(PlanSettings):
    """The settings of every command that plans between groups."""

    offline: Sequence[str] = ()


class BalanceSettings(Settings):
    """The settings of ``balance-groups``."""

    dynu_file: str = ""
    max_length: int | None = None
    min_gain: float = 0.0
    cost: float | None = None


class BetweenGroups(PlanCommand):
    """A planner between groups, which one function finds and another one checks."""

    options: Sequence[Option] = OPTIONS
    settings_type: type[Settings] = Settings

    def adjust(self, source: Source) -> None:
        """Treat some nodes as offline."""
        from iallocator.planners.eligible import set_offline

        set_offline(source.cluster, self.settings.offline)

    def planner(self, source: Source, settings: Common, deadline: Deadline) -> PlanResult:
        """Plan moves between the groups."""
        return self.moves(self._context(deadline))

    def broken_promises(self, done: PlanResult) -> list[str]:
        """Return what is wrong with the end of the plan."""
        from iallocator.planners.intergroup.context import IntergroupResult

        assert isinstance(done, IntergroupResult)
        return self.wrong(self._context(Deadline(None)), done)

    def _context(self, deadline: Deadline) -> IntergroupContext:
        from iallocator.planners.intergroup.context import IntergroupContext

        return IntergroupContext(self.source.cluster, self.effective, deadline, say_progress)

    def moves(self, context: IntergroupContext) -> PlanResult:
        """Return the plan."""
        raise NotImplementedError

    def wrong(self, context: IntergroupContext, done: IntergroupResult) -> list[str]:
        """Return what is wrong with the end of a plan; `context` has the state before it."""
        return []


class BalanceGroups(BetweenGroups):
    """``iallocator balance-groups``: which instances to move so that groups carry their share.

    Exit status 0: there is a plan, if only an empty one; 130: interrupted, what was found
    until then is printed; 1: the plan failed the check that every plan goes through before it is
    printed; stderr says which limits it breaks.
    """

    options = (
        *OPTIONS,
        DYNU_OPTION,
        Option("--max-length -l", "max_length", "moves at most", whole, "N"),
        Option("--min-gain -g", "min_gain", "the least gain of a move (default: any)", amount,
               "GAIN"),
        Option("--cost", "cost", "copy this much memory at most", amount, "GIB"),
    )  # fmt: skip
    settings_type = BalanceSettings

    def adjust(self, source: Source) -> None:
        """Treat some nodes as offline, and take dynamic utilisation from a file."""
        super().adjust(source)
        adjust(source.cluster, self.settings)

    def moves(self, context: IntergroupContext) -> PlanResult:
        """Return the moves that balance the groups."""
        from iallocator.planners.intergroup.balance_groups import Bounds, balance_groups

        settings = self.settings
        cost = None if settings.cost is None else settings.cost * 1024
        return balance_groups(context, Bounds(settings.max_length, cost, settings.min_gain))

    def wrong(self, context: IntergroupContext, done: IntergroupResult) -> list[str]:
        """Return what is wrong with the end of the plan."""
        from iallocator.planners.intergroup.balance_groups import check_group_balance

        return check_group_balance(context, done)


class Compress(BetweenGroups):
    """``iallocator compress``: which whole groups could be emptied, and the moves that empty one.

    Exit status 0: there is a plan, if only an empty one; 130: interrupted, what was found
    until then is printed; 1: the plan failed the check that every plan goes through before it is
    printed; stderr says which limits it breaks.
    """

    def moves(self, context: IntergroupContext) -> PlanResult:
        """Return the moves that empty a group."""
        from iallocator.planners.intergroup.compress import compress

        return compress(context)

    def wrong(self, context: IntergroupContext, done: IntergroupResult) -> list[str]:
        """Return what is wrong with the end of the plan."""
        from iallocator.planners.intergroup.compress import check_compression

        return check_compression(context, done)


class Redistribute(BetweenGroups):
    """``iallocator redistribute``: which instances to move to other groups so that all are healthy.

    Exit status 0: there is a plan, if only an empty one; 130: interrupted, what was found
    until then is printed; 1: the plan failed the check that every plan goes through before it is
    printed.  Groups whose repair breaks a limit are left out then; stderr says which, and why.
    """

    def moves(self, context: IntergroupContext) -> PlanResult:
        """Return the moves that make the groups healthy."""
        from iallocator.planners.intergroup.redistribute import redistribute

        return redistribute(context)
