"""Pack greedily: a fast test whether all instances of a group fit into other groups.

Instances are placed one after the other, each on the first node of an order that accepts it. Scores
are not compared, so a test costs about as much as its moves.  Only the group that the plan empties
needs good placements; for other groups, only the result of the test matters.

The orders (`iallocator.planners.node_orders`) are worst fit, best fit beside spare nodes, and two
that keep N+1 by construction.  The result of these two is compared with the failures of the initial
state at the end.

If few instances fill a node, best fit wastes memory. Then an integer program fills the nodes
exactly (`iallocator.packing.fill_exactly`).
"""

from __future__ import annotations

from contextlib import contextmanager
from heapq import nsmallest
from itertools import islice

from iallocator.constraints.checks import FREE_MEMORY, POOL_SPACE
from iallocator.deadline import check
from iallocator.limits.node import other_limits
from iallocator.model.columns import MEMORY
from iallocator.n1 import ENTERED, plan_rules
from iallocator.n1.tolerance import FailureTolerance
from iallocator.packing import fill_exactly
from iallocator.planners.node_orders import (
    BestFit,
    ExactFill,
    FailoverSafe,
    GreedyPacking,
    NodeOrder,
    ReserveFirst,
    WorstFit,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.moves import Move
    from iallocator.model.state import State
    from iallocator.n1 import Failure
    from iallocator.n1.unrestarted import FailoverPlan
    from iallocator.planners.intergroup.moving import Mover

    Targets = Callable[[Instance], Sequence[Group]]


__all__ = ["pack"]

WASTES = (1, 0.5, 0)
"""The memory of a spare node that is assumed to stay empty, as a share of the largest instance."""

PRIMARIES_TRIED, SECONDARIES_TRIED = 12, 4
"""How many of the first nodes are tried, and how many secondaries for each of them."""

NODES_TRIED, MOST_N1_REJECTIONS = 100, 2
"""The largest number of nodes tried if N+1 rejects some; the rejections that end a group."""


def pack(
    mover: Mover, instances: Sequence[Instance], targets: Targets, careful: bool = True
) -> list[Move] | None:
    """Return moves of all `instances` to the groups in `targets`; None if none were found.

    The state of `mover` is restored. Limits, and the steps that lead to a placement, are checked
    for each move. N+1 is checked once at the end, by bounds: a failure that is tolerated with all
    instances in their new groups is tolerated with some of them. If the bounds do not decide and
    `careful` is set, another attempt checks N+1 for each placement. Without `careful`, the first
    attempts have orders of the nodes that keep memory free for failovers.
    """
    if not mover.context.plain or any(one.exclusion or one.desired for one in instances):
        return None  # the possible nodes of some instances depend on the nodes of others
    if not careful:
        made = _reserve_first(mover, instances, targets)
        if made is None:
            made = _failover_safe(mover, instances, targets)
        return made if made is not None else _checked_by_bounds(mover, instances, targets)[0]
    made, order = _checked_by_bounds(mover, instances, targets)
    if (
        made is None and mover.ranking.shares_rankings
    ):  # there are too many instances to check N+1 for each
        made = _failover_safe(mover, instances, targets)
    if made is None and order is not None:
        with mover.context.state.trial():
            nodes = next(islice(_orders(mover, instances, targets), order, None))
            made = _Placing(mover, targets, nodes, careful=True).place_all(instances)
    return made if made is not None else _reserve_first(mover, instances, targets)


class _Placing(GreedyPacking):
    """Moves instances to the groups in `targets`, with the nodes in a given order.

    `careful`: whether N+1 is checked for each placement.
    """

    __slots__ = ("_careful", "_mover", "_targets")

    def __init__(
        self, mover: Mover, targets: Targets, order: NodeOrder, careful: bool = False
    ) -> None:
        super().__init__(mover.context.state, order)
        self._mover = mover
        self._targets = targets
        self._careful = careful

    def place_all(self, instances: Sequence[Instance]) -> list[Move] | None:
        """Move all `instances`, and return the moves; None if one does not fit.

        The caller must undo the changes of the state.
        """
        made: list[Move] = []
        for instance in instances:
            check()
            move = self.move(instance)
            if move is None:
                return None
            made.append(move)
        return made

    def first_allowed(self, instance: Instance, before: Nodes) -> Move | None:
        """Return the move to the first placement that is allowed; None if there is none.

        Only the first nodes of the order are tried.
        """
        mover, state, order = self._mover, self.state, self.order
        nodes, groups = mover.context.cluster.nodes, self._targets(instance)
        many = self._careful or isinstance(order, ReserveFirst)
        reach = mover.ranking.reachable(instance, groups)
        rejections: dict[Group, int] = {}  # by N+1
        candidates = (k for k in order.ranked(instance) if k in reach)
        for primary in islice(candidates, NODES_TRIED if many else PRIMARIES_TRIED):
            group = nodes[primary].group
            if rejections.get(group, 0) >= MOST_N1_REJECTIONS:
                continue
            evaluator = mover.context.evaluator(group)
            with state.trial():
                state.remove(instance, before)
                allowed: list[Nodes] = []
                if not evaluator.rejections(instance, before, [primary]):
                    allowed = [(primary,)]
                    if instance.required_nodes == 2:
                        secondaries = self._secondaries(instance, primary)
                        barred = evaluator.rejections(instance, before, secondaries, primary)
                        allowed = [(primary, k) for k in secondaries if k not in barred]
            for place in allowed:
                if not self._careful or mover.keeps_n1(instance, group, place):
                    way = mover.way(instance, place)
                    if way is not None:
                        return way
            if instance.required_nodes == 1:  # the failures of a group are the same for all nodes
                rejections[group] = rejections.get(group, 0) + bool(allowed)
        return None

    def _secondaries(self, instance: Instance, primary: int) -> list[int]:
        """Return the preferred secondaries beside `primary`: those with most memory left.

        In the order `ReserveFirst`, secondaries that must reserve the least additional memory come
        first.
        """
        state, group = self.state, self.state.cluster.nodes[primary].group
        free, reserved, peers = state.columns[MEMORY], state.reserved, state.peers
        memory = instance.memory if instance.reserves else 0

        def reserved_with(index: int) -> float:
            return peers[index].get(primary, 0) + memory

        def left(index: int) -> float:
            return max(reserved[index], reserved_with(index)) - free[index]

        reach = self._mover.ranking.reachable(instance, [group])
        others = (k for k in group.nodes if k in reach and k != primary)
        if not isinstance(self.order, ReserveFirst):
            return nsmallest(SECONDARIES_TRIED, others, left)
        if primary in self.order.lost:
            return nsmallest(SECONDARIES_TRIED, others, lambda k: -free[k])
        able = (index for index in others if reserved_with(index) < free[index])
        kept = self.order.kept
        return nsmallest(
            SECONDARIES_TRIED, able, lambda k: (max(0, reserved_with(k) - kept(k)), left(k))
        )


# Orders with a check at the end, by bounds of failures


def _checked_by_bounds(
    mover: Mover, instances: Sequence[Instance], targets: Targets
) -> tuple[list[Move] | None, int | None]:
    """Return the moves of the first order for which bounds prove at the end that N+1 is kept.

    If no order is proved, return None and the number of the order with the fewest undecided
    failures, or None if the instances fit in no order.
    """
    undecided: list[tuple[int, int]] = []
    for number, order in enumerate(_orders(mover, instances, targets)):
        with mover.context.state.trial():
            made = _Placing(mover, targets, order).place_all(instances)
            failures = [] if made is None else _undecided_failures(mover, made)
        if made is None:
            continue
        if not failures or _not_tolerated_before(mover, failures):
            return made, None
        undecided.append((len(failures), number))
    return None, min(undecided)[1] if undecided else None


def _orders(mover: Mover, instances: Sequence[Instance], targets: Targets) -> Iterator[NodeOrder]:
    """Yield the orders to try: worst fit, then best fit beside fewer and fewer spare nodes."""
    state = mover.context.state
    yield WorstFit(state, any(instance.local for instance in instances))
    groups = {group.index: group for one in instances for group in targets(one)}.values()
    before = None
    for waste in WASTES:
        spare = frozenset(
            index
            for group in groups
            if mover.context.evaluator(group).rules.mode != "off"
            for index in _spares_of(state, group, instances, waste)
        )
        if spare != before:
            yield BestFit(state, spare)
        before = spare


def _undecided_failures(mover: Mover, made: Sequence[Move]) -> list[Failure]:
    """Return the failures that must be tolerated after the moves `made`, but that bounds do not
    prove.
    """
    context = mover.context
    cluster = context.cluster
    undecided: list[Failure] = []
    groups = {cluster.nodes[move.after[0]].group for move in made}
    for group in sorted(groups, key=lambda group: group.index):
        rules = context.evaluator(group).rules
        if rules.mode == "off":
            continue
        failing = rules.failing(cluster, group, group.nodes)
        undecided += mover.tolerance(group).not_proved(failing)
    return undecided


def _not_tolerated_before(mover: Mover, failing: Sequence[Failure]) -> bool:
    """Return whether no failure in `failing` is tolerated now, so that N+1 does not require it.

    The result is False in modes that compare more than this.
    """
    cluster = mover.context.cluster
    for group in {cluster.nodes[one[0]].group for one in failing}:
        rules = mover.context.evaluator(group).rules
        if rules.requires_all or rules.exact:
            return False
        if mover.tolerance(group).tolerated([one for one in failing if one[0] in group.nodes]):
            return False
    return True


def _spares_of(
    state: State, group: Group, instances: Sequence[Instance], waste: float
) -> list[int]:
    """Return nodes of `group` that receive no instances, so that they can take over failovers.

    These are the nodes with most free memory, as many as bounds require to take over from a full
    node, if `waste` × the largest instance stays empty on each. The result is [] if only drbd
    instances fail over, because nodes keep a reserve for these.
    """
    free = state.columns[MEMORY]
    movers = {
        index: [i.memory for i in state.primaries[index].values() if not i.needs_secondary]
        for index in group.nodes
    }
    arriving = [one.memory for one in instances if not one.needs_secondary]
    largest = max((size for sizes in (arriving, *movers.values()) for size in sizes), default=0)
    left = max(free[index] + sum(movers[index]) for index in group.nodes) - largest
    spares: list[int] = []
    for index in sorted(group.nodes, key=lambda index: -free[index]):
        if left <= 0 or not largest or free[index] <= largest:
            break
        spares.append(index)
        left -= free[index] - waste * largest
    return spares


# Orders that keep N+1 by construction


def _only_failovers(state: State, group: Group) -> bool:
    """Return whether all instances of `group` fail over, and only memory and pools limit this."""
    if any(not limit.local for limit in other_limits(group, FREE_MEMORY, POOL_SPACE)):
        return False
    for node in group.nodes:
        for instance in state.primaries[node].values():
            nodes = state.where[instance.name]
            if len(nodes) < 2 or nodes[0] != node or instance.forthcoming:
                return False
    return True


@contextmanager
def _measured(mover: Mover, groups: Iterable[Group]) -> Iterator[list[FailureTolerance]]:
    """Yield the failures of each of `groups`, measured in the present state.

    Their memory is freed afterwards.
    """
    context = mover.context
    measured: list[FailureTolerance] = []
    try:
        for group in groups:
            rules = plan_rules(context.evaluator(group).rules.mode, context.affinity.relations)
            measured.append(FailureTolerance(context.state, rules, group=group))
            measured[-1].measure()
        yield measured
    finally:
        for one in measured:
            one.release()


def _reserve_first(
    mover: Mover, instances: Sequence[Instance], targets: Targets
) -> list[Move] | None:
    """Return moves of all instances, all drbd, in the order `ReserveFirst`; or None.

    A check at the end ensures that every failure is tolerated that must be, and that with
    ``no-worse`` each other failure loses at most what it lost before.
    """
    if any(one.required_nodes == 1 for one in instances):
        return None
    context = mover.context
    state = context.state
    groups = {group.index: group for one in instances for group in targets(one)}
    rules = [context.evaluator(group).rules for group in groups.values()]
    modes = {rule.mode for rule in rules}
    if len(modes) > 1 or not modes <= {"no-new", "no-worse"}:
        return None
    if not all(_only_failovers(state, group) for group in groups.values()):
        return None
    with _measured(mover, groups.values()) as before:
        lost = frozenset[int]()
        if not rules[0].exact:
            tolerated = [one for all_of in before for one in all_of.tolerated(all_of.failing())]
            kept = {node for failure in tolerated for node in failure}
            lost = frozenset(node for group in groups.values() for node in group.nodes) - kept
        for order in _reserve_orders(mover, instances, targets, lost):
            with state.trial():
                made = _Placing(mover, targets, order).place_all(instances)
                if made is not None:
                    return None if any(one.comparison.broken(ENTERED) for one in before) else made
    return None


def _reserve_orders(
    mover: Mover, instances: Sequence[Instance], targets: Targets, lost: frozenset[int]
) -> Iterator[ReserveFirst]:
    """Yield `ReserveFirst`, then `ExactFill` if the primaries can fill nodes exactly."""
    state, reachable = mover.context.state, mover.ranking.reachable
    order = ReserveFirst(state, lost)
    yield order
    reach = frozenset[int]().union(*(reachable(one, targets(one)) for one in instances))
    free = {index: order.key(index) - 1 for index in reach}
    sizes = [one.memory for one in instances if one.memory > 0]
    least = min(sizes, default=0)
    free = {index: room for index, room in sorted(free.items()) if room >= least}
    if sum(free.values()) < sum(sizes) or not sizes:
        return
    places = fill_exactly(sizes, free, mover.context.search_budget)
    if places is not None:
        yield ExactFill(state, lost, places)


def _failover_safe(
    mover: Mover, instances: Sequence[Instance], targets: Targets
) -> list[Move] | None:
    """Return moves of all instances, all on shared storage, in the order `FailoverSafe`.

    None if there are none, or if the mode of N+1 is not ``no-worse``.
    """
    if any(one.required_nodes == 2 for one in instances):
        return None
    context = mover.context
    state = context.state
    plans: dict[int, FailoverPlan] = {}
    groups = {group.index: group for one in instances for group in targets(one)}
    for group in groups.values():
        rules = context.evaluator(group).rules
        own = None
        if rules.exact and not rules.movers_stay:
            own = mover.tolerance(group).failover_plan(group)
        if own is None:
            return None
        plans[group.index] = own
    with _measured(mover, groups.values()) as before, state.trial():
        made = _Placing(mover, targets, FailoverSafe(state, plans)).place_all(instances)
        if made is not None and any(one.comparison.broken(ENTERED) for one in before):
            return None  # an exact search was given up
    return made
