"""The command ``balance``."""

from __future__ import annotations

from iallocator.commands.planning import PlanCommand
from iallocator.commands.progress import say_plan
from iallocator.planners.balance.balance import BalanceOptions, balance_cluster
from iallocator.planners.balance.move_kinds import MoveRules
from iallocator.planners.plan_limits import StopCriteria

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.commands.planner_options import Balancing
    from iallocator.deadline import Deadline
    from iallocator.model.cluster import Cluster
    from iallocator.options.settings import Settings
    from iallocator.planners.result import GroupPlans, PlanResult
    from iallocator.sources import Source

__all__ = ["Balance", "balanced"]


class Balance(PlanCommand):
    """Plans moves within groups that improve the score."""

    suffixes = ("original", "balanced")
    lists_group = True

    @property
    def min_disk(self) -> float:
        """The share of ``--min-disk``."""
        share: float = self.settings.min_disk
        return share

    def planner(self, source: Source, settings: Settings, deadline: Deadline) -> PlanResult:
        """Plan moves within groups."""
        return balanced(source.cluster, self.settings, settings, deadline)


def balanced(
    cluster: Cluster, own: Balancing, settings: Settings, deadline: Deadline
) -> GroupPlans:
    """Return the balancing for which `own` asks; `settings` are completed from tags."""
    limits = StopCriteria(
        min_score=own.min_score,
        max_length=own.max_length,
        min_gain=own.min_gain,
        min_gain_limit=own.min_gain_limit,
        cost=None if own.cost is None else own.cost * 1024,
        lookahead=own.lookahead,
        deadline=deadline,
    )
    rules = MoveRules(
        disk_moves=not own.no_disk_moves,
        instance_moves=not own.no_instance_moves,
        restricted=own.restricted_migration,
        evacuate_only=own.evac_mode,
        ignore_soft=own.ignore_soft_errors,
        behaviour=own.behaviour,
    )
    wanted = BalanceOptions(
        limits,
        rules,
        group=own.group,
        all_groups=own.all_groups,
        offline=own.offline,
        selected=own.select_instances,
        excluded=own.exclude_instances,
        max_cpu=own.max_cpu,
        min_disk=own.min_disk,
        tag_prefix=own.tag_prefix,
        settings=settings,
    )
    return balance_cluster(cluster, wanted, say_plan)
