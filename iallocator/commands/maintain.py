"""The command ``maintain``: take nodes through maintenance, group by group."""

from __future__ import annotations

from socket import gethostname

from iallocator.commands.command import enforced_relations
from iallocator.commands.planner_options import Balancing
from iallocator.commands.plans import balanced
from iallocator.commands.progress import say_share
from iallocator.names import meant, whole_name, whole_names
from iallocator.planners.plan_limits import PlanLimits
from iallocator.planners.reboot.campaign import (
    BACK,
    CampaignOptions,
    CampaignResult,
    plan_campaign,
)
from iallocator.planners.reboot.options import IGNORED, MOVED, SKIPPED, RebootOptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.commands.command import Command
    from iallocator.deadline import Deadline
    from iallocator.planners.plan import PlanEntry
    from iallocator.planners.result import PlanResult

__all__ = ["maintain", "plan_for"]


def maintain(command: Command, deadline: Deadline) -> PlanResult:
    """Plan the groups of nodes for maintenance, and the moves before and after each of them."""
    return plan_for(command, deadline)


def plan_for(
    command: Command, deadline: Deadline, done: Sequence[str] = (), first_only: bool = False
) -> CampaignResult:
    """Plan the whole campaign, or only its first group; `done` are nodes to leave out."""
    own, cluster, settings = command.settings, command.source.cluster, command.effective
    names = [node.name for node in cluster.nodes]
    ignored = IGNORED if own.ignore_non_redundant else MOVED
    wanted = RebootOptions(
        evacuate=own.full_evacuation,
        single=SKIPPED if own.skip_non_redundant else ignored,
        node_tags=own.node_tags,
        group=own.group,
        done=[*whole_names(own.skip, names, "--skip", "node"), *done],
        only=whole_names(own.only, names, "--only", "node"),
        most=own.parallel,
        master=command.master,
        stays=own.after != BACK,
        first_only=first_only,
        force=own.force,
        optimal=settings.optimal,
    )
    campaign = CampaignOptions(
        after=own.after,
        run=own.run,
        check=own.check_command,
        reboots=not own.no_reboot,
        local=_local_node(command, names),
        bandwidth=own.bandwidth,
        work_seconds=own.work_time,
        until=own.until,
    )

    def balance(groups: Sequence[str]) -> list[PlanEntry]:
        """Return the moves that balance the node groups called `groups`."""
        how = Balancing()
        how.tag_prefix, how.ignore_soft_errors = own.tag_prefix, own.ignore_soft_errors
        entries: list[PlanEntry] = []
        for group in groups:
            how.group = group
            entries += balanced(cluster, how, settings, deadline, True).entries
        return entries

    limits = PlanLimits(settings, enforced_relations(cluster, settings))
    return plan_campaign(
        cluster, settings, wanted, campaign, limits, balance, deadline, say_share("nodes")
    )


def _local_node(command: Command, names: Sequence[str]) -> str:
    """Return which of the nodes `names` the command runs on, or ``--local-node``; "" if none."""
    own = command.settings
    if own.local_node:
        return whole_name(own.local_node, names, "--local-node", "node")
    if not own.asks_running_cluster:
        return ""
    matches = meant(gethostname(), names)
    return matches[0] if len(matches) == 1 else ""
