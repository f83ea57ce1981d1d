"""Moving several instances: one after the other, and where that fails all at once."""

from __future__ import annotations

from iallocator.model.moves import apply_steps
from iallocator.placement.moves import MoveResult
from iallocator.placement.sequence import in_turn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context

    Nodes = tuple[int, ...]
    Made = list[tuple[Instance, MoveResult]]

__all__ = ["MoveTask", "move_all"]


class MoveTask:
    """An instance that is to move.

    Attributes
    ----------
    best:
        Makes the best outcome of moving it, as the state is then.
    places:
        Lists, with its score, every place it may have, on a state that none of the
        instances is in.
    exactly:
        Makes the outcome of moving it to just these nodes, as the state is then.
    """

    __slots__ = ("best", "exactly", "instance", "places")

    def __init__(
        self,
        instance: Instance,
        best: Callable[[], MoveResult],
        places: Callable[[], Iterable[tuple[float, Nodes]]],
        exactly: Callable[[Nodes], MoveResult],
    ) -> None:
        self.instance = instance
        self.best = best
        self.places = places
        self.exactly = exactly


def move_all(context: Context, tasks: Sequence[MoveTask]) -> tuple[str, Made]:
    """Carry out the tasks on the state: what to add to ``info``, and every outcome.

    Each instance takes the best place that is left.  If some find none, an exact search
    may find places for all that can have one; the moves are then in an order in which
    they can be made.
    """
    made = _in_turn(context, tasks)
    failed = [instance for instance, outcome in made if outcome.best is None]
    if len(tasks) < 2 or not context.settings.searches:
        return "", made
    if failed:
        return _at_once(context, tasks, made, failed)
    return _at_best(context, tasks, made) if context.settings.optimal else ("", made)


def _at_best(context: Context, tasks: Sequence[MoveTask], made: Made) -> tuple[str, Made]:
    """The moves that end with the lowest score of all."""
    from iallocator.placement.optimal import best_moves, told

    found = best_moves(context, tasks, made)
    if found is None:
        return "; no optimum: several groups are involved", made
    greedy, best, moves = found
    for instance, _ in moves:
        _put(context, instance, best.nodes[instance.name])
    return told(greedy, best), moves


def _at_once(
    context: Context, tasks: Sequence[MoveTask], made: Made, failed: Sequence[Instance]
) -> tuple[str, Made]:
    """All moves at once by exact search, because some `failed` one after the other."""
    from iallocator.placement.joint_moves import move_together

    present = {task.instance.name: context.state.where[task.instance.name] for task in tasks}
    for task in tasks:
        _put(context, task.instance, task.instance.nodes)
    found = move_together(context, tasks, failed)
    if not found.moves:
        for task in tasks:
            _put(context, task.instance, present[task.instance.name])
        return found.note(context.settings), made
    for instance, outcome in found.moves:
        assert outcome.best is not None
        apply_steps(context.state, instance, outcome.best.steps)
    left = [(instance, outcome) for instance, outcome in made if instance in found.hopeless]
    return found.note(context.settings), [*found.moves, *left]


def _in_turn(context: Context, tasks: Sequence[MoveTask]) -> Made:
    made: Made = []
    for position in in_turn(context, [task.instance for task in tasks]):
        task = tasks[position]
        outcome = task.best()
        if outcome.best is not None:
            apply_steps(context.state, task.instance, outcome.best.steps)
        made.append((task.instance, outcome))
    _take_back(context, made)
    return made


def _take_back(context: Context, made: Made) -> None:
    """Undo the moves that separate an instance from one that it must be with and that stays."""
    failed = {instance.name for instance, outcome in made if outcome.best is None}
    done = [instance for instance, outcome in made if outcome.best is not None]
    chains = context.bonds.left_behind(done, failed, ordered=False)
    for position, (instance, outcome) in enumerate(made):
        if instance.name in chains:
            _put(context, instance, instance.nodes)
            why = f"it {chains[instance.name]}"
            made[position] = instance, MoveResult(message=why, failures=outcome.failures)


def _put(context: Context, instance: Instance, nodes: Nodes) -> None:
    """Have the instance on `nodes`, wherever it is."""
    present = context.state.where[instance.name]
    if present != nodes:
        context.state.remove(instance, present)
        context.state.place(instance, nodes)
