"""Find the placement of a whole request with the lowest cost (``--optimal``).

Greedy placement puts each instance in turn on its best nodes; the result need not be the best for
all instances together. The cost is that by which the strategy ``score`` ranks a single instance:
the score, the penalties of violated soft constraints, and the penalty of a group with a less
preferred allocation policy. The search is branch and bound (`iallocator.solver.optimum`). It proves
that no placement costs less if its budget suffices.
"""

from __future__ import annotations

from functools import partial

from iallocator.deadline import Held
from iallocator.placement.groups import may_offer, ranked_by_losses
from iallocator.placement.several.joint import broken_rules, equivalence_key, places_of
from iallocator.placement.several.moves import places_of_move, taken_off, try_moves
from iallocator.scoring.candidates import ListedCandidates
from iallocator.solver.optimum import Item, Optimum, lowest_cost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context
    from iallocator.placement.results import AllocationRequest
    from iallocator.placement.several.sequence import Made, RequiredMove
    from iallocator.solver.optimum import Check, Places

__all__ = ["best_batch", "best_moves"]


def best_batch(
    context: Context, allocations: Sequence[AllocationRequest], placed: Mapping[str, Nodes]
) -> tuple[str, dict[str, Nodes]]:
    """Return the text to add to ``info``, and the best placement of all `allocations`.

    `placed`: the result of greedy placement. The new instances must not be placed on the state.
    """
    usable = (
        group
        for allocation in allocations
        for group in allocation.groups
        for online in (context.evaluator(group).online_nodes(allocation.allowed),)
        if may_offer(context, allocation, group, len(online))
    )
    obstacle = _obstacle(context, usable)
    if obstacle:
        return obstacle, dict(placed)
    for allocation in allocations:
        for group in ranked_by_losses(context, allocation):
            note = f"; no optimum: group {group.name} is ranked by lost-allocations"
            return note, dict(placed)
    named = {allocation.groups[0].index for allocation in allocations if allocation.named}
    scope: Sequence[int] = context.all_nodes()
    if len(named) == 1 and all(allocation.named for allocation in allocations):
        scope = allocations[0].groups[0].nodes
    items = [
        Item(
            allocation.instance,
            partial(places_of, context, allocation, scope),
            _kind(context, allocation.instance, allocation),
        )
        for allocation in allocations
    ]
    greedy = _as_placed(context, [allocation.instance for allocation in allocations], placed, scope)
    for allocation in allocations:
        greedy.penalty += allocation.reluctance(
            _group_at(context, placed[allocation.instance.name])
        )
    return _search(
        context,
        scope,
        items,
        greedy,
        lambda nodes: broken_rules(context, allocations, nodes) is None,
    )


def best_moves(context: Context, tasks: Sequence[RequiredMove], made: Made) -> tuple[str, Made]:
    """Return the text to add to ``info``, and the best moves of `tasks`.

    The state must be as after the moves `made`; it is not changed. There is no search if the
    instances go to several groups, because each group has its own score.
    """
    wanted = {instance.name: context.state.where[instance.name] for instance, _ in made}
    groups = {_group_at(context, nodes) for nodes in wanted.values()}
    if len(groups) != 1:
        return "; no optimum: several groups are involved", made
    obstacle = _obstacle(context, groups)
    if obstacle:
        return obstacle, made
    scope = next(iter(groups)).nodes
    moves: Made = []
    loses_more = _compared_with(context, tasks, next(iter(groups)))

    def passes(nodes: Mapping[str, Nodes]) -> bool:
        if loses_more(nodes):
            return False
        for task in tasks:
            context.state.place(task.instance, task.instance.nodes)
        moved = try_moves(context, tasks, nodes)
        for task in tasks:
            context.state.remove(task.instance, task.instance.nodes)
        if len(moved) == len(tasks):
            moves[:] = moved
        return len(moved) == len(tasks)

    items = [
        Item(task.instance, _listed(context, task, scope), _kind(context, task.instance))
        for task in tasks
    ]
    with taken_off(context, tasks):
        context.affinity.pending = set()  # rules count the instances that are placed
        greedy = _as_placed(context, [task.instance for task in tasks], wanted, scope)
        note, _ = _search(context, scope, items, greedy, passes)
    return note, moves or made


def _compared_with(
    context: Context, tasks: Sequence[RequiredMove], group: Group
) -> Callable[[Mapping[str, Nodes]], bool]:
    """Return a function that checks whether placements of `tasks` make a failure worse.

    A failure is worse if more instances or memory than now cannot be restarted after it. The
    function must be called while the instances of the tasks are not placed. It is for ``no-worse``,
    and for instances that leave a node and stay in `group`.
    """
    if not context.evaluator(group).rules.exact or context.effort.spent:
        return lambda nodes: False
    if any(context.cluster.group_of(task.instance) is not group for task in tasks):
        return lambda nodes: False  # instances from other groups are checked one by one
    state, failures = context.state, context.failures(group)
    now = failures.comparison.growth()

    def loses_more(nodes: Mapping[str, Nodes]) -> bool:
        with state.trial():
            for task in tasks:
                state.place(task.instance, nodes[task.instance.name])
            return failures.comparison.growth() > now

    return loses_more


def _search(
    context: Context,
    scope: Sequence[int],
    items: Sequence[Item],
    greedy: Optimum,
    check: Check,
) -> tuple[str, dict[str, Nodes]]:
    best = Optimum(greedy.score, greedy.penalty, greedy.nodes)
    best.proved = False
    with Held() as held:
        budget = context.budget()
        best = lowest_cost(context.state, scope, items, greedy, check, budget)
    context.interrupted |= held.asked
    penalties = greedy.penalty > 0 or best.penalty > 0
    best_score, first = (
        f"{one.score:.8f} + penalty {one.penalty:g}" if penalties else f"{one.score:.8f}"
        for one in (best, greedy)
    )
    claim = "proved lowest" if best.proved else f"lowest found {budget.ended}, not proved"
    gap = greedy.cost - best.cost
    note = f"; optimal: score {best_score}, {claim}; greedy {first}, gap {gap:.8f}"
    return note, best.nodes


def _obstacle(context: Context, groups: Iterable[Group]) -> str:
    """Return the text to add to ``info`` if a group is not ranked by score; else ""."""
    if not context.settings.behaviour.searches:
        return "; no optimum: hail looks for none"
    for group in groups:
        strategy = context.settings_of(group).strategy
        if strategy != "score":
            return f"; no optimum: group {group.name} is ranked by {strategy}, not by the score"
    return ""


def _group_at(context: Context, nodes: Nodes) -> Group:
    return context.cluster.nodes[nodes[0]].group


def _as_placed(
    context: Context,
    instances: Sequence[Instance],
    nodes: Mapping[str, Nodes],
    scope: Sequence[int],
) -> Optimum:
    """Return score and penalty of `instances`, which are not on the state, on their `nodes`."""
    penalty = 0.0
    for instance in instances:
        placed = nodes[instance.name]
        with_costs, _ = context.with_soft_costs(instance, ListedCandidates([[(0.0, placed)]], {}))
        penalty += sum(cost for cost, _ in with_costs.row(0))
        context.state.place(instance, placed)
    score = context.kernel(scope).score()
    for instance in reversed(instances):
        context.state.remove(instance, nodes[instance.name])
    return Optimum(score, penalty, nodes)


def _listed(context: Context, task: RequiredMove, scope: Sequence[int]) -> Places:
    return lambda: (place for place in places_of_move(context, task) if place[2][0] in scope)


def _kind(
    context: Context, instance: Instance, allocation: AllocationRequest | None = None
) -> tuple[object, ...]:
    """Return a key that is equal for interchangeable instances."""
    where: tuple[object, ...] = ()
    if allocation is not None:
        allowed = None if allocation.allowed is None else tuple(allocation.allowed)
        where = *(group.index for group in allocation.groups), allocation.named, allowed
    tags = tuple(instance.tags)
    return instance.shape, tags, equivalence_key(context, instance), instance.nodes, where
