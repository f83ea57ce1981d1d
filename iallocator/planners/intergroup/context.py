"""Provide the context and the result of planners between groups, and groups that share pools."""

from __future__ import annotations

from contextlib import contextmanager

from iallocator.deadline import SIMULATIONS, Deadline, Stopped
from iallocator.model.state import State
from iallocator.model.storage import EXTERNAL, pool_name
from iallocator.n1 import Rules
from iallocator.placement.context import EXPECTED_MOVES, Context
from iallocator.placement.limit_policy import LimitPolicies, limit_policies_for
from iallocator.planners.result import GroupRow, PlanResult
from iallocator.transition.requirements import demands_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Protocol

    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance, Pool
    from iallocator.options.settings import Settings
    from iallocator.planners.plan import PlanEntry

    class Search(Protocol):
        """A search for a plan between groups."""

        def run(self) -> str:
            """Add moves to the plan; return the reason why there are no more."""

        def fill_rows(self) -> None:
            """Complete the row of each group in the report of the plan."""


__all__ = [
    "GROUP_FOUND",
    "GROUP_IMPOSSIBLE",
    "NOTHING_TO_DO",
    "OUT_OF_TIME",
    "UNDECIDED",
    "IntergroupContext",
    "IntergroupResult",
    "Peers",
    "forbidden",
    "unfinished",
]

SIMULATION_BUDGET = 20_000_000
"""Budget of simulated failures for all groups, in moves × nodes; see `Deadline.work`."""

LEAST_GROUP_BUDGET = 200_000
"""The least budget of simulated failures for each group, in moves × nodes."""


class IntergroupContext(Context):
    """A context in which existing instances are placed in other groups.

    An instance is checked against the limits of a new instance in its new group, even if it leaves
    an offline node.  N+1 is checked in its new group.

    Attributes
    ----------
    search_budget:
        The work that all exact searches together may do.
    progress:
        Is called with a line of text that reports progress.
    """

    moves_are_optional = True
    groups_are_ranked_together = True

    __slots__ = ("_simulations", "progress", "search_budget")

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        deadline: Deadline | None = None,
        progress: Callable[[str], None] = lambda text: None,
    ) -> None:
        candidates = [(len(cluster.nodes), 0)] * EXPECTED_MOVES
        groups = len(cluster.groups)
        super().__init__(cluster, settings, candidates, deadline=deadline, groups=groups)
        self.progress = progress
        self.search_budget = Deadline.of_search(
            settings.optimum_seconds * settings.thoroughness,
            self.deadline,
            settings.planning_seconds,
        )
        self._simulations = min(self.effort.work[SIMULATIONS], SIMULATION_BUDGET)

    @contextmanager
    def share(self, groups: int) -> Iterator[None]:
        """Return a ``with`` block for a search in one group; `groups` are still to be searched.

        The search may use an equal part of the budget of exact searches. It may use half of the
        remaining budget of simulated failures, because the first groups matter most, but at least
        `LEAST_GROUP_BUDGET`.
        """
        whole, work = self.search_budget, self.effort.work
        self.search_budget = whole.part(1 / groups)
        given = self._simulations if groups == 1 else self._simulations / 2
        given = min(work[SIMULATIONS], max(given, LEAST_GROUP_BUDGET))
        rest, work[SIMULATIONS] = work[SIMULATIONS] - given, given
        try:
            yield
        finally:
            self.search_budget = whole
            self._simulations = max(0.0, self._simulations - (given - work[SIMULATIONS]))
            work[SIMULATIONS] += rest

    def limit_policies(self, settings: Settings) -> LimitPolicies:
        """Return the limits of a new instance for every kind of move."""
        new = limit_policies_for(settings).new
        return LimitPolicies(new, new, new)

    def make_rules(self, mode: str, units: Mapping[str, Sequence[str]] | None) -> Rules:
        """Return the N+1 rules of plans, which only check the group to which an instance moves.

        ``strict`` does not check the other groups. Otherwise, a plan that empties a group which
        violates N+1 would be rejected because of this group.
        """
        return Rules(mode, units, self.effort, plan=True)

    @property
    def units(self) -> Mapping[str, Sequence[str]]:
        """Return instance name -> the names in its colocation group, with its own.

        Instances without a colocation group are left out.
        """
        relations = self.affinity.relations
        return {} if relations is None else relations.units()


class Peers:
    """The storage pools of a cluster, and for each pool the groups that share it.

    A group shares a pool if at least one node of the group has access to the pool. Groups without
    nodes are left out.

    Attributes
    ----------
    groups_by_pool:
        Storage pool -> the groups that share the pool, in their order.
    """

    __slots__ = ("_cluster", "_of_reach", "groups_by_pool")

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.groups_by_pool = cluster.groups_by_pool()
        self._of_reach: dict[frozenset[int] | None, list[Group]] = {}

    def pools_of(self, group: Group) -> list[Pool]:
        """Return the pools to which nodes of `group` have access, sorted by name."""
        return [pool for pool, groups in self.groups_by_pool.items() if group in groups]

    def shared_by(self, group: Group, external: bool = False) -> list[Pool]:
        """Return the pools that `group` shares with another group.

        `external`: whether only external pools are returned.
        """
        return [
            pool
            for pool, groups in self.groups_by_pool.items()
            if group in groups and len(groups) > 1 and (not external or pool[0] == EXTERNAL)
        ]

    def alone(self, group: Group) -> str:
        """Return why no instance of `group` can move to another group; "" if it shares a pool."""
        if self.shared_by(group):
            return ""
        names = ", ".join(map(pool_name, self.pools_of(group)))
        reached = (
            f"no other group has access to {names}" if names else "it has access to no storage pool"
        )
        return f"shares no storage pool: {reached}"

    def of(
        self, instance: Instance, source: Group, among: Collection[Group] | None = None
    ) -> list[Group]:
        """Return the groups with a node that has access to all storage pools of `instance`.

        `source` is left out; with `among`, only these groups are returned. Diskless instances may
        move to every group.
        """
        reach = self._cluster.reach(instance)
        peers = self._of_reach.get(reach)
        if peers is None:
            peers = [
                group
                for group in self._cluster.groups
                if group.nodes and (reach is None or not reach.isdisjoint(group.nodes))
            ]
            self._of_reach[reach] = peers
        return [g for g in peers if g is not source and (among is None or g in among)]


def forbidden(settings: Settings) -> str:
    """Return which tag or option forbids moves between groups, in words; "" if none does.

    The setting `inter-group` is "no" by default; this default forbids nothing here.
    """
    if settings.inter_group != "no":
        return ""
    if "inter_group" in settings.chosen:
        return "moves between groups are not allowed: --inter-group=no"
    origin = settings.origins.get("inter_group")
    return f"moves between groups are not allowed: {origin}" if origin else ""


class IntergroupResult(PlanResult):
    """A plan in which instances change their group, with a row for every group that has nodes.

    Attributes
    ----------
    deadline:
        The time limit of the planner.
    """

    between_groups = moves_are_optional = True

    def __init__(self, command: str, context: Context) -> None:
        super().__init__(command, State(context.cluster), demands_of(context.affinity.relations))
        self.deadline = context.deadline
        self.groups = [GroupRow(group) for group in context.cluster.groups if group.nodes]

    def add(self, entries: Iterable[PlanEntry]) -> None:
        """Append `entries` to the plan, and reserve time to verify them."""
        before = len(self.entries)
        super().add(entries)
        self.deadline.spare(len(self.entries) - before)

    def fill(self, search: Search) -> None:
        """Run `search`, which adds moves to the plan, and complete the rows of the groups.

        If a signal or the time limit ends the search, the plan has the moves found until then.
        """
        try:
            with self.deadline:
                self.plan.reason = search.run()
        except Stopped as stop:
            self.plan.end(stop)
        search.fill_rows()


GROUP_FOUND = "found"
"""Status of a group: all instances that must leave can be moved."""

GROUP_IMPOSSIBLE = "impossible"
"""Status of a group: it is proved that not all instances that must leave can be moved."""

OUT_OF_TIME = "out of time"
"""Status: no moves were found, and time or budget ended before a proof that there are none."""

UNDECIDED = "undecided"
"""Status: no moves were found; an exact search was not allowed, or a signal ended it."""

NOTHING_TO_DO = "nothing to do"
"""Status of a group: no instance must leave."""


def unfinished(interrupted: bool) -> str:
    """Return the status of a group that was not tried.

    `interrupted`: whether a signal ended the search, not the time limit.
    """
    return UNDECIDED if interrupted else OUT_OF_TIME
