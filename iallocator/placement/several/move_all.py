"""Move several instances: in turn, or all at once if one of them cannot be placed in turn.

With ``--n1 no-worse``, branch and bound searches for the placements after which the fewest
instances cannot be restarted when a node fails. This number is not linear: an integer program would
exclude one combination of placements after the other, and take twice as long
(`docs/design/exact-search.md` has the measurement).
"""

from __future__ import annotations

from iallocator.deadline import PLACEMENTS, TIME_IS_UP, TRIALS, Held, Stopped, check
from iallocator.n1 import NO_GROWTH
from iallocator.placement.moves import with_nearest
from iallocator.placement.results import MoveResult
from iallocator.placement.several.moves import move_most, places_of_move, taken_off, try_moves
from iallocator.placement.several.sequence import in_turn
from iallocator.solver.branch_and_bound import BranchAndBound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.n1 import Growth
    from iallocator.n1.tolerance import FailureTolerance
    from iallocator.placement.context import Context
    from iallocator.placement.several.sequence import Made, RequiredMove

__all__ = ["growth_notes", "least_growth", "move_all"]

CHECKED_NODES = 8
"""The number of nodes in a group for which one check of all failures costs as much as listing one
placement."""


def least_growth(
    context: Context, group: Group, tasks: Sequence[RequiredMove]
) -> tuple[bool, Made]:
    """Search for moves of `tasks` after which failures lose less; return (proved, moves).

    All tasks have been moved within `group`. The state is not changed. `moves` is empty if there
    are no better moves. `proved`: no other moves lose less.
    """
    state, failures = context.state, context.failures(group)
    if failures.comparison.spent():
        return False, []
    back = failures.comparison.initial.offline_instances.back(state)
    present = failures.comparison.growth(back)
    if present == NO_GROWTH or context.effort.spent:
        return present == NO_GROWTH, []
    if not context.searches_for([group]) or context.deadline.over():
        return False, []
    wanted = {task.instance.name: state.where[task.instance.name] for task in tasks}
    with Held() as held, state.trial():
        search = _LeastGrowth(context, failures, tasks, back, present)
        for task in tasks:
            state.remove(task.instance, wanted[task.instance.name])
            state.place(task.instance, task.instance.nodes)
        with taken_off(context, tasks):
            context.affinity.pending = set()  # instances that are placed bind the others
            search.search()
    context.interrupted |= held.asked
    return search.proved, search.best_moves


def growth_notes(context: Context, groups: Collection[Group], proved: Collection[Group]) -> str:
    """Return the part of ``info`` about groups in which failures lose more instances than before.

    `proved`: the groups in which no other placement loses fewer instances.
    """
    notes = ""
    for group in groups:
        text = "" if context.effort.spent else context.failures(group).comparison.describe_growth()
        least = (
            "no other placement restarts more" if group in proved else "the best placement found"
        )
        notes += f"; {text}: {least}" if text else ""
    return notes


class _LeastGrowth(BranchAndBound):
    """Branch and bound for placements of `tasks` that increase the losses of failures least.

    The placements must increase the losses by less than `best`.

    The loss after some instances are placed is a lower bound, because each further instance only
    takes capacity.

    Attributes
    ----------
    best_moves:
        The moves to the best placements, in an order in which they can be made; empty if none are
        better.
    """

    def __init__(
        self,
        context: Context,
        failures: FailureTolerance,
        tasks: Sequence[RequiredMove],
        back: tuple[int, float],
        best: Growth,
    ) -> None:
        super().__init__(len(tasks), best, NO_GROWTH)
        self._context = context
        self._failures = failures
        self._tasks = sorted(tasks, key=lambda task: -task.instance.memory)
        self._back = back
        self._budget = context.budget()
        self._work = (
            1 + (len(failures.comparison.initial.failing) // CHECKED_NODES) ** 2
        )  # for each place
        self.best_moves: Made = []

    def must_end(self) -> bool:
        return self._budget.must_end or self._failures.comparison.spent()

    def branches(self, depth: int) -> Iterator[tuple[Growth, Nodes]]:
        state, task = self._context.state, self._tasks[depth]
        branches = []
        for _, _, nodes in sorted(places_of_move(self._context, task, self._budget)):
            if self.must_end():
                self.proved = False
                break
            self._budget.spend(self._work, PLACEMENTS)
            with state.trial():
                state.place(task.instance, nodes)
                branches.append((self._failures.comparison.growth(self._back), nodes))
        yield from sorted(branches, key=lambda one: one[0])

    def enter(self, depth: int, choice: Nodes) -> None:
        self._context.state.place(self._tasks[depth].instance, choice)

    def leave(self, depth: int, choice: Nodes) -> None:
        self._context.state.remove(self._tasks[depth].instance, choice)

    def accept(self, cost: Growth) -> bool:
        """Keep the present placements, and return True, if the moves to them can be made."""
        context, state = self._context, self._context.state
        ends = {task.instance.name: state.where[task.instance.name] for task in self._tasks}
        with state.trial():
            for task in self._tasks:
                state.remove(task.instance, ends[task.instance.name])
                state.place(task.instance, task.instance.nodes)
            made = try_moves(context, self._tasks, ends)
        self._budget.spend(len(self._tasks), TRIALS)
        if len(made) < len(self._tasks):
            return False
        self.best_moves = made
        return True


def move_all(context: Context, tasks: Sequence[RequiredMove]) -> tuple[str, Made]:
    """Move the tasks on the state; return the text to add to ``info``, and every outcome.

    Each instance is moved to the best nodes that are left. If some instances have no placement, an
    exact search looks for placements of all. The moves are in an order in which they can be made.
    """
    for task in tasks:
        group = context.cluster.nodes[task.instance.nodes[0]].group
        if context.evaluator(group).rules.exact:
            context.failures(group)  # made of the state before it is changed
    made = _without_separated(context, _in_turn(context, tasks))
    failed = [instance for instance, outcome in made if outcome.best is None]
    note = ""
    homes = map(context.cluster.group_of, failed)
    searches = bool(failed) and len(tasks) > 1 and context.searches_for(homes)
    if searches and not context.deadline.over():
        # Move all at once, or more than before
        present = {task.instance.name: context.state.where[task.instance.name] for task in tasks}
        for task in tasks:
            _put(context, task.instance, task.instance.nodes)
        joint = move_most(context, tasks, failed)
        note = joint.note()
        if joint.moves:
            _carry_out(context, tasks, joint.moves)
            names = {instance.name for instance, _ in joint.moves}
            left = [task for task in tasks if task.instance.name not in names]
            made = _without_separated(context, [*joint.moves, *_in_turn(context, left)])
        else:
            for task in tasks:
                _put(context, task.instance, present[task.instance.name])
    note += _losing_least(context, tasks, made)
    moved = [one for one in made if one[1].best is not None]
    if context.settings.optimal and moved:
        if context.deadline.over():
            return f"{note}; no optimum: {TIME_IS_UP}", made
        # Move the instances at the lowest cost
        from iallocator.placement.several.optimal import best_moves

        names = {instance.name for instance, _ in moved}
        chosen = [task for task in tasks if task.instance.name in names]
        optimum, moves = best_moves(context, chosen, moved)
        note += optimum
        if moves is not moved:
            for task in chosen:
                _put(context, task.instance, task.instance.nodes)
            _carry_out(context, chosen, moves)
        made = [*moves, *(one for one in made if one[1].best is None)]
    return note, made


def _losing_least(context: Context, tasks: Sequence[RequiredMove], made: Made) -> str:
    """Move the instances that stay in their group to where failures lose least.

    The function changes `made` and the state, and returns the text to add to ``info``.
    """
    staying: dict[Group, list[RequiredMove]] = {}
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
            note = "; placed together by exact search, which minimizes what cannot be restarted"
    return note + growth_notes(context, staying, proved)


def _carry_out(context: Context, tasks: Sequence[RequiredMove], moves: Made) -> None:
    """Make `moves` on the state; store the other nodes that each instance could use then."""
    by_name = {task.instance.name: task for task in tasks}
    for instance, outcome in moves:
        assert outcome.best is not None
        if outcome.others is not None:
            whole = by_name[instance.name].best()
            every = [*whole.best.after, *(whole.others or ())] if whole.best else []
            nodes, chosen = context.cluster.nodes, outcome.best.after
            group = nodes[chosen[0]].group
            outcome.others = [i for i in every if i not in chosen and nodes[i].group is group]
        outcome.best.apply(context.state)


def _in_turn(context: Context, tasks: Sequence[RequiredMove]) -> Made:
    """Move each instance to the best nodes that are left; once time is up, the others fail."""
    made: Made = []
    undecided = {task.instance.name: task.instance for task in tasks}
    try:
        for position in in_turn(context, [task.instance for task in tasks]):
            task = tasks[position]
            check()
            outcome = with_nearest(context, task.best)
            if outcome.best is not None:
                outcome.best.apply(context.state)
            made.append((task.instance, outcome))
            del undecided[task.instance.name]
    except Stopped as stop:
        if stop.interrupted:
            raise
        made += ((one, MoveResult(message=TIME_IS_UP)) for one in undecided.values())
    return made


def _without_separated(context: Context, made: Made) -> Made:
    """Undo the moves that separate an instance from a member of its colocation group that stays."""
    failed = {instance.name for instance, outcome in made if outcome.best is None}
    done = [instance for instance, outcome in made if outcome.best is not None]
    chains = context.affinity.dependents_of_failed(done, failed, ordered=False)
    for position, (instance, outcome) in enumerate(made):
        if instance.name in chains:
            _put(context, instance, instance.nodes)
            why = f"it {chains[instance.name]}"
            made[position] = instance, MoveResult(message=why, failures=outcome.failures)
    return made


def _put(context: Context, instance: Instance, nodes: Nodes) -> None:
    """Place `instance`, which has other nodes on the state, on `nodes`."""
    present = context.state.where[instance.name]
    if present != nodes:
        context.state.remove(instance, present)
        context.state.place(instance, nodes)
