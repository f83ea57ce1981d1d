"""Order the moves of a plan so that the score falls early.

A plan that was made shorter has the last placement of the search, but not its order: an instance
that moved twice moves once. If only the first moves of the plan are made, they should be those that
help most.

Algorithm: make the move that lowers the score most, of those that the limits allow now; repeat.
The moves of one instance keep their order. The score after a move is computed again if the last
move changed one of its nodes, or if the move is among the `LIKELY_MOVES` best ones; the gains of
the other moves hardly change. Only the values of the nodes of a move are computed, but the sums of
the values of all nodes. Scores leave out tags and soft constraints. Cost: O(m c n) array elements
for *m* moves on *n* nodes, if *c* moves share a node with a move.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from iallocator.deadline import check
from iallocator.model.columns import COLUMNS
from iallocator.model.moves import replay
from iallocator.model.node_view import NodeView
from iallocator.planners.balance.move_kinds import possible
from iallocator.planners.balance.rearrangement import StateScores
from iallocator.planners.plan import ends_of_colocation_groups
from iallocator.scoring.arrays import counted_by, scores_of_sums, values_of
from iallocator.scoring.metrics import NO_CENTRES, STATISTICS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence, Set

    from iallocator.aliases import Floats, Indices
    from iallocator.planners.balance.plan_builder import BalanceProblem
    from iallocator.planners.plan import PlanEntry

    Unit = list[PlanEntry]
    """Moves that are made one right after the other: one, or those of a colocation group."""

__all__ = ["steepest_order"]

LIKELY_MOVES = 16
"""For so many moves, those with the highest last known gains, the gains are always computed."""

MOST_COMPUTED = 100
"""For so many moves, those with the highest last known gains, the gains may be computed."""


MOST_REJECTIONS, MORE_REJECTIONS = 100, 1
"""The limits may reject so many moves in all; and so many more for each move that is made.

If they reject more, there is probably no order: nodes lack memory, for example.
"""

UNEVEN = frozenset({"reserved", "fails_n1"})
SPINDLES = frozenset({"free_spindles", "free_spindles_later"})
"""Amounts of nodes that are no sums over instances: always; and with unknown spindles."""


def steepest_order(
    problem: BalanceProblem,
    entries: Sequence[PlanEntry],
    keeps_n1: Callable[[], bool],
    over: Callable[[], bool],
) -> list[PlanEntry] | None:
    """Return `entries` in an order in which each move lowers the score as much as possible.

    None if the limits reject many moves, or all that are left, or if `over` returns that time is
    up. The moves up to the last one that satisfies a hard constraint stay first. The moves of a
    colocation group stay together.

    Parameters
    ----------
    problem:
        The group, with the state before the moves, which is not changed.
    entries:
        The moves of the group, in a legal order.
    keeps_n1:
        Returns whether N+1 allows the present state of `problem` between two moves.
    over:
        Returns whether time is up.
    """
    fixed = 1 + max((k for k, entry in enumerate(entries) if entry.repairs), default=-1)
    made = list(entries[:fixed])
    units: list[Unit] = [[]]
    for entry, last in zip(entries[fixed:], ends_of_colocation_groups(entries[fixed:])):
        units[-1].append(entry)
        if last:
            units.append([])
    units.pop()
    following: dict[int, set[int]] = {}  # unit -> the next units of its instances
    earlier = np.zeros(len(units), dtype=np.intp)  # how many units must be made before each
    at_node: dict[int, set[int]] = {}  # node -> the units that change it
    last_unit: dict[str, int] = {}
    for number, unit in enumerate(units):
        for entry in unit:
            name = entry.move.instance.name
            if last_unit.get(name, number) != number:
                following.setdefault(last_unit[name], set()).add(number)
            last_unit[name] = number
            for index in entry.move.nodes:
                at_node.setdefault(index, set()).add(number)
    for later in following.values():
        earlier[sorted(later)] += 1
    state = problem.state
    with state.trial():
        replay(state, (entry.move for entry in made))
        scores = _UnitScores(problem, units)
        left = np.ones(len(units), dtype=bool)
        gains = np.zeros(len(units))
        again = list(range(len(units)))
        rejections_left = MOST_REJECTIONS
        while left.any():
            check()
            if over():
                return None
            gains[again] = scores.gains(again)
            ready = np.flatnonzero(left & (earlier == 0))
            best = ready[np.argsort(-gains[ready], kind="stable")].tolist()
            tried = itertools.islice(best, rejections_left + 1)
            chosen = next((k for k in tried if _make(problem, units[k], keeps_n1)), None)
            if chosen is None:
                return None
            rejections_left += MORE_REJECTIONS - best.index(chosen)
            left[chosen] = False
            later = following.get(chosen, set())
            earlier[sorted(later)] -= 1
            made += units[chosen]
            changed = frozenset().union(*(one.move.nodes for one in units[chosen]))
            scores.follow(changed)
            near = set().union(*(at_node[index] for index in changed))
            again = [k for k in best[: LIKELY_MOVES + 1] if k != chosen]
            again += sorted(near.intersection(best[LIKELY_MOVES + 1 : MOST_COMPUTED]))
            again += sorted(later)
    return made


def _make(problem: BalanceProblem, unit: Unit, keeps_n1: Callable[[], bool]) -> bool:
    """Make the moves of `unit` if the limits and N+1 allow it; return whether they were made."""
    state = problem.state
    with state.trial():
        if not all(possible(state, problem.fixed, one.move, problem.rules) for one in unit):
            return False
    trial = state.trial()
    with trial:
        replay(state, (entry.move for entry in unit))
        if keeps_n1():
            trial.keep()
            return True
    return False


class _UnitScores(StateScores):
    """Scores of the present state of the problem, and by how much each unit lowers the score.

    The values of all nodes are added up again for each unit: a sum that is only corrected by the
    changes has a rounding error, which could decide between units with nearly equal gains.
    """

    def __init__(self, problem: BalanceProblem, units: Sequence[Unit]) -> None:
        super().__init__(problem)
        every = [_Changes(unit, self.position) for unit in units]
        ends = np.cumsum([len(one.nodes) for one in every], dtype=np.intp).tolist()
        self._pairs = [range(end - len(one.nodes), end) for one, end in zip(every, ends)]
        self._nodes = np.array([node for one in every for node in one.nodes], dtype=np.intp)
        self._reserved = [one.reserved for one in every]
        depth = max((len(amounts) for one in every for amounts in one.nodes.values()), default=0)
        self._amounts: Floats = np.zeros((depth, len(COLUMNS), len(self._nodes)))
        pair = itertools.count()
        for one in every:
            for layers, at in zip(one.nodes.values(), pair):
                self._amounts[: len(layers), :, at] = layers
        view = NodeView(list(self.columns), list(self._fixed), self.peers.max(axis=1))
        values = values_of(view, NO_CENTRES, (len(self.position),))
        self._sums, self._squares = values.sum(axis=1), (values * values).sum(axis=1)
        self._counted = counted_by(view, len(self.position))
        hides = any(entry.move.instance.hides_spindles for unit in units for entry in unit)
        self._find_changing(values, UNEVEN | SPINDLES if hides else UNEVEN)
        self._values = values[self._leaders]
        self._counted = self._counted[self._leaders]

    def _find_changing(self, values: Floats, uneven: Set[str]) -> None:
        """Find the statistics that units change, and of equal ones the first, the leader.

        Two statistics are equal if their values are, now and after each unit. `values`: statistics
        × nodes. `uneven`: the amounts that are no sums over instances: only statistics that read
        the same of them can be equal.
        """
        nodes = self._nodes
        columns = self.columns[:, nodes] + self._amounts.sum(axis=0)
        reserved = self.peers.max(axis=1)[nodes]
        view = NodeView(list(columns), list(self._fixed[:, nodes]), reserved)
        after = values_of(view, NO_CENTRES, nodes.shape)
        rows: dict[object, int] = {}
        row_of: dict[int, int] = {}  # statistic -> the row of its leader
        self._leaders: list[int] = []
        for k, statistic in enumerate(STATISTICS):
            read = statistic.reads & uneven
            if read or (after[k] != values[k, nodes]).any():
                key = read, values[k].tobytes(), after[k].tobytes()
                row_of[k] = rows.setdefault(key, len(rows))
                if len(rows) > len(self._leaders):
                    self._leaders.append(k)
        self._changing = np.array([*row_of], dtype=np.intp)
        self._rows = np.array([*row_of.values()], dtype=np.intp)

    def follow(self, nodes: Iterable[int]) -> None:
        """Set the amounts and values of `nodes` to those of the present state of the problem."""
        self.read_nodes(nodes)
        at = np.array([self.position[index] for index in nodes], dtype=np.intp)
        self._values[:, at] = self._values_at(at, self.columns[:, at], self.peers[at])
        self._add_up(self._values, self._sums, self._squares)

    def _add_up(self, values: Floats, sums: Floats, squares: Floats) -> None:
        """Set the sums and the sums of squares of the statistics that units change.

        `values`: those of the leaders, with the nodes as the last axis.
        """
        sums[self._changing] = values.sum(axis=-1)[self._rows]
        squares[self._changing] = (values * values).sum(axis=-1)[self._rows]

    def gains(self, numbers: Sequence[int]) -> list[float]:
        """Return by how much each unit of `numbers` lowers the score of the present state."""
        gains: list[float] = []
        for start in range(0, len(numbers), MOST_COMPUTED):
            gains += self._gains(numbers[start : start + MOST_COMPUTED])
        return gains

    def _gains(self, numbers: Sequence[int]) -> list[float]:
        pairs = np.array([pair for one in numbers for pair in self._pairs[one]], dtype=np.intp)
        rows = [row for row, number in enumerate(numbers) for _ in self._pairs[number]]
        nodes = self._nodes[pairs]
        columns, peers = self.columns[:, nodes], self.peers[nodes]
        for amounts in self._amounts:
            columns += amounts[:, pairs]
        first = 0
        for number in numbers:
            for place, primary, memory in self._reserved[number]:
                peers[first + place, primary] += memory
            first += len(self._pairs[number])
        values = np.repeat(self._values[:, None], len(numbers), axis=1)
        values[:, rows, nodes] = self._values_at(nodes, columns, peers)
        sums = np.repeat(self._sums[:, None], len(numbers) + 1, axis=1)
        squares = np.repeat(self._squares[:, None], len(numbers) + 1, axis=1)
        self._add_up(values, sums[:, 1:], squares[:, 1:])
        before, *after = scores_of_sums(sums, squares, self._counts).tolist()
        return [before - one for one in after]

    def _values_at(self, nodes: Indices, columns: Floats, peers: Floats) -> Floats:
        """Return the values of the leaders on `nodes`, for these amounts."""
        view = NodeView(list(columns), list(self._fixed[:, nodes]), peers.max(axis=1))
        values: Floats = np.empty((len(self._leaders), len(nodes)))
        for row, k in zip(values, self._leaders):
            row[:] = STATISTICS[k].value(view)
        values *= self._counted[:, nodes]
        return values


class _Changes:
    """By how much the moves of a unit change the arrays of `StateScores`.

    Attributes
    ----------
    nodes:
        Position of a node -> the amounts that are added to it, one after the other.
    reserved:
        Place of a secondary in `nodes`, position of a primary, and the MiB that the one reserves
        for it more.
    """

    __slots__ = ("nodes", "reserved")

    def __init__(self, unit: Unit, position: Mapping[int, int]) -> None:
        self.nodes: dict[int, list[Sequence[float]]] = {}
        self.reserved: list[tuple[int, int, int]] = []
        for entry in unit:
            instance = entry.move.instance
            for sign, nodes in ((-1, entry.move.before), (1, entry.move.after)):
                primary, *others = (position[index] for index in nodes)
                roles = [(primary, instance.as_primary)]
                roles += ((node, instance.as_secondary) for node in others)
                for node, vector in roles:
                    self.nodes.setdefault(node, []).append([sign * amount for amount in vector])
                if instance.reserves:
                    places = [*self.nodes]
                    self.reserved += (
                        (places.index(node), primary, sign * instance.memory) for node in others
                    )
