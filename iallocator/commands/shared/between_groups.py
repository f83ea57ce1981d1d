"""What the commands that plan between groups have in common."""

from __future__ import annotations

from iallocator.commands.shared import run_plan
from iallocator.commands.shared.progress import say_progress
from iallocator.deadline import Deadline
from iallocator.options.table import Option
from iallocator.planners.eligible import set_offline
from iallocator.planners.intergroup.context import IntergroupContext, IntergroupResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iallocator.options import settings as options
    from iallocator.planners.result import PlanResult
    from iallocator.sources import Source

    Find = Callable[[IntergroupContext], IntergroupResult]
    Check = Callable[[IntergroupContext, IntergroupResult], list[str]]

__all__ = ["OPTIONS", "BetweenGroups", "Settings"]


class Settings(run_plan.Settings):
    """The settings of every command that plans between groups."""

    offline: Sequence[str] = ()


OPTIONS = (
    *run_plan.OPTIONS,
    Option("--offline -O", "offline", "treat this node as offline; may repeat", str, "NODE",
           repeats=True),
)  # fmt: skip


class BetweenGroups(run_plan.Planner):
    """A planner that `find` and `check` describe.

    `check` says what is wrong with the end of the plan, on a context with the state before it;
    None if the plan itself says so.
    """

    def __init__(
        self, command: str, settings: Settings, find: Find, check: Check | None = None
    ) -> None:
        self.command = command
        self._offline = settings.offline
        self._find = find
        self._check = check

    def adjust(self, source: Source) -> None:
        """Treat some nodes as offline."""
        set_offline(source.cluster, self._offline)

    def plan(self, source: Source, settings: options.Settings, deadline: Deadline) -> PlanResult:
        """Plan between the groups."""
        return self._find(_working(source, settings, deadline))

    def broken_promises(
        self, source: Source, settings: options.Settings, done: PlanResult
    ) -> list[str]:
        """What the check says."""
        if self._check is None:
            return []

        assert isinstance(done, IntergroupResult)
        return self._check(_working(source, settings, Deadline(None)), done)


def _working(source: Source, settings: options.Settings, deadline: Deadline) -> IntergroupContext:

    return IntergroupContext(source.cluster, settings, deadline, say_progress)
