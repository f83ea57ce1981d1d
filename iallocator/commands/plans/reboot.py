"""``iallocator reboot``: which nodes can be rebooted together, and what moves away and back.

Without ``--json`` or ``-C`` the groups are written as hroller writes them.  Exit status 0: every
node is in a group; 1: some are in none, stderr says why; or the plan failed the check that
every plan goes through before it is printed.  Nodes whose reboot breaks a limit are left out
then; stderr says which, and why.
"""

from __future__ import annotations

from iallocator.commands.shared import run_plan
from iallocator.commands.shared.execution_options import BOOT_OPTION
from iallocator.commands.shared.progress import say_share
from iallocator.errors import UsageError, shown
from iallocator.options.table import Option
from iallocator.options.values import name_list
from iallocator.planners.eligible import set_offline
from iallocator.planners.reboot.options import IGNORED, MOVED, SKIPPED, RebootOptions
from iallocator.planners.reboot.reboot import plan_reboots
from iallocator.planners.reboot.result import RebootResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iallocator.aliases import Json
    from iallocator.deadline import Deadline
    from iallocator.options import settings as options
    from iallocator.planners.result import PlanResult
    from iallocator.sources import Source


__all__ = ["OPTIONS", "USAGE", "Settings", "run"]

USAGE = "[OPTIONS] [FILE]"


class Settings(run_plan.Settings):
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
    *run_plan.OPTIONS,
    BOOT_OPTION,
    Option("--offline -O", "offline", "treat this node as offline; may repeat", str, "NODE",
           repeats=True),
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
    Option("--group -G", "group", "look at this group only (name or uuid)", str, "GROUP"),
    Option("--master", "master", "the master node, which comes last", str, "NODE"),
    Option("--force -f", "force", "go on where nobody says which node is the master"),
    Option("--one-step-only", "one_step_only", "only the first group, a node a line"),
    Option("--print-moves", "print_moves", "after each group, where its instances go meanwhile"),
    Option("--no-headers", "no_headers", "no line of titles"),
)  # fmt: skip


class _Rebooting(run_plan.Planner):
    """Finds groups of nodes."""

    command = "reboot"
    suffix = "rebooted"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def adjust(self, source: Source) -> None:
        """Treat some nodes as offline."""
        set_offline(source.cluster, self._settings.offline)

    def plan(self, source: Source, settings: options.Settings, deadline: Deadline) -> PlanResult:
        """Plan the groups, and the moves around them."""
        wanted = _wanted(self._settings, self.master(source))
        return plan_reboots(source.cluster, settings, wanted, deadline, say_share("nodes"))

    def master(self, source: Source) -> str:
        """The master node; "": unknown."""
        return self._settings.master or source.master

    def incomplete(self, done: PlanResult) -> bool:
        """Whether some node is in no group."""
        assert isinstance(done, RebootResult)
        return bool(done.left) or not done.complete

    def lines(self, plan: Json) -> Iterator[str] | None:
        """The groups as hroller writes them."""
        return map(shown, _lines(plan["reboots"], self._settings))


def run(settings: Settings, positional: Sequence[str]) -> int:
    """Plan the reboots of the cluster in the file (- or none: stdin), print the groups."""
    if settings.skip_non_redundant and settings.ignore_non_redundant:
        raise UsageError("--skip-non-redundant and --ignore-non-redundant contradict each other")
    return run_plan.run_planner(settings, positional, _Rebooting(settings))


def _wanted(settings: Settings, master: str) -> RebootOptions:

    ignored = IGNORED if settings.ignore_non_redundant else MOVED
    return RebootOptions(
        down=settings.offline_maintenance,
        evacuate=settings.full_evacuation,
        single=SKIPPED if settings.skip_non_redundant else ignored,
        node_tags=settings.node_tags,
        group=settings.group,
        done=settings.done,
        master=master,
        first_only=settings.one_step_only,
        force=settings.force,
    )


def _lines(groups: Sequence[Json], settings: Settings) -> Iterator[str]:
    """Nodes of a group in one line, or a line each; then the moves that find their own target."""
    one = settings.one_step_only
    if not settings.no_headers:
        yield "'First Reboot Group'" if one else "'Node Reboot Groups'"
    for group in groups:
        yield from group["nodes"] if one else [",".join(group["nodes"])]
        for move in group["moves"] if settings.print_moves else ():
            if move["chosen"]:
                yield f"  {move['instance']} {' '.join(move['nodes'])}"
