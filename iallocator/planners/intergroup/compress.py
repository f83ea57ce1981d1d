"""Compression: which whole groups could be emptied, and the moves that empty the best of them.

A group comes into question if it shares a partition with others, and uses less of
memory, disk and virtual cpus than all others together have free.  For each such group all its
instances are offered to the groups of their partitions that hold instances already: what
one group gives back, no other may take.  Of those that could be emptied the one with
the most free resources is chosen: it gives back the most.
"""

from __future__ import annotations

from iallocator.deadline import Stopped, check
from iallocator.model.columns import CPUS, DISK, MEMORY
from iallocator.planners.intergroup.context import (
    IMPOSSIBLE,
    NOTHING,
    OUT_OF_TIME,
    IntergroupResult,
    forbidden,
    unfinished,
)
from iallocator.planners.intergroup.evacuation import Evacuation, evacuate, packed
from iallocator.planners.intergroup.infeasibility_proofs import Proofs
from iallocator.planners.intergroup.moving import Mover
from iallocator.planners.intergroup.partitions import Peers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.planners.intergroup.context import IntergroupContext
    from iallocator.planners.result import GroupRow

__all__ = [
    "KINDS",
    "Resources",
    "check_compression",
    "compress",
    "free_of",
    "plus",
    "total_of",
    "used_by",
]

KINDS = ("memory", "disk", "cpu")
"""MiB, MiB, virtual cpus."""

Resources = tuple[float, float, float]
"""An amount of each of `KINDS`."""


def plus(*amounts: Resources) -> Resources:
    """The sum."""
    memory, disk, cpu = (sum(column) for column in zip((0.0, 0.0, 0.0), *amounts))
    return memory, disk, cpu


def used_by(state: State, group: Group) -> Resources:
    """What the instances in `group` take: memory if they run, disk on the nodes' own storage."""
    memory = disk = cpu = 0
    for index in group.nodes:
        for instance in state.primaries[index].values():
            memory += instance.memory if instance.uses_memory else 0
            cpu += 0 if instance.admin_offline else instance.vcpus
        disk += sum(instance.own_disk for instance in state.instances_on(index))
    return memory, disk, cpu


def free_of(state: State, group: Group) -> Resources:
    """What the online nodes of `group` have left; virtual cpus up to the policy's ratio."""
    memory = disk = cpu = 0.0
    for index in group.nodes:
        node = state.cluster.nodes[index]
        if node.online:
            memory += max(0.0, state.columns[MEMORY][index])
            disk += max(0.0, state.columns[DISK][index]) if node.has_internal else 0.0
            cpu += max(0.0, node.vcpu_ratio * node.total_cpus - state.columns[CPUS][index])
    return memory, disk, cpu


def total_of(state: State, group: Group) -> Resources:
    """What the online nodes of `group` have in all."""
    nodes = [state.cluster.nodes[i] for i in group.nodes if state.cluster.nodes[i].online]
    return (
        sum(node.total_memory for node in nodes),
        sum(node.total_disk for node in nodes if node.has_internal),
        sum(node.vcpu_ratio * node.total_cpus for node in nodes),
    )


LARGE = 20_000
"""Instances × nodes from which on equal instances are placed by one ranking."""

THOROUGH = 800
"""Instances whose places are looked for one by one, for each second of `--time-limit` (else 5).

Then only quick tries are made."""

JUDGED = 8
"""How many times as much one counts of which each failure has to be asked what it loses."""

IN_VAIN = 4
"""How many times as much a group counts that is tried in vain: in several ways."""

QUICK = "a quick try found no room for all; the groups before it left nothing to spend on more"

NEVER = "the plan ended before it was tried"

BEGUN = "the plan ended while it was tried"


def compress(context: IntergroupContext) -> IntergroupResult:
    """Empty the best group of the cluster of `context` that can be emptied.

    Scores are counts: instances in the chosen group.  A signal, or the end of
    the time, leaves the best of the groups that were tried until then.
    """
    done = IntergroupResult("compress", context)
    work = _Compression(context, done)
    try:
        with context.deadline:
            done.plan.reason = work.run()
    except Stopped as stop:
        done.plan.end(stop)
    work.tell()
    return done


class _Compression:
    """One compression."""

    def __init__(self, context: IntergroupContext, done: IntergroupResult) -> None:
        self.context = context
        self.mover = Mover(context)
        self.peers = Peers(context.cluster)
        self.done = done
        state = context.state
        groups = [row.group for row in done.groups]
        self.used = {g.index: used_by(state, g) for g in groups}
        self.free = {g.index: free_of(state, g) for g in groups}
        self.total = plus(*(total_of(state, g) for g in groups))
        self.held = {g.index: self._held(g) for g in groups}
        self.proofs = Proofs(self.mover)
        self.evacuable: list[Group] = []
        self.roomy = True
        self.left = THOROUGH * context.settings.optimum_seconds
        self.verdicts: dict[int, str] = {}

    def _held(self, group: Group) -> list[Instance]:
        """The instances with a node in `group`, the largest first."""
        state = self.context.state
        found = {i.name: i for index in group.nodes for i in state.instances_on(index)}
        return sorted(
            found.values(),
            key=lambda i: (-self._size(i), -i.memory, -i.vcpus, -i.disk, i.template, i.order),
        )

    def _size(self, instance: Instance) -> float:
        """The largest of its shares in what the whole cluster has."""
        amounts = (instance.memory, instance.own_disk, instance.vcpus)
        return max((a / t for a, t in zip(amounts, self.total) if t), default=0.0)

    def share(self, group: Group) -> float:
        """How much `group` gives back: its free memory, disk, cpu as shares of the cluster's."""
        return sum(f / t for f, t in zip(self.free[group.index], self.total) if t)

    def run(self) -> str:
        """Try every candidate, the one that gives back the most first; why it ends."""
        done = self.done
        hindered = forbidden(self.context.settings)
        if hindered:
            self.verdicts = {row.group.index: IMPOSSIBLE for row in done.groups}
            return hindered
        candidates = []
        for row in done.groups:
            check()
            row.reason = self._unfit(row.group)
            if row.reason:
                held = self.held[row.group.index]
                self.verdicts[row.group.index] = IMPOSSIBLE if held else NOTHING
            else:
                row.reason = NEVER
                candidates.append(row)
        candidates.sort(key=lambda row: -self.share(row.group))
        for number, row in enumerate(candidates, start=1):
            check()
            self.context.tell(f"group {number} of {len(candidates)}: {row.group.name}")
            with self.context.share(len(candidates) - number + 1):
                self._try(row)
        if self.evacuable:
            return f"{self.evacuable[0].name} can be emptied, and gives back the most"
        if candidates:
            return "none of the candidates can be emptied"
        if len(done.groups) < 2:
            return "no super cluster: there is one group only"
        return "no group is a candidate"

    def _unfit(self, group: Group) -> str:
        """Why `group` does not come into question; or ""."""
        if not self.held[group.index]:
            return "it holds no instances"
        alone = self.peers.alone(group)
        if alone:
            return alone
        held = self.held[group.index]
        passed_over = self._passed_over(held, group)
        homeless = [i for i in held if not self._targets(i, group)]
        if homeless:
            return f"{homeless[0].name} has no place: {passed_over}"
        reason = self._too_much(group)
        if not reason and not any(map(self.mover.immovable, held)):  # said later, with the name
            reason = self.proofs.against(held, lambda i: self._targets(i, group))
        return "; ".join(filter(None, (reason, reason and passed_over)))

    def _too_much(self, group: Group) -> str:
        """What `group` uses more of than the others that hold instances have free; or ""."""
        others = [row.group for row in self.done.groups if row.group is not group]
        free_there = plus(*(self.free[g.index] for g in others if self._in_use(g)))
        for kind, own, free in zip(KINDS, self.used[group.index], free_there):
            if own and own >= free:
                return f"uses {own:.12g}{_unit(kind)} {kind}, the others have {free:.12g} free"
        return ""

    def _targets(self, instance: Instance, source: Group) -> list[Group]:
        """The groups of its partition that are in use, or asked for."""
        return [g for g in self.peers.of(instance, source) if self._in_use(g)]

    def _in_use(self, group: Group) -> bool:
        """Whether `group` holds instances, or nodes of it are named to place instances on."""
        nodes = self.context.cluster.nodes
        named = self.context.settings.restrict_allocation_to or ()
        return bool(self.held[group.index]) or any(nodes[i].name in named for i in group.nodes)

    def _passed_over(self, instances: Sequence[Instance], source: Group) -> str:
        """Which groups are no targets because they are empty, in words; or ""."""
        of = self.peers.of
        found = {g.name: g for i in instances for g in of(i, source) if not self._in_use(g)}
        if not found:
            return ""
        verb = "holds" if len(found) == 1 else "hold"
        return f"nothing would be won by filling {', '.join(found)}, which {verb} no instances"

    def _try(self, row: GroupRow) -> None:
        """Try to empty one group; the state is left as it is."""
        group, mover = row.group, self.mover
        instances = self.held[group.index]
        row.reason = BEGUN
        for instance in instances:
            hindered = self.mover.immovable(instance)
            if hindered:
                self.verdicts[group.index] = IMPOSSIBLE
                row.reason = f"{instance.name} has to stay: {hindered}"
                return
        mover.ranking.twins = len(instances) * len(self.context.cluster.nodes) > LARGE
        done = self._evacuated(group, instances)
        mover.ranking.twins = False
        if done is None:
            self.verdicts[group.index], row.reason = OUT_OF_TIME, QUICK
            return
        self.verdicts[group.index] = done.verdict
        if done.failed is not None:
            passed_over = self._passed_over(instances, group)
            why = "; ".join(filter(None, (done.reason, passed_over)))
            row.reason = f"{done.failed.name} has no place: {why}"
            return
        row.reason = done.reason
        self.evacuable.append(group)
        if self.evacuable[0] is group:
            self.done.plan.before = float(len(instances))
            for left, entry in enumerate(reversed(done.entries)):
                entry.score = float(left)
            self.done.add(done.entries)

    def _evacuated(self, group: Group, instances: Sequence[Instance]) -> Evacuation | None:
        """Where all of them can go; None if too much was spent before to find that out.

        Once one group is found whose moves are the plan, it is only asked whether they can.
        """
        targets = {i.name: self._targets(i, group) for i in instances}
        if self.left <= 0 or (self.evacuable and self.roomy):
            quick = packed(self.mover, instances, lambda i: targets[i.name])
            if quick is not None:
                return quick
            self.roomy = False  # nor will it tell of the others, which are much alike
        if self.left <= 0:
            return None
        done = evacuate(self.mover, instances, lambda i: targets[i.name])
        if self.mover.ranking.twins:
            rules = self.context.evaluator(group).rules
            asked = sum(JUDGED if rules.exact and not i.needs_secondary else 1 for i in instances)
            self.left -= asked * (1 if done.failed is None else IN_VAIN)
        return done

    def tell(self) -> None:
        """Fill in what is said of the groups."""
        done = self.done
        for row in done.groups:
            index = row.group.index
            can = row.group in self.evacuable
            row.members = {
                "used": dict(zip(KINDS, self.used[index])),
                "free": dict(zip(KINDS, self.free[index])),
                "share_free": self.share(row.group),
                "evacuable": can,
                "verdict": self.verdicts.get(index, unfinished(done.plan.interrupted)),
            }
            if not can:
                row.reason = row.reason or done.plan.reason
        names = [group.name for group in self.evacuable]
        done.members = {"evacuable": names, "chosen": names[0] if names else None}


def _unit(kind: str) -> str:
    return "" if kind == "cpu" else " MiB"


def check_compression(context: IntergroupContext, done: IntergroupResult) -> list[str]:
    """What is wrong with the end of a plan: the chosen group must be empty.

    `context` has the state before the plan.
    """
    state = done.after()
    return [
        f"{state.cluster.nodes[index].name} is not empty"
        for row in done.groups
        if row.group.name == done.members["chosen"]
        for index in row.group.nodes
        if any(state.instances_on(index))
    ]
