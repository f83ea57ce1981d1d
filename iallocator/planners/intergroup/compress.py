"""Find whole groups that can be emptied, and moves that empty the best of these groups.

A group is a candidate if it shares a storage pool with other groups, and uses less memory, disk and
virtual cpus than all other groups together have free.  The planner tries to place all instances of
a candidate in groups that share their storage pools and have instances already. It does not fill an
empty group, because then no group would be gained.  The plan empties the group with the most free
resources, so candidates with more free resources are tried first.  Each step of the local search
decides whether one candidate can be emptied, and restores the state.
"""

from __future__ import annotations

from iallocator.deadline import TIME_IS_UP, Stopped, check
from iallocator.model.columns import CPUS, DISK, MEMORY
from iallocator.planners.intergroup.context import (
    GROUP_IMPOSSIBLE,
    NOTHING_TO_DO,
    OUT_OF_TIME,
    UNDECIDED,
    IntergroupResult,
    Peers,
    forbidden,
    unfinished,
)
from iallocator.planners.intergroup.evacuation import Evacuation, evacuate, packed
from iallocator.planners.intergroup.infeasibility_proofs import Proofs
from iallocator.planners.intergroup.moving import Mover
from iallocator.planners.quality import FREE_SHARE
from iallocator.planners.search import Acceptance, LocalSearch, Neighbourhood

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.planners.intergroup.context import IntergroupContext
    from iallocator.planners.plan import PlanEntry
    from iallocator.planners.result import GroupRow, PlanResult
    from iallocator.planners.search import Objective

__all__ = [
    "RESOURCE_KINDS",
    "Resources",
    "check_compression",
    "compress",
    "free_of",
    "plus",
    "total_of",
    "used_by",
]

RESOURCE_KINDS = ("memory", "disk", "cpu")
"""The kinds of resources: MiB, MiB, virtual cpus."""

Resources = tuple[float, float, float]
"""One amount for each of `RESOURCE_KINDS`."""


def plus(*amounts: Resources) -> Resources:
    """Return the sum of `amounts`, for each kind of resource."""
    memory, disk, cpu = (sum(column) for column in zip((0.0, 0.0, 0.0), *amounts))
    return memory, disk, cpu


def used_by(state: State, group: Group) -> Resources:
    """Return the resources that instances use in `group`.

    Memory is counted of instances that use it, disk on internal storage only.
    """
    memory = disk = cpu = 0
    for index in group.nodes:
        for instance in state.primaries[index].values():
            memory += instance.memory if instance.uses_memory else 0
            cpu += 0 if instance.admin_offline else instance.vcpus
        disk += sum(instance.own_disk for instance in state.instances_on(index))
    return memory, disk, cpu


def free_of(state: State, group: Group) -> Resources:
    """Return the free resources of the online nodes of `group`; virtual cpus by the policy."""
    memory = disk = cpu = 0.0
    for index in group.nodes:
        node = state.cluster.nodes[index]
        if node.online:
            memory += max(0.0, state.columns[MEMORY][index])
            disk += max(0.0, state.columns[DISK][index]) if node.has_internal else 0.0
            cpu += max(0.0, node.vcpu_ratio * node.total_cpus - state.columns[CPUS][index])
    return memory, disk, cpu


def total_of(state: State, group: Group) -> Resources:
    """Return the total resources of the online nodes of `group`."""
    nodes = [state.cluster.nodes[i] for i in group.nodes if state.cluster.nodes[i].online]
    return (
        sum(node.total_memory for node in nodes),
        sum(node.total_disk for node in nodes if node.has_internal),
        sum(node.vcpu_ratio * node.total_cpus for node in nodes),
    )


def largest_first(state: State, group: Group, total: Resources) -> list[Instance]:
    """Return the instances with a node in `group`, the largest first.

    The size of an instance is the largest of its shares of the resources `total`.
    """
    instances = {i.name: i for index in group.nodes for i in state.instances_on(index)}

    def size(one: Instance) -> float:
        amounts = (one.memory, one.own_disk, one.vcpus)
        return max((amount / all_ for amount, all_ in zip(amounts, total) if all_), default=0.0)

    return sorted(
        instances.values(),
        key=lambda i: (-size(i), -i.memory, -i.vcpus, -i.disk, i.template, i.order),
    )


LARGE_GROUP = 20_000
"""The product of instances and nodes from which on equal instances are placed by one ranking."""

PLACEMENTS_PER_SECOND = 800
"""Instances that are placed by score, for each second of `--time-limit`.

Groups that are tried later are only packed.
"""

SIMULATED_WEIGHT = 8
"""How many instances an instance counts for if the loss of each failure is computed for it."""

FAILED_WEIGHT = 4
"""How many instances each instance of a group counts for if the group cannot be emptied."""

QUICK = "a quick try did not place all instances; earlier groups used up the budget"

NOT_TRIED = "the plan ended before it was tried"

BEGUN = "the plan ended while it was tried"


def compress(context: IntergroupContext, only: Group | None = None) -> IntergroupResult:
    """Return a plan that empties the group that frees the most resources; or only `only`.

    The score is the number of instances in this group.  If a signal or the time limit ends the
    search, the plan empties the best of the groups that were tried until then.
    """
    done = CompressionResult("compress", context)
    search = _Compression(context, done, only)
    done.fill(search)
    done.bounding = search.bound
    return done


class CompressionResult(IntergroupResult):
    """The result of a compression: a plan that empties one group."""

    measure = FREE_SHARE

    @property
    def reached(self) -> float:
        """Return the sum of the free shares of all resources of the chosen group; 0 for none."""
        chosen = [row for row in self.groups if row.group.name == self.members.get("chosen")]
        return float(chosen[0].members["share_free"]) if chosen and self.moves else 0.0


class _Compression:
    """A search for groups that can be emptied."""

    def __init__(
        self, context: IntergroupContext, done: IntergroupResult, only: Group | None
    ) -> None:
        self.only = only
        self.context = context
        self.mover = Mover(context)
        self.peers = Peers(context.cluster)
        self.done = done
        state = context.state
        groups = [row.group for row in done.groups]
        self.used = {g.index: used_by(state, g) for g in groups}
        self.free = {g.index: free_of(state, g) for g in groups}
        self.total = plus(*(total_of(state, g) for g in groups))
        self.held = {g.index: largest_first(state, g, self.total) for g in groups}
        self.proofs = Proofs(self.mover)
        self.evacuable: list[Group] = []
        self.others_fit = True
        self.left = PLACEMENTS_PER_SECOND * context.settings.optimum_seconds
        self.statuses: dict[int, str] = {}
        self.doubtful: set[int] = set()

    def share(self, group: Group) -> float:
        """Return the sum over the resources of the share of the cluster that is free in `group`."""
        return sum(f / t for f, t in zip(self.free[group.index], self.total) if t)

    def run(self) -> str:
        """Try every candidate, the one with the most free resources first; return why it ends."""
        done = self.done
        hindered = forbidden(self.context.settings)
        if hindered:
            self.statuses = {row.group.index: GROUP_IMPOSSIBLE for row in done.groups}
            return hindered
        candidates = []
        for row in done.groups:
            check()
            if self.only not in (None, row.group):
                row.reason = f"the plan is only for group {self.only.name}"
                self.statuses[row.group.index] = UNDECIDED
                continue
            row.reason = self._unfit(row.group)
            if row.reason:
                held = self.held[row.group.index]
                self.statuses[row.group.index] = GROUP_IMPOSSIBLE if held else NOTHING_TO_DO
            else:
                row.reason = NOT_TRIED
                candidates.append(row)
        candidates.sort(key=lambda row: -self.share(row.group))
        search = LocalSearch(
            [_Emptying(candidates)],
            lambda work: work.objective(),
            Acceptance(),
            self.context.deadline,
        )
        end = search.run(self)
        if end == TIME_IS_UP:
            raise Stopped(end)
        if self.evacuable:
            return f"{self.evacuable[0].name} can be emptied, and frees the most"
        if candidates:
            return "none of the candidates can be emptied"
        if len(done.groups) < 2:
            return "no super cluster: there is one group only"
        return "no group is a candidate"

    def _unfit(self, group: Group) -> str:
        """Return why `group` is no candidate, in words; "" if it is one."""
        held = self.held[group.index]
        if not held:
            return "it holds no instances"
        alone = self.peers.alone(group)
        if alone:
            return alone
        passed_over = self._passed_over(held, group)
        homeless = [i for i in held if not self._targets(i, group)]
        if homeless:
            return f"{homeless[0].name} has no place: {passed_over}"
        others = [row.group for row in self.done.groups if row.group is not group]
        free_there = plus(*(self.free[g.index] for g in others if self._in_use(g)))
        spares = any(  # instances can come to this group beyond its ratio of virtual cpus
            self.context.evaluator(other).limit_policies.new.primary.spares
            for other in others
            if self._in_use(other)
        )
        for kind, own, free in zip(RESOURCE_KINDS, self.used[group.index], free_there):
            if kind == "cpu" and (spares or own == free):
                continue
            if own and own >= free:
                unit = "" if kind == "cpu" else " MiB"
                reason = f"uses {own:.12g}{unit} {kind}, the others have {free:.12g} free"
                break
        else:
            reason = ""
            if not any(map(self.mover.immovable, held)):  # `_try` names an instance that must stay
                reason = self.proofs.against(held, lambda i: self._targets(i, group))
        return "; ".join(filter(None, (reason, reason and passed_over)))

    def _targets(self, instance: Instance, source: Group) -> list[Group]:
        """Return the groups in use to which `instance` may move from `source`.

        A group is in use if it has instances, or if an option names nodes of it.
        """
        return [g for g in self.peers.of(instance, source) if self._in_use(g)]

    def _in_use(self, group: Group) -> bool:
        """Return whether `group` has instances, or an option names nodes of it."""
        nodes = self.context.cluster.nodes
        named = self.context.settings.restrict_allocation_to or ()
        return bool(self.held[group.index]) or any(nodes[i].name in named for i in group.nodes)

    def _passed_over(self, instances: Sequence[Instance], source: Group) -> str:
        """Return in words which groups are left out as targets because they are empty; or ""."""
        of = self.peers.of
        passed_over = {g.name: g for i in instances for g in of(i, source) if not self._in_use(g)}
        if not passed_over:
            return ""
        verb = "holds" if len(passed_over) == 1 else "hold"
        names = ", ".join(passed_over)
        return f"no group would be freed by filling {names}, which {verb} no instances"

    def objective(self) -> tuple[float, float]:
        """Return the objective of the search; lower is better.

        It has the negative free share of the chosen group, and the negative number of groups that
        can be emptied.
        """
        chosen = max(map(self.share, self.evacuable), default=0.0)
        return -chosen, -len(self.evacuable)

    def moves_of(self, row: GroupRow) -> Evacuation | None:
        """Return moves that empty the group of `row`, or None.

        If no moves were found, the reason is recorded in `row`.
        """
        group = row.group
        instances = self.held[group.index]
        row.reason = BEGUN
        for instance in instances:
            hindered = self.mover.immovable(instance)
            if hindered:
                self.statuses[group.index] = GROUP_IMPOSSIBLE
                row.reason = f"{instance.name} has to stay: {hindered}"
                return None
        ranking = self.mover.ranking
        ranking.shares_rankings = len(instances) * len(self.context.cluster.nodes) > LARGE_GROUP
        targets = {i.name: self._targets(i, group) for i in instances}
        done: Evacuation | None = None
        if self.left <= 0 or (self.evacuable and self.others_fit):
            # Once the moves of one group are the plan, other groups are only packed
            done = packed(self.mover, instances, lambda i: targets[i.name])
            self.others_fit = self.others_fit and done is not None  # the others are similar
        if done is None and self.left > 0:
            done = evacuate(self.mover, instances, lambda i: targets[i.name])
            if ranking.shares_rankings:
                exact = self.context.evaluator(group).rules.exact
                weight = sum(
                    SIMULATED_WEIGHT if exact and not i.needs_secondary else 1 for i in instances
                )
                self.left -= weight * (1 if done.failed is None else FAILED_WEIGHT)
        ranking.shares_rankings = False
        if done is None:  # no time is left to look for moves
            self.statuses[group.index], row.reason = OUT_OF_TIME, QUICK
            return None
        self.statuses[group.index] = done.status
        if done.doubtful:
            self.doubtful.add(group.index)
        if done.failed is not None:
            passed_over = self._passed_over(instances, group)
            why = "; ".join(filter(None, (done.reason, passed_over)))
            row.reason = f"{done.failed.name} has no place: {why}"
            return None
        row.reason = done.reason
        return done

    def bound(self) -> float:
        """Return the largest free share of a group that is not proved to be impossible to empty."""
        known = {
            index
            for index, status in self.statuses.items()
            if status == NOTHING_TO_DO
            or (status == GROUP_IMPOSSIBLE and index not in self.doubtful)
        }
        open_to = [
            row.group
            for row in self.done.groups
            if self.only in (None, row.group) and row.group.index not in known
        ]
        return max(map(self.share, open_to), default=0.0)

    def fill_rows(self) -> None:
        """Complete the row of each group in the report of the plan."""
        done = self.done
        for row in done.groups:
            index = row.group.index
            can = row.group in self.evacuable
            row.members = {
                "used": dict(zip(RESOURCE_KINDS, self.used[index])),
                "free": dict(zip(RESOURCE_KINDS, self.free[index])),
                "share_free": self.share(row.group),
                "evacuable": can,
                "verdict": self.statuses.get(index, unfinished(done.plan.interrupted)),
            }
            if not can:
                row.reason = row.reason or done.plan.reason
        names = [group.name for group in self.evacuable]
        done.members = {"evacuable": names, "chosen": names[0] if names else None}


class _Step:
    """The moves that empty a group. The first group for which the search finds them is the chosen
    one.
    """

    __slots__ = ("_entries", "_group")

    def __init__(self, group: Group, entries: Sequence[PlanEntry]) -> None:
        self._group = group
        self._entries = entries

    def apply(self, state: _Compression) -> None:
        """Record that the group can be emptied; if it is the first, add its moves to the plan."""
        state.evacuable.append(self._group)
        if state.evacuable[0] is self._group:
            state.done.plan.before = float(len(state.held[self._group.index]))
            for left, entry in enumerate(reversed(self._entries)):
                entry.score = float(left)
            state.done.add(self._entries)


class _Emptying(Neighbourhood[_Compression, _Step]):
    """The groups that can be emptied; `candidates` are tried in order, each once."""

    name = "emptying"

    def __init__(self, candidates: Sequence[GroupRow]) -> None:
        self._candidates = list(candidates)
        self._tried = 0

    def best(
        self, state: _Compression, objective: Objective, allows: Callable[[_Step], bool]
    ) -> _Step | None:
        """Return the moves that empty the next group that can be emptied; None if there is none."""
        context, count = state.context, len(self._candidates)
        for row in self._candidates[self._tried :]:
            check()
            self._tried += 1
            context.progress(f"group {self._tried} of {count}: {row.group.name}")
            with context.share(count - self._tried + 1):
                done = state.moves_of(row)
            if done is not None:
                return _Step(row.group, done.entries)
        return None


def check_compression(done: PlanResult) -> list[str]:
    """Return the nodes of the chosen group that are not empty after the plan, in words."""
    state = done.after()
    return [
        f"{state.cluster.nodes[index].name} is not empty"
        for row in done.groups
        if row.group.name == done.members["chosen"]
        for index in row.group.nodes
        if any(state.instances_on(index))
    ]
