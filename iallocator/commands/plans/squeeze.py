"""``iallocator squeeze``: which nodes to power down, or which standby nodes to power on.

Exit status 0: there is a plan, if only to do nothing; 130: interrupted, what was found
until then is printed; 1: the plan failed the check that every plan goes through before it is
printed; stderr says which limits it breaks.
"""

from __future__ import annotations

from iallocator.commands.shared import run_plan
from iallocator.commands.shared.balance_options import DYNU_OPTION, adjust
from iallocator.commands.shared.execution_options import BOOT_OPTION
from iallocator.commands.shared.progress import say_plan
from iallocator.errors import UsageError, tell
from iallocator.options.table import Option
from iallocator.options.values import amount, name_list
from iallocator.planners.plan_limits import StopCriteria
from iallocator.planners.squeeze.headroom import ALL, DRBD, SHARED, SqueezeOptions
from iallocator.planners.squeeze.result import SqueezeResult
from iallocator.planners.squeeze.squeeze import squeeze_cluster

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.deadline import Deadline
    from iallocator.options import settings as options
    from iallocator.planners.result import PlanResult
    from iallocator.sources import Source

__all__ = ["OPTIONS", "USAGE", "Settings", "run"]

USAGE = "[OPTIONS] [FILE]"


class Settings(run_plan.Settings):
    """The settings of this command."""

    target_resources: float = 2.0
    minimal_resources: float = 2.0
    master: str = ""
    prefer: Sequence[str] = ()
    avoid: Sequence[str] = ()
    drbd: bool = False
    all_instances: bool = False
    even_if_short: bool = False
    group: str = ""
    dynu_file: str = ""


OPTIONS = (
    *run_plan.OPTIONS,
    BOOT_OPTION,
    DYNU_OPTION,
    Option("--target-resources", "target_resources",
           "standard instances that every node can still take, powered down (default 2)", amount,
           "X"),
    Option("--minimal-resources", "minimal_resources",
           "with room for less on some node, power on standby nodes (default 2)", amount, "X"),
    Option("--master", "master", "the master node, which stays online", str, "NODE"),
    Option("--prefer", "prefer", "power these down, or on, before others", name_list, "NODE,..."),
    Option("--avoid", "avoid", "power these down, or on, only after others", name_list,
           "NODE,..."),
    Option("--drbd", "drbd", "move drbd instances, too"),
    Option("--all", "all_instances", "move every instance that can be moved"),
    Option("--even-if-short", "even_if_short",
           "with -X, power nodes on even if that does not reach the minimal resources"),
    Option("--group -G", "group", "look at this group only (name or uuid)", str, "GROUP"),
)  # fmt: skip


class _Squeezing(run_plan.Planner):
    """Finds nodes to power down, or on."""

    command = "squeeze"
    suffix = "squeezed"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def adjust(self, source: Source) -> None:
        """Take dynamic utilisation from a file."""
        adjust(source.cluster, self._settings)

    def plan(self, source: Source, settings: options.Settings, deadline: Deadline) -> PlanResult:
        """Plan what to switch, and the moves around it."""
        wanted = _wanted(self._settings, source, settings, deadline)
        done = squeeze_cluster(source.cluster, source.policy, wanted, say_plan)
        done.remarks = _doubts(wanted, done.remarks, done.action)
        return done

    def warn(self, done: PlanResult) -> None:
        """Say on stderr what a person should know, and who says it."""
        tell(*(f"iallocator: {remark}" for remark in done.remarks))

    def hindrance(self, done: PlanResult) -> str:
        """Return what is missing of the reserve after powering on every standby node; or ""."""
        assert isinstance(done, SqueezeResult)
        if self._settings.even_if_short or not done.shortage:
            return ""
        return f"{done.shortage}; --even-if-short carries it out all the same"

    def group(self) -> str:
        """As ``--group`` says."""
        return self._settings.group

    def master(self, source: Source) -> str:
        """The master node; "": unknown."""
        return self._settings.master or source.master


def run(settings: Settings, positional: Sequence[str]) -> int:
    """Squeeze the cluster in the file (- or none: stdin), print what to do."""
    both = [name for name in settings.prefer if name in settings.avoid]
    if both:
        raise UsageError(f"--prefer and --avoid contradict each other: {', '.join(both)}")
    return run_plan.run_planner(settings, positional, _Squeezing(settings))


def _wanted(
    settings: Settings, source: Source, whole: options.Settings, deadline: Deadline
) -> SqueezeOptions:
    """What `settings` want until `deadline`; `whole` are those completed from tags."""
    kinds = ALL if settings.all_instances else DRBD if settings.drbd else SHARED
    return SqueezeOptions(
        StopCriteria(min_gain=0.0, deadline=deadline),
        whole,
        target=settings.target_resources,
        minimal=settings.minimal_resources,
        master=settings.master or source.master,
        prefer=settings.prefer,
        avoid=settings.avoid,
        kinds=kinds,
        group=settings.group,
        tag_prefix=settings.tag_prefix,
    )


def _doubts(wanted: SqueezeOptions, remarks: Sequence[str], action: str) -> list[str]:
    """`remarks`, and what is doubtful about what is wanted."""
    remarks = list(remarks)
    if not wanted.master and action != "online":
        remarks.append(
            "warning: the master node is unknown and may be among the nodes to power down; "
            "name it with --master"
        )
    if wanted.target < wanted.minimal:
        remarks.append(
            "warning: --target-resources is less than --minimal-resources: "
            "what is powered down now may be powered on the next time"
        )
    return remarks
