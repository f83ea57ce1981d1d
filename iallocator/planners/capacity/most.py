"""Find the largest number of equal instances that can be added, by integer programming.

Filling places one instance after the other where the score is best.  When the cluster is nearly
full, other placements of some instances may leave capacity for one more.  The program chooses how
many of the instances are on each node, or pair of nodes, and where the instances of each node
restart when it fails.

If fewer instances are placed, all limits that were met stay met.  So every solution can be reached
by placing one instance after the other, in any order.

The variables: a count for each placement of a new instance, and the variables of `RestartRows` for
each failure that must be tolerated.  Limits, policies and the exact search of N+1 check each
solution.

Cost: the number of variables is about nodes² × different items of a node; for drbd, nodes².
"""

from __future__ import annotations

from math import floor, inf

from iallocator.deadline import check
from iallocator.model.columns import MEMORY
from iallocator.planners.restart_rows import RestartRows
from iallocator.solver.highs import available, search
from iallocator.solver.placement_problem import PlacementProblem
from iallocator.solver.problem import FOUND, IMPOSSIBLE
from iallocator.tolerances import AMOUNT_TOLERANCE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from iallocator.aliases import Nodes
    from iallocator.deadline import Deadline
    from iallocator.model.instance import Instance
    from iallocator.n1 import Failure
    from iallocator.n1.tolerance import FailureTolerance
    from iallocator.planners.capacity.site import CapacityState
    from iallocator.solver.problem import Problem

    Row = tuple[Any, ...]

__all__ = [
    "MOST_PROGRAM_INSTANCES", "MostEqual", "highest_number", "most_equal", "required_failures",
]  # fmt: skip

LARGEST_FILL_PROGRAM = 1_200
"""The largest number of choices of a program that is solved.

The factor of the thoroughness multiplies this number and the other limits below.
"""

SOLUTIONS_CHECKED = 8
"""The largest number of solutions that are checked."""

MOST_PROGRAM_INSTANCES = 300
"""The largest number of new instances for which an integer program is solved; above it, one
instance more hardly matters."""

UNPLACED_ROW = ("left out",)
"""The row of the program that counts the instances that are not placed."""


class MostEqual:
    """The largest number of equal instances that was found.

    Attributes
    ----------
    nodes:
        The nodes of each instance; None: no more than the known number were found.
    proved:
        Whether it is proved that no more can be placed.
    bound:
        An upper bound of the number, without the limit that was given; None if none is known.
    """

    __slots__ = ("bound", "nodes", "proved")

    def __init__(self, nodes: Sequence[Nodes] | None, proved: bool, bound: int | None) -> None:
        self.nodes = nodes
        self.proved = proved
        self.bound = bound


def most_equal(
    site: CapacityState,
    newcomer: Callable[[int], Instance],
    known: int,
    limit: int | None,
    budget: Deadline,
    thoroughness: int = 1,
) -> MostEqual:
    """Find nodes for more than `known` equal instances on `site`, as many as possible.

    Parameters
    ----------
    site:
        The cluster without the new instances, in which every failure is tolerated that must be.
        It is not changed. Its N+1 must use exact search.
    newcomer:
        Makes the new instance with a number from 0 on.
    known:
        The number of instances for which placements are known.
    limit:
        The largest number of instances that is requested; None: any.
    budget:
        The work that the solver may do.
    thoroughness:
        The factor of the size of the program, and of the number of solutions that are checked.
    """
    program = _Program(site, newcomer, known, thoroughness)
    bound = program.highest()
    if bound is None:
        return MostEqual(None, True, None)
    highest = bound if limit is None else min(limit, bound)
    if highest <= known:
        return MostEqual(None, True, bound)
    if highest > MOST_PROGRAM_INSTANCES * thoroughness or not available() or budget.must_end:
        return MostEqual(None, False, bound)
    problem = program.problem(highest)
    if problem is None:
        return MostEqual(None, False, bound)
    answer = search(problem, program.rejected, budget, gap=0)
    # With a limit, the program has at most that many instances
    if answer.status == FOUND and program.accepted is not None:
        count = len(program.accepted)
        proved = answer.proved and (limit is None or count < limit) and program.certain
        return MostEqual(program.accepted, answer.proved, count if proved else bound)
    proved = answer.status == IMPOSSIBLE and not program.gave_up
    return MostEqual(None, proved, known if proved and program.certain else bound)


class _Program:
    """The integer program for equal instances, and the check of its solutions.

    Attributes
    ----------
    accepted:
        The nodes of the instances of the last solution, if the check accepted it; else None.
    gave_up:
        Whether the largest number of solutions was checked without success.
    doubtful:
        Whether N+1 rejected a solution without a proof that it is impossible.
    """

    def __init__(
        self,
        site: CapacityState,
        newcomer: Callable[[int], Instance],
        known: int,
        thoroughness: int,
    ) -> None:
        self._thoroughness = thoroughness
        self.doubtful = False
        self._site = site
        self._newcomer = newcomer
        self._placed = known
        self._first = newcomer(0)
        self._places = list(_places(site, self._first))
        self._names: frozenset[str] = frozenset()
        self._tries = 0
        self.accepted: list[Nodes] | None = None
        self.gave_up = False
        self._failing = required_failures(site, self._first)

    def highest(self) -> int | None:
        """Return an upper bound of the number of new instances; None if nothing bounds it."""
        return highest_number(self._site, self._first, self._failing)

    @property
    def certain(self) -> bool:
        """Return whether N+1 decided about every solution that was checked."""
        spent = any(tolerance.rules.effort.spent for tolerance in self._failing.values())
        return not (spent or self.doubtful)

    def problem(self, highest: int) -> Problem | None:
        """Return the program for at most `highest` instances; None if it is too large.

        A solution has more instances than the known number.
        """
        state = self._site.state
        collected = PlacementProblem(state, self._site.lenient)
        for number in range(highest):
            collected.add(self._newcomer(number), ((0.0, nodes) for nodes in self._places))
        problem = collected.problem()
        (kind,) = problem.kinds
        self._names = frozenset(kind.members)
        kind.penalty, kind.remains = 1.0, {UNPLACED_ROW: 1.0}
        problem.at_most(UNPLACED_ROW, highest - self._placed - 1)
        for failure, tolerance in self._failing.items():
            check()
            RestartRows(problem, failure, tolerance).add(kind, self._first)
            if problem.size > LARGEST_FILL_PROGRAM * self._thoroughness:
                return None
        return problem

    def rejected(self, chosen: Mapping[str, Any]) -> Sequence[str] | None:
        """Check a solution; return None if it is accepted, or if enough solutions were checked.

        Otherwise, return the names of all new instances: their placement is rejected as a whole.
        """
        self._tries += 1
        places = sorted(nodes for name, nodes in chosen.items() if name in self._names)
        self.accepted = None
        site = self._site
        with site.state.trial():
            for number, nodes in enumerate(places):
                instance = self._newcomer(number)
                if not site.allows(instance, nodes):
                    break
                site.state.place(instance, nodes)
            else:
                if site.n1.tolerated(self._first):
                    self.accepted = places
                else:
                    self.doubtful |= not any(
                        loss.instances_least > 0
                        for tolerance, failing in site.n1.required(self._first)
                        for loss in tolerance.losses(failing).values()
                    )
        self.gave_up = (
            self.accepted is None and self._tries >= SOLUTIONS_CHECKED * self._thoroughness
        )
        return None if self.accepted or self.gave_up else [*self._names]


def required_failures(site: CapacityState, instance: Instance) -> dict[Failure, FailureTolerance]:
    """Return the failures that must be tolerated with `instance` in any group, with their N+1."""
    return {
        failure: tolerance
        for tolerance, failing in site.n1.required(instance)
        for failure in failing
    }


def highest_number(
    site: CapacityState, instance: Instance, failing: Mapping[Failure, FailureTolerance]
) -> int | None:
    """Return an upper bound of the number of instances like `instance`; None if nothing bounds it.

    Each node has the limits that it has without N+1. Whichever of the `failing` nodes fails, all
    new instances must then run on the other nodes of its group, and so must the present instances
    of the node. Each present instance that has at least the memory of a new instance takes the
    place of a new instance.

    Parameters
    ----------
    site:
        The cluster without the new instances.
    instance:
        One of the new instances, which are equal.
    failing:
        The failures that must be tolerated, and are tolerated without the new instances, each with
        its N+1.
    """
    state = site.state
    size = instance.memory if instance.uses_memory else 0
    slots = [max(0, int(free - 1) // size) if size else inf for free in state.columns[MEMORY]]
    problem = PlacementProblem(state, site.lenient)
    highest = 0.0
    for group, nodes in site.open_nodes(instance):
        copies = [problem.copies_on(instance, index) for index in nodes]
        number = sum(_whole(primaries) for primaries, _ in copies)
        if instance.required_nodes == 2:  # each instance is on two different nodes
            both = [_whole(count) for _, count in copies]
            number = min(number, sum(both) // 2, sum(both) - max(both))
        inside: dict[FailureTolerance, float] = {}  # what all nodes of the group can restart
        for failure, tolerance in failing.items() if size else ():
            if state.cluster.nodes[failure[0]].group is not group:
                continue
            check()
            targets = tolerance.rules.targets(state.cluster, group)
            if tolerance not in inside:
                inside[tolerance] = sum(slots[index] for index in targets)
            left = inside[tolerance] - sum(slots[index] for index in failure if index in targets)
            left -= sum(
                one.uses_memory and one.memory >= size
                for index in failure
                for one in state.primaries[index].values()
            )
            number = min(number, max(0, left))
        highest += number
    return None if highest == inf else int(highest)


def _whole(number: float) -> float:
    """Return the largest whole number up to `number`, which may be too low by rounding."""
    return inf if number == inf else floor(number + AMOUNT_TOLERANCE)


def _places(site: CapacityState, instance: Instance) -> Iterator[Nodes]:
    """Yield the nodes, or pairs of nodes, on which limits and policies allow `instance` now."""
    for _, nodes in site.groups:
        for first in nodes:
            if instance.required_nodes == 1:
                if site.allows(instance, (first,)):
                    yield (first,)
                continue
            for second in nodes:
                if first != second and site.allows(instance, (first, second)):
                    yield first, second
