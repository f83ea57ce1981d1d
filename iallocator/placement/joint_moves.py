"""Existing instances moved together by exact search, where one after the other did not do.

All of them are taken off at once, the solver finds a place for each, and the moves are
tried out one by one, whichever can be made next.
"""

from __future__ import annotations

from iallocator.limits.node import ALL_LIMITS
from iallocator.model.moves import apply_steps
from iallocator.placement.joint import JointResult, told_apart
from iallocator.placement.joint_affinity import BondRows
from iallocator.solver.placement_problem import PlacementProblem
from iallocator.solver.problem import FOUND, IMPOSSIBLE, TIME_OUT
from iallocator.solver.refine import Deadline, search

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context
    from iallocator.placement.move_all import Made, MoveTask, Nodes
    from iallocator.solver.problem import Problem

__all__ = ["MovedTogether", "move_together", "try_moves"]


class MovedTogether(JointResult):
    """What came of moving instances together.

    ``moves`` are the outcomes, in an order in which they can be made; ``hopeless`` are
    those that have no place whatever the others do, and were left out.
    """

    __slots__ = ("hopeless", "moves")

    def __init__(self, status: str, hopeless: Sequence[Instance], moves: Made) -> None:
        super().__init__(status)
        self.hopeless = hopeless
        self.moves = moves


def move_together(
    context: Context, tasks: Sequence[MoveTask], failed: Sequence[Instance]
) -> MovedTogether:
    """Find a place for every task that can have one at all; the state is left as it is.

    No search is made if all that `failed` before are hopeless.
    """
    deadline = Deadline(context.settings.search_seconds)
    problem, hopeless = _problem(context, tasks, deadline)
    if deadline.left <= 0:
        return MovedTogether(TIME_OUT, [], [])
    if all(instance in hopeless for instance in failed):
        found = MovedTogether(IMPOSSIBLE, hopeless, [])
        found.alone = hopeless[0].name
        return found
    possible = [task for task in tasks if task.instance not in hopeless]
    moves: Made = []

    def broken(nodes: Mapping[str, Nodes]) -> list[str] | None:
        moves[:] = try_moves(context, possible, nodes)
        return None if len(moves) == len(possible) else [task.instance.name for task in possible]

    answer = search(problem, broken, deadline)
    return MovedTogether(answer.status, hopeless, moves if answer.status == FOUND else [])


def _problem(
    context: Context, tasks: Sequence[MoveTask], deadline: Deadline
) -> tuple[Problem, list[Instance]]:
    """All instances off their nodes, each with its places; and those that have none."""
    state = context.state
    forced = any(_may_be_forced(context, task.instance) for task in tasks)
    present = {task.instance.name: state.where[task.instance.name] for task in tasks}
    for task in tasks:
        state.remove(task.instance, present[task.instance.name])
    problem = PlacementProblem(state, forced)
    bonds = BondRows(context, [task.instance for task in tasks])
    context.bonds.pending = {task.instance.name for task in tasks}
    hopeless: list[Instance] = []
    for task in tasks:
        places = _bound(context, task.instance, task.places()) if deadline.left > 0 else []
        if places:
            problem.add(
                task.instance,
                places,
                needs=bonds.needs(task.instance, [nodes for _, nodes in places]),
                distinct=told_apart(context, task.instance),
            )
        else:
            hopeless.append(task.instance)
    program = problem.problem()
    bonds.bound(program)
    for task in reversed(tasks):
        state.place(task.instance, present[task.instance.name])
    context.bonds.pending = set()
    return program, hopeless


def _may_be_forced(context: Context, instance: Instance) -> bool:
    """Whether less than all limits count when `instance` moves, into whichever group."""
    source = context.cluster.nodes[instance.nodes[0]]
    evaluators = map(context.evaluator, context.cluster.groups)
    return any(one.motions.off(source).primary is not ALL_LIMITS for one in evaluators)


def _bound(
    context: Context, instance: Instance, places: Iterable[tuple[float, Nodes]]
) -> list[tuple[float, Nodes]]:
    """Those of `places` that the bonds of `instance` to what stays allow."""
    found = list(places)
    refused = context.bonds.refused(instance, {nodes[0] for _, nodes in found})
    return [place for place in found if place[1][0] not in refused]


def try_moves(context: Context, tasks: Sequence[MoveTask], nodes: Mapping[str, Nodes]) -> Made:
    """Make the moves, whichever can be made next, until none can; then take them back."""
    state = context.state
    present = {task.instance.name: state.where[task.instance.name] for task in tasks}
    made: Made = []
    waiting = list(tasks)
    context.bonds.pending = {task.instance.name for task in tasks}
    while waiting:
        for task in waiting:
            outcome = task.exactly(nodes[task.instance.name])
            if outcome.best is not None:
                apply_steps(state, task.instance, outcome.best.steps)
                made.append((task.instance, outcome))
                waiting.remove(task)
                context.bonds.pending.discard(task.instance.name)
                break
        else:
            break
    context.bonds.pending = set()
    for instance, _ in reversed(made):
        state.remove(instance, state.where[instance.name])
        state.place(instance, present[instance.name])
    return made
