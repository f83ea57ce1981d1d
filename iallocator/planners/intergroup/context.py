"""The working set of planners between groups, what they found, and the verdicts on groups."""

from __future__ import annotations

from contextlib import contextmanager

from iallocator.model.state import State
from iallocator.n1.rules import Rules
from iallocator.placement.context import Context
from iallocator.placement.limit_policy import LimitPolicies, limit_policies_for
from iallocator.planners.result import GroupRow, PlanResult
from iallocator.solver.budget import Budget

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from iallocator.deadline import Deadline
    from iallocator.model.cluster import Cluster, Group
    from iallocator.options.settings import Settings
    from iallocator.planners.plan import PlanEntry

__all__ = [
    "FOUND",
    "IMPOSSIBLE",
    "NOTHING",
    "OUT_OF_TIME",
    "UNDECIDED",
    "IntergroupContext",
    "IntergroupResult",
    "forbidden",
    "unfinished",
]

MOVES = 20
"""How many instances the choice between the two forms of the kernel counts with."""


SIMULATED = 20_000_000
"""Moves × nodes that failures are simulated with for all groups, about; see `Effort`."""

LEAST = 200_000
"""So many of them for each."""


class _RulesOfTarget(Rules):
    """N+1 of the group that an instance comes to.

    ``strict`` does not check the other groups: a plan that empties a group which violates
    N+1 would be rejected because of the group that it repairs.
    """

    def failing(self, cluster: Cluster, group: Group, scope: Sequence[int]) -> Sequence[int]:
        """Return the nodes of `group` whose failure must be tolerated."""
        return super().failing(cluster, group, group.nodes)


class IntergroupContext(Context):
    """A context in which existing instances find places in other groups.

    An instance is checked against the limits of a new instance where it comes to, even if it
    leaves a node that is offline.  N+1 is that of the group it comes to.

    An `deadline` says when the time is up; `search_budget` is what all exact searches may spend;
    ``tell`` shows a line of progress.
    """

    __slots__ = ("_simulations", "search_budget", "tell")

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        deadline: Deadline | None = None,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        candidates = [(len(cluster.nodes), 0)] * MOVES
        groups = len(cluster.groups)
        super().__init__(cluster, settings, candidates, deadline=deadline, groups=groups)
        self.tell = tell
        self.search_budget = Budget(
            settings.optimum_seconds, self.deadline, settings.planning_seconds
        )
        self._simulations = min(self.effort.left, SIMULATED)

    @contextmanager
    def share(self, groups: int) -> Iterator[None]:
        """A ``with`` block for one of so many `groups` that are left to be tried.

        It may spend an equal part of what exact searches have left, and half of what
        simulations of failures have: the first groups matter most, and a little is for each.
        """
        whole, effort = self.search_budget, self.effort
        self.search_budget = part = whole.part(1 / groups)
        given = self._simulations if groups == 1 else self._simulations / 2
        given = min(effort.left, max(given, LEAST))
        rest, effort.left = effort.left - given, given
        try:
            yield
        finally:
            whole.pay(part)
            self.search_budget = whole
            self._simulations = max(0.0, self._simulations - (given - effort.left))
            effort.left += rest

    def limit_policies(self, settings: Settings) -> LimitPolicies:
        """Wherever an instance comes from, it is held to the limits of a new one."""
        new = limit_policies_for(settings).new
        return LimitPolicies(new, new, new)

    def make_rules(self, mode: str, units: Mapping[str, Sequence[str]] | None) -> Rules:
        """Return the N+1 rules of `mode`, the same for every group that has this mode."""
        return _RulesOfTarget(mode, units, self.effort)

    @property
    def units(self) -> Mapping[str, Sequence[str]]:
        """Instance -> all that must be on its node, itself among them; others are not in it."""
        relations = self.bonds.relations
        return {} if relations is None else relations.units()


def forbidden(settings: Settings) -> str:
    """Why no instance may change its group, if someone says so; or "".

    The setting `inter-group` is "no" by default; only where a tag or the command line says
    it, it means this.
    """
    if settings.inter_group != "no":
        return ""
    if "inter_group" in settings.chosen:
        return "moves between groups are not allowed: --inter-group=no"
    origin = settings.origins.get("inter_group")
    return f"moves between groups are not allowed: {origin}" if origin else ""


class IntergroupResult(PlanResult):
    """A plan in which instances change their group; a row for every group that has nodes.

    Attributes
    ----------
    deadline:
        Ends the planning.
    """

    between_groups = True

    def __init__(self, command: str, context: Context) -> None:
        super().__init__(command, State(context.cluster), context.bonds.demands())
        self.deadline = context.deadline
        self.groups = [GroupRow(group) for group in context.cluster.groups if group.nodes]

    def add(self, entries: Iterable[PlanEntry]) -> None:
        """Append moves, and leave time for them."""
        before = len(self.entries)
        super().add(entries)
        self.deadline.spare(len(self.entries) - before)


FOUND = "found"
"""There are moves for all that has to leave."""

IMPOSSIBLE = "impossible"
"""Proved: there are none."""

OUT_OF_TIME = "out of time"
"""None were found, and time, or what may be spent, was over before that was proved."""

UNDECIDED = "undecided"
"""None were found; more was not asked for, or somebody interrupted."""

NOTHING = "nothing to do"
"""Nothing has to leave."""


def unfinished(interrupted: bool) -> str:
    """The verdict on a group that a plan did not come to; `interrupted` by a person."""
    return UNDECIDED if interrupted else OUT_OF_TIME
