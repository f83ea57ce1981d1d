"""The command ``reboot``."""

from __future__ import annotations

from iallocator.commands.planning import PlanCommand
from iallocator.commands.progress import say_share
from iallocator.planners.reboot.drain_plan import IGNORED, MOVED, SKIPPED, RebootOptions
from iallocator.planners.reboot.reboot import plan_reboots
from iallocator.render.plan import reboot_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from iallocator.aliases import Json
    from iallocator.deadline import Deadline
    from iallocator.options.settings import Settings
    from iallocator.planners.result import PlanResult
    from iallocator.sources import Source

__all__ = ["Reboot"]


class Reboot(PlanCommand):
    """Plans which nodes can be rebooted together, and the moves around each group of nodes."""

    suffixes = ("original", "rebooted")
    sets_offline = True

    def planner(self, source: Source, settings: Settings, deadline: Deadline) -> PlanResult:
        """Plan the groups of nodes, and the moves around them."""
        own = self.settings
        ignored = IGNORED if own.ignore_non_redundant else MOVED
        wanted = RebootOptions(
            down=own.offline_maintenance,
            evacuate=own.full_evacuation,
            single=SKIPPED if own.skip_non_redundant else ignored,
            node_tags=own.node_tags,
            group=own.group,
            done=own.done,
            master=self.master,
            first_only=own.one_step_only,
            force=own.force,
        )
        return plan_reboots(source.cluster, settings, wanted, deadline, say_share("nodes"))

    def lines(self, plan: Json) -> Iterator[str]:
        """Return the groups as hroller writes them: a line for each group, or for each node."""
        own = self.settings
        return reboot_lines(plan, own.one_step_only, not own.no_headers, own.print_moves)
