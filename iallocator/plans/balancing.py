"""From a cluster and wishes to balancing plans: which groups, in which order."""

from __future__ import annotations

from iallocator.model.state import State
from iallocator.plans.balance import Arena, balance
from iallocator.plans.plan import replay
from iallocator.plans.scope import in_order, movable, set_offline, set_vcpu_ratio, worst_first
from iallocator.plans.verify import verify
from iallocator.scoring.movekinds import MoveRules
from iallocator.scoring.view import capacities

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from iallocator.model.cluster import Cluster, Group
    from iallocator.plans.limits import Limits
    from iallocator.plans.plan import Plan

__all__ = ["Balanced", "GroupPlan", "Wishes", "balance_cluster"]


class Wishes:
    """What is wanted of a balancing.

    Attributes
    ----------
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
    like_hbal:
        Whether to go about it exactly as hbal does.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        group: str = "",
        all_groups: bool = False,
        offline: Collection[str] = (),
        selected: Collection[str] | None = None,
        excluded: Collection[str] = (),
        max_cpu: float | None = None,
        min_disk: float = 0.0,
        disk_moves: bool = True,
        instance_moves: bool = True,
        restricted: bool = False,
        evacuate_only: bool = False,
        ignore_soft: bool = False,
        like_hbal: bool = False,
    ) -> None:
        self.limits = limits
        self.group = group
        self.all_groups = all_groups
        self.offline = offline
        self.selected = selected
        self.excluded = excluded
        self.max_cpu = max_cpu
        self.min_disk = min_disk
        self.like_hbal = like_hbal
        self.rules = MoveRules(
            disk_moves=disk_moves,
            instance_moves=instance_moves,
            restricted=restricted,
            evacuate_only=evacuate_only,
            ignore_soft=ignore_soft,
            like_hbal=like_hbal,
        )


class GroupPlan:
    """The plan for one group, and what is wrong with it (nothing, it is to be hoped)."""

    def __init__(self, group: Group, plan: Plan, problems: list[str]) -> None:
        self.group = group
        self.plan = plan
        self.problems = problems


class Balanced:
    """The plans for one group or several, and the states of the cluster around them."""

    def __init__(
        self, cluster: Cluster, plans: list[GroupPlan], before: State, after: State
    ) -> None:
        self.cluster = cluster
        self.plans = plans
        self.before = before
        self.after = after


def balance_cluster(
    cluster: Cluster,
    wishes: Wishes,
    progress: Callable[[Plan], None] = lambda plan: None,
    check: bool = False,
) -> Balanced:
    """Balance one group, or all.

    A cluster of several groups has its worst group balanced that can be improved.
    `check`: execute every plan on the model.

    Raises
    ------
    LookupError
        If a node, an instance or the group is unknown.
    """
    _known(cluster, wishes)
    set_offline(cluster, wishes.offline)
    if wishes.max_cpu is not None:
        set_vcpu_ratio(cluster, wishes.max_cpu)
    state = State(cluster)
    plans: list[GroupPlan] = []
    for group in _groups(state, wishes):
        plan = balance(_arena(state, group, wishes), wishes.limits, progress)
        problems = verify(state, plan.moves) if check else []
        found = GroupPlan(group, plan, problems)
        replay(state, plan.moves)
        if wishes.all_groups:
            plans.append(found)
        elif plan.moves or not plans:
            plans = [found]
        if plan.interrupted or (plan.moves and not wishes.all_groups):
            break
    return Balanced(cluster, plans, State(cluster), state)


def _known(cluster: Cluster, wishes: Wishes) -> None:
    names = {instance.name for instance in cluster.instances}
    unknown = {*(wishes.selected or ()), *wishes.excluded} - names
    if unknown:
        raise LookupError(f"unknown instances: {', '.join(sorted(unknown))}")


def _groups(state: State, wishes: Wishes) -> list[Group]:
    """The groups to try, in order."""
    if not wishes.group:
        return worst_first(state)
    for group in state.cluster.groups:
        if wishes.group in (group.name, group.uuid):
            if not group.nodes:
                raise LookupError(f"group {wishes.group} has no nodes")
            return [group]
    raise LookupError(f"unknown group: {wishes.group}")


def _arena(state: State, group: Group, wishes: Wishes) -> Arena:
    cluster = state.cluster
    fixed = [capacities(node, wishes.min_disk) for node in cluster.nodes]
    instances = movable(cluster, group, wishes.selected, wishes.excluded, wishes.like_hbal)
    scope = in_order(group.nodes, wishes.like_hbal)
    return Arena(state, scope, fixed, instances, wishes.rules)
