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

from iallocator.deadline import check
from iallocator.model.columns import MEMORY
from iallocator.planners.restart_rows import RestartRows
from iallocator.solver.highs import available, search
from iallocator.solver.placement_problem import PlacementProblem
from iallocator.solver.problem import FOUND, IMPOSSIBLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from iallocator.aliases import Nodes
    from iallocator.deadline import Deadline
    from iallocator.model.instance import Instance
    from iallocator.planners.capacity.site import CapacityState
    from iallocator.solver.problem import Problem

    Row = tuple[Any, ...]

__all__ = ["MOST_PROGRAM_INSTANCES", "MostEqual", "most_equal"]

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
    highest = bound if limit is None else min(limit, bound)
    known_bound = bound if program.counts_memory else None
    if highest <= known:
        proved = bound <= known and program.counts_memory
        return MostEqual(None, True, known if proved else known_bound)
    if highest > MOST_PROGRAM_INSTANCES * thoroughness or not available() or budget.must_end:
        return MostEqual(None, False, known_bound)
    problem = program.problem(highest)
    if problem is None:
        return MostEqual(None, False, known_bound)
    answer = search(problem, program.rejected, budget, gap=0)
    # With a limit, the program has at most that many instances
    if answer.status == FOUND and program.accepted is not None:
        count = len(program.accepted)
        proved = answer.proved and (limit is None or count < limit) and program.certain
        return MostEqual(program.accepted, answer.proved, count if proved else known_bound)
    proved = answer.status == IMPOSSIBLE and not program.gave_up
    return MostEqual(None, proved, known if proved and program.certain else known_bound)


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
        self._failing = {
            failure: tolerance
            for tolerance, failing in site.n1.required(self._first)
            for failure in failing
        }

    def highest(self) -> int:
        """Return an upper bound of the number of new instances, from memory alone.

        Whichever node fails, all new instances must then run on the other nodes of its group, and
        so must the present instances of the node. Each present instance that has at least the
        memory of a new instance takes the place of a new instance.
        """
        size, state = self._first.memory, self._site.state
        if not (size and self._first.uses_memory):
            return self._placed
        slots = {
            index: max(0, int(state.columns[MEMORY][index] - 1) // size)
            for index in {index for nodes in self._places for index in nodes}
        }
        total = sum(slots.values())
        least = total
        for failure, tolerance in self._failing.items():
            nodes = state.cluster.nodes
            group = nodes[failure[0]].group
            inside = [index for index in slots if nodes[index].group is group]
            left = 0
            for index in tolerance.rules.targets(state.cluster, group):
                if index not in failure:
                    left += max(0, int(state.columns[MEMORY][index] - 1) // size)
            left -= sum(
                one.uses_memory and one.memory >= size
                for index in failure
                for one in state.primaries[index].values()
            )
            here = min(max(0, left), sum(slots[index] for index in inside))
            least = min(least, total - sum(slots[index] for index in inside) + here)
        return least

    @property
    def counts_memory(self) -> bool:
        """Return whether the new instances use memory; only then, `highest` is a bound."""
        return bool(self._first.memory and self._first.uses_memory)

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
        lenient = {
            index
            for group, nodes in self._site.groups
            if self._site.spares(group.index)
            for index in nodes
        }
        collected = PlacementProblem(state, lenient)
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
