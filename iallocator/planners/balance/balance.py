"""Balance a cluster: plan moves for its worst group, or for each group."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from iallocator.constraints import relations_of
from iallocator.deadline import Stopped, check
from iallocator.errors import NotFoundError
from iallocator.model.moves import replay
from iallocator.model.node_view import Capacities
from iallocator.model.state import State
from iallocator.n1 import plan_rules
from iallocator.n1.tolerance import FailureTolerance
from iallocator.names import whole_names
from iallocator.planners.balance.descent import GroupBalancer
from iallocator.planners.balance.move_kinds import MoveRules
from iallocator.planners.balance.plan_builder import BalanceProblem, keep_n1
from iallocator.planners.eligible import (
    group_named,
    in_order,
    movable,
    set_offline,
    set_vcpu_ratio,
)
from iallocator.planners.result import GroupPlan, GroupPlans
from iallocator.scoring.scalar import score_of
from iallocator.transition.requirements import demands_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from iallocator.constraints.relations import Relations
    from iallocator.model.cluster import Cluster, Group
    from iallocator.options.settings import Settings
    from iallocator.planners.balance.steady import SteadyBalancer, SteadyPolicy
    from iallocator.planners.plan import Plan
    from iallocator.planners.plan_limits import StopCriteria

__all__ = ["BalanceOptions", "balance_cluster"]


@dataclass(slots=True)
class BalanceOptions:
    """The options of a balancing.

    Attributes
    ----------
    limits, rules:
        When to stop, and which moves are allowed.
    group:
        Name or uuid of the only group to balance; "": the worst group that can be improved.
    all_groups:
        Whether to balance every group.
    offline:
        Names of nodes to treat as offline.
    selected:
        Names of the only instances that may be moved; None: all instances.
    excluded:
        Names of instances that may not be moved.
    max_cpu:
        The maximum number of virtual cpus per cpu; None: the maximum of the policy.
    min_disk:
        The share of the disk of each node that stays free, from 0 to 1.
    tag_prefix:
        The prefix of the tags of this program.
    settings:
        The settings of the run and of each group, for global N+1 and soft limits. None: N+1 is
        not checked, and `rules` says whether soft limits are enforced.
    steady:
        The policy of steady balancing; None: the score alone decides.
    """

    limits: StopCriteria
    rules: MoveRules
    _: KW_ONLY
    group: str = ""
    all_groups: bool = False
    offline: Collection[str] = ()
    selected: Collection[str] | None = None
    excluded: Collection[str] = ()
    max_cpu: float | None = None
    min_disk: float = 0.0
    tag_prefix: str = "iallocator:"
    settings: Settings | None = None
    steady: SteadyPolicy | None = None

    def rules_for(self, group: Group) -> MoveRules:
        """Return which moves are allowed in `group`."""
        if self.settings is None:
            return self.rules
        own = self.settings.by_group.get(group.index, self.settings)
        return self.rules.minding_soft_limits(own.ignore_soft_errors)

    def n1_of(self, group: Group) -> str:
        """Return the mode of global N+1 in `group`."""
        return "off" if self.settings is None else self.settings.plan_n1(group.index)


def balance_cluster(
    cluster: Cluster,
    options: BalanceOptions,
    progress: Callable[[Plan], None] = lambda plan: None,
) -> GroupPlans:
    """Return a plan that balances one group, or all groups.

    Without a chosen group, the plan is for the group with the highest score that can be improved.
    If a signal or the time limit ends the search, the plan has the moves found until then.
    `progress` is called with the plan of a group after each step.

    Raises
    ------
    NotFoundError
        If a node, an instance or the group is unknown.
    """
    names = [instance.name for instance in cluster.instances]
    if options.selected:
        options.selected = whole_names(options.selected, names, "--select-instances", "instance")
    if options.excluded:
        options.excluded = whole_names(options.excluded, names, "--exclude-instances", "instance")
    set_offline(cluster, options.offline)
    if options.max_cpu is not None:
        set_vcpu_ratio(cluster, options.max_cpu)
    before = State(cluster)
    demands = demands_of(relations_for(cluster, options))
    work = _Balancing(before, options, progress)
    stop = None
    try:
        with options.limits.deadline:
            work.run()
    except Stopped as stopped:
        stop = work.stopped(stopped)
    done = GroupPlans("balance", before, work.plans, stop, demands)
    done.bounding = done.sum_of_bounds
    return done


class _Balancing:
    """One balancing of a cluster, group by group.

    Attributes
    ----------
    plans:
        The plans of the groups so far.
    """

    def __init__(
        self, before: State, options: BalanceOptions, progress: Callable[[Plan], None]
    ) -> None:
        self.plans: list[GroupPlan] = []
        self._before = before
        self._options = options
        self._progress = progress
        self._open: tuple[BalanceProblem, GroupBalancer | SteadyBalancer, Group] | None = None

    def run(self) -> None:
        """Balance the requested groups."""
        state, options = self._before.copy(), self._options
        relations = relations_for(state.cluster, options)
        if options.group:
            groups = [group_named(state.cluster, options.group)]
            if not groups[0].nodes:
                raise NotFoundError(f"group {options.group} has no nodes")
        else:
            groups = worst_first(self._before)
        for group in groups:
            if self.plans:  # the first group has a result in any case
                check()
            behaviour, failures = options.rules.behaviour, None
            instances = movable(
                state.cluster, group, options.selected, options.excluded, behaviour=behaviour
            )
            if relations is not None and relations.stuck:
                instances = [i for i in instances if i.name not in relations.stuck]
            mode = options.n1_of(group)
            if mode != "off":
                failures = FailureTolerance(state, plan_rules(mode, relations), group=group)
                failures.measure()
            problem = BalanceProblem(
                state,
                in_order(group.nodes, behaviour),
                Capacities(state.cluster.nodes, options.min_disk, group.nodes),
                instances,
                options.rules_for(group),
                relations,
                failures,
            )
            balancer: GroupBalancer | SteadyBalancer
            if options.steady is None:
                balancer = GroupBalancer(problem, options.limits, self._progress)
            else:
                from iallocator.planners.balance.steady import SteadyBalancer

                balancer = SteadyBalancer(problem, options.limits, self._progress, options.steady)
                options.steady.balancers.append(balancer)
            self._open = problem, balancer, group
            plan = balancer.run()
            self._open = None
            self._add(group, plan, problem)
            if plan.entries and not options.all_groups:
                break
            replay(state, plan.moves)

    def stopped(self, stop: Stopped) -> Stopped | None:
        """Keep the plan of the group in progress and return None; return `stop` without one."""
        if self._open is None:
            return stop
        problem, balancer, group = self._open
        plan = balancer.stopped(stop)
        keep_n1(problem, plan)
        self._add(group, plan, problem)
        return None

    def _add(self, group: Group, plan: Plan, problem: BalanceProblem) -> None:
        """Add the plan of a group; without ``all_groups``, keep only the first plan with moves.

        If no plan has moves, the first plan is kept.
        """

        def bounding() -> float:
            from iallocator.planners.balance.score_bound import least_score

            return least_score(problem, self._before)

        group_plan = GroupPlan(group, plan, bounding)
        if self._options.all_groups:
            self.plans.append(group_plan)
        elif plan.entries or not self.plans:
            self.plans[:] = [group_plan]


def relations_for(cluster: Cluster, options: BalanceOptions) -> Relations | None:
    """Return the affinity constraints of the cluster, or None for hbal, which ignores them."""
    if not options.rules.behaviour.knows_affinity:
        return None
    return relations_of(cluster, (), options.tag_prefix, options.settings, optional=True)


def worst_first(state: State) -> list[Group]:
    """Return the groups that have nodes, the highest score first."""
    groups = [group for group in state.cluster.groups if group.nodes]
    scores = {group.index: score_of(state, group.nodes) for group in groups}
    return sorted(groups, key=lambda group: -scores[group.index])
