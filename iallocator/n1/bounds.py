"""Bounds: sums of free memory that prove that a failure is tolerated, or that it is not tolerated.

A target is a node that can restart instances of the failed nodes. An instance of x MiB cannot be
restarted only if the instances restarted before it leave less than x MiB on every target. To leave
less, the earlier instances must use at least ``max(0, capacity - x + 1)`` MiB on each target. If
the sum of these amounts over all targets is more than the memory of all earlier instances, the
instance can be restarted, in whatever order and wherever the earlier ones restart. Only the largest
instance must be checked: with x smaller by one, the sum rises by the number of targets that could
hold x, and the memory of the earlier instances by one.

A target is open while it holds fewer instances than it can hold of the largest one. So an instance
can also be restarted if these numbers, added over all targets, are more than the earlier instances.

Plain instances need disk as well: a target is closed to an instance by memory or by disk. To close
a target, earlier instances use there a share of the memory of all earlier instances, or a share of
their disk. If the smaller of the two shares is more than one for a target, they cannot close it. If
it is more than two, added over all targets, they cannot close all targets. If this holds even
without the two largest shares, a new instance that fills two nodes cannot make the failure
intolerable. With exclusive storage, spindles are a third resource. A resource that cannot close any
target does not count.

If the order of the restarts is known, it can prove more; see `RestartOrder`.

If several nodes fail together, the instances of each of their groups are restarted on the other
nodes of that group. An instance with both nodes among the failed ones cannot be restarted.

Cost: O(n) for a failure in a group of *n* nodes, or O(log n) with `TargetCapacity`; the demand of a
failure takes time in proportion to its instances, and is kept until one of its nodes changes.

Source: the proof was developed for this program.
"""

from __future__ import annotations

from _bisect import bisect_left  # the part in C, which is in the interpreter
from math import ceil, inf

from iallocator.constraints.table import entry_rejection, move_rejections
from iallocator.limits.node import other_limits
from iallocator.model.columns import DISK, FREE_SPINDLES, MEMORY
from iallocator.model.state import derived
from iallocator.n1 import PACKED_LIMITS, PROVED_LOST, PROVED_SAFE, UNPROVED, sum_of_shares

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import Kept, State
    from iallocator.n1 import Failure, Rules
    from iallocator.n1.pools import Share

    Demands = Kept[Failure, "Demand"]
    """Failure -> its demand, cached until one of its nodes changes."""

    Capacities = Mapping[int, "TargetCapacity"]
    """Index of a group -> the free memory of its nodes that may take over."""

    Need = tuple[int, int | None, int]
    """The MiB of memory and disk, and the spindles, that an instance takes of a new node. The disk
    is None if it is not on the node."""

__all__ = [
    "Demand",
    "RestartOrder",
    "TargetCapacity",
    "capacities_for",
    "check_bounds",
    "check_movers",
    "demand_of",
    "failovers_succeed",
    "known_demand",
]


class Demand:
    """What the instances of failed nodes require of the nodes that have not failed.

    Attributes
    ----------
    group:
        The group in which instances need a new node.
    parts:
        The demand in each group, if instances of several groups need a new node; else empty.
    failovers:
        Secondary -> MiB of the drbd primaries that fail over to it.
    moved, largest:
        MiB of memory of all instances that need a new node, and of the largest of them; a
        colocation group counts as one instance.
    plain, plain_disk, largest_disk:
        The number of instances with local disks that need a new node, their MiB of disk, and the
        MiB of the largest of them.
    spindles, most_spindles:
        The spindles that all instances that need a new node use on nodes with exclusive storage,
        and the largest number of one of them; `spindles` is None if no node of the group has such
        storage.
    exclusive:
        Whether one of the failed nodes, or of the secondaries in `failovers`, has exclusive
        storage, so that its free spindles can prevent failovers with ``strict``.
    single:
        Whether a drbd primary certainly cannot be restarted: it has no secondary, or its secondary
        fails at the same time, or lacks a migration tag.
    intricate:
        Whether only the simulation decides: nodes have other limits than memory, disk, pools and
        spindles, the policy rejects an instance that must be created anew, spindles that limit
        instances are unknown, or the new instance counts as its namesake.
    movers, recreated:
        How many instances need a new node, and how many of them are created anew.
    shares:
        The instances that need a new node, by the nodes with access and the pool; None if no
        instance is restricted to some nodes or to a pool.
    """

    __slots__ = (
        "exclusive",
        "failovers",
        "group",
        "intricate",
        "largest",
        "largest_disk",
        "most_spindles",
        "moved",
        "movers",
        "parts",
        "plain",
        "plain_disk",
        "recreated",
        "shares",
        "single",
        "spindles",
    )  # fmt: skip

    def __init__(self, group: Group) -> None:
        self.group = group
        self.parts: Sequence[Demand] = ()
        self.failovers: dict[int, float] = {}
        self.movers = 0
        self.moved = 0
        self.largest = 0
        self.plain = 0
        self.recreated = 0
        self.plain_disk = 0
        self.largest_disk = 0
        self.spindles: int | None = 0 if group.exclusive else None
        self.most_spindles = 0
        self.exclusive = False
        self.single = False
        self.intricate = False
        self.shares: list[Share] | None = None

    def add(self, instance: Instance, secondary: int | None, recreated: bool) -> None:
        """Add the requirements of `instance`, which has the failed node as its primary.

        `recreated`: whether the instance is created anew on another node, instead of moved.
        """
        if instance.forthcoming:
            return
        memory = instance.memory if instance.uses_memory else 0
        if instance.needs_secondary:
            if secondary is None:
                self.single = True
            else:
                self.failovers[secondary] = self.failovers.get(secondary, 0) + memory
            return
        self.movers += 1
        self.moved += memory
        self.largest = max(self.largest, memory)
        self.recreated += recreated
        if self.spindles is not None:
            self.spindles += instance.own_spindles
            self.most_spindles = max(self.most_spindles, instance.own_spindles)
        if instance.local:
            self.plain += 1
            self.plain_disk += instance.disk
            self.largest_disk = max(self.largest_disk, instance.disk)

    def add_demand(self, other: Demand) -> None:
        """Add the demand `other`, that of a node that fails at the same time, to this demand."""
        self.movers += other.movers
        self.moved += other.moved
        self.largest = max(self.largest, other.largest)
        self.recreated += other.recreated
        self.plain += other.plain
        self.plain_disk += other.plain_disk
        self.largest_disk = max(self.largest_disk, other.largest_disk)
        if self.spindles is not None:
            self.spindles += other.spindles or 0
            self.most_spindles = max(self.most_spindles, other.most_spindles)

    def add_unit(self, members: Sequence[Instance]) -> None:
        """Add the requirement that `members` restart on one node. Each member must have been added
        with `add` before.
        """
        here = [one for one in members if not one.forthcoming]
        if len(here) < 2:
            return
        memory = sum(one.memory for one in here if one.uses_memory)
        self.largest = max(self.largest, memory)
        disk = sum(one.disk for one in here if one.local)
        self.largest_disk = max(self.largest_disk, disk)
        self.most_spindles = max(self.most_spindles, sum(one.own_spindles for one in here))
        self.intricate |= any(one.restricted for one in here)


def demand_of(state: State, failure: Failure, rules: Rules) -> Demand:
    """Return the demand of `failure` in the present state."""
    if len(failure) == 1:
        return _demand_of_node(state, failure[0], rules)
    whole = Demand(state.cluster.nodes[failure[0]].group)
    by_group: dict[Group, list[int]] = {}
    parts: dict[Group, Demand] = {}
    for node in failure:
        one = _demand_of_node(state, node, rules)
        whole.intricate |= one.intricate or rules.strict  # disks of failovers
        whole.single |= (
            one.single
            or not one.failovers.keys().isdisjoint(failure)
            or bool(move_rejections(state.cluster, node, one.failovers))
        )
        for secondary in one.failovers.keys() - failure:
            amount = whole.failovers.get(secondary, 0) + one.failovers[secondary]
            whole.failovers[secondary] = amount
        if one.movers:
            by_group.setdefault(one.group, []).append(node)
            parts.setdefault(one.group, Demand(one.group)).add_demand(one)
            whole.add_demand(one)
    for group, nodes in by_group.items():
        if state.access is not None:
            _split(state, nodes, parts[group])
        part = parts[group]
        whole.group, whole.shares = group, part.shares
        whole.spindles, whole.most_spindles = part.spindles, part.most_spindles
        whole.intricate |= part.intricate
    if len(parts) > 1:
        whole.parts = list(parts.values())
    return whole


def _demand_of_node(state: State, node: int, rules: Rules) -> Demand:
    group = state.cluster.nodes[node].group
    demand = Demand(group)
    demand.intricate = bool(other_limits(group, *PACKED_LIMITS))
    kinds = (False, True) if group.exclusive else (False,)  # of nodes, by their storage
    if rules.namesake is not None and rules.namesake.nodes[0] == node:
        demand.intricate = True
        demand.movers = 1
        return demand
    units: dict[tuple[Sequence[str], bool], list[Instance]] = {}
    unstated: list[Instance] = []  # those that do not state their spindles
    for instance in state.primaries[node].values():
        nodes = state.where[instance.name]
        if nodes[0] != node:  # about to leave
            demand.intricate |= rules.strict
            demand.movers += rules.strict
            continue
        recreated = rules.recreates(instance)
        if recreated and any(entry_rejection(group, instance, kind) for kind in kinds):
            demand.intricate = True
        if instance.spindles is None and not instance.forthcoming:
            unstated.append(instance)
        demand.add(instance, nodes[1] if len(nodes) > 1 else None, recreated)
        if instance.name in rules.units and not instance.needs_secondary:
            units.setdefault((rules.units[instance.name], recreated), []).append(instance)
    for unit in units.values():
        demand.add_unit(unit)
    if demand.plain and group.exclusive:
        demand.intricate |= any(one.local or one.hides_spindles for one in unstated)
    if rules.strict and demand.failovers:
        demand.exclusive = any(
            state.cluster.nodes[i].exclusive_storage for i in (node, *demand.failovers)
        )
        if demand.exclusive:
            demand.intricate |= any(one.needs_secondary for one in unstated)
    if state.access is not None and demand.movers:
        _split(state, (node,), demand)
    return demand


def failovers_succeed(state: State, failure: Failure, rules: Rules) -> bool:
    """Return whether sums prove that all drbd primaries of `failure` can fail over."""
    demand = demand_of(state, failure, rules)
    if demand.single or demand.intricate:
        return False
    return not _failovers_fail(state, failure, demand, rules)


def known_demand(state: State, failure: Failure, rules: Rules, known: Demands) -> Demand:
    """Return the demand of `failure`; `known` caches demands of this state and these `rules`."""
    stamps = state.stamps
    counter = stamps[failure[0]] if len(failure) == 1 else tuple(stamps[node] for node in failure)
    return derived(known, failure, counter, lambda: demand_of(state, failure, rules))


def _split(state: State, nodes: Iterable[int], demand: Demand) -> None:
    """Store in `demand.shares` the demand of the failure of `nodes`, divided by the nodes on which
    the instances can restart.

    The demand is not changed if every instance can restart on every node.
    """
    movers = [
        i
        for node in nodes
        for i in state.primaries[node].values()
        if not i.needs_secondary and not i.forthcoming and state.where[i.name][0] == node
    ]
    if not any(i.restricted for i in movers):
        return
    from iallocator.n1.pools import shares_of

    demand.shares = shares_of(state.cluster, movers)
    demand.intricate |= demand.shares is None or (demand.spindles is not None and demand.plain > 0)


class TargetCapacity:
    """The free memory of the targets of a group, sorted, so that a binary search gives the sums of
    bounds.

    The sort saves time if many failures are checked on the same state.
    """

    __slots__ = (
        "_above", "_capacities", "_memory", "_order", "_parts", "_state", "_total", "members",
    )  # fmt: skip

    def __init__(self, state: State, targets: Collection[int]) -> None:
        self.members = frozenset(targets)
        self._state = state
        self._parts: dict[frozenset[int], TargetCapacity] = {}  # by the nodes that they are among
        self._memory = state.columns[MEMORY]
        self._order = sorted(targets, key=self._memory.__getitem__)
        self._capacities = [self._memory[t] - 1 for t in self._order]
        self._above = [0.0]  # sums of the largest, one more at a time
        for capacity in reversed(self._capacities):
            self._above.append(self._above[-1] + capacity)
        self._total = sum(c for c in self._capacities if c > 0)

    def among(self, nodes: frozenset[int]) -> TargetCapacity:
        """Return the free memory of the targets that are in `nodes`; it is sorted once."""
        part = self._parts.get(nodes)
        if part is None:
            members = self.members & nodes
            part = self if len(members) == len(self.members) else self._parts.get(members)
            part = part or TargetCapacity(self._state, members)
            self._parts[nodes] = self._parts[part.members] = part
        return part

    def count_without(self, failure: Failure) -> int:
        """Return the number of targets outside `failure`."""
        return len(self.members) - len(self.members.intersection(failure))

    def total_without(self, failure: Failure, memory_taken: Mapping[int, float]) -> float:
        """Return the sum of the free memory of all targets outside `failure`, in MiB; see
        `without`.
        """
        total = self._total
        for index in self.members.intersection((*failure, *memory_taken)):
            before = self._memory[index] - 1
            after = before - memory_taken.get(index, 0) if index not in failure else 0
            total -= max(0, before) - max(0, after)
        return total

    def without(
        self, failure: Failure, need: float, memory_taken: Mapping[int, float]
    ) -> tuple[float, float, float]:
        """Return three amounts of the targets outside `failure`, in MiB.

        They are the largest free memory of one target, the sum of the free memory of all, and what
        `closing` returns. The free memory is taken as 1 MiB less, because some must remain.
        `memory_taken`: node -> MiB that failovers use there.
        """
        total = self.total_without(failure, memory_taken)
        largest = -inf
        for index in reversed(self._order):
            if self._memory[index] - 1 <= largest:
                break
            if index not in failure:
                largest = max(largest, self._memory[index] - 1 - memory_taken.get(index, 0))
        return largest, total, self.closing(need, failure, memory_taken)

    def closing(
        self, need: float, failed: Collection[int], memory_taken: Mapping[int, float]
    ) -> float:
        """Return how many MiB instances must use at least until no target outside `failed` can hold
        `need` MiB more.

        `memory_taken`: node -> MiB that failovers use there.
        """
        count = len(self._capacities) - bisect_left(self._capacities, need)
        closing = self._above[count] - count * (need - 1)
        for node in self.members.intersection(failed):
            closing -= max(0, self._memory[node] - need)
        for node in self.members.intersection(memory_taken).difference(failed):
            before = self._memory[node] - need
            closing += max(0, before - memory_taken[node]) - max(0, before)
        return closing


FAILURES_WORTH_SORTING = 8
"""The number of failures from which on sorting the free memory of their targets saves time."""


def capacities_for(state: State, rules: Rules, failing: Collection[Failure]) -> Capacities:
    """Return the sorted free memory of the groups of `failing`; empty if there are few failures."""
    if len(failing) < FAILURES_WORTH_SORTING:
        return NO_CAPACITIES
    nodes = state.cluster.nodes
    groups = {nodes[one[0]].group for one in failing}
    group_targets = ((group, rules.targets(state.cluster, group)) for group in groups)
    return {
        group.index: TargetCapacity(state, targets) for group, targets in group_targets if targets
    }


NO_CAPACITIES: Capacities = {}


def check_bounds(
    state: State,
    failure: Failure,
    demand: Demand,
    rules: Rules,
    capacities: Capacities = NO_CAPACITIES,
) -> tuple[int, float]:
    """Return what bounds prove about `failure`, and its spare memory if it is proved tolerated.

    The first result is `PROVED_SAFE`, `PROVED_LOST` or `UNPROVED`. The spare memory is the number
    of MiB that any single target can lose while all instances that need a new node can still be
    placed. If instances need disk as well, the number is infinite or -1; see `sum_of_shares`. It is
    -1 if failovers depend on free spindles. The memory for failovers to secondaries is not part of
    it.

    Cost: O(n) for *n* targets, if an instance needs a new node; O(log n) with `capacities`, which
    must be of the same state.
    """
    if demand.single or _failovers_fail(state, failure, demand, rules):
        return PROVED_LOST, 0
    if demand.intricate and (demand.movers or demand.failovers):
        return UNPROVED, 0
    failovers = demand.failovers
    results = [
        check_movers(state, failure, part, failovers, rules, capacities)
        for part in demand.parts or (demand,)
        if part.movers
    ]
    kind = max((kind for kind, _ in results), default=PROVED_SAFE)
    if kind != PROVED_SAFE:
        return kind, 0
    return kind, -1 if demand.exclusive else min((spare for _, spare in results), default=inf)


def check_movers(
    state: State,
    failure: Failure,
    demand: Demand,
    failovers: Mapping[int, float],
    rules: Rules,
    capacities: Capacities = NO_CAPACITIES,
) -> tuple[int, float]:
    """Check by sums whether the instances of one group that need a new node can be placed.

    Return `PROVED_SAFE` or `PROVED_LOST` if sums prove it, else `UNPROVED`; and with `PROVED_SAFE`
    the MiB that any single target can lose. `failovers`: secondary -> MiB that fail over to it.
    """
    targets: Sequence[int] = rules.targets(state.cluster, demand.group)
    capacity = capacities.get(demand.group.index)
    rejected = False
    for node in failure:
        barred = move_rejections(state.cluster, node, targets)
        if barred:
            if demand.recreated or len(failure) > 1:
                return UNPROVED, 0
            rejected = True
            targets = [t for t in targets if t not in barred]
    if demand.shares is not None:
        from iallocator.n1.pools import check_shares

        if capacity is None or rejected:
            capacity = TargetCapacity(state, targets)
        return check_shares(state, demand.shares, failure, failovers, capacity)
    need, memory = demand.largest, state.columns[MEMORY]
    if capacity is not None and not rejected:
        largest, total, closing = capacity.without(failure, need, failovers)
    else:
        free = [memory[t] - failovers.get(t, 0) - 1 for t in targets if t not in failure]
        largest = max(free, default=-inf)
        total = sum([c for c in free if c > 0])
        closing = sum([c - need + 1 for c in free if c >= need])
    if need > largest or total < demand.moved:
        return PROVED_LOST, 0
    spare = closing - (demand.moved - need) - 1
    if spare >= 0 and not demand.plain:
        return PROVED_SAFE, spare
    disk, size = state.columns[DISK], demand.largest_disk
    most = demand.most_spindles if demand.plain else 0

    def closes() -> Iterator[tuple[float, float, float]]:
        """Yield what closes each target: MiB of memory, MiB of disk, and spindles."""
        for t in targets:
            if t not in failure:
                taken = failovers.get(t, 0) + need
                if demand.plain:
                    yield memory[t] - taken, disk[t] - size, _free_spindles(state, t) - most + 1
                else:
                    yield memory[t] - taken, inf, inf

    if demand.plain:
        budgets = demand.moved - need, demand.plain_disk - size, (demand.spindles or 0) - most
        kind, spare = sum_of_shares(closes(), *budgets)
        if kind == PROVED_SAFE:
            return kind, spare
    # An instance cannot be placed only if each target holds as many of the largest as it can
    sizes = need, size if demand.plain else 0, most
    held = 0.0
    for amounts in closes():
        held += min(map(_held, amounts, sizes))
        if held >= demand.movers:
            return PROVED_SAFE, -1
    return UNPROVED, 0


class RestartOrder:
    """The order in which instances restart after a failure, and what it proves.

    An instance cannot restart only if the instances before it have closed every target, each by
    memory, disk or spindles.

    Parameters
    ----------
    leaving:
        (failed node, item) for each item that needs a new node; see `Simulation.leaving`.
    min_disk:
        The share of every node's disk that must stay free. With it, nothing is proved.
    """

    __slots__ = ("_failovers", "_needs", "_state", "_targets")

    def __init__(
        self,
        state: State,
        failure: Failure,
        leaving: Sequence[tuple[int, Sequence[Instance]]],
        rules: Rules,
        min_disk: float = 0.0,
    ) -> None:
        self._state = state
        demand = demand_of(state, failure, rules)
        self._failovers = demand.failovers
        self._targets: list[int] | None = None  # None if nothing can be proved
        self._needs: list[Need] = []
        if (
            min_disk
            or demand.single
            or demand.intricate
            or demand.parts
            or demand.shares is not None
            or any(len(item) > 1 for _, item in leaving)
            or _failovers_fail(state, failure, demand, rules)
        ):
            return
        targets = [t for t in rules.targets(state.cluster, demand.group) if t not in failure]
        if not any(move_rejections(state.cluster, node, targets) for node in failure):
            self._targets = targets
            self._needs = [_need(one) for _, (one,) in leaving]

    def proves(self, begin: int = 0) -> bool:
        """Return whether sums prove that all items from position `begin` on restart.

        Items before `begin` must have restarted in the state, after the failovers.
        """
        if self._targets is None:
            return False
        state, failovers = self._state, {} if begin else self._failovers
        memory, disk = state.columns[MEMORY], state.columns[DISK]
        free = [
            (memory[t] - failovers.get(t, 0), disk[t], _free_spindles(state, t) + 1)
            for t in self._targets
        ]
        before: list[tuple[int, int, int]] = []  # what the earlier instances use
        needs = self._needs[begin:]
        for need, after in zip(needs, [*needs[1:], None]):
            size, own_disk, own_spindles = need
            if need != after:  # of several equal instances, the last one is the last to restart
                left = []
                for of_memory, of_disk, of_spindles in free:
                    closing = of_memory - size, inf, inf
                    if own_disk is not None:
                        closing = of_memory - size, of_disk - own_disk, of_spindles - own_spindles
                    if min(closing) > 0:
                        left.append(closing)
                if not _stays_open(left, before):
                    return False
            before.append((size, own_disk or 0, own_spindles))
        return True


def _stays_open(
    closing: Sequence[tuple[float, float, float]], before: Sequence[tuple[int, int, int]]
) -> bool:
    """Return whether instances certainly cannot close all targets, wherever they restart.

    Each resource can close at most as many targets as the smallest closing amounts that fit in what
    the instances use of it. So for each resource, all targets but a few must be closed by it alone;
    and the instances on these few targets use some of it, too.

    Parameters
    ----------
    closing:
        For each open target, the MiB of memory, the MiB of disk, and the spindles, each of which
        closes it.
    before:
        What each of the instances uses of these resources.
    """
    if not (closing and before):
        return bool(closing)
    columns = list(zip(*before))
    used = [sum(column) for column in columns]
    counts = [_closed(amounts, budget) for amounts, budget in zip(zip(*closing), used)]
    most = [max(column) for column in columns]
    for own, least in enumerate(map(min, columns)):
        # For each target: what closes it by this resource, and what at least is used of this
        # resource if another one closes it
        costs: list[tuple[float, float]] = []
        for amounts in closing:
            fewest = min(
                ceil(amounts[k] / most[k]) if most[k] and amounts[k] < inf else inf
                for k in range(len(most))
                if k != own
            )
            costs.append((amounts[own], min(amounts[own], fewest * least if fewest < inf else inf)))
        costs.sort(key=lambda cost: -inf if cost[0] == inf else cost[1] - cost[0])
        others = sum(counts) - counts[own]
        required = sum(cost[1] for cost in costs[:others])
        required += sum(cost[0] for cost in costs[others:])
        if required > used[own]:
            return True
    return False


def _need(instance: Instance) -> Need:
    memory = instance.memory if instance.uses_memory else 0
    return memory, instance.disk if instance.local else None, instance.own_spindles


def _closed(amounts: Iterable[float], budget: float) -> int:
    """Return how many targets `budget` can close; `amounts`: what closes each of them."""
    count = 0
    for amount in sorted(amounts):
        budget -= amount
        if budget < 0:
            break
        count += 1
    return count


def _held(closing: float, size: float) -> float:
    """Return how many instances of `size` a target can certainly hold.

    `closing`: the amount that closes the target to one of them.
    """
    if closing <= 0:
        return 0
    return ceil(closing / size) if size and closing < inf else inf


def _free_spindles(state: State, index: int) -> float:
    """Return the free spindles of a node; infinite if its storage is not exclusive."""
    exclusive = state.cluster.nodes[index].exclusive_storage
    return state.columns[FREE_SPINDLES][index] if exclusive else inf


def _failovers_fail(state: State, failure: Failure, demand: Demand, rules: Rules) -> bool:
    """Return whether a secondary certainly cannot take over the drbd primaries of `failure`."""
    if not demand.failovers:
        return False
    if len(failure) == 1 and move_rejections(state.cluster, failure[0], demand.failovers):
        return True
    columns = state.columns
    if any(columns[MEMORY][index] <= more for index, more in demand.failovers.items()):
        return True
    if demand.exclusive:
        places = (*failure, *demand.failovers)
        if any(_free_spindles(state, index) < 0 for index in places):
            return True
    if not rules.strict:
        return not all(state.cluster.nodes[s].online for s in demand.failovers)
    node = failure[0]
    if len(failure) == 1 and state.cluster.nodes[node].online and columns[DISK][node] <= 0:
        return True
    return any(columns[DISK][s] <= 0 for s in demand.failovers)
