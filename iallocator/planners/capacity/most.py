"""The largest number of equal instances that can be added to a cluster, by integer programming.

Filling places one instance after the other where the score is best.  Near the end, other places for
some of them may leave capacity for one more.  The program chooses how many of the instances go to
each node, or pair of nodes, and where the instances of each node restart when it fails.

If fewer instances are placed, no limit is broken that was kept.  So every solution can be reached
by placing one instance after the other, in any order.

The variables: a count for each place of a new instance, and those of `RestartRows` for each failure
that must be tolerated.  Limits, policies and the exact search of N+1 check each solution.

Cost: the number of variables is about nodes² × different items of a node, for pairs nodes².
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

__all__ = ["MOST_NEW_INSTANCES", "MostEqual", "most_equal"]

LARGEST_PROGRAM = 1_200
"""No larger program is solved: the number of its choices.

This and the other limits below are multiplied by the thoroughness of the search.
"""

SOLUTIONS_CHECKED = 8
"""How many solutions are checked."""

MOST_NEW_INSTANCES = 300
"""With more new instances there is no program: one more or less hardly matters then."""

LEFT_OUT = ("left out",)
"""The row that counts the instances that are not placed."""


class MostEqual:
    """The largest number of equal instances that was found.

    Attributes
    ----------
    nodes:
        The nodes of each instance; None: no more than the known number were found.
    proved:
        Whether no more can be placed.
    bound:
        An upper bound of the number, whatever its limit is; None if none is known.
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
    """Return places for more than `known` equal instances on `site`, as many as are found.

    Parameters
    ----------
    site:
        The cluster without the new instances, which tolerates every failure that it must; it is
        left as it is. Its N+1 must use exact search.
    newcomer:
        Makes the new instance with a number from 0 on.
    known:
        The number of instances for which places are known.
    limit:
        The largest number that is wanted; None: any.
    budget:
        The work of the solver.
    thoroughness:
        The factor of the size of the program, and of the solutions that are checked.
    """
    program = _Program(site, newcomer, known, thoroughness)
    bound = program.highest()
    highest = bound if limit is None else min(limit, bound)
    known_bound = bound if program.counts_memory else None
    if highest <= known:
        proved = bound <= known and program.counts_memory
        return MostEqual(None, True, known if proved else known_bound)
    if highest > MOST_NEW_INSTANCES * thoroughness or not available() or budget.must_end:
        return MostEqual(None, False, known_bound)
    problem = program.problem(highest)
    if problem is None:
        return MostEqual(None, False, known_bound)
    answer = search(problem, program.rejected, budget, gap=0)
    # With a limit, the program does not ask for more than that
    if answer.status == FOUND and program.accepted is not None:
        count = len(program.accepted)
        proved = answer.proved and (limit is None or count < limit) and program.certain
        return MostEqual(program.accepted, answer.proved, count if proved else known_bound)
    proved = answer.status == IMPOSSIBLE and not program.gave_up
    return MostEqual(None, proved, known if proved and program.certain else known_bound)


class _Program:
    """The program for equal instances, and the check of its solutions.

    Attributes
    ----------
    accepted:
        The nodes of the instances of the last solution, if it passed the check.
    gave_up:
        Whether the number of solutions that may be checked was reached.
    doubtful:
        Whether N+1 rejected a solution that is not proved to be impossible.
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
        """Return a number of instances that memory certainly does not exceed.

        Whichever node fails, all new instances run on the others of its group afterwards, and so
        do the instances of the node. Those that are not smaller than a new one take its place.
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
        """Return whether the instances use memory, so that `highest` is a bound."""
        return bool(self._first.memory and self._first.uses_memory)

    @property
    def certain(self) -> bool:
        """Return whether N+1 decided about every solution that was checked."""
        spent = any(tolerance.rules.effort.spent for tolerance in self._failing.values())
        return not (spent or self.doubtful)

    def problem(self, highest: int) -> Problem | None:
        """Return the program for `highest` instances, more than `known`; None if too large."""
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
        kind.penalty, kind.remains = 1.0, {LEFT_OUT: 1.0}
        problem.at_most(LEFT_OUT, highest - self._placed - 1)
        for failure, tolerance in self._failing.items():
            check()
            RestartRows(problem, failure, tolerance).add(kind, self._first)
            if problem.size > LARGEST_PROGRAM * self._thoroughness:
                return None
        return problem

    def rejected(self, chosen: Mapping[str, Any]) -> Sequence[str] | None:
        """Check a solution; return None if it is accepted, or enough were tried."""
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
    """Yield the nodes, or pairs of nodes, that limits and policies allow now."""
    for _, nodes in site.groups:
        for first in nodes:
            if instance.required_nodes == 1:
                if site.allows(instance, (first,)):
                    yield (first,)
                continue
            for second in nodes:
                if first != second and site.allows(instance, (first, second)):
                    yield first, second
