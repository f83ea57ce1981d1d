"""Search placements of instances in other groups exactly, with N+1 in the integer program.

The program has the limits of nodes, and restarts the instances of each node that may fail
(`RestartRows`). Each answer is checked move by move. The rows never reject a placement that a plan
may reach, so a program without an answer is a proof.

Cost: about instances × nodes² choices; the work is limited by a budget.
"""

from __future__ import annotations

from iallocator.deadline import check
from iallocator.placement.several.moves import taken_off, try_moves
from iallocator.placement.several.sequence import RequiredMove
from iallocator.planners.restart_rows import RestartRows
from iallocator.solver.highs import available, search
from iallocator.solver.placement_problem import MOVE_COST, PlacementProblem
from iallocator.solver.problem import FOUND, IMPOSSIBLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.deadline import Deadline
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.moves import Move
    from iallocator.n1 import Failure
    from iallocator.placement.results import MoveResult
    from iallocator.planners.intergroup.moving import Mover
    from iallocator.solver.problem import Problem

    Targets = Callable[[Instance], Sequence[Group]]

__all__ = ["Relocation"]

LARGEST_RELOCATION_PROGRAM = 30_000
"""The largest number of choices of a program that is solved."""

MOST_RELOCATION_ANSWERS = 200
"""The largest number of answers of the solver that are checked."""


class Relocation:
    """A search for placements of `instances` in the groups that `targets` has for each.

    Parameters
    ----------
    mover:
        Finds moves; in its state, the instances are on their present nodes. The state is restored.
    instances, targets:
        The instances to move, and the possible groups of each.
    healthy:
        Groups that the instances leave, and that must be healthy after the moves. Instances on
        their online nodes may stay. (): all instances must leave.
    accepts:
        Returns whether the state after the moves is accepted.

    Attributes
    ----------
    moves:
        The moves, in an order in which they can be made; None if none were found.
    proved:
        Whether it is proved that no such moves exist.
    """

    def __init__(
        self,
        mover: Mover,
        instances: Sequence[Instance],
        targets: Targets,
        healthy: Collection[Group] = (),
        accepts: Callable[[], bool] = lambda: True,
    ) -> None:
        self._mover = mover
        self._context = mover.context
        self._instances = instances
        self._targets = targets
        self._healthy = healthy
        self._accepts = accepts
        self._tries = 0
        self._doubtful = False
        self._tasks = {one.name: self._task(one) for one in instances}
        self._present = {one.name: self._context.state.where[one.name] for one in instances}
        self.moves: list[Move] | None = None
        self.proved = False

    def find(self, budget: Deadline) -> Relocation:
        """Search within `budget`; return this object, with its result."""
        if not self._context.plain or not available() or budget.must_end:
            return self
        problem = self._problem()
        if problem.size > LARGEST_RELOCATION_PROGRAM:
            return self
        answer = search(problem, self._rejected, budget)
        if answer.status != FOUND:
            self.proved = answer.status == IMPOSSIBLE and not self._doubtful
        return self

    def _task(self, instance: Instance) -> RequiredMove:
        mover, groups = self._mover, self._targets(instance)

        def exactly(nodes: Nodes) -> MoveResult:
            check()
            return mover.only(instance, nodes)

        return RequiredMove(
            instance,
            lambda: mover.relocate(instance, groups),
            lambda: mover.places(instance, groups),
            exactly,
        )

    def _problem(self) -> Problem:
        """Return the program: each instance gets a placement, and failures are tolerated."""
        context, state = self._context, self._context.state
        cluster, every = context.cluster, {}
        for one in self._instances:
            every.update({group.index: group for group in self._targets(one)})
        # The failures that are tolerated now: every mode requires these
        required: dict[int, Sequence[Failure]] = {}
        for group in every.values():
            rules = context.evaluator(group).rules
            if group not in self._healthy and rules.mode != "off":
                tolerance = self._mover.tolerance(group)
                now = tolerance.tolerated(rules.of_online(cluster, group))
                required[group.index] = list(now)
        failing = [
            node
            for group in every.values()
            if group not in self._healthy
            for node in group.nodes
            if state.fails_n1(node)
        ]
        lenient = {
            node
            for group in every.values()
            if context.evaluator(group).limit_policies.new.primary.spares
            for node in group.nodes
        }
        whole = sum(one.memory for one in self._instances) + 1
        with taken_off(context, [*self._tasks.values()]):
            places = PlacementProblem(state, lenient, failing=failing)
            for one in self._instances:
                check()
                present = self._present[one.name]
                cost = MOVE_COST + one.memory / whole
                listed = [(cost, nodes) for _, nodes in self._tasks[one.name].places()]
                inside = cluster.nodes[present[0]].group in self._healthy
                if inside and not any(cluster.nodes[index].offline for index in present):
                    listed.append((0.0, present))  # it may stay
                places.add(one, listed, distinct=present)
            problem = places.problem()
            # Limits apply only to arrivals: the bounds rise to the amounts that may stay
            staying: dict[tuple[object, ...], float] = {}
            for kind in problem.kinds:
                for choice in kind.choices:
                    limits = choice.uses.items() if choice.cost == 0.0 else ()
                    for row, amount in limits:
                        if row[0] == "limit":
                            staying[row] = staying.get(row, 0) + amount * len(kind.members)
            for row, amount in staying.items():
                if row in problem.bounds:
                    lowest, highest = problem.bounds[row]
                    problem.bounds[row] = lowest, max(highest, amount)
            kinds = {kind.members[0]: kind for kind in problem.kinds}
            firsts = [(kinds[one.name], one) for one in self._instances if one.name in kinds]
            for group in {**every, **{group.index: group for group in self._healthy}}.values():
                rules = context.evaluator(group).rules
                if rules.mode == "off":
                    continue
                failures: Sequence[Failure] = required.get(group.index, ())
                if group in self._healthy:
                    failures = rules.of_online(cluster, group)
                tolerance = self._mover.tolerance(group)
                for failure in failures:
                    check()
                    rows = RestartRows(problem, failure, tolerance)
                    for kind, instance in firsts:
                        rows.add(kind, instance)
        return problem

    def _rejected(self, chosen: Mapping[str, Nodes]) -> Sequence[str] | None:
        """Try the moves to the answer `chosen`; return None if they are accepted and stored.

        None also means that enough answers were checked. Otherwise return the names of all
        instances, which reject the answer as a whole.
        """
        names = [one.name for one in self._instances]
        moved = [name for name in names if chosen[name] != self._present[name]]
        tasks = [self._tasks[name] for name in moved]
        self._tries += 1
        self._mover.doubtful = False
        made = [one.best for _, one in try_moves(self._context, tasks, chosen) if one.best]
        if len(made) < len(tasks):
            self._doubtful |= self._mover.doubtful
        else:
            state = self._context.state
            with state.trial():
                for move in made:
                    move.apply(state)
                if self._accepts():
                    self.moves = made
                    return None
            self._doubtful = True
        if self._tries >= MOST_RELOCATION_ANSWERS:
            self._doubtful = True
            return None
        return names
