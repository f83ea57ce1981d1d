"""Moving several instances: one after the other, and where that fails all at once."""

from __future__ import annotations

from iallocator.deadline import TIME_IS_UP, TimeIsUp
from iallocator.model.moves import apply_steps
from iallocator.placement.moves import with_nearest
from iallocator.placement.results import MoveResult
from iallocator.placement.several.least_growth import least_growth, told
from iallocator.placement.several.moves import move_most
from iallocator.placement.several.sequence import in_turn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context
    from iallocator.placement.several.move_task import Made, MoveTask


__all__ = ["move_all"]


def move_all(context: Context, tasks: Sequence[MoveTask]) -> tuple[str, Made]:
    """Carry out the tasks on the state: what to add to ``info``, and every outcome.

    Each instance takes the best place that is left.  If some find none, an exact search
    may find places for all that can have one; the moves are then in an order in which
    they can be made.
    """
    for task in tasks:
        group = context.cluster.nodes[task.instance.nodes[0]].group
        if context.evaluator(group).rules.exact:
            context.growth(group)  # made of the state before it is changed
    made = _without_separated(context, _in_turn(context, tasks))
    failed = [instance for instance, outcome in made if outcome.best is None]
    note = ""
    homes = map(context.cluster.group_of, failed)
    searches = bool(failed) and len(tasks) > 1 and context.searches_for(homes)
    if searches and not context.deadline.over():
        note, made = _at_once(context, tasks, made, failed)
    note += _losing_least(context, tasks, made)
    if context.settings.optimal:
        optimum, made = _at_best(context, tasks, made)
        note += optimum
    return note, made


def _losing_least(context: Context, tasks: Sequence[MoveTask], made: Made) -> str:
    """Have those that stay in their group go where failures lose least; what to add to ``info``.

    Changes `made`, and the state accordingly.
    """
    staying: dict[Group, list[MoveTask]] = {}
    moved = {i.name for i, outcome in made if outcome.best is not None}
    for task in tasks:
        if task.instance.name not in moved:
            continue
        now, before = (
            context.cluster.nodes[nodes[0]].group
            for nodes in (context.state.where[task.instance.name], task.instance.nodes)
        )
        if now is before and context.evaluator(now).rules.exact:
            staying.setdefault(now, []).append(task)
    if not staying:
        return ""

    proved, note = [], ""
    for group, chosen in staying.items():
        certain, moves = least_growth(context, group, chosen)
        proved += [group] if certain else []
        if moves:
            for task in chosen:
                _put(context, task.instance, task.instance.nodes)
            _carry_out(context, chosen, moves)
            names = {instance.name for instance, _ in moves}
            made[:] = [*moves, *(one for one in made if one[0].name not in names)]
            note = "; placed together by exact search, so that failures lose least"
    return note + told(context, staying, proved)


def _at_best(context: Context, tasks: Sequence[MoveTask], made: Made) -> tuple[str, Made]:
    """The moves of all that can be moved that end with the lowest cost."""
    from iallocator.placement.several.optimal import best_moves

    moved = [one for one in made if one[1].best is not None]
    names = {instance.name for instance, _ in moved}
    if not moved:
        return "", made
    if context.deadline.over():
        return f"; no optimum: {TIME_IS_UP}", made
    chosen = [task for task in tasks if task.instance.name in names]
    note, moves = best_moves(context, chosen, moved)
    if moves is not moved:
        for task in chosen:
            _put(context, task.instance, task.instance.nodes)
        _carry_out(context, chosen, moves)
    return note, [*moves, *(one for one in made if one[1].best is None)]


def _at_once(
    context: Context, tasks: Sequence[MoveTask], made: Made, failed: Sequence[Instance]
) -> tuple[str, Made]:
    """All moves at once by exact search, or more than before, because some `failed`."""
    present = {task.instance.name: context.state.where[task.instance.name] for task in tasks}
    for task in tasks:
        _put(context, task.instance, task.instance.nodes)
    found = move_most(context, tasks, failed)
    if not found.moves:
        for task in tasks:
            _put(context, task.instance, present[task.instance.name])
        return found.note(), made
    _carry_out(context, tasks, found.moves)
    names = {instance.name for instance, _ in found.moves}
    left = [task for task in tasks if task.instance.name not in names]
    return found.note(), _without_separated(context, [*found.moves, *_in_turn(context, left)])


def _carry_out(context: Context, tasks: Sequence[MoveTask], moves: Made) -> None:
    """Make `moves` on the state, and say of each where else the instance could be then."""
    by_name = {task.instance.name: task for task in tasks}
    for instance, outcome in moves:
        assert outcome.best is not None
        if outcome.others is not None:
            outcome.others = _others(context, by_name[instance.name], outcome.best.nodes)
        apply_steps(context.state, instance, outcome.best.steps)


def _others(context: Context, task: MoveTask, chosen: Nodes) -> list[int]:
    """The other nodes of that group that the instance could go to as the state is, best first."""
    whole = task.best()
    found = [*whole.best.nodes, *(whole.others or ())] if whole.best else []
    group = context.cluster.nodes[chosen[0]].group
    return [i for i in found if i not in chosen and context.cluster.nodes[i].group is group]


def _in_turn(context: Context, tasks: Sequence[MoveTask]) -> Made:
    """Each takes the best place that is left."""
    made: Made = []
    for position in in_turn(context, [task.instance for task in tasks]):
        task = tasks[position]
        outcome = _best_in_time(context, task)
        if outcome.best is not None:
            apply_steps(context.state, task.instance, outcome.best.steps)
        made.append((task.instance, outcome))
    return made


def _best_in_time(context: Context, task: MoveTask) -> MoveResult:
    """The best outcome of moving one; none if time is up before it is known."""
    try:
        if not context.deadline.over():
            return with_nearest(context, task.best)
    except TimeIsUp:
        pass
    return MoveResult(message=TIME_IS_UP)


def _without_separated(context: Context, made: Made) -> Made:
    """Undo the moves that separate an instance from one that it must be with and that stays."""
    failed = {instance.name for instance, outcome in made if outcome.best is None}
    done = [instance for instance, outcome in made if outcome.best is not None]
    chains = context.bonds.dependents_of_failed(done, failed, ordered=False)
    for position, (instance, outcome) in enumerate(made):
        if instance.name in chains:
            _put(context, instance, instance.nodes)
            why = f"it {chains[instance.name]}"
            made[position] = instance, MoveResult(message=why, failures=outcome.failures)
    return made


def _put(context: Context, instance: Instance, nodes: Nodes) -> None:
    """Have the instance on `nodes`, wherever it is."""
    present = context.state.where[instance.name]
    if present != nodes:
        context.state.remove(instance, present)
        context.state.place(instance, nodes)
