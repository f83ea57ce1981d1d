"""Whether all of a group find room in others, without comparing places: to where most room is.

An answer costs about as much as its moves.  The best of equal places is of use only to the group
that is emptied in the end; of all others it is asked whether there are any.

Where few instances fill a node, best fit wastes memory: then an integer program fills the nodes
exactly (`iallocator.packing.patterns`).

Of drbd instances, what fails over to one node asks nothing of the others.  So a failure loses no
more than before if each secondary that cannot take all it is asked to was asked by the same
instances before, and had no more room.
"""

from __future__ import annotations

from itertools import islice

from iallocator.limits.migration import may_not_receive
from iallocator.limits.node import FREE_MEMORY, POOL_SPACE, other_limits
from iallocator.model.columns import MEMORY
from iallocator.n1.bounds import TargetCapacity, check_bounds, demand_of
from iallocator.n1.rules import SAFE
from iallocator.packing.patterns import fill_exactly
from iallocator.planners.intergroup.packing.node_order import (
    Fullest,
    Guarded,
    Planned,
    Roomiest,
    Solvent,
)
from iallocator.planners.intergroup.packing.placing import Placing, undo
from iallocator.planners.intergroup.packing.refuges import refuges_of
from iallocator.planners.survival import CAME, Survival

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.planners.intergroup.moving import Mover
    from iallocator.planners.intergroup.packing.node_order import NodeOrder
    from iallocator.planners.intergroup.packing.placing import Made, Targets
    from iallocator.planners.intergroup.packing.refuges import Refuges

__all__ = ["no_weaker", "pack", "weak_mirrors"]

if TYPE_CHECKING:
    Weak = dict[tuple[int, int], tuple[frozenset[str], float]]

    """(node that fails, mirror) -> who fails over there, and the MiB that are free."""


def weak_mirrors(state: State, nodes: Iterable[int]) -> Weak | None:
    """The mirrors that could not take over from `nodes`; None if these hold other than drbd.

    Whoever fails over needs the memory, and a node that is online and that migration tags let it
    come to.  Cost: the primaries of `nodes`.
    """
    found: Weak = {}
    for node in nodes:
        group = state.cluster.nodes[node].group
        if any(not limit.local for limit in other_limits(group, FREE_MEMORY, POOL_SPACE)):
            return None
        asked: dict[int, list[Instance]] = {}
        for instance in state.primaries[node].values():
            places = state.where[instance.name]
            if len(places) < 2 or places[0] != node or instance.forthcoming:
                return None
            asked.setdefault(places[1], []).append(instance)
        rejected = may_not_receive(state.cluster, node, list(asked))
        for mirror, instances in asked.items():
            free = state.columns[MEMORY][mirror]
            need = sum(one.memory for one in instances if one.uses_memory)
            online = state.cluster.nodes[mirror].online
            if mirror in rejected or not online or free <= need:
                found[node, mirror] = frozenset(one.name for one in instances), free
    return found


def no_weaker(before: Weak, after: Weak) -> bool:
    """Whether no failure loses more `after` than `before`, as both tell of the same nodes."""
    return all(
        key in before and before[key][0] == names and before[key][1] <= free
        for key, (names, free) in after.items()
    )


WASTES = (1, 0.5, 0)
"""How much of a spare node is taken to stay empty, in the largest instance."""


def pack(
    mover: Mover, instances: Sequence[Instance], targets: Targets, careful: bool = True
) -> Made | None:
    """Moves of all `instances`, made on the state of `mover`; None if that was not found.

    Then the state is as before.  Each goes to where most room is left of what is scarcest, or
    in a second try to where least will do.  Limits, and the steps that lead there, are asked of
    each; N+1 once in the end, where sums tell that the failures which must be survived are: with
    all there, and so with some.  Where they do not tell, it is asked of each place in another
    try, if `careful`.  Mirrored instances find room, too, where nobody's failure asks for it
    (`_solvent`): that is tried last, or first where the moves are of no interest, if not `careful`.
    So do those on shared storage (`_guarded`), where there are many.
    """
    if not _suits(mover, instances):
        return None
    if not careful:
        made = _solvent(mover, instances, targets)
        if made is None:
            made = _guarded(mover, instances, targets)
        return made if made is not None else _summed(mover, instances, targets)[0]
    made, order = _summed(mover, instances, targets)
    if made is None and mover.ranking.twins:  # asking N+1 of each place takes long
        made = _guarded(mover, instances, targets)
    if made is None and order is not None:
        rooms = next(islice(_orders(mover, instances, targets), order, None))
        made = Placing(mover, instances, rooms, careful=True).run(targets)
    return made if made is not None else _solvent(mover, instances, targets)


def _summed(
    mover: Mover, instances: Sequence[Instance], targets: Targets
) -> tuple[Made | None, int | None]:
    """The moves of all, if sums tell in the end that N+1 holds; else the order to ask it in.

    That is the one with fewest doubts; None where nobody's order has room for all.
    """
    doubts: list[tuple[int, int]] = []
    for number, rooms in enumerate(_orders(mover, instances, targets)):
        made = Placing(mover, instances, rooms).run(targets)
        if made is None:
            continue
        doubtful = _doubtful(mover, made)
        if not doubtful:
            return made, None
        undo(mover, made)
        if _lost_already(mover, doubtful):
            for instance, _, move in made:
                mover.apply(instance, move)
            return made, None
        doubts.append((len(doubtful), number))
    return None, min(doubts)[1] if doubts else None


def _solvent(mover: Mover, instances: Sequence[Instance], targets: Targets) -> Made | None:
    """Moves of all, made: nobody takes what a node keeps for a failover, mirrors keep it too.

    So every failure that must be survived is, and with ``no-worse`` every other one loses what it
    lost before, at most; that is held to in the end.  None, and the state as before, where not all
    find room, or N+1 is about others than mirrored instances.
    """
    if any(one.required_nodes == 1 for one in instances):
        return None
    context = mover.context
    state, nodes = context.state, context.cluster.nodes
    groups = {group.index: group for one in instances for group in targets(one)}
    rules = [context.evaluator(group).rules for group in groups.values()]
    modes = {rule.mode for rule in rules}
    if len(modes) > 1 or not modes <= {"no-new", "no-worse"}:
        return None
    before: Weak = {}
    for group in groups.values():
        weak = weak_mirrors(state, group.nodes)
        if weak is None:
            return None
        before |= weak
    lost = frozenset[int]() if rules[0].exact else frozenset(node for node, _ in before)
    rooms = Solvent(state, lost)
    made = Placing(mover, instances, rooms).run(targets)
    if made is None:
        made = _planned(mover, instances, targets, rooms)
    touched = {nodes[index].group.index for _, _, move in made or () for index in move.nodes}
    asking = [n for k in touched for n in groups[k].nodes if n not in lost]
    after = weak_mirrors(state, asking)
    if made is not None and (after is None or not no_weaker(before, after)):
        undo(mover, made)
        return None
    return made


def _planned(
    mover: Mover, instances: Sequence[Instance], targets: Targets, rooms: Solvent
) -> Made | None:
    """The same where all primaries have room if that is filled exactly; None otherwise."""
    reachable = mover.ranking.reachable
    reach = frozenset[int]().union(*(reachable(one, targets(one)) for one in instances))
    free = {index: rooms.key(index) - 1 for index in reach}
    sizes = [one.memory for one in instances if one.memory > 0]
    least = min(sizes, default=0)
    free = {index: room for index, room in sorted(free.items()) if room >= least}
    if sum(free.values()) < sum(sizes) or not sizes:
        return None

    places = fill_exactly(sizes, free, mover.context.search_budget)
    if places is None:
        return None
    order = Planned(mover.context.state, rooms.lost, places)
    return Placing(mover, instances, order).run(targets)


def _guarded(mover: Mover, instances: Sequence[Instance], targets: Targets) -> Made | None:
    """Moves of all, made: nobody takes what somebody needs when a node fails; see `refuges`.

    None, and the state as before, where not all find room, or others are moved than instances on
    shared storage, judged by ``no-worse``.
    """
    if any(one.required_nodes == 2 for one in instances):
        return None
    context = mover.context
    state, relations = context.state, context.bonds.relations
    refuges: dict[int, Refuges] = {}
    before: list[Survival] = []
    for group in {group.index: group for one in instances for group in targets(one)}.values():
        rules = context.evaluator(group).rules
        own = refuges_of(state, group, rules) if rules.exact and not rules.movers_stay else None
        if own is None:
            return None
        refuges[group.index] = own
        before.append(Survival(state, group, rules.mode, relations))
    made = Placing(mover, instances, Guarded(state, refuges)).run(targets)
    if made is not None and any(one.lost(state, CAME) for one in before):  # a search gave up
        undo(mover, made)
        return None
    return made


def _orders(mover: Mover, instances: Sequence[Instance], targets: Targets) -> Iterator[NodeOrder]:
    """What is tried: even loads, then full nodes beside spare ones, as many as seem needed."""
    state = mover.context.state
    yield Roomiest(state, any(instance.local for instance in instances))
    before = None
    for waste in WASTES:
        spare = _spares(mover, instances, targets, waste)
        if spare != before:
            yield Fullest(state, spare)
        before = spare


def _suits(mover: Mover, instances: Sequence[Instance]) -> bool:
    """Whether nobody's place depends on where single others are."""
    return mover.context.plain and not any(i.exclusion or i.desired for i in instances)


def _doubtful(mover: Mover, made: Made) -> list[int]:
    """The failures that must be survived, and of which sums do not tell that they are."""
    context = mover.context
    state, cluster = context.state, context.cluster
    found: list[int] = []
    groups = {cluster.nodes[move.nodes[0]].group for _, _, move in made}
    for group in sorted(groups, key=lambda group: group.index):
        rules = context.evaluator(group).rules
        if rules.mode == "off":
            continue
        targets = rules.targets(cluster, group)
        room = TargetCapacity(state, targets) if targets else None
        for node in rules.failing(cluster, group, group.nodes):
            demand = demand_of(state, node, rules)
            if check_bounds(state, node, demand, rules, targets, room)[0] != SAFE:
                found.append(node)
    return found


def _lost_already(mover: Mover, failing: Sequence[int]) -> bool:
    """Whether none of these failures is survived as the state is, and that is all that counts."""
    cluster = mover.context.cluster
    for group in {cluster.nodes[node].group for node in failing}:
        rules = mover.context.evaluator(group).rules
        if rules.strict or rules.exact:
            return False
        if mover.judge(group).survivable([node for node in failing if node in group.nodes]):
            return False
    return True


def _spares(
    mover: Mover, instances: Sequence[Instance], targets: Targets, waste: float
) -> frozenset[int]:
    """Nodes that stay as they are, so that what must move when a node fails finds room there.

    In each group the roomiest, until sums tell that they take all that a full node holds.
    """
    context = mover.context
    found: list[int] = []
    for group in {group.index: group for one in instances for group in targets(one)}.values():
        if context.evaluator(group).rules.mode != "off":
            found += _spares_of(context.state, group, instances, waste)
    return frozenset(found)


def _spares_of(
    state: State, group: Group, instances: Sequence[Instance], waste: float
) -> list[int]:
    """Those of one group; none where drbd alone fails over, which has its reserve anyway."""
    free = state.columns[MEMORY]
    movers = {
        index: [i.memory for i in state.primaries[index].values() if i.template != "drbd"]
        for index in group.nodes
    }
    arriving = [one.memory for one in instances if one.template != "drbd"]
    largest = max((size for sizes in (arriving, *movers.values()) for size in sizes), default=0)
    left = max(free[index] + sum(movers[index]) for index in group.nodes) - largest
    found: list[int] = []
    for index in sorted(group.nodes, key=lambda index: -free[index]):
        if left <= 0 or not largest or free[index] <= largest:
            break
        found.append(index)
        left -= free[index] - waste * largest
    return found
