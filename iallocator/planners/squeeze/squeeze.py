"""Choose the nodes of a cluster to power down or to power on, and plan the moves for this.

The groups are planned one after the other. After the first plan, further runs on the planned state
look for more nodes; their moves are joined with the plan.
"""

from __future__ import annotations

from iallocator.constraints import relations_of
from iallocator.deadline import Deadline, Stopped, check
from iallocator.errors import FEW_NAMES, NotFoundError, named
from iallocator.light import ValueObject, copy
from iallocator.model.moves import replay
from iallocator.model.node_view import Capacities
from iallocator.model.state import State
from iallocator.n1 import plan_rules
from iallocator.n1.tolerance import FailureTolerance
from iallocator.planners.balance.move_kinds import MoveRules
from iallocator.planners.direct import merge_moves, rescore_all
from iallocator.planners.eligible import group_named, in_order, movable, nodes_named
from iallocator.planners.plan_limits import PlanLimits, PowerChanges
from iallocator.planners.power_state import AssumedMoves, Switched, size_like
from iallocator.planners.result import GroupPlan
from iallocator.planners.squeeze.feasibility import Aim, Feasibility
from iallocator.planners.squeeze.headroom import MOVE_ALL, MOVE_SHARED, Headroom
from iallocator.planners.squeeze.node_selection import LAST_ONE, NodeSelection
from iallocator.planners.squeeze.result import SqueezePlan, SqueezeResult
from iallocator.planners.verify import verify_moves, verify_transition
from iallocator.tags.standby import is_standby, wake_rank
from iallocator.transition.requirements import demands_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from iallocator.model.cluster import Cluster, Group, Node
    from iallocator.model.instance import Instance
    from iallocator.model.policy import Policy
    from iallocator.planners.plan import Plan, PlanEntry
    from iallocator.planners.squeeze.headroom import SqueezeOptions

__all__ = ["squeeze_cluster"]

NEXT_RUN = "another run finds more to do; no plan that keeps all limits does it in one run"


def squeeze_cluster(
    cluster: Cluster,
    policy: Policy,
    options: SqueezeOptions,
    progress: Callable[[Plan], None] = lambda plan: None,
) -> SqueezeResult:
    """Find the nodes to power down, or to power on if an online node lacks the minimal reserve.

    `policy` is the policy of the whole cluster; it defines the size of a standard instance.
    `progress` is called with the plan of a balancing after each of its steps.

    Raises
    ------
    NotFoundError
        If a node or the group is unknown.
    """
    options.prefer = nodes_named(cluster, options.prefer, "--prefer")
    options.avoid = nodes_named(cluster, options.avoid, "--avoid")
    options.masters = nodes_named(cluster, options.masters, "--master-node")
    every = [group_named(cluster, options.group)] if options.group else cluster.groups
    groups = [group for group in every if group.nodes]
    if not groups:
        raise NotFoundError(
            f"group {options.group} has no nodes" if options.group else "there are no nodes"
        )
    work = _Work(cluster, policy, options, progress)
    done = SqueezeResult(cluster)
    try:
        with options.limits.deadline:
            with work.moved:
                work.run(groups, done)
            if options.behaviour.squeezes_further:
                for more in work.continued(groups, done):
                    done = more
    except Stopped as stop:
        work.stopped(stop, done)
    done.before = State(cluster)  # unknown sizes of nodes have been estimated
    done.demands = demands_of(work.relations)
    if done.aim == "offline" and not done.on:
        final = done
        done.bounding = lambda: work.most_freed(groups, final)
    done.reserves = {group.index: work.reserve(group, options.target) for group in groups}
    return done


class _Open(ValueObject):
    """A group for which nodes are being searched.

    Attributes
    ----------
    done:
        The result of the run, to which the plan of the group will be added.
    group, search:
        The group, and the search for its nodes.
    reason:
        Why the plan ends, for the report, unless the search is stopped.
    """

    done: SqueezeResult
    group: Group
    search: NodeSelection
    reason: str


class _Work:
    """The work of `squeeze` on one cluster: it plans the groups one after the other.

    Each group is planned in the state after the moves of the groups before it. In the way of
    hsqueeze, all groups are planned together (`_free_together`).
    """

    def __init__(
        self,
        cluster: Cluster,
        policy: Policy,
        options: SqueezeOptions,
        progress: Callable[[Plan], None],
    ) -> None:
        self.cluster = cluster
        self.options = options
        self._standard = policy.standard
        self._progress = progress
        self.moved = AssumedMoves(cluster)
        self._budget = self._fresh_budget()
        self._open: _Open | None = None
        self._runs = 0
        self._impossible: dict[int, Collection[frozenset[int]]] = {}
        self.relations = None
        if options.behaviour.knows_affinity:
            self.relations = relations_of(
                cluster, (), options.tag_prefix, options.settings, optional=True
            )

    def _fresh_budget(self) -> Deadline:
        """Return a new budget of work for exact search."""
        options = self.options
        return Deadline.of_search(
            options.settings.optimum_seconds * options.settings.thoroughness,
            options.limits.deadline,
            options.settings.planning_seconds,
        )

    def reserve(self, group: Group, factor: float) -> Headroom:
        """Return the reserve of each online node of `group`: `factor` standard instances.

        The reserve has local disks if instances with local disks may move.
        """
        local = self.options.kinds != MOVE_SHARED and any(i.local for i in self._movable(group))
        return Headroom(self._standard, factor, local)

    def _movable(self, group: Group) -> list[Instance]:
        unbalanced = self.options.kinds == MOVE_ALL
        instances = movable(
            self.cluster, group, unbalanced=unbalanced, behaviour=self.options.behaviour
        )
        stuck = self.relations.stuck if self.relations else ()
        return [instance for instance in instances if instance.name not in stuck]

    def _feasibility(
        self, group: Group, factor: float, state: State, *, evacuate: bool
    ) -> Feasibility:
        """Return the search for plans in `group`, with a reserve of `factor` standard instances.

        `state` is the present state of the cluster. `evacuate`: every instance must be on an online
        node in the end.
        """
        options, instances = self.options, self._movable(group)
        scope, ignore_soft = in_order(group.nodes, options.behaviour), options.ignores_soft(group)
        rules = plan_rules(options.n1_of(group), self.relations)
        failures = FailureTolerance(state.copy(), rules, group=group)
        failures.measure()
        aim = Aim(
            scope,
            self.reserve(group, factor),
            options.limits,
            failures,
            evacuate,
            {index for index in scope if ignore_soft or state.fails_n1(index)},
            self.relations,
            self._progress,
        )
        return Feasibility(
            aim,
            state,
            instances,
            [i for i in instances if i.shared] if options.kinds == MOVE_SHARED else instances,
            ignore_soft=ignore_soft,
            behaviour=options.behaviour,
            budget=self._budget if options.searches(group) else None,
            thoroughness=options.settings.thoroughness,
        )

    def run(self, groups: Sequence[Group], done: SqueezeResult) -> None:
        """Add to `done` the nodes to power on if a group lacks the minimal reserve.

        If no group does, add the nodes to power down.
        """
        state, factor = State(self.cluster), self.options.minimal
        short = [g for g in groups if self.reserve(g, factor).missing(state, g.nodes)]
        if short:
            whole = self.options.behaviour.squeezes_by_balancing
            self._wake(groups, groups if whole else short, done)
        elif self.options.behaviour.squeezes_by_balancing:
            self._free_together(groups, done)
        else:
            self._free(groups, done)

    def _free(self, groups: Sequence[Group], done: SqueezeResult) -> None:
        """Add to `done` the nodes that can be freed, for one group after the other."""
        done.aim = "offline"
        for group in groups:
            if done.plans:  # the first group has a result in any case
                check()
            candidates = self._candidates(group, done)
            state = State(self.cluster)
            relief = self._feasibility(group, self.options.target, state, evacuate=True)
            before = relief.present_score()
            stranded = self._stranded(group)
            if stranded:
                done.kept.update(dict.fromkeys(candidates, stranded))
                candidates = []
            search = NodeSelection(relief, candidates, before, self.options.limits)
            self._open = _Open(done, group, search, stranded or "no further node can be freed")
            if not self._runs:  # later runs begin in another state
                self._impossible[group.index] = relief.impossible
            online = sum(node.online for node in self.cluster.nodes) - len(done.off)
            # An unknown master node may be the last one
            search.power_down(online if self.options.masters else online - 1)
            self._close()

    def most_freed(self, groups: Sequence[Group], done: SqueezeResult) -> float:
        """Return an upper bound of the number of nodes that can be freed in `groups`.

        The bound is at least the number of nodes that `done` frees.
        """
        total = 0
        for group in groups:
            candidates = self._candidates(group, SqueezeResult(self.cluster))
            known = len(done.leaving_of(group))
            if self._stranded(group):
                candidates = []
            relief = self._feasibility(
                group, self.options.target, State(self.cluster), evacuate=True
            )
            total += relief.most_freed(candidates, known, self._impossible.get(group.index, ()))
        if not self.options.masters:
            total = min(total, sum(node.online for node in self.cluster.nodes) - 1)
        return max(total, len(done.off))

    def _free_together(self, groups: Sequence[Group], done: SqueezeResult) -> None:
        """Add to `done` the nodes that can be freed if instances move by balancing alone.

        The nodes of all groups are tried in one order, as in hsqueeze: those with the fewest
        primaries first.
        """
        done.aim = "offline"
        searches: dict[int, NodeSelection] = {}
        opened: list[_Open] = []
        order: list[int] = []
        state = State(self.cluster)
        for group in groups:
            if opened:
                check()
            candidates = self._candidates(group, done)
            relief = self._feasibility(group, self.options.target, state, evacuate=True)
            before = relief.present_score()
            search = NodeSelection(relief, candidates, before, self.options.limits)
            searches[group.index] = search
            opened.append(_Open(done, group, search, "no further node can be freed"))
            order += candidates
        most = sum(node.online for node in self.cluster.nodes)
        most -= not self.options.masters  # an unknown master node may be the last one
        # Of equal nodes, the last one of the document, as in hsqueeze: the first one by index
        order.sort(key=lambda k: (len(state.primaries[k]), k))
        for index in order:
            search = searches[self.cluster.nodes[index].group.index]
            if sum(len(one.chosen) for one in searches.values()) >= most:
                search.rejected[index] = LAST_ONE
                continue
            search.choose([*search.chosen, index])
        for search in searches.values():
            if not search.chosen:
                search.entries, search.score = (), search.before
        for self._open in opened:
            self._close()

    def _close(self, stop: Stopped | None = None) -> None:
        """Add the plan of the group in progress to its result.

        `stop`: the signal or time limit that ended the search; None if the search is complete.
        """
        assert self._open is not None
        done, group = self._open.done, self._open.group
        search, reason = self._open.search, self._open.reason
        search.end(stop)
        (done.on if done.aim == "online" else done.off).extend(search.chosen)
        done.kept.update(search.rejected)
        if done.aim == "online" and search.problem:
            reason = f"not sufficient: {search.problem}"
            done.shortages[group.index] = search.stopped or reason
        reason = search.stopped or reason
        done.plans.append(GroupPlan(group, SqueezePlan(search, reason)))
        if stop is None:
            self.moved.make([entry.move for entry in search.entries])
        self._open = None

    def stopped(self, stop: Stopped, done: SqueezeResult) -> None:
        """Store in `done` the best plan that was found before `stop` ended the search."""
        if self._open is not None and self._open.done is done:
            self._close(stop)
        else:
            done.plan.end(stop)

    def continued(self, groups: Sequence[Group], done: SqueezeResult) -> Iterator[SqueezeResult]:
        """Yield results that continue `done`; each adds the moves of another run.

        The runs end when another run finds nothing to do, or when time is up. With ``--optimal``,
        they end when the number of freed nodes has reached its bound. They also end when no plan
        of another run can be joined with the moves before it; a remark reports this.
        """
        changed = [group for group in groups if done.aim == "online" or done.changes(group)]
        if self.options.target < self.options.minimal:
            return  # the next run would power on the nodes that this one powers down
        while done.moves or done.nodes:
            if self.options.limits.deadline.over() or done.interrupted:
                return
            optimal = self.options.settings.optimal and done.aim == "offline"
            if optimal and self.most_freed(groups, done) <= len(done.off):
                return  # no plan frees more
            self._runs += 1
            further = SqueezeResult(self.cluster)
            self._budget = self._fresh_budget()
            with (
                Switched(self.cluster, done.off, done.on),
                AssumedMoves(self.cluster) as self.moved,
            ):
                self.moved.make(done.moves)
                self.run(changed, further)
            before, changed = done, []
            for more in further.plans:
                if not further.changes(more.group):
                    continue
                joined = self._joined(groups, done, further, more)
                if joined is not None:
                    done = joined
                    changed.append(more.group)
                else:
                    remark = f"group {more.group.name}: {NEXT_RUN}"
                    if remark not in done.remarks:
                        done.remarks.append(remark)
            if done is before:
                return
            relations = self.relations
            if relations and not all(relations.idle_within(group.nodes) for group in groups):
                changed = list(groups)  # constraints may have kept nodes of other groups
            limits = PlanLimits(
                self.options.settings,
                self.relations,
                power=PowerChanges(frozenset(done.leaving), frozenset(done.coming)),
            )
            rescore_all(done, limits)
            yield done

    def _joined(
        self, groups: Sequence[Group], done: SqueezeResult, further: SqueezeResult, more: GroupPlan
    ) -> SqueezeResult | None:
        """Return `done` joined with the plan `more` of a group; None if no joined plan is allowed.

        `more` is a plan of `further`, which continues `done`. The ways to join the plans are tried
        in turn, until one breaks no limit:

        1. The moves of `more` follow those of `done`, if no instance moves twice.
        2. Each instance moves once, from its first nodes to its last ones.
        3. If nodes are freed, the group is planned anew, to free the nodes of both plans.
        """
        group = more.group
        old = next((one for one in done.plans if one.group is group), None)
        plan = copy(more.plan)
        assert isinstance(plan, SqueezePlan)
        order = {one.index: number for number, one in enumerate(groups)}
        off, on = further.leaving_of(group), further.coming_of(group)
        joined = copy(done)
        joined.before = State(self.cluster)  # unknown sizes of nodes have been estimated
        joined.demands = demands_of(self.relations)
        joined.aim = further.aim
        joined.plans = [*(one for one in done.plans if one is not old), GroupPlan(group, plan)]
        joined.plans.sort(key=lambda one: order[one.group.index])
        joined.off = [*done.off, *(index for index in off if index not in done.on)]
        joined.on = [*(index for index in done.on if index not in off), *on]
        for nodes in (joined.off, joined.on):
            nodes.sort(key=lambda index: order[self.cluster.nodes[index].group.index])
        joined.kept = {i: why for i, why in done.kept.items() if i not in group.nodes}
        joined.kept |= {i: why for i, why in further.kept.items() if i in group.nodes}
        joined.kept |= {i: "not needed" for i in done.on if i in off}
        joined.shortages = {i: why for i, why in done.shortages.items() if i != group.index}
        joined.shortages |= {i: why for i, why in further.shortages.items() if i == group.index}
        limits = PlanLimits(
            self.options.settings,
            self.relations,
            power=PowerChanges(frozenset(joined.leaving), frozenset(joined.coming)),
        )
        if old:
            plan.before = old.plan.before
        whole = [*(old.plan.entries if old else ()), *plan.entries], plan.after
        for entries, after in self._ways_to_join(group, joined, whole):
            plan.replace(entries, after)
            joined.forget_order()
            if verify_moves(joined.before, joined.entries, limits):
                continue
            if not verify_transition(joined.before, joined.transition, limits, 0):
                return joined
        return None

    def _ways_to_join(
        self, group: Group, joined: SqueezeResult, whole: tuple[list[PlanEntry], float]
    ) -> Iterator[tuple[Sequence[PlanEntry], float]]:
        """Yield (moves, score after them) for `group`, the moves that are found fastest first.

        `joined` has the nodes to switch, and the plans of the other groups. `whole` has the moves
        of both plans of `group`, one after the other, and the score after them.
        """
        off, on = joined.leaving_of(group), joined.coming_of(group)
        entries, after = whole
        moves = [entry.move for entry in entries]
        if len({move.instance for move in moves}) == len(moves):
            yield entries, after
        rules = MoveRules(ignore_soft=self.options.ignores_soft(group)).while_leaving(
            joined.leaving
        )
        with Switched(self.cluster, joined.leaving, joined.coming):
            fixed = Capacities(self.cluster.nodes, scope=group.nodes)
            others = [m for one in joined.plans if one.group is not group for m in one.plan.moves]
            with joined.before.trial():
                replay(joined.before, others)
                straight = merge_moves(
                    joined.before,
                    moves,
                    fixed,
                    rules,
                    self.relations,
                    self.options.limits.deadline.over,
                )
        if straight is not None:
            yield straight, after
        if off:
            with Switched(self.cluster, on=on):
                state = State(self.cluster)
                relief = self._feasibility(group, self.options.target, state, evacuate=True)
                anew = relief.find(off=off, tidy=True)
            if not anew.problem:
                yield anew.entries, anew.score

    def _candidates(self, group: Group, done: SqueezeResult) -> list[int]:
        """Return the online nodes of `group` that may be freed, in the order in which to try them.

        For each other online node, the reason why it must stay online is recorded in `done`.
        """
        candidates = []
        state = State(self.cluster)
        movable_names = {instance.name for instance in self._movable(group)}
        for index in in_order(group.nodes, self.options.behaviour):
            if self.cluster.nodes[index].online:
                reason = self._unfit(state, index, movable_names)
                if reason:
                    done.kept[index] = reason
                else:
                    candidates.append(index)

        def rank(index: int) -> tuple[int, int]:
            held = len(state.primaries[index]) + len(state.secondaries[index])
            return self._liking(self.cluster.nodes[index]), held

        if self.options.behaviour.plans_by_document:
            candidates.reverse()  # of equal nodes, hsqueeze takes the last one of the document
        return sorted(candidates, key=rank)

    def _liking(self, node: Node) -> int:
        return (node.name in self.options.avoid) - (node.name in self.options.prefer)

    def _unfit(self, state: State, index: int, movable_names: Collection[str]) -> str:
        """Return why node `index` must not be a candidate to power down; "" if it may be one.

        `movable_names`: the names of the instances that may move.
        """
        if self.cluster.nodes[index].name in self.options.masters:
            return "it is the master node"
        if self.options.kinds == MOVE_SHARED:
            if state.secondaries[index]:
                return f"it is the secondary of {named([*state.secondaries[index]], FEW_NAMES)}"
            not_shared = [n for n, i in state.primaries[index].items() if not i.shared]
            if not_shared:
                return f"its instances are not on shared storage: {named(not_shared, FEW_NAMES)}"
        fixed = [i.name for i in state.instances_on(index) if i.name not in movable_names]
        return f"its instances cannot be moved: {named(fixed, FEW_NAMES)}" if fixed else ""

    def _stranded(self, group: Group) -> str:
        """Return which instance cannot be moved off a node that is not online; "" if none.

        The result is a sentence for the report. If there is such an instance, no node of `group`
        can be freed.
        """
        names = {instance.name for instance in self._movable(group)}
        state = State(self.cluster)
        for index in group.nodes:
            node = self.cluster.nodes[index]
            for name in () if node.online else state.primaries[index]:
                if name not in names:
                    return f"instance {name} on {node.name}, not online, cannot be moved"
        return ""

    def _wake(self, groups: Sequence[Group], short: Sequence[Group], done: SqueezeResult) -> None:
        """Add to `done` the nodes to power on, so that the groups in `short` have the reserve."""
        done.aim = "online"
        for group in groups:
            if group not in short:
                continue
            if done.plans:
                check()
            nodes = [self.cluster.nodes[i] for i in in_order(group.nodes, self.options.behaviour)]
            standby = [node for node in nodes if is_standby(node)]
            for node in standby:
                model = size_like(node, [other for other in nodes if other.online])
                if model is not None:
                    done.remarks.append(
                        f"{node.name}: size unknown while it is off, taken for that of {model.name}"
                    )
            together = self.options.behaviour.squeezes_by_balancing
            ranks = {node.name: 0 if together else wake_rank(node) for node in standby}
            standby.sort(key=lambda node: (self._liking(node), ranks[node.name]))
            state = State(self.cluster)
            relief = self._feasibility(group, self.options.minimal, state, evacuate=together)
            search = NodeSelection(
                relief,
                [node.index for node in standby],
                relief.present_score(),
                self.options.limits,
            )
            self._open = _Open(done, group, search, "every online node has the minimal resources")
            search.power_on()
            self._close()
