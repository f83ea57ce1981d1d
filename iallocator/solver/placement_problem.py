"""Express instances, their possible placements, and the limits of nodes as a `Problem`.

The rows of the problem are the sums of `iallocator.limits.node.RESOURCES`, now and with forthcoming
instances, and the rows of the constraints in `iallocator.constraints.table`. The check of an answer
tests all other constraints (`iallocator.solver.highs`). A row may be too lenient, but never too
strict.
"""

from __future__ import annotations

from math import inf

from iallocator.constraints import rows
from iallocator.constraints.table import CONSTRAINTS
from iallocator.limits.node import ALL_LIMITS, FORCED_RESOURCES, resources_of
from iallocator.solver.problem import Choice, Kind, Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from iallocator.aliases import Nodes
    from iallocator.constraints.rows import ConstraintRows
    from iallocator.model.instance import Instance
    from iallocator.model.state import State

    Row = tuple[Any, ...]


__all__ = ["MOVE_COST", "PlacementProblem"]

MOVE_COST = 1.0
"""The cost of moving an instance, in programs that minimise the number of moves.

The memory of the instance, as a share of the memory of all instances, is added.
"""


_SOFT = [resource for resource in resources_of(ALL_LIMITS) if resource not in FORCED_RESOURCES]


class _Sum:
    """A resource with limits, as a sum of columns of a node; the problem has a row for each node.

    Attributes
    ----------
    columns:
        The positions of the columns in the state. With the parameter `later`, they count the
        amount once forthcoming instances exist, otherwise the amount now.
    hard, every:
        The resources that the columns count: for the limits that no move may violate, and for all
        limits.
    """

    def __init__(self, columns: tuple[int, ...], later: bool = False) -> None:
        self.columns = columns
        self.every = [
            one
            for one in (*FORCED_RESOURCES, *_SOFT)
            if columns == (one.later if later else one.columns)
        ]
        self.hard = [one for one in self.every if one in FORCED_RESOURCES and not later]
        self.rising = self.every[0].rising
        self.local = any(one.local for one in self.every)

    def spare(self, state: State, index: int, forced: bool) -> float:
        """Return how much more node `index` can give; `forced`: by the hard limits alone."""
        amount = sum(state.columns[column][index] for column in self.columns)
        node = state.cluster.nodes[index]
        resources = self.hard if forced else self.every
        return min((one.spare(amount, node) for one in resources), default=inf)


def _sums() -> Iterator[_Sum]:
    """Yield each sum once: those of hard limits now, then later, then those of soft limits."""
    keys = [(one.columns, False) for one in FORCED_RESOURCES] + [
        (one.later, True) for one in FORCED_RESOURCES
    ]
    keys += [key for one in _SOFT for key in ((one.columns, False), (one.later, True))]
    for columns, later in dict.fromkeys(keys):
        if columns:
            yield _Sum(columns, later)


SUMS = tuple(_sums())
"""Every sum that a limit bounds; the number of a row is a position here."""

_TERMS = [
    (number, one.columns[0], one.columns[1:], 1 if one.rising else -1, one.local)
    for number, one in enumerate(SUMS)
]


class PlacementProblem:
    """Collects instances that are not on `state`, and their possible placements.

    Parameters
    ----------
    forced:
        The nodes on which only the limits that no move may violate are enforced.
    reserves:
        Group index -> the MiB of memory that the group can give; beyond them, a failure that is
        tolerated now may not be tolerated any more.
    failing:
        The nodes that failed N+1 while the instances were on the state.
    constraints:
        The constraints between the instances, which add rows and the amounts used of them.
    """

    def __init__(
        self,
        state: State,
        forced: Collection[int] = (),
        reserves: Mapping[int, float] | None = None,
        failing: Collection[int] = (),
        constraints: Sequence[ConstraintRows] = (),
    ) -> None:
        self._constraints = constraints
        self._state = state
        self._forced = forced
        self._table: list[ConstraintRows] = [
            getattr(rows, one.rows)(state, forced, failing, reserves or {})
            for one in CONSTRAINTS
            if one.rows
        ]
        self._kinds: dict[Row, Kind] = {}
        self._initial: dict[Row, float] = {}  # by row: the amount used if all may stay

    def add(
        self,
        instance: Instance,
        places: Iterable[tuple[float, Nodes]],
        distinct: Any = None,
        priority: int = 0,
        stays: Nodes = (),
        disks_stay: Nodes = (),
        initial: Nodes = (),
    ) -> None:
        """Add `instance`, with its possible placements `places`.

        Parameters
        ----------
        instance:
            The instance.
        places:
            (score, nodes) of each placement that is possible by itself; lower scores are better,
            and the primary is the first node.
        distinct:
            A value that distinguishes the instance from others of its size.
        priority:
            If not all instances can be placed, those with a higher priority come first.
        stays:
            The nodes on which the instance stays if it is left out.
        disks_stay:
            The nodes on which only its disks stay if it is left out and stopped.
        initial:
            The nodes on which it may stay beside other instances that stay, whatever their limits.
        """
        if initial:
            for row, amount in self._uses(instance, initial).items():
                self._initial[row] = self._initial.get(row, 0) + amount
        listed = list(places)
        more = [
            {
                row: use
                for one in self._constraints
                for row, use in one.uses(instance, nodes).items()
            }
            for _, nodes in listed
        ]
        uses = [self._uses(instance, nodes) | own for (_, nodes), own in zip(listed, more)]
        same = (
            instance.shape,
            instance.exclusion,
            stays,
            disks_stay,
            priority,
            distinct,
            tuple((nodes, *own.items()) for (_, nodes), own in zip(listed, more)),
        )
        kind = self._kinds.get(same)
        if kind is None:
            choices = [Choice(nodes, cost, use) for (cost, nodes), use in zip(listed, uses)]
            remains = self._uses(instance, stays or disks_stay) if stays or disks_stay else {}
            if not stays:  # stopped: its disks only
                disk = {k for k, one in enumerate(SUMS) if one.local and not one.rising}
                remains = {
                    row: amount
                    for row, amount in remains.items()
                    if row[0] == "pool" or (row[0] == "limit" and row[1] in disk)
                }
            kind = self._kinds[same] = Kind([], choices, None, priority, remains)
        kind.members = [*kind.members, instance.name]

    def occupy(self, instance: Instance, index: int) -> None:
        """Reserve capacity for `instance` on node `index`, without placing it."""
        uses = self._uses(instance, (index,))
        self._kinds["kept", index] = Kind([f"kept on {index}"], [Choice((index,), 0.0, uses)])

    def problem(self) -> Problem:
        """Return the problem of all instances added so far; the values of its choices are tuples of
        nodes.
        """
        problem = Problem()
        problem.kinds = list(self._kinds.values())
        # By row: the most that the choices could use; what is used if all members are left out
        most: dict[Row, float] = {}
        remaining: dict[Row, float] = {}
        for kind in problem.kinds:
            highest: dict[Row, float] = {}
            for uses in (kind.remains, *(choice.uses for choice in kind.choices)):
                for row, amount in uses.items():
                    highest[row] = max(highest.get(row, 0), amount)
            for row, amount in highest.items():
                most[row] = most.get(row, 0) + amount * len(kind.members)
            for row, amount in kind.remains.items():
                remaining[row] = remaining.get(row, 0) + amount * len(kind.members)
        owners = {kind: one for one in self._table for kind in one.kinds}
        for row, amount in most.items():
            if row[0] == "limit":
                spare = SUMS[row[1]].spare(self._state, row[2], row[2] in self._forced)
            else:
                spare = owners[row[0]].spare(row) if row[0] in owners else inf
            # No instance has to leave
            spare = max(spare, remaining.get(row, 0), self._initial.get(row, 0))
            if spare < amount:
                problem.at_most(row, spare)
        for constraint in (*self._table, *self._constraints):
            constraint.add_to(problem, most)
        return problem

    def copies_on(self, instance: Instance, index: int) -> tuple[float, float]:
        """Return how many primaries like `instance` the limits of node `index` allow at most, and
        how many primaries and secondaries together; inf if no limit bounds the number.
        """
        used = (
            self._amounts(instance, instance.as_primary, index),
            self._amounts(instance, instance.as_secondary, index),
        )
        primaries = both = inf
        for row, amount in used[0].items():
            spare = max(SUMS[row[1]].spare(self._state, index, index in self._forced), 0)
            primaries = min(primaries, spare / amount)
            if row in used[1]:
                both = min(both, spare / min(amount, used[1][row]))
        return primaries, both

    def _amounts(self, instance: Instance, vector: Sequence[float], index: int) -> dict[Row, float]:
        """Return row -> the amount that `instance` uses if it adds `vector` to node `index`."""
        amounts: dict[Row, float] = {}
        for number, first, more, sign, local in _TERMS:
            amount = vector[first]
            for column in more:
                amount += vector[column]
            if amount and (instance.local or not local):
                amounts["limit", number, index] = sign * amount
        return amounts

    def _uses(self, instance: Instance, nodes: Nodes) -> dict[Row, float]:
        """Return row -> the amount that `instance` on `nodes` uses."""
        uses: dict[Row, float] = {}
        for role, index in enumerate(nodes):
            vector = instance.as_secondary if role else instance.as_primary
            uses |= self._amounts(instance, vector, index)
        for constraint in self._table:
            uses |= constraint.uses(instance, nodes)
        return uses
