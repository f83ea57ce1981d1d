"""Executing a plan on the model, step by step: no step may break a hard limit."""

from __future__ import annotations

from iallocator.filters.node import FORCED_LIMITS, PRIMARY, SECONDARY, checks_for
from iallocator.model.moves import places_after
from iallocator.scoring.view import View, capacities

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.plans.plan import PlannedMove

__all__ = ["verify"]


def verify(state: State, moves: Iterable[PlannedMove]) -> list[str]:
    """What is wrong with a plan that begins at `state`; an empty list if nothing is.

    After each elementary step every node with a new role must be online (but for the
    old primary of a failover) and within its hard limits; disks that were on the node
    before ask for nothing.  `state` is left as it is.
    """
    problems: list[str] = []
    with state.trial():
        for number, move in enumerate(moves, start=1):
            instance = move.instance
            if state.where.get(instance.name) != move.before:
                problems.append(f"move {number}: {instance.name} is not where the plan has it")
                break
            for step in move.steps:
                before = state.where[instance.name]
                after = places_after(before, [step])
                problems += (
                    f"move {number}: {instance.name}: {problem}"
                    for problem in _execute(state, instance, before, after)
                )
    return problems


def _execute(
    state: State, instance: Instance, before: tuple[int, ...], after: tuple[int, ...]
) -> Iterator[str]:
    """Carry out one step; say what is wrong then."""
    nodes = state.cluster.nodes
    state.remove(instance, before)
    empty = {index: _view(state, index) for index in after}
    state.place(instance, after)
    for role, index in enumerate(after):
        node = nodes[index]
        if before[role : role + 1] == (index,):
            continue  # it has this role already
        was_here = index in before
        if not node.online and not (was_here and role == 1):
            yield f"{node.name} is not online"
        full = _view(state, index)
        for check in checks_for(SECONDARY if role else PRIMARY, instance, FORCED_LIMITS):
            if was_here and check.local:
                continue  # its disks are there already
            if check.fails(empty[index], full, instance):
                yield f"{node.name}: {check.numbers(empty[index], full, instance)}"
    if len({nodes[index].group.index for index in after}) > 1:
        yield "its nodes are in two groups"


def _view(state: State, index: int) -> View:
    node = state.cluster.nodes[index]
    return View(state.row(index), capacities(node), state.reserved[index])
