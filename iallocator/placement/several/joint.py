"""Place new instances together by an integer program, if placing them in turn fails.

Greedy placement puts each instance in turn on its best nodes. They can be the only nodes that a
later instance fits on. An integer program places all instances at once, or as many as possible. The
solver (`iallocator.solver`) takes the linear constraints into account. Each of its answers is then
checked against all constraints, one instance after the other.
"""

from __future__ import annotations

from itertools import islice, permutations

from iallocator.constraints.rows import AffinityRows
from iallocator.deadline import LISTED, Deadline, Held
from iallocator.model.columns import MEMORY
from iallocator.model.constraints import ORDER, TOGETHER
from iallocator.placement.groups import collect_offers, may_offer, offer_of
from iallocator.placement.results import AllocationRequest
from iallocator.placement.several.sequence import JointResult
from iallocator.solver.most import Most, find_all_or_most
from iallocator.solver.placement_problem import PlacementProblem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from iallocator.aliases import Nodes
    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context
    from iallocator.placement.results import GroupSolution
    from iallocator.solver.problem import Problem


__all__ = [
    "broken_rules",
    "equivalence_key",
    "in_possible_order",
    "offer_chosen",
    "offer_exactly",
    "place_together",
    "places_of",
    "reserves",
]  # fmt: skip


def place_together(
    context: Context, allocations: Sequence[AllocationRequest], failed: Collection[str]
) -> JointResult:
    """Search for placements of all `allocations`, or of more than greedy placement has placed.

    `failed`: the names of the instances that greedy placement could not place. The state is not
    changed. Instances that cannot be placed even alone are left out from the beginning, with the
    instances that depend on them. There is no search if all of `failed` are left out.
    """
    joint = JointResult(len(allocations))
    with Held() as held:
        budget = context.budget()
        # Instances that fit nowhere even alone, and those that depend on them
        alone = {
            w.instance.name
            for w in allocations
            if not budget.must_end and collect_offers(context, w).best is None
        }
        others = [w.instance for w in allocations if w.instance.name not in alone]
        chains = context.affinity.dependents_of_failed(others, alone, ordered=True)
        joint.unschedulable = unschedulable = alone | chains.keys()
        possible = [
            allocation
            for allocation in allocations
            if allocation.instance.name not in unschedulable
        ]
        if unschedulable.issuperset(failed):
            return joint
        instances = [allocation.instance for allocation in possible]
        affinity = AffinityRows(context.affinity.relations, instances, (TOGETHER, ORDER))
        program = _program(context, possible, affinity, budget)
        if program is not None:
            priorities = {w.instance.name: affinity.priority(w.instance) for w in possible}
            joint.most = most = Most(priorities, failed)
            joint.status = find_all_or_most(
                program, lambda nodes: _checked(context, possible, joint, nodes), budget, most
            )
    joint.limit = budget.ended
    context.interrupted |= held.asked
    return joint


def _program(
    context: Context,
    allocations: Sequence[AllocationRequest],
    affinity: AffinityRows,
    budget: Deadline,
) -> Problem | None:
    """Return the integer program that places the instances of all `allocations` together.

    The variables of the program are the possible placements of each instance. The result is None if
    the time is up.
    """
    lenient = {  # nodes of groups where not all limits are enforced
        index
        for group in context.cluster.groups
        if context.evaluator(group).limit_policies.new.primary.spares
        for index in group.nodes
    }
    problem = PlacementProblem(context.state, lenient, reserves(context), constraints=[affinity])
    for allocation in allocations:
        if budget.must_end:
            return None
        listed = budget.take(places_of(context, allocation), LISTED)
        places = [(score + penalty, nodes) for score, penalty, nodes in listed]
        problem.add(
            allocation.instance,
            places,
            distinct=equivalence_key(context, allocation.instance),
            priority=affinity.priority(allocation.instance),
        )
    if budget.must_end:  # the last of them may have more places
        return None
    return problem.problem()


def places_of(
    context: Context, allocation: AllocationRequest, scope: Sequence[int] | None = None
) -> Iterator[tuple[float, float, Nodes]]:
    """Yield (score, penalty, nodes) for each placement of `allocation` in the present state.

    The penalty is that of violated soft constraints plus the reluctance to use the group. Scores
    include the nodes of `scope`, by default those of the allocation.
    """
    if scope is None:
        scope = allocation.groups[0].nodes if allocation.named else context.all_nodes()
    for group in allocation.groups:
        evaluator = context.evaluator(group, scope)
        nodes = evaluator.online_nodes(allocation.allowed)
        if not may_offer(context, allocation, group, len(nodes)):
            continue
        reluctance = allocation.reluctance(group)
        candidates = evaluator.candidates(allocation.instance, "new", (), nodes)
        with_costs, scores = context.with_soft_costs(allocation.instance, candidates)
        for rank, nodes_taken in with_costs.everything():
            cost: float = rank
            score = scores.get(nodes_taken, cost)
            yield score, cost - score + reluctance, nodes_taken


def equivalence_key(context: Context, instance: Instance) -> tuple[Any, ...]:
    """Return the tags and keys of an instance that a strategy uses.

    Instances of equal size and equal key are interchangeable.
    """
    if context.settings.strategy == "score" and not context.settings.by_group:
        return ()
    prefix = context.settings.tag_prefix
    keys = (*instance.placement_keys, *instance.asked_keys)
    return (
        *(tag for tag in instance.tags if tag.startswith(prefix)),
        *((key.level, key.system, key.name, key.value, key.weight) for key in keys),
    )


def broken_rules(
    context: Context, allocations: Sequence[AllocationRequest], nodes: Mapping[str, Nodes]
) -> list[str] | None:
    """Check placements in turn; return the first instance that fails, and those placed before it.

    The result is None if no instance fails. `nodes`: name of an instance -> its nodes. Allocations
    that are not in `nodes` are skipped.
    """
    return _tried_out(context, allocations, nodes)[1]


def in_possible_order(
    context: Context, allocations: Sequence[AllocationRequest], nodes: Mapping[str, Nodes]
) -> list[str]:
    """Return the names of the instances of `nodes` in an order in which they can be placed.

    The order is that of `allocations` if possible. Instances that cannot be placed are left out.
    """
    return [instance.name for instance in _tried_out(context, allocations, nodes)[0]]


MOST_ORDERED = 4
"""The largest number of instances of which all orders are tried, if the order matters."""


def _tried_out(
    context: Context, allocations: Sequence[AllocationRequest], nodes: Mapping[str, Nodes]
) -> tuple[list[Instance], list[str] | None]:
    """Try placements in turn, and in other orders if the order matters; return what fits.

    Return the instances that fit, in an order in which they fit, and names of instances that do not
    fit together; None if all fit. An instance that does not fit is skipped.
    """
    wanted = [one for one in allocations if one.instance.name in nodes]
    found = placed, broken = _placed_in_turn(context, wanted, nodes)
    if broken is None or not _order_matters(context, nodes):
        return found
    if len(wanted) <= MOST_ORDERED:
        for order in islice(permutations(wanted), 1, None):
            placed, broken = _placed_in_turn(context, order, nodes)
            if broken is None:
                return placed, None
    else:  # an instance that does not fit after others may fit before them
        for _ in range(len(wanted)):
            late = [one for one in wanted if one.instance.name == broken[-1]]
            wanted = [*late, *(one for one in wanted if one not in late)]
            placed, broken = _placed_in_turn(context, wanted, nodes)
            if broken is None:
                return placed, None
    return found[0], [one.instance.name for one in wanted]


def _order_matters(context: Context, nodes: Mapping[str, Nodes]) -> bool:
    """Return whether the order in which instances are placed on `nodes` matters.

    If a node has less memory than it reserves for failovers, its reserve is not checked. It
    accepts a secondary that its free memory can take now, but not after more primaries.
    """
    several = (index for some in nodes.values() if len(some) > 1 for index in some)
    return any(map(context.state.fails_n1, several))


def _placed_in_turn(
    context: Context, allocations: Iterable[AllocationRequest], nodes: Mapping[str, Nodes]
) -> tuple[list[Instance], list[str] | None]:
    """Try placements in turn; return the instances that fit, and the first failure.

    The second result is the names of the first instance that fails and of those placed before it;
    None if no instance fails. An instance that fails is skipped.
    """
    state = context.state
    placed: list[Instance] = []
    broken: list[str] | None = None
    try:
        for allocation in allocations:
            instance = allocation.instance
            if offer_exactly(context, allocation, nodes[instance.name]).placements:
                state.place(instance, nodes[instance.name])
                placed.append(instance)
            elif broken is None:
                broken = [*(one.name for one in placed), instance.name]
    finally:
        for instance in reversed(placed):
            state.remove(instance, nodes[instance.name])
    return placed, broken


def _checked(
    context: Context,
    allocations: Sequence[AllocationRequest],
    joint: JointResult,
    nodes: Mapping[str, Nodes],
) -> list[str] | None:
    """Check the placements `nodes` in turn; offer the instances that fit to the search of `joint`.

    Return names of instances that do not fit together, or None if all fit.
    """
    most = joint.most
    placed, broken = _tried_out(context, allocations, nodes)
    if broken is not None and most is not None:
        if len(nodes) > MOST_ORDERED and _order_matters(context, nodes):
            joint.doubtful = True
        names = {instance.name for instance in placed}
        failed = {allocation.instance.name for allocation in allocations} - names
        chains = context.affinity.dependents_of_failed(placed, failed, ordered=True)
        some = {name: nodes[name] for name in nodes if name in names and name not in chains}
        if most.better(some) and broken_rules(context, allocations, some) is None:
            most.offer(some)
    return broken


def offer_exactly(context: Context, allocation: AllocationRequest, nodes: Nodes) -> GroupSolution:
    """Return the offer of a group if `allocation` is placed on exactly `nodes`."""
    group = context.cluster.nodes[nodes[0]].group
    scope = group.nodes if allocation.named else context.all_nodes()
    return offer_of(context, allocation, context.evaluator(group, scope), only=nodes)


def offer_chosen(context: Context, allocation: AllocationRequest, nodes: Nodes) -> GroupSolution:
    """Return the offer of a group for exactly `nodes`.

    For shared storage, the offer includes the nodes to which the instance could fail over.
    """
    offer = offer_exactly(context, allocation, nodes)
    if offer.placements and offer.secondaries is not None:
        group = context.cluster.nodes[nodes[0]].group
        in_group = AllocationRequest(
            allocation.instance, [group], allocation.named, allocation.allowed, counted=False
        )
        whole = collect_offers(context, in_group).best
        if whole is not None:
            names = [*whole.placements[0][1], *(whole.secondaries or ())]
            offer.secondaries = [name for name in names if name not in offer.placements[0][1]]
    return offer


def reserves(context: Context) -> dict[int, float]:
    """Return group index -> MiB of memory that the group can give and still keep N+1.

    When a node fails, the other nodes must have the memory for all its instances. Each new instance
    in the group uses memory of the group, on whichever node it is.
    """
    state, by_group = context.state, {}
    for group in context.cluster.groups:
        evaluator = context.evaluator(group, context.all_nodes())
        rules = evaluator.rules
        if rules.mode == "off":
            continue
        targets = rules.targets(context.cluster, group)
        failing = rules.failing(context.cluster, group, context.all_nodes())
        tolerance = evaluator.scope.tolerance(rules)
        free = {node: max(0, state.columns[MEMORY][node]) for node in targets}
        total = sum(free.values())
        spare = [
            total
            - sum(free[node] for node in failure)
            - sum(i.memory for n in failure for i in state.primaries[n].values() if i.uses_memory)
            for failure in tolerance.tolerated([one for one in failing if free.keys() >= set(one)])
        ]
        if spare:
            by_group[group.index] = min(spare)
    return by_group
