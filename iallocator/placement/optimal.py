"""``--optimal``: the placement of a whole request with the lowest score, proved where time allows.

Placing greedily takes the best place for each instance in turn, which need not be best
for all together.
"""

from __future__ import annotations

from iallocator.placement.joint import broken_rules, places_of, told_apart
from iallocator.solver.optimum import Item, Optimum, lowest_score
from iallocator.solver.refine import Deadline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context
    from iallocator.placement.groups import AllocationRequest
    from iallocator.placement.move_all import Made, MoveTask, Nodes
    from iallocator.solver.optimum import Places

__all__ = ["best_batch", "best_moves", "told"]


def best_batch(
    context: Context, wishes: Sequence[AllocationRequest], placed: Mapping[str, Nodes]
) -> tuple[Optimum, Optimum]:
    """What placing greedily came to, and the best; the new instances are off the state."""
    named = {wish.groups[0].index for wish in wishes if wish.named}
    scope: Sequence[int] = context.all_nodes()
    if len(named) == 1 and all(wish.named for wish in wishes):
        scope = wishes[0].groups[0].nodes
    for wish in wishes:
        context.state.place(wish.instance, placed[wish.instance.name])
    greedy = Optimum(context.kernel(scope).score(), placed)
    for wish in reversed(wishes):
        context.state.remove(wish.instance, placed[wish.instance.name])
    items = [
        Item(wish.instance, _wished(context, wish, scope), _kind(context, wish.instance, wish))
        for wish in wishes
    ]
    best = lowest_score(
        context.state,
        scope,
        items,
        greedy,
        lambda nodes: broken_rules(context, wishes, nodes) is None,
        Deadline(context.settings.search_seconds),
    )
    return greedy, best


def _wished(context: Context, wish: AllocationRequest, scope: Sequence[int]) -> Places:
    return lambda: places_of(context, wish, scope)


def _kind(
    context: Context, instance: Instance, wish: AllocationRequest | None = None
) -> tuple[object, ...]:
    """Equal for instances that can be exchanged: alike, in one place, with one wish."""
    where: tuple[object, ...] = ()
    if wish is not None:
        allowed = None if wish.allowed is None else tuple(wish.allowed)
        where = *(group.index for group in wish.groups), wish.named, allowed
    tags = tuple(instance.tags)
    return instance.shape, tags, told_apart(context, instance), instance.nodes, where


def told(greedy: Optimum, best: Optimum) -> str:
    """What to add to ``info``."""
    gap = greedy.score - best.score
    claim = "proved lowest" if best.proved else "lowest found in the time, not proved"
    return f"; optimal: score {best.score:.8f}, {claim}; greedy {greedy.score:.8f}, gap {gap:.8f}"


def best_moves(
    context: Context, tasks: Sequence[MoveTask], made: Made
) -> tuple[Optimum, Optimum, Made] | None:
    """What moving greedily came to, the best, and its moves; the state is as after `made`.

    None where the instances are not all of one group and go to one group: then there is
    no one score to lower.
    """
    from iallocator.placement.joint_moves import try_moves

    state = context.state
    wanted = {instance.name: state.where[instance.name] for instance, _ in made}
    nodes = context.cluster.nodes
    groups = {nodes[places[0]].group for places in wanted.values()}
    if len(groups) != 1:
        return None
    scope = next(iter(groups)).nodes
    greedy = Optimum(context.kernel(scope).score(), wanted)
    _clear(context, tasks)
    moves: Made = []

    def passes(taken: Mapping[str, Nodes]) -> bool:
        for task in tasks:
            state.place(task.instance, task.instance.nodes)
        found = try_moves(context, tasks, taken)
        _clear(context, tasks)
        if len(found) == len(tasks):
            moves[:] = found
        return len(found) == len(tasks)

    items = [Item(task.instance, task.places, _kind(context, task.instance)) for task in tasks]
    deadline = Deadline(context.settings.search_seconds)
    best = lowest_score(state, scope, items, greedy, passes, deadline)
    for task in tasks:
        state.place(task.instance, wanted[task.instance.name])
    return greedy, best, moves or made


def _clear(context: Context, tasks: Sequence[MoveTask]) -> None:
    """Take the instances off the state."""
    for task in tasks:
        context.state.remove(task.instance, context.state.where[task.instance.name])
