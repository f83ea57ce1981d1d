"""From a cluster and wishes to what is to be powered down or on."""

from __future__ import annotations

from iallocator.constraints.affinity_factory import relations_of
from iallocator.constraints.transition_requirements import demands_of
from iallocator.errors import NotFoundError
from iallocator.model.state import State
from iallocator.planners.eligible import group_named, in_order, movable, nodes_named
from iallocator.planners.power_state import Moved, size_like
from iallocator.planners.result import GroupPlan
from iallocator.planners.squeeze.feasibility import Feasibility
from iallocator.planners.squeeze.headroom import Headroom
from iallocator.planners.squeeze.node_selection import power_down, power_on
from iallocator.planners.squeeze.options import ALL, SHARED
from iallocator.planners.squeeze.result import SqueezePlan, SqueezeResult
from iallocator.planners.survival import Survival
from iallocator.scoring.state_score import score_of
from iallocator.solver.budget import Budget
from iallocator.tags.standby import is_standby, wake_rank

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from iallocator.model.cluster import Cluster, Group, Node
    from iallocator.model.instance import Instance
    from iallocator.model.policy import Policy
    from iallocator.planners.plan import Plan
    from iallocator.planners.squeeze.node_selection import Search
    from iallocator.planners.squeeze.options import SqueezeOptions

__all__ = ["squeeze_cluster"]


def squeeze_cluster(
    cluster: Cluster,
    policy: Policy,
    wanted: SqueezeOptions,
    progress: Callable[[Plan], None] = lambda plan: None,
) -> SqueezeResult:
    """Find the nodes to power down; or to power on, if an online node has less than the minimum.

    `policy` is that of the whole cluster, which has the standard size.

    Raises
    ------
    NotFoundError
        If a node or the group is unknown.
    """
    wanted.prefer = nodes_named(cluster, wanted.prefer, "--prefer")
    wanted.avoid = nodes_named(cluster, wanted.avoid, "--avoid")
    if wanted.master:
        (wanted.master,) = nodes_named(cluster, [wanted.master], "--master")
    groups = _groups(cluster, wanted.group)
    work = _Work(cluster, policy, wanted, progress)
    done = SqueezeResult(cluster)
    try:
        with work.moved:
            work.run(groups, done)
            if wanted.alarm is not None:
                wanted.alarm.quiet()
    except KeyboardInterrupt as stop:
        done.plan.end(stop)
    done.before = State(cluster)  # sizes that nobody told are known by now
    done.demands = demands_of(work.relations)
    done.reserves = {group.index: work.reserve(group, wanted.target) for group in groups}
    return done


def _groups(cluster: Cluster, wanted: str) -> list[Group]:
    groups = [group_named(cluster, wanted)] if wanted else cluster.groups
    found = [group for group in groups if group.nodes]
    if not found:
        raise NotFoundError(f"group {wanted} has no nodes" if wanted else "there are no nodes")
    return found


class _Work:
    """One squeezing of a cluster, group by group; each finds those before it where they went."""

    def __init__(
        self,
        cluster: Cluster,
        policy: Policy,
        wanted: SqueezeOptions,
        progress: Callable[[Plan], None],
    ) -> None:
        self.cluster = cluster
        self.wanted = wanted
        self._standard = policy.standard
        self._progress = progress
        self.moved = Moved()
        seconds = wanted.exact_seconds
        self._budget = Budget(seconds, None, wanted.alarm) if seconds else None
        known = wanted.behaviour.knows_affinity
        self.relations = relations_of(cluster, (), wanted.tag_prefix) if known else None

    def reserve(self, group: Group, factor: float) -> Headroom:
        """The reserve; on local disks where drbd instances of the group are taken along."""
        local = self.wanted.kinds != SHARED and any(i.local for i in self._movable(group))
        return Headroom(self._standard, factor, local)

    def _movable(self, group: Group) -> list[Instance]:
        unbalanced = self.wanted.kinds == ALL
        found = movable(self.cluster, group, unbalanced=unbalanced, behaviour=self.wanted.behaviour)
        stuck = self.relations.stuck if self.relations else ()
        return [instance for instance in found if instance.name not in stuck]

    def _feasibility(self, group: Group, factor: float, *, evacuate: bool) -> Feasibility:
        wanted, instances = self.wanted, self._movable(group)
        return Feasibility(
            self.cluster,
            in_order(group.nodes, wanted.behaviour),
            instances,
            [i for i in instances if i.shared] if wanted.kinds == SHARED else instances,
            self.reserve(group, factor),
            wanted.limits,
            Survival(State(self.cluster), group, wanted.n1_of(group), self.relations),
            evacuate=evacuate,
            ignore_soft=wanted.ignores_soft(group),
            behaviour=wanted.behaviour,
            progress=self._progress,
            relations=self.relations,
            budget=self._budget,
        )

    def run(self, groups: Sequence[Group], done: SqueezeResult) -> None:
        """Power nodes down; or on, where a group needs it."""
        state, factor = State(self.cluster), self.wanted.minimal
        short = [g for g in groups if self.reserve(g, factor).missing(state, g.nodes)]
        if short:
            self._wake(groups, short, done)
        else:
            self._free(groups, done)

    def _free(self, groups: Sequence[Group], done: SqueezeResult) -> None:
        """Power down what can be."""
        done.aim = "offline"
        for group in groups:
            candidates = self._candidates(group, done)
            before = score_of(State(self.cluster), group.nodes)
            relief = self._feasibility(group, self.wanted.target, evacuate=True)
            stranded = self._stranded(group)
            if stranded:
                done.kept.update(dict.fromkeys(candidates, stranded))
                candidates = []
            search = power_down(relief, candidates, before, self.wanted.limits)
            done.nodes += search.chosen
            done.kept.update(search.refused)
            reason = search.stopped or stranded or "no further node can be freed"
            done.plans.append(GroupPlan(group, SqueezePlan(before, search, reason)))
            self.moved.make(search.moves)
            if search.stop:
                break

    def _candidates(self, group: Group, done: SqueezeResult) -> list[int]:
        """The nodes that come into question, in the order in which to try them."""
        found = []
        state = State(self.cluster)
        movable_names = {instance.name for instance in self._movable(group)}
        for index in in_order(group.nodes, self.wanted.behaviour):
            if self.cluster.nodes[index].online:
                reason = self._unfit(state, index, movable_names)
                if reason:
                    done.kept[index] = reason
                else:
                    found.append(index)
        if not self.wanted.master:
            online = {n.index for n in self.cluster.nodes if n.online} - set(done.nodes)
            if online <= set(found) and found:
                spared = max(found, key=lambda index: self._rank(state, index))
                done.kept[spared] = "no master node is named, and one node must stay online"
                found.remove(spared)
        return sorted(found, key=lambda index: self._rank(state, index))

    def _rank(self, state: State, index: int) -> tuple[int, int]:
        held = len(state.primaries[index]) + len(state.secondaries[index])
        return self._liking(self.cluster.nodes[index]), held

    def _liking(self, node: Node) -> int:
        return (node.name in self.wanted.avoid) - (node.name in self.wanted.prefer)

    def _unfit(self, state: State, index: int, movable_names: Collection[str]) -> str:
        """Why the node cannot be powered down at all, or ""."""
        if self.cluster.nodes[index].name == self.wanted.master:
            return "it is the master node"
        if self.wanted.kinds == SHARED:
            if state.secondaries[index]:
                return f"it is the secondary of {_some(state.secondaries[index])}"
            mirrored = [n for n, i in state.primaries[index].items() if not i.shared]
            if mirrored:
                return f"its instances are not on shared storage: {_some(mirrored)}"
        fixed = [i.name for i in state.instances_on(index) if i.name not in movable_names]
        return f"its instances cannot be moved: {_some(fixed)}" if fixed else ""

    def _stranded(self, group: Group) -> str:
        """The instance on a node that is not online and that nothing can move, or ""."""
        names = {instance.name for instance in self._movable(group)}
        state = State(self.cluster)
        for index in group.nodes:
            node = self.cluster.nodes[index]
            for name in () if node.online else state.primaries[index]:
                if name not in names:
                    return f"instance {name} on {node.name}, not online, cannot be moved"
        return ""

    def _wake(self, groups: Sequence[Group], short: Sequence[Group], done: SqueezeResult) -> None:
        """Power on what the groups in `short` need."""
        done.aim = "online"
        for group in groups:
            if group not in short:
                continue
            standby = self._standby(group, done)
            before = score_of(State(self.cluster), group.nodes)
            relief = self._feasibility(group, self.wanted.minimal, evacuate=False)
            search = power_on(relief, standby, before, self.wanted.limits)
            done.nodes += search.chosen
            done.kept.update(search.refused)
            reason = search.stopped or self._verdict(search)
            done.plans.append(GroupPlan(group, SqueezePlan(before, search, reason)))
            self.moved.make(search.moves)
            if search.stop:
                break

    @staticmethod
    def _verdict(search: Search) -> str:
        if not search.problem:
            return "every online node has the minimal resources"
        return f"not enough even so: {search.problem}"

    def _standby(self, group: Group, done: SqueezeResult) -> list[int]:
        """The standby nodes of the group, in the order in which to power them on."""
        nodes = [self.cluster.nodes[i] for i in in_order(group.nodes, self.wanted.behaviour)]
        found = [node for node in nodes if is_standby(node)]
        for node in found:
            model = size_like(node, [other for other in nodes if other.online])
            if model is not None:
                done.remarks.append(
                    f"{node.name}: size unknown while it is off, taken for that of {model.name}"
                )
        found.sort(key=lambda node: (self._liking(node), wake_rank(node)))
        return [node.index for node in found]


def _some(names: Iterable[str]) -> str:
    """Some of the names, if there are many."""
    every = list(names)
    rest = len(every) - 3
    return ", ".join(every[:3]) + (f" and {rest} more" if rest > 0 else "")
