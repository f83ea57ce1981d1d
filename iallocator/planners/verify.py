"""Executing a plan on the model, step by step: no step may break a hard limit."""

from __future__ import annotations

from iallocator.limits.node import FORCED_LIMITS, PRIMARY, SECONDARY, checks_for
from iallocator.model.moves import places_after
from iallocator.model.node_view import NodeView, capacities
from iallocator.planners.plan import ends_of_units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from iallocator.constraints.relations import Relations
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.planners.plan import PlannedMove

    Where = dict[str, tuple[int, ...]]

__all__ = ["verify"]


def verify(
    state: State,
    moves: Iterable[PlannedMove],
    split: bool = False,
    relations: Relations | None = None,
) -> list[str]:
    """What is wrong with a plan that begins at `state`; an empty list if nothing is.

    After each elementary step every node with a new role must be online (but for the
    old primary of a failover) and within its hard limits; disks that were on the node
    before ask for nothing.  `split`: on the way, not at the end, an instance may have its
    nodes in two groups.  After each move, of a unit after the last of its moves, every must
    of `relations` holds that held before.  `state` is left as it is.
    """
    problems: list[str] = []
    moves = list(moves)
    unit: list[PlannedMove] = []
    held = dict(state.where)
    with state.trial():
        for number, (move, last) in enumerate(zip(moves, ends_of_units(moves)), start=1):
            instance = move.instance
            if state.where.get(instance.name) != move.before:
                problems.append(f"move {number}: {instance.name} is not where the plan has it")
                break
            for left, step in zip(range(len(move.steps) - 1, -1, -1), move.steps):
                before = state.where[instance.name]
                after = places_after(before, [step])
                problems += (
                    f"move {number}: {instance.name}: {problem}"
                    for problem in _execute(state, instance, before, after, split and left > 0)
                )
            unit.append(move)
            if last and relations is not None:
                problems += (
                    f"move {number}: {one.instance.name}: must be {broken}"
                    for one in unit
                    for broken in _newly_broken(state, one, held, relations)
                )
            if last:
                unit, held = [], dict(state.where)
    return problems


def _newly_broken(state: State, move: PlannedMove, held: Where, relations: Relations) -> list[str]:
    """The musts between instances that `move`, and those made since `held`, broke."""
    name, where = move.instance.name, state.where
    was = relations.broken(name, held[name][0], held)
    now = relations.broken(name, where[name][0], where)
    return [bond.told for bond in now if bond.must and bond not in was]


def _execute(
    state: State,
    instance: Instance,
    before: tuple[int, ...],
    after: tuple[int, ...],
    split: bool = False,
) -> Iterator[str]:
    """Carry out one step; say what is wrong then."""
    nodes = state.cluster.nodes
    state.remove(instance, before)
    empty = {index: _view(state, index) for index in after}
    barred = {index: _barred(state, instance, index, index in before) for index in after}
    state.place(instance, after)
    for role, index in enumerate(after):
        node = nodes[index]
        if before[role : role + 1] == (index,):
            continue  # it has this role already
        was_here = index in before
        if not node.online and not (was_here and role == 1):
            yield f"{node.name} is not online"
        if barred[index]:
            yield f"{node.name}: {barred[index]}"
        full = _view(state, index)
        for check in checks_for(SECONDARY if role else PRIMARY, instance, FORCED_LIMITS):
            if check.pools or (was_here and check.local):
                continue  # looked at before; its disks are there already
            if check.fails(empty[index], full, instance):
                yield f"{node.name}: {check.numbers(empty[index], full, instance)}"
    if not split and len({nodes[index].group.index for index in after}) > 1:
        yield "its nodes are in two groups"


def _barred(state: State, instance: Instance, index: int, here: bool) -> str:
    """Why storage pools keep an instance that is on no node away from this one; or ""."""
    pools = state.pools
    if pools is None or not pools.bars(index, instance, here):
        return ""
    return pools.why(index, instance)


def _view(state: State, index: int) -> NodeView:
    node = state.cluster.nodes[index]
    return NodeView(state.row(index), capacities(node), state.reserved[index])
