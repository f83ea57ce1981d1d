"""The commands that move instances between groups: balance-groups, compress, redistribute."""

from __future__ import annotations

from iallocator.commands.planning import PlanCommand
from iallocator.commands.progress import say_progress
from iallocator.planners.intergroup.balance_groups import (
    Bounds,
    balance_groups,
    check_group_balance,
)
from iallocator.planners.intergroup.compress import check_compression, compress
from iallocator.planners.intergroup.context import IntergroupContext
from iallocator.planners.intergroup.redistribute import redistribute

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.deadline import Deadline
    from iallocator.options.settings import Settings
    from iallocator.planners.result import PlanResult
    from iallocator.sources import Source

__all__ = ["BalanceGroups", "Compress", "Redistribute"]


class BetweenGroups(PlanCommand):
    """Plans moves between groups."""

    sets_offline = True

    def planner(self, source: Source, settings: Settings, deadline: Deadline) -> PlanResult:
        """Plan moves between the groups."""
        return self.moves(IntergroupContext(source.cluster, settings, deadline, say_progress))

    def moves(self, context: IntergroupContext) -> PlanResult:
        """Return the plan."""
        raise NotImplementedError


class BalanceGroups(BetweenGroups):
    """Plans moves so that groups carry their share."""

    def moves(self, context: IntergroupContext) -> PlanResult:
        """Return the moves that balance the groups."""
        own = self.settings
        cost = None if own.cost is None else own.cost * 1024
        return balance_groups(context, Bounds(own.max_length, cost, own.min_gain))

    def broken_promises(self, done: PlanResult) -> list[str]:
        """Return the moves that do not improve the balance of the groups."""
        return check_group_balance(done)


class Compress(BetweenGroups):
    """Plans moves that empty a group."""

    def moves(self, context: IntergroupContext) -> PlanResult:
        """Return the moves that empty a group."""
        return compress(context)

    def broken_promises(self, done: PlanResult) -> list[str]:
        """Return the nodes of the group that are not empty."""
        return check_compression(done)


class Redistribute(BetweenGroups):
    """Plans moves that make the groups healthy."""

    def moves(self, context: IntergroupContext) -> PlanResult:
        """Return the moves that make the groups healthy."""
        return redistribute(context)
