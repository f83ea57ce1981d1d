"""From a cluster and wishes to balancing plans: which groups, in which order."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from iallocator.constraints.affinity_factory import relations_of
from iallocator.constraints.transition_requirements import demands_of
from iallocator.deadline import Stopped
from iallocator.errors import NotFoundError
from iallocator.model.moves import replay
from iallocator.model.node_view import Capacities
from iallocator.model.state import State
from iallocator.n1.baseline import Baseline
from iallocator.names import whole_names
from iallocator.planners.balance.greedy import balance
from iallocator.planners.balance.move_kinds import MoveRules
from iallocator.planners.balance.problem import BalanceProblem
from iallocator.planners.eligible import (
    group_named,
    in_order,
    movable,
    set_offline,
    set_vcpu_ratio,
    worst_first,
)
from iallocator.planners.result import GroupPlan, GroupPlans

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from iallocator.constraints.relations import Relations
    from iallocator.model.cluster import Cluster, Group
    from iallocator.options.settings import Settings
    from iallocator.planners.plan import Plan
    from iallocator.planners.plan_limits import StopCriteria

__all__ = ["BalanceOptions", "balance_cluster"]


@dataclass(slots=True)
class BalanceOptions:
    """What is wanted of a balancing.

    Attributes
    ----------
    limits, rules:
        When to stop, and which moves are allowed.
    group:
        Name or uuid of the only group to balance; "": the worst that can be improved.
    all_groups:
        Whether to balance every group.
    offline:
        Names of nodes to treat as offline.
    selected, excluded:
        Names of the instances that may be moved (None: all), and of those that may not.
    max_cpu, min_disk:
        Virtual cpus per cpu at most (None: as the policy says); share of disk to keep free.
    tag_prefix:
        What this program's own tags begin with.
    settings:
        What counts for global N+1 and soft limits, in groups whose tags ask for it
        something of their own; None: no N+1, and soft limits as `rules` say.
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

    def rules_for(self, group: Group) -> MoveRules:
        """Which moves are allowed in `group`."""
        if self.settings is None:
            return self.rules
        own = self.settings.by_group.get(group.index, self.settings)
        return self.rules.minding_soft_limits(own.ignore_soft_errors)

    def n1_of(self, group: Group) -> str:
        """How global N+1 is judged in `group`."""
        return "off" if self.settings is None else self.settings.plan_n1(group.index)


def balance_cluster(
    cluster: Cluster,
    wishes: BalanceOptions,
    progress: Callable[[Plan], None] = lambda plan: None,
) -> GroupPlans:
    """Balance one group, or all.

    A cluster of several groups has its worst group balanced that can be improved.
    A signal, or the end of the time, ends the work; what was found until then is returned.

    Raises
    ------
    NotFoundError
        If a node, an instance or the group is unknown.
    """
    _name(cluster, wishes)
    set_offline(cluster, wishes.offline)
    if wishes.max_cpu is not None:
        set_vcpu_ratio(cluster, wishes.max_cpu)
    before = State(cluster)
    demands = demands_of(relations_for(cluster, wishes))
    plans: list[GroupPlan] = []
    try:
        with wishes.limits.deadline:
            _balance_groups(before, wishes, progress, plans)
    except Stopped as stop:
        return GroupPlans("balance", before, plans, stop, demands)
    return GroupPlans("balance", before, plans, None, demands)


def _balance_groups(
    before: State,
    wishes: BalanceOptions,
    progress: Callable[[Plan], None],
    plans: list[GroupPlan],
) -> None:
    """Fill `plans`; what is in there counts if someone interrupts."""
    state = State(before.cluster)
    relations = relations_for(before.cluster, wishes)
    for group in _groups(before, wishes):
        problem = _problem_of(state, group, wishes, relations)
        plan = balance(problem, wishes.limits, progress)
        _judge(problem, plan)
        found = GroupPlan(group, plan)
        if wishes.all_groups:
            plans.append(found)
        elif plan.entries or not plans:
            plans[:] = [found]
        if plan.stop or (plan.entries and not wishes.all_groups):
            break
        replay(state, plan.moves)


def _judge(problem: BalanceProblem, plan: Plan) -> None:
    """Hold `plan` to N+1, even if somebody interrupts: without that it could not be printed."""
    try:
        _hold_to(problem, plan)
    except Stopped as stop:
        plan.stop_at_best(stop)
        _hold_to(problem, plan)


def _hold_to(problem: BalanceProblem, plan: Plan) -> None:
    """Take the last moves of `plan` back until every failure can be survived that must be."""
    baseline, state = problem.baseline, problem.state
    if baseline is None:
        return
    with state.trial():
        replay(state, plan.moves)
        reason = baseline.problem(state)
        while reason and plan.entries and baseline.broken(state, rescues=True):
            move = plan.entries.pop().move
            state.remove(move.instance, move.after)
            state.place(move.instance, move.before)
            plan.reason = reason


def _name(cluster: Cluster, wishes: BalanceOptions) -> None:
    """Have `wishes` name instances by their whole names."""
    names = [instance.name for instance in cluster.instances]
    if wishes.selected:
        wishes.selected = whole_names(wishes.selected, names, "--select-instances", "instance")
    if wishes.excluded:
        wishes.excluded = whole_names(wishes.excluded, names, "--exclude-instances", "instance")


def _groups(state: State, wishes: BalanceOptions) -> list[Group]:
    """The groups to try, in order."""
    if not wishes.group:
        return worst_first(state)
    group = group_named(state.cluster, wishes.group)
    if not group.nodes:
        raise NotFoundError(f"group {wishes.group} has no nodes")
    return [group]


def relations_for(cluster: Cluster, wishes: BalanceOptions) -> Relations | None:
    """What relates the instances of the cluster to each other; hbal knows no such thing."""
    if not wishes.rules.behaviour.knows_affinity:
        return None
    return relations_of(cluster, (), wishes.tag_prefix)


def _problem_of(
    state: State, group: Group, wishes: BalanceOptions, relations: Relations | None
) -> BalanceProblem:
    cluster = state.cluster
    fixed = Capacities(cluster.nodes, wishes.min_disk, group.nodes)
    instances = movable(
        cluster, group, wishes.selected, wishes.excluded, behaviour=wishes.rules.behaviour
    )
    if relations is not None and relations.stuck:
        instances = [i for i in instances if i.name not in relations.stuck]
    scope = in_order(group.nodes, wishes.rules.behaviour)
    mode = wishes.n1_of(group)
    baseline = None if mode == "off" else Baseline(state, group, mode, relations)
    rules = wishes.rules_for(group)
    return BalanceProblem(state, scope, fixed, instances, rules, relations, baseline)
