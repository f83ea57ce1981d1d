"""The command ``squeeze``."""

from __future__ import annotations

from iallocator.commands.planning import PlanCommand
from iallocator.commands.progress import say_plan
from iallocator.planners.plan_limits import StopCriteria
from iallocator.planners.squeeze.headroom import ALL, DRBD, SHARED, SqueezeOptions
from iallocator.planners.squeeze.result import SqueezeResult
from iallocator.planners.squeeze.squeeze import squeeze_cluster

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from iallocator.deadline import Deadline
    from iallocator.options.settings import Settings
    from iallocator.planners.result import PlanResult
    from iallocator.sources import Source

__all__ = ["Squeeze"]


class Squeeze(PlanCommand):
    """Plans which nodes to power down, or which standby nodes to power on."""

    suffixes = ("original", "squeezed")
    lists_group = True

    def planner(self, source: Source, settings: Settings, deadline: Deadline) -> PlanResult:
        """Plan which nodes to switch, and the moves around them."""
        own = self.settings
        wanted = SqueezeOptions(
            StopCriteria(min_gain=0.0, deadline=deadline),
            settings,
            target=own.target_resources,
            minimal=own.minimal_resources,
            master=self.master,
            prefer=own.prefer,
            avoid=own.avoid,
            kinds=ALL if own.all_instances else DRBD if own.drbd else SHARED,
            group=own.group,
            tag_prefix=own.tag_prefix,
        )
        done = squeeze_cluster(source.cluster, source.policy, wanted, say_plan)
        if not wanted.master and done.action != "online":
            done.remarks.append(
                "warning: the master node is unknown and may be among the nodes to power down; "
                "name it with --master"
            )
        if wanted.target < wanted.minimal:
            done.remarks.append(
                "warning: --target-resources is less than --minimal-resources: "
                "what is powered down now may be powered on the next time"
            )
        return done

    def remarks(self, done: PlanResult) -> Iterable[str]:
        """Return what a person should know, as complaints of this program."""
        return (f"iallocator: {remark}" for remark in done.remarks)

    def hindrance(self, done: PlanResult) -> str:
        """Return what is missing of the reserve after powering on every standby node; or ""."""
        assert isinstance(done, SqueezeResult)
        if self.settings.even_if_short or not done.shortage:
            return ""
        return f"{done.shortage}; --even-if-short carries it out all the same"
