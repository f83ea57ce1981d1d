"""The command ``squeeze``."""

from __future__ import annotations

from iallocator.commands.balance_options import DYNU_OPTION, adjust
from iallocator.commands.planning import PLAN_OPTIONS, PlanCommand, PlanSettings
from iallocator.commands.progress import say_plan
from iallocator.commands.shared_options import BOOT_OPTION, GROUP_OPTION
from iallocator.errors import UsageError
from iallocator.options.table import Option
from iallocator.options.values import amount, name_list

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iallocator.deadline import Deadline
    from iallocator.options.settings import Settings as Common
    from iallocator.planners.result import PlanResult
    from iallocator.sources import Source

__all__ = ["Squeeze"]


class Settings(PlanSettings):
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
    *PLAN_OPTIONS,
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
    GROUP_OPTION,
)  # fmt: skip


class Squeeze(PlanCommand):
    """``iallocator squeeze``: which nodes to power down, or which standby nodes to power on.

    Exit status 0: there is a plan, if only to do nothing; 130: interrupted, what was found
    until then is printed; 1: the plan failed the check that every plan goes through before it is
    printed; stderr says which limits it breaks.
    """

    options = OPTIONS
    settings_type = Settings
    suffix = "squeezed"
    settings: Settings

    def check(self) -> None:
        """Reject nodes that are both preferred and avoided."""
        both = [name for name in self.settings.prefer if name in self.settings.avoid]
        if both:
            raise UsageError(f"--prefer and --avoid contradict each other: {', '.join(both)}")
        super().check()

    def adjust(self, source: Source) -> None:
        """Take dynamic utilisation from a file."""
        adjust(source.cluster, self.settings)

    def planner(self, source: Source, settings: Common, deadline: Deadline) -> PlanResult:
        """Plan which nodes to switch, and the moves around them."""
        from iallocator.planners.plan_limits import StopCriteria
        from iallocator.planners.squeeze.headroom import ALL, DRBD, SHARED, SqueezeOptions
        from iallocator.planners.squeeze.squeeze import squeeze_cluster

        own = self.settings
        wanted = SqueezeOptions(
            StopCriteria(min_gain=0.0, deadline=deadline),
            settings,
            target=own.target_resources,
            minimal=own.minimal_resources,
            master=self.master(source),
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
        from iallocator.planners.squeeze.result import SqueezeResult

        assert isinstance(done, SqueezeResult)
        if self.settings.even_if_short or not done.shortage:
            return ""
        return f"{done.shortage}; --even-if-short carries it out all the same"

    def group(self) -> str:
        """Return the group of ``--group``."""
        return self.settings.group

    def master(self, source: Source) -> str:
        """Return the name of the master node; "" if it is unknown."""
        return self.settings.master or source.master
