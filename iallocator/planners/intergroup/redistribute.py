"""Repair unhealthy groups: move instances to other groups until every group is healthy.

A group is unhealthy if its offline nodes have instances. It is weakly unhealthy if a failure of one
of its nodes is not tolerated, or if it has instances that tags spread over groups.  Each step of
the local search repairs one group. The step moves instances, in a fixed order, to healthy groups
with access to their storage pools, until the group is healthy.  If one of these instances cannot be
placed, the step moves no instance of the group.
"""

from __future__ import annotations

from itertools import chain, combinations

from iallocator.deadline import TIME_IS_UP, Stopped, check
from iallocator.errors import many, named
from iallocator.light import copy
from iallocator.model.moves import replay
from iallocator.n1 import plan_rules
from iallocator.n1.tolerance import FailureTolerance
from iallocator.planners.intergroup.context import (
    GROUP_FOUND,
    GROUP_IMPOSSIBLE,
    NOTHING_TO_DO,
    UNDECIDED,
    IntergroupContext,
    IntergroupResult,
    Peers,
    forbidden,
    unfinished,
)
from iallocator.planners.intergroup.evacuation import evacuate
from iallocator.planners.intergroup.infeasibility_proofs import Proofs
from iallocator.planners.intergroup.moving import Mover
from iallocator.planners.intergroup.relocation import Relocation
from iallocator.planners.plan import PlanEntry
from iallocator.planners.quality import UNHEALTHY_MEASURE as UNHEALTHY_GROUPS
from iallocator.planners.search import Acceptance, LocalSearch, Neighbourhood

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iallocator.model.cluster import Group, Node
    from iallocator.model.instance import Instance
    from iallocator.model.moves import Move
    from iallocator.model.state import State
    from iallocator.planners.result import PlanResult
    from iallocator.planners.search import Objective
    from iallocator.planners.verify import Problem

__all__ = [
    "HEALTHY", "UNHEALTHY", "WEAK", "Health", "RedistributionResult", "examine", "redistribute",
    "stranding",
]  # fmt: skip

MOST_EXACT_REPAIRS = 6
"""The largest number of unhealthy groups that ``--optimal`` repairs by exact search."""

HEALTHY, WEAK, UNHEALTHY = "healthy", "weakly unhealthy", "unhealthy"


class Health:
    """The problems of a group.

    Attributes
    ----------
    stranding:
        Indices of its offline nodes that have instances.
    full:
        Indices of its online nodes without the memory for a failover to them.
    doomed:
        Indices of its online nodes with a failure that is not tolerated.
    group_conflicts:
        The instances on its nodes that must be in another group than other instances there.
    """

    __slots__ = ("doomed", "full", "group", "group_conflicts", "stranding")

    def __init__(
        self,
        group: Group,
        stranding: list[int],
        full: list[int],
        doomed: list[int],
        group_conflicts: Sequence[Instance] = (),
    ) -> None:
        self.group = group
        self.stranding = stranding
        self.full = full
        self.doomed = doomed
        self.group_conflicts = group_conflicts

    @property
    def state(self) -> str:
        """Return the health of the group: `HEALTHY`, `WEAK` or `UNHEALTHY`."""
        if self.stranding:
            return UNHEALTHY
        return WEAK if self.full or self.doomed or self.group_conflicts else HEALTHY

    @property
    def failing(self) -> list[int]:
        """Return the indices of the nodes that violate N+1, ascending."""
        return sorted({*self.full, *self.doomed})

    def instances_to_move(self, state: State) -> list[Instance]:
        """Return the instances that cause the problems, in the order in which they must leave.

        First come the instances on offline nodes, primaries before secondaries. Next come the
        instances that must be in another group. Last come the secondaries, then the primaries, of
        nodes that violate N+1.
        """
        offline, failing = self.stranding, self.failing
        order = [
            *((state.primaries, index) for index in offline),
            *((state.secondaries, index) for index in offline),
            *((state.secondaries, index) for index in failing),
            *((state.primaries, index) for index in failing),
        ]
        by_name: dict[str, Instance] = {}
        for number, (role, index) in enumerate(order):
            if number == 2 * len(offline):
                by_name |= {i.name: i for i in self.group_conflicts}
            members = {name: i for name, i in role[index].items() if name not in by_name}
            by_name |= {i.name: i for i in sorted(members.values(), key=lambda one: one.order)}
        by_name |= {i.name: i for i in self.group_conflicts}
        return list(by_name.values())

    def troubles(self, state: State) -> int:
        """Return the number of instances that must leave plus that of nodes that violate N+1."""
        held = {i.name for index in self.stranding for i in state.instances_on(index)}
        return len(held.union(one.name for one in self.group_conflicts)) + len(self.failing)

    def describe(self, nodes: Sequence[Node]) -> str:
        """Return the problems in words, or ""; `nodes` are all nodes of the cluster."""
        parts = [
            f"node{'s' * (len(indices) > 1)} {named([nodes[k].name for k in indices])} {text}"
            for indices, text in (
                (self.stranding, "offline with instances"),
                (self.full, "without the memory for failovers"),
                (self.doomed, "with a failure that is not tolerated"),
            )
            if indices
        ]
        if self.group_conflicts:
            parts.append(
                f"{named([one.name for one in self.group_conflicts])} must be in another group"
            )
        return "; ".join(parts)


def stranding(state: State, group: Group) -> list[int]:
    """Return the indices of the offline nodes of `group` that have instances."""
    nodes = state.cluster.nodes
    return [
        index
        for index in group.nodes
        if nodes[index].offline and any(not i.forthcoming for i in state.instances_on(index))
    ]


def examine(mover: Mover, group: Group) -> Health:
    """Return the health of `group` in the present state; ``--n1 off`` skips global N+1."""
    state, nodes = mover.context.state, mover.context.cluster.nodes
    offline = stranding(state, group)
    online = [i for i in group.nodes if nodes[i].online]
    full = [i for i in online if state.fails_n1(i)]
    lost: list[int] = []
    mode = mover.context.evaluator(group).rules.mode
    if mode != "off":
        rules = plan_rules(mode, mover.context.affinity.relations)
        tolerance = FailureTolerance(state, rules, group=group)
        broken = tolerance.not_tolerated(rules.of_online(state.cluster, group))
        lost = sorted({node for failure in broken for node in failure})
    return Health(group, offline, full, lost, group_conflicts(mover, group))


def group_conflicts(mover: Mover, group: Group) -> list[Instance]:
    """Return instances of `group` that must be in another group than other instances there."""
    relations, state = mover.context.affinity.relations, mover.context.state
    if relations is None or not relations.group_rules:
        return []
    here = [one for index in group.nodes for one in state.primaries[index].values()]
    by_name = {one.name: one for one in sorted(here, key=lambda one: one.order)}
    return [by_name[name] for name in relations.group_conflicts(by_name)]


class RedistributionResult(IntergroupResult):
    """The repairs of unhealthy groups.

    Attributes
    ----------
    settings:
        The settings of the run.
    repairs:
        Each repaired group and its moves, in the order of the plan.
    health:
        Index of a group -> its health before the plan.
    unhealthy:
        The number of groups that the planner tried to repair.
    untried:
        The number of other unhealthy groups; with ``--group``, at most the named group.
    """

    measure = UNHEALTHY_GROUPS

    def __init__(self, context: IntergroupContext) -> None:
        super().__init__("redistribute", context)
        self.settings = context.settings
        self.repairs: list[tuple[Group, Sequence[PlanEntry]]] = []
        self.health: dict[int, Health] = {}
        self.unhealthy = 0
        self.untried = 0

    @property
    def reached(self) -> float:
        """Return the number of groups that stay unhealthy after the plan."""
        return self.untried + self.unhealthy - len(self.repairs)

    def without(self, problem: Problem, reason: str) -> str:
        """Leave out all moves of the group with `problem`, because fewer moves do not repair it."""
        count = 0
        for group, entries in self.repairs:
            count += len(entries)
            if problem.number <= count:
                return self.leave_out(group, reason)
        return ""

    def leave_out(self, part: object, reason: str) -> str:
        """Remove the repair of group `part` for `reason`; return a description of what is removed.

        The scores after the moves of later repairs are adapted.
        """
        groups = [group for group, _ in self.repairs]
        if part not in groups:
            return ""
        position = groups.index(part)
        group, entries = self.repairs.pop(position)
        before = self.repairs[position - 1][1][-1].score if position else self.plan.before
        gain = before - entries[-1].score
        for _, later in self.repairs[position:]:
            for entry in later:
                entry.score += gain
        self.plan.entries = [entry for _, some in self.repairs for entry in some]
        self._transition = None
        row, health = self.row(group), self.health[group.index]
        row.members |= {"repaired": False, "verdict": UNDECIDED}
        row.reason = f"{health.describe(self.cluster.nodes)}: {reason}"
        if self.plan.stop is None:
            self.plan.reason = self.summary()
        return f"the repair of group {group.name}"

    def parts(self) -> list[tuple[object, PlanResult]]:
        """Return each repaired group, with a result that contains only its repair."""
        parts: list[tuple[object, PlanResult]] = []
        for group, entries in self.repairs:
            alone = copy(self)
            alone.plan, alone._transition = copy(self.plan), None
            alone.plan.entries = list(entries)
            parts.append((group, alone))
        return parts

    def failed_parts(self) -> list[tuple[object, str]]:
        """Return the groups with a repair after which a group is not healthy, with reasons.

        If another group is no longer healthy, the last repair that moves instances to it is
        returned.
        """
        if not self.repairs:
            return []
        mover = Mover(IntergroupContext(self.cluster, self.settings))
        nodes = self.cluster.nodes
        expected: dict[Group, Group] = {}  # a group that must be healthy -> the repair to blame
        for row in self.groups:
            if examine(mover, row.group).state == HEALTHY:
                expected[row.group] = self.repairs[-1][0]
        for group, entries in self.repairs:
            for entry in entries:
                mover.put(entry.move.instance, entry.move.after)
                expected.update((nodes[index].group, group) for index in entry.move.after)
        expected |= {group: group for group, _ in self.repairs}
        return [
            (to_blame, f"group {group.name} is not healthy at the end: {health.describe(nodes)}")
            for group, to_blame in expected.items()
            if (health := examine(mover, group)).state != HEALTHY
        ]

    def summary(self) -> str:
        """Return in one clause how many groups stay unhealthy."""
        left = self.unhealthy - len(self.repairs)
        return (
            f"{left} of {self.unhealthy} unhealthy groups cannot be repaired"
            if left
            else "all groups that share a storage pool are healthy then"
        )


def redistribute(context: IntergroupContext, only: Group | None = None) -> RedistributionResult:
    """Return a plan that repairs the unhealthy groups of the cluster, in their order, or `only`.

    The score is the number of instances that must leave, plus the number of nodes that violate N+1.
    If a signal or the time limit ends the search, the plan has the repairs found until then.
    """
    done = RedistributionResult(context)
    search = _Redistribution(context, done, only)
    done.fill(search)
    done.bounding = lambda: float(search.irreparable_groups)
    return done


class _Redistribution:
    """A search that repairs unhealthy groups.

    Attributes
    ----------
    irreparable_groups:
        The number of groups that no plan can repair.
    others_ill:
        Whether more than one group is unhealthy.
    """

    def __init__(
        self, context: IntergroupContext, done: RedistributionResult, only: Group | None
    ) -> None:
        self.only = only
        self.context = context
        self.mover = Mover(context)
        self.peers = Peers(context.cluster)
        self.proofs = Proofs(self.mover)
        self.done = done
        self.health = done.health
        self.healthy: list[Group] = []
        self.targets: dict[str, list[Group]] = {}
        self.statuses: dict[int, str] = {}
        self.irreparable_groups = 0
        self.others_ill = False

    def run(self) -> str:
        """Examine all groups, then repair the unhealthy ones; return why the plan ends."""
        done, peers = self.done, self.peers
        for row in done.groups:
            self.health[row.group.index] = examine(self.mover, row.group)
            row.reason = peers.alone(row.group)
        done.plan.before = float(sum(h.troubles(done.before) for h in self.health.values()))
        ill = [one.group for one in self.health.values() if one.state != HEALTHY]
        self.others_ill = len(ill) > 1
        done.untried = sum(self.only in (None, group) for group in ill)
        hindered = forbidden(self.context.settings)
        if hindered:
            self.irreparable_groups = done.untried
            return hindered
        for group in ill:
            if self.only in (None, group) and self.keeps_all(group):
                self.irreparable_groups += 1
        concerned = [row.group for row in done.groups if not row.reason]
        self.healthy = [g for g in concerned if self.health[g.index].state == HEALTHY]
        unhealthy = [g for g in concerned if g not in self.healthy and self.only in (None, g)]
        for row in done.groups:
            if self.only not in (None, row.group) and not row.reason:
                row.reason = f"the plan is only for group {self.only.name}"
                self.statuses[row.group.index] = UNDECIDED
        if len(done.groups) < 2:
            return "no super cluster: there is one group only"
        if not concerned:
            return "no two groups share a storage pool"
        if not unhealthy:
            return (
                f"group {self.only.name} is not unhealthy" if self.only else "no group is unhealthy"
            )
        optimal = self.context.settings.optimal and self.context.searches_for(unhealthy)
        if not self.healthy and not optimal:
            return "no group is healthy"
        done.unhealthy = len(unhealthy)
        done.untried -= len(unhealthy)
        with self.context.state.trial():
            search = LocalSearch(
                [_Repair(unhealthy)],
                lambda work: (work.done.plan.after,),
                Acceptance(allows=self._cures),
                self.context.deadline,
            )
            end = search.run(self) if self.healthy else ""
        if end == TIME_IS_UP:
            raise Stopped(end)
        if optimal and len(unhealthy) <= MOST_EXACT_REPAIRS:
            sure = sum(self.keeps_all(group) for group in ill if group not in unhealthy)
            self._repair_most(unhealthy, sure)
        return done.summary() if self.healthy else "no group is healthy"

    def _repair_most(self, unhealthy: Sequence[Group], others: int) -> None:
        """Repair more groups by exact search, or prove that no more groups can be repaired.

        `others`: the number of other groups that certainly stay unhealthy.

        Cost: a search for each set of more groups than are repaired, the largest sets first.
        """
        lost = [group for group in unhealthy if self.keeps_all(group)]
        possible, certain = [group for group in unhealthy if group not in lost], True
        numbers = range(len(possible), len(self.done.repairs), -1)
        for some in chain.from_iterable(combinations(possible, number) for number in numbers):
            check()
            moves, proved = self._together(some)
            if moves is not None:
                self._replace(some, moves)
                break
            certain &= proved
        if certain:
            left = len(unhealthy) - len(self.done.repairs)
            self.irreparable_groups = max(self.irreparable_groups, others + left)

    def _together(self, groups: Sequence[Group]) -> tuple[list[Move] | None, bool]:
        """Return moves that repair all `groups`, or None; and whether it is proved impossible.

        The moves lead to groups that are healthy now. The proof also considers moves to other
        groups of `groups`.
        """
        held = {
            one.name: one
            for group in groups
            for index in group.nodes
            for one in self.context.state.instances_on(index)
            if not one.forthcoming
        }
        instances = [one for one in held.values() if not self.hindered(one)]
        good = [*self.healthy, *groups]
        proved = False
        for among in [self.healthy, good] if len(groups) > 1 else [self.healthy]:

            def targets(one: Instance, among: Sequence[Group] = among) -> list[Group]:
                return self.peers.of(one, self.context.cluster.group_of(one), among)

            search = Relocation(
                self.mover, instances, targets, groups, lambda: all(map(self._is_healthy, good))
            ).find(self.context.search_budget)
            if search.moves is not None:
                return (search.moves if among is self.healthy else None), False
            proved = search.proved
        return None, proved

    def _replace(self, groups: Sequence[Group], moves: Sequence[Move]) -> None:
        """Replace the plan by repairs of `groups` with `moves`."""
        done, nodes = self.done, self.context.cluster.nodes
        for group, _ in done.repairs:
            self.statuses[group.index] = UNDECIDED
            done.row(group).reason = "other groups are repaired instead"
        done.deadline.spare(-len(done.entries))
        done.repairs, done.plan.entries = [], []
        with self.context.state.trial():
            for group in groups:
                own = [one for one in moves if nodes[one.before[0]].group is group]
                entries = [PlanEntry(move) for move in own]
                self.statuses[group.index] = GROUP_FOUND
                reason = "placed together by exact search"
                _Step(group, entries, len(entries), reason).apply(self)

    def _cures(self, step: _Step) -> bool:
        """Return whether `step` makes its group healthy, and no other group unhealthy.

        If not, the reason is recorded in the row of the group.
        """
        state, nodes = self.context.state, self.context.cluster.nodes
        with state.trial():
            moves = [entry.move for entry in step.entries]
            replay(state, moves)
            touched = dict.fromkeys(nodes[k].group for move in moves for k in move.after)
            worse = next((g for g in touched if not self._is_healthy(g)), None)
            cured = worse is None and self._is_healthy(step.group)
        if not cured:
            self.statuses[step.group.index] = UNDECIDED
            effect = f"make group {worse.name} unhealthy" if worse else "not be enough"
            taken = many(step.taken, "instance")
            self.done.row(step.group).reason = f"moving {taken} would {effect}"
        return cured

    def taken(self, group: Group) -> tuple[list[Instance], str]:
        """Return the instances that must leave `group`, in order; and why it stays unhealthy.

        The reason is "" if the group is healthy without these instances.
        """
        mover, state = self.mover, self.context.state
        taken: list[Instance] = []
        problem = ""
        health = self.health[group.index]
        with state.trial():
            while health.state != HEALTHY:
                check()
                instance, problem = self._next(health)
                if instance is None:
                    break
                for member in self.unit(instance):
                    taken.append(member)
                    mover.put(member, ())
                offline = stranding(state, group)
                if offline:
                    health = Health(
                        group, offline, health.full, health.doomed, health.group_conflicts
                    )
                else:
                    health = examine(mover, group)
        return taken, problem

    def _next(self, health: Health) -> tuple[Instance | None, str]:
        """Return the next instance that must leave; or None, and why the group stays unhealthy."""
        nodes, state = self.context.cluster.nodes, self.context.state
        stuck: Instance | None = None
        for instance in health.instances_to_move(state):
            hindered = self.hindered(instance)
            if not hindered:
                return instance, ""
            if any(index in health.stranding for index in state.where[instance.name]):
                return None, f"{instance.name} has no place: {hindered}"
            stuck = stuck or instance
        problems = health.describe(nodes)
        if stuck is None:
            return None, f"it stays unhealthy without any instance there: {problems}"
        return (
            None,
            f"it stays unhealthy: {problems}; {stuck.name} stays there: {self.hindered(stuck)}",
        )

    def unit(self, instance: Instance) -> list[Instance]:
        """Return `instance` and the members of its colocation group in its node group."""
        cluster, where = self.context.cluster, self.context.state.where
        names = self.context.units.get(instance.name, ())
        group = cluster.group_of(instance)
        others = [i for i in cluster.instances if i.name in names and i.name in where]
        others = [i for i in others if i is not instance and cluster.group_of(i) is group]
        return [instance, *others]

    def hindered(self, instance: Instance) -> str:
        """Return why `instance`, or a member of its colocation group, cannot leave; or ""."""
        for member in self.unit(instance):
            hindered = self.mover.immovable(member)
            if hindered and member is not instance:
                return f"it must be together with {member.name}: {hindered}"
            if hindered:
                return hindered
        return ""

    def keeps_all(self, group: Group) -> bool:
        """Return whether `group` certainly stays unhealthy, because instances cannot leave it.

        Either no instance has access to another group, or an instance on an offline node cannot
        move.
        """
        held = (i for index in group.nodes for i in self.context.state.instances_on(index))
        return any(map(self.hindered, self.forced(group))) or not any(
            self.peers.of(one, group) for one in held
        )

    def forced(self, group: Group) -> list[Instance]:
        """Return the instances on offline nodes of `group`; it is unhealthy until they leave."""
        state = self.context.state
        held = {i.name: i for k in stranding(state, group) for i in state.instances_on(k)}
        return list(held.values())

    def _is_healthy(self, group: Group) -> bool:
        return examine(self.mover, group).state == HEALTHY

    def fill_rows(self) -> None:
        """Complete the row of each group in the report of the plan."""
        nodes, plan = self.context.cluster.nodes, self.done.plan
        groups = [group for group, _ in self.done.repairs]
        self.done.groups = [row for row in self.done.groups if row.group.index in self.health]
        for row in self.done.groups:
            health = self.health[row.group.index]
            healthy = health.state == HEALTHY
            untried = unfinished(plan.interrupted) if plan.stop else GROUP_IMPOSSIBLE
            row.members = {
                "state": health.state,
                "repaired": row.group in groups,
                "verdict": NOTHING_TO_DO
                if healthy
                else self.statuses.get(row.group.index, untried),
            }
            stopped = "" if healthy else plan.reason
            row.reason = ": ".join(filter(None, (health.describe(nodes), row.reason or stopped)))


class _Step:
    """The repair of a group: the moves of all instances that make it unhealthy.

    Attributes
    ----------
    group, entries:
        The group and the moves.
    taken:
        The number of instances that must leave.
    """

    __slots__ = ("_reason", "entries", "group", "taken")

    def __init__(self, group: Group, entries: Sequence[PlanEntry], taken: int, reason: str) -> None:
        self.group = group
        self.entries = entries
        self.taken = taken
        self._reason = reason

    def apply(self, state: _Redistribution) -> None:
        """Move instances of the group to other groups in `state`, and add the moves to the plan."""
        done, cluster_state = state.done, state.context.state
        others = done.plan.after - state.health[self.group.index].troubles(cluster_state)
        for entry in self.entries:
            entry.move.apply(cluster_state)
            entry.score = others + examine(state.mover, self.group).troubles(cluster_state)
        done.repairs.append((self.group, self.entries))
        done.add(self.entries)
        row = done.row(self.group)
        moved = many(len(self.entries), "instance")
        verb = "moves" if len(self.entries) == 1 else "move"
        row.reason = f"{moved} {verb} to other groups"
        row.reason += f", {self._reason}" if self._reason else ""


class _Repair(Neighbourhood[_Redistribution, _Step]):
    """Repairs of the `unhealthy` groups; the first possible one is used.

    Each group is tried once, because repairs of other groups use capacity, and free none.
    """

    name = "repair"

    def __init__(self, unhealthy: Sequence[Group]) -> None:
        self._groups = list(unhealthy)
        self._tried = 0

    def best(
        self, state: _Redistribution, objective: Objective, allows: Callable[[_Step], bool]
    ) -> _Step | None:
        """Return the repair of the next group that can be repaired; None if there is none."""
        context, count = state.context, len(self._groups)
        for group in self._groups[self._tried :]:
            self._tried += 1
            context.progress(f"group {self._tried} of {count}: {group.name}")
            with context.share(count - self._tried + 1):
                step = self._step(state, group)
                if step is not None and allows(step):
                    return step
        return None

    @staticmethod
    def _step(work: _Redistribution, group: Group) -> _Step | None:
        """Return moves that make `group` healthy; None if not found, with the reason in its row."""
        row = work.done.row(group)
        forced = work.forced(group)
        taken, reason = work.taken(group)
        if reason:
            row.reason = reason
            work.statuses[group.index] = GROUP_IMPOSSIBLE
            return None
        done = evacuate(
            work.mover, taken, lambda i: work.peers.of(i, group, work.healthy), proofs=work.proofs
        )
        work.statuses[group.index] = done.status
        if done.failed is not None:
            # The proof is valid if all other groups are targets, and if no other choice of
            # instances exists
            only_forced = all(any(member in forced for member in work.unit(one)) for one in taken)
            proved = done.status == GROUP_IMPOSSIBLE and not done.doubtful and only_forced
            if proved and not (work.others_ill or work.keeps_all(group)):
                work.irreparable_groups += 1
            row.reason = (
                f"{many(len(taken), 'instance')} would have to leave; "
                f"{done.failed.name} has no place: {done.reason}"
            )
            return None
        return _Step(group, done.entries, len(taken), done.reason)
