"""The command ``reboot``."""

from __future__ import annotations

from iallocator.commands.planning import PLAN_OPTIONS, PlanCommand, PlanSettings
from iallocator.commands.progress import say_share
from iallocator.commands.shared_options import BOOT_OPTION, GROUP_OPTION, OFFLINE_OPTION
from iallocator.errors import UsageError, shown
from iallocator.options.table import Option
from iallocator.options.values import name_list

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iallocator.aliases import Json
    from iallocator.deadline import Deadline
    from iallocator.options.settings import Settings as Common
    from iallocator.planners.result import PlanResult
    from iallocator.sources import Source

__all__ = ["Reboot"]


class Settings(PlanSettings):
    """The settings of this command."""

    offline: Sequence[str] = ()
    offline_maintenance: bool = False
    full_evacuation: bool = False
    skip_non_redundant: bool = False
    ignore_non_redundant: bool = False
    node_tags: Sequence[str] = ()
    done: Sequence[str] = ()
    group: str = ""
    master: str = ""
    force: bool = False
    one_step_only: bool = False
    print_moves: bool = False
    no_headers: bool = False


OPTIONS = (
    *PLAN_OPTIONS,
    BOOT_OPTION,
    OFFLINE_OPTION,
    Option("--offline-maintenance", "offline_maintenance",
           "all instances are shut down before: nothing has to move"),
    Option("--full-evacuation", "full_evacuation", "secondaries leave the nodes, too"),
    Option("--skip-non-redundant", "skip_non_redundant",
           "only nodes without instances that have no secondary"),
    Option("--ignore-non-redundant", "ignore_non_redundant",
           "instances without a secondary go down with their node"),
    Option("--node-tags", "node_tags", "only nodes with one of these tags", name_list, "TAG,..."),
    Option("--done", "done", "leave these nodes out: they have been rebooted already", name_list,
           "NODE,..."),
    GROUP_OPTION,
    Option("--master", "master", "the master node, which comes last", str, "NODE"),
    Option("--force -f", "force", "go on where nobody says which node is the master"),
    Option("--one-step-only", "one_step_only", "only the first group, a node a line"),
    Option("--print-moves", "print_moves", "after each group, where its instances go meanwhile"),
    Option("--no-headers", "no_headers", "no line of titles"),
)  # fmt: skip


class Reboot(PlanCommand):
    """``iallocator reboot``: which nodes can be rebooted together, and what moves away and back.

    Without ``--json`` or ``-C`` the groups are written as hroller writes them.  Exit status 0:
    every node is in a group; 1: some are in none, stderr says why; or the plan failed the check
    that every plan goes through before it is printed.  Nodes whose reboot breaks a limit are left
    out then; stderr says which, and why.
    """

    options = OPTIONS
    settings_type = Settings
    suffix = "rebooted"
    settings: Settings

    def check(self) -> None:
        """Reject two ways to treat instances without a secondary."""
        if self.settings.skip_non_redundant and self.settings.ignore_non_redundant:
            raise UsageError(
                "--skip-non-redundant and --ignore-non-redundant contradict each other"
            )
        super().check()

    def adjust(self, source: Source) -> None:
        """Treat some nodes as offline."""
        from iallocator.planners.eligible import set_offline

        set_offline(source.cluster, self.settings.offline)

    def planner(self, source: Source, settings: Common, deadline: Deadline) -> PlanResult:
        """Plan the groups of nodes, and the moves around them."""
        from iallocator.planners.reboot.drain_plan import IGNORED, MOVED, SKIPPED, RebootOptions
        from iallocator.planners.reboot.reboot import plan_reboots

        own = self.settings
        ignored = IGNORED if own.ignore_non_redundant else MOVED
        wanted = RebootOptions(
            down=own.offline_maintenance,
            evacuate=own.full_evacuation,
            single=SKIPPED if own.skip_non_redundant else ignored,
            node_tags=own.node_tags,
            group=own.group,
            done=own.done,
            master=self.master(source),
            first_only=own.one_step_only,
            force=own.force,
        )
        return plan_reboots(source.cluster, settings, wanted, deadline, say_share("nodes"))

    def master(self, source: Source) -> str:
        """Return the name of the master node; "" if it is unknown."""
        return self.settings.master or source.master

    def incomplete(self, done: PlanResult) -> bool:
        """Return whether some node is in no group."""
        from iallocator.planners.reboot.reboot import RebootResult

        assert isinstance(done, RebootResult)
        return bool(done.left) or not done.complete

    def lines(self, plan: Json) -> Iterator[str]:
        """Return the groups as hroller writes them: a line a group, or a line a node."""
        one = self.settings.one_step_only
        if not self.settings.no_headers:
            yield "'First Reboot Group'" if one else "'Node Reboot Groups'"
        for group in plan["reboots"]:
            yield from map(shown, group["nodes"] if one else [",".join(group["nodes"])])
            for move in group["moves"] if self.settings.print_moves else ():
                if move["chosen"]:
                    yield shown(f"  {move['instance']} {' '.join(move['nodes'])}")
