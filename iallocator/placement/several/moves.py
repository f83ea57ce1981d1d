"""Move existing instances together by an integer program, if moving them in turn fails.

All instances are removed from the state at once. The solver finds a placement for each, or for as
many as possible. Then the moves are made in any order in which each of them is allowed.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cached_property

from iallocator.constraints.rows import AffinityRows
from iallocator.deadline import LISTED, Deadline, Held
from iallocator.model.constraints import TOGETHER
from iallocator.placement.results import POLICY_PENALTY, POLICY_RANK
from iallocator.placement.several.joint import equivalence_key
from iallocator.placement.several.sequence import JointResult, make_as_allowed
from iallocator.scoring.candidates import ListedCandidates
from iallocator.solver.highs import search
from iallocator.solver.most import Most, find_all_or_most
from iallocator.solver.placement_problem import PlacementProblem
from iallocator.solver.problem import FOUND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context
    from iallocator.placement.several.sequence import Made, RequiredMove
    from iallocator.solver.problem import Problem

    Places = list[tuple[float, Nodes]]

__all__ = [
    "MovedTogether", "move_most", "move_together", "places_of_move", "taken_off", "try_moves",
]  # fmt: skip


class MovedTogether(JointResult):
    """The result of moving instances together.

    Attributes
    ----------
    moves:
        The outcomes, in an order in which the moves can be made; empty if nothing better than
        the known moves was found.
    """

    __slots__ = ("moves",)

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.moves: Made = []


def move_together(
    context: Context, tasks: Sequence[RequiredMove], failed: Sequence[Instance], budget: Deadline
) -> MovedTogether:
    """Find nodes for every instance of `tasks` that can be placed; the state is not changed.

    `failed` are the instances for which an earlier search found no nodes. There is no search if
    none of them can be placed.
    """
    joint = _JointMove(context, tasks, failed, budget)
    if joint.worthwhile(failed):
        answer = search(joint.program, joint.rejected, budget)
        joint.result.status, joint.result.limit = answer.status, budget.ended
        if answer.status == FOUND:
            joint.result.moves = joint.moves(answer.values(joint.program))
    return joint.result


def move_most(
    context: Context, tasks: Sequence[RequiredMove], failed: Sequence[Instance]
) -> MovedTogether:
    """Find nodes for the instances of all `tasks`, or for more of them than an earlier search.

    `failed` are the instances for which the earlier search found no nodes. The state is not
    changed. Instances that cannot be placed on any node are left out from the beginning. There
    is no search if all of `failed` are such instances.
    """
    moved = MovedTogether(len(tasks))
    with Held() as held:
        budget = context.budget()
        joint = _JointMove(context, tasks, failed, budget)
        moved = joint.result
        if joint.worthwhile(failed):
            moved.most = most = joint.most(failed)
            moved.status = find_all_or_most(
                joint.program, lambda nodes: joint.checked(nodes, most), budget, most
            )
    if moved.places:
        moved.moves = joint.moves(moved.places)
    if moved.most or held.asked:
        moved.limit = budget.ended
    context.interrupted |= held.asked
    return moved


class _JointMove:
    """The tasks that can be placed, as an integer program, and the check of its answers."""

    def __init__(
        self,
        context: Context,
        tasks: Sequence[RequiredMove],
        failed: Sequence[Instance],
        budget: Deadline,
    ) -> None:
        self._context = context
        self._budget = budget
        self._names = {task.instance.name for task in tasks}
        # The places of each instance while all are not placed; if none of the `failed` has one,
        # only theirs are listed. Once `budget` is spent, an instance has none.
        names = {instance.name for instance in failed}
        self._places: dict[str, Places] = {}
        with taken_off(context, tasks):
            for task in sorted(tasks, key=lambda one: one.instance.name not in names):
                if task.instance.name not in names and not any(self._places.values()):
                    break
                places = () if budget.must_end else places_of_move(context, task, budget)
                self._places[task.instance.name] = [
                    (score + penalty, n) for score, penalty, n in places
                ]
        self.result = MovedTogether(len(tasks))
        unschedulable = {name for name, listed in self._places.items() if not listed}
        others = [task.instance for task in tasks if task.instance.name not in unschedulable]
        chains = context.affinity.dependents_of_failed(others, unschedulable, ordered=False)
        self.result.unschedulable = unschedulable | chains.keys()
        self._tasks = [
            task for task in tasks if task.instance.name not in self.result.unschedulable
        ]
        instances = [task.instance for task in self._tasks]
        self._affinity = AffinityRows(context.affinity.relations, instances, (TOGETHER,))

    @cached_property
    def program(self) -> Problem:
        """Return the integer program of the tasks, while their instances are not placed."""
        context = self._context
        failing = [i for i in context.all_nodes() if context.state.fails_n1(i)]
        sources = [context.cluster.nodes[task.instance.nodes[0]] for task in self._tasks]
        lenient = {  # nodes on which not all limits are enforced for some task
            index
            for group in context.cluster.groups
            for limit_policies in (context.evaluator(group).limit_policies,)
            if any(limit_policies.off(source).primary.spares for source in sources)
            for index in group.nodes
        }
        with taken_off(context, self._tasks) as present:
            problem = PlacementProblem(
                context.state, lenient, failing=failing, constraints=[self._affinity]
            )
            for task in self._tasks:
                listed = self._places[task.instance.name]
                problem.add(
                    task.instance,
                    listed,
                    distinct=equivalence_key(context, task.instance),
                    priority=self._affinity.priority(task.instance),
                    stays=present[task.instance.name],
                )
            return problem.problem()

    def worthwhile(self, failed: Sequence[Instance]) -> bool:
        """Return whether a search makes sense: time is left, and one of `failed` can be placed."""
        names = {instance.name for instance in failed}
        if self._budget.must_end:
            self.result.unschedulable = ()  # not all of them were looked at
            self.result.limit = self._budget.ended
            return False
        return not names.issubset(self.result.unschedulable)

    def most(self, failed: Sequence[Instance]) -> Most:
        """Return the best result known before the search: all tasks are placed except `failed`."""
        instances = [task.instance for task in self._tasks]
        priorities = {one.name: self._affinity.priority(one) for one in instances}
        return Most(priorities, {instance.name for instance in failed})

    def rejected(self, nodes: Mapping[str, Nodes]) -> list[str] | None:
        """Return None if all moves to `nodes` can be made; otherwise the names of all tasks."""
        if len(self.moves(nodes)) == len(nodes):
            return None
        return [task.instance.name for task in self._tasks]

    def checked(self, nodes: Mapping[str, Nodes], most: Most) -> list[str] | None:
        """Return None if all moves to `nodes` can be made; otherwise the names of all tasks.

        If only some moves can be made, `most` gets these moves, in case they are the most so far.
        """
        made = self.moves(nodes)
        if len(made) == len(nodes):
            return None
        some = {instance.name: nodes[instance.name] for instance, _ in made}
        if most.better(some) and self.rejected(some) is None:
            # Colocation groups must not be separated
            moved = [instance for instance, _ in made]
            stay = {task.instance.name for task in self._tasks} - {one.name for one in moved}
            if not self._context.affinity.dependents_of_failed(moved, stay, ordered=False):
                most.offer(some)
        return [task.instance.name for task in self._tasks]

    def moves(self, nodes: Mapping[str, Nodes]) -> Made:
        """Return the moves to `nodes` in the order in which they can be made."""
        chosen = [task for task in self._tasks if task.instance.name in nodes]
        return try_moves(self._context, chosen, nodes, self._names - nodes.keys())


@contextmanager
def taken_off(context: Context, tasks: Sequence[RequiredMove]) -> Iterator[dict[str, Nodes]]:
    """Return a ``with`` block in which the instances of `tasks` are not placed.

    The block yields name of an instance -> its nodes before.
    """
    state = context.state
    present = {task.instance.name: state.where[task.instance.name] for task in tasks}
    off: list[RequiredMove] = []
    try:
        for task in tasks:
            state.remove(task.instance, present[task.instance.name])
            off.append(task)
        context.affinity.pending = set(present)
        yield present
    finally:
        for task in reversed(off):
            state.place(task.instance, present[task.instance.name])
        context.affinity.pending = set()


def places_of_move(
    context: Context, task: RequiredMove, budget: Deadline | None = None
) -> Iterator[tuple[float, float, Nodes]]:
    """Yield (score, penalty, nodes) for each placement that affinity allows in the present state.

    The penalty is that of soft constraints, and of the allocation policy of another group. If
    `budget` is spent at the end, placements may be missing.
    """
    places = list(task.places()) if budget is None else budget.take(task.places(), LISTED)
    rejected = context.affinity.rejected(task.instance, {nodes[0] for _, nodes in places})
    row = [place for place in places if place[1][0] not in rejected]
    with_costs, scores = context.with_soft_costs(task.instance, ListedCandidates([row], {}))
    own = context.cluster.group_of(task.instance)
    for rank, nodes in with_costs.row(0):
        cost: float = rank
        score = scores.get(nodes, cost)
        group = context.cluster.nodes[nodes[0]].group
        reluctance = 0.0 if group is own else POLICY_PENALTY * POLICY_RANK[group.alloc_policy]
        yield score, cost - score + reluctance, nodes


def try_moves(
    context: Context,
    tasks: Sequence[RequiredMove],
    nodes: Mapping[str, Nodes],
    left_out: Iterable[str] = (),
) -> Made:
    """Make each move as soon as it is allowed, then undo all; return those that were made.

    `nodes`: name of an instance -> its new nodes. `left_out`: instances that were to move, too, and
    stay. As in turn, their present nodes do not constrain those that move before them.
    """
    state = context.state
    present = {task.instance.name: state.where[task.instance.name] for task in tasks}
    made: Made = []

    def make(task: RequiredMove) -> bool:
        outcome = task.exactly(nodes[task.instance.name])
        if outcome.best is None:
            return False
        outcome.best.apply(state)
        made.append((task.instance, outcome))
        context.affinity.pending.discard(task.instance.name)
        return True

    context.affinity.pending = {task.instance.name for task in tasks}.union(left_out)
    try:
        make_as_allowed(tasks, make)
        return made
    finally:
        context.affinity.pending = set()
        for instance, _ in reversed(made):
            state.remove(instance, state.where[instance.name])
            state.place(instance, present[instance.name])
