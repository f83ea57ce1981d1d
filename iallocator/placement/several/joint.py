"""New instances placed together by exact search, where one after the other did not do.

Placing greedily takes the best place for each instance in turn; what it takes may be the
only place of a later one.  Here all are placed at once, or as many as possible: what is
linear is left to the solver (`iallocator.solver`), and its answer is tried out by the
rules that count for any placement.
"""

from __future__ import annotations

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
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from typing import Any

    from iallocator.aliases import Nodes
    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context
    from iallocator.placement.results import GroupSolution
    from iallocator.solver.problem import Problem


__all__ = [
    "broken_rules",
    "equivalence_key",
    "offer_chosen",
    "offer_exactly",
    "place_together",
    "places_of",
    "reserves",
]  # fmt: skip


def place_together(
    context: Context, allocations: Sequence[AllocationRequest], failed: Collection[str]
) -> JointResult:
    """Find a place for every allocation, or for more than all but `failed`, as the state is now.

    The state is left so.  Those that have no place even if they come alone, and those that
    depend on them, are left out from the beginning; nothing is searched if no others failed.
    """
    found = JointResult(len(allocations))
    with Held() as held:
        budget = context.budget()
        # Instances that fit nowhere even alone, and those that depend on them
        alone = {
            w.instance.name
            for w in allocations
            if not budget.must_end and collect_offers(context, w).best is None
        }
        others = [w.instance for w in allocations if w.instance.name not in alone]
        chains = context.bonds.dependents_of_failed(others, alone, ordered=True)
        found.hopeless = hopeless = alone | chains.keys()
        possible = [
            allocation for allocation in allocations if allocation.instance.name not in hopeless
        ]
        if hopeless.issuperset(failed):
            return found
        instances = [allocation.instance for allocation in possible]
        affinity = AffinityRows(context.bonds.relations, instances, (TOGETHER, ORDER))
        program = _program(context, possible, affinity, budget)
        if program is not None:
            priorities = {w.instance.name: affinity.priority(w.instance) for w in possible}
            found.most = most = Most(priorities, failed)
            found.status = find_all_or_most(
                program, lambda nodes: _checked(context, possible, most, nodes), budget, most
            )
    found.limit = budget.ended
    context.interrupted |= held.asked
    return found


def _program(
    context: Context,
    allocations: Sequence[AllocationRequest],
    affinity: AffinityRows,
    budget: Deadline,
) -> Problem | None:
    """The places of all allocations and the bounds that they share; None if there is no time."""
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
        places = [(score + price, nodes) for score, price, nodes in listed]
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
    """Yield each place of `allocation` if nothing else comes: score over `scope`, price, nodes.

    The price is what it breaks of what it should do, and the reluctance to use its group.
    Without a `scope` it is that of an allocation.
    """
    if scope is None:
        scope = allocation.groups[0].nodes if allocation.named else context.all_nodes()
    for group in allocation.groups:
        evaluator = context.evaluator(group, scope)
        nodes = evaluator.online_nodes(allocation.allowed)
        if not may_offer(context, allocation, group, len(nodes)):
            continue
        reluctance = allocation.reluctance(group)
        found = evaluator.candidates(allocation.instance, "new", (), nodes)
        dear, scores = context.bonds.with_soft_costs(allocation.instance, found)
        for rank, taken in dear.everything():
            cost: float = rank
            score = scores.get(taken, cost)
            yield score, cost - score + reluctance, taken


def equivalence_key(context: Context, instance: Instance) -> tuple[Any, ...]:
    """What a strategy sees in an instance beside its size: our tags, and the keys asked for."""
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
    """Try the places out, one after the other; the first that fails, and who was there before.

    Wishes without a place are passed over.
    """
    return _tried_out(context, allocations, nodes)[1]


def _tried_out(
    context: Context, allocations: Sequence[AllocationRequest], nodes: Mapping[str, Nodes]
) -> tuple[list[Instance], list[str] | None]:
    """Who can be placed, whoever fails being passed over; and what `broken_rules` says."""
    state = context.state
    placed: list[Instance] = []
    broken: list[str] | None = None
    try:
        for allocation in allocations:
            instance = allocation.instance
            if instance.name not in nodes:
                continue
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
    most: Most,
    nodes: Mapping[str, Nodes],
) -> list[str] | None:
    """The same as `broken_rules`; those that can be placed are offered to `most`."""
    placed, broken = _tried_out(context, allocations, nodes)
    if broken is not None:
        names = {instance.name for instance in placed}
        failed = {allocation.instance.name for allocation in allocations} - names
        chains = context.bonds.dependents_of_failed(placed, failed, ordered=True)
        some = {name: nodes[name] for name in nodes if name in names and name not in chains}
        if most.better(some) and broken_rules(context, allocations, some) is None:
            most.offer(some)
    return broken


def offer_exactly(context: Context, allocation: AllocationRequest, nodes: Nodes) -> GroupSolution:
    """What the group of `nodes` offers if `allocation` is to go to just these."""
    group = context.cluster.nodes[nodes[0]].group
    scope = group.nodes if allocation.named else context.all_nodes()
    return offer_of(context, allocation, context.evaluator(group, scope), only=nodes)


def offer_chosen(context: Context, allocation: AllocationRequest, nodes: Nodes) -> GroupSolution:
    """The same, with the other nodes that an instance on shared storage could be on."""
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
    """Group index -> MiB that it can give before some failure can no longer be survived.

    When a node fails, all memory of its instances must be found on the other nodes that
    may take over; whatever is placed in the group comes off that, wherever it goes.
    """
    state, found = context.state, {}
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
            found[group.index] = min(spare)
    return found
