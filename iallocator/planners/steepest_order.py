"""Order the moves of a plan so that the score falls early.

A plan that was made shorter has the last placement of the search, but not its order: an instance
that moved twice moves once. If only the first moves of the plan are made, they should be those that
help most.

Algorithm: make the move that lowers the score most, of those that the limits allow now; repeat.
The moves of one instance keep their order. The score after a move is computed again if the last
move changed one of its nodes, or if the move is among the `LIKELY_MOVES` best ones; the gains of
the other moves hardly change. Scores leave out tags and soft constraints. Cost: O(m c n) array
elements for *m* moves on *n* nodes, if *c* moves share a node with a move.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from iallocator.deadline import check
from iallocator.model.moves import replay
from iallocator.planners.balance.move_kinds import possible
from iallocator.planners.balance.rearrangement import StateScores
from iallocator.planners.plan import ends_of_colocation_groups

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from iallocator.aliases import Floats
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

    def legal(unit: Unit) -> bool:
        with state.trial():
            possibles = (possible(state, problem.fixed, one.move, problem.rules) for one in unit)
            return all(possibles) and keeps_n1()

    with state.trial():
        replay(state, (entry.move for entry in made))
        scores = StateScores(problem)
        changes = [_Changes(unit, scores.position) for unit in units]
        left = np.ones(len(units), dtype=bool)
        gains = np.zeros(len(units))
        again = list(range(len(units)))
        rejections_left = MOST_REJECTIONS
        while left.any():
            check()
            if over():
                return None
            gains[again] = _gains(scores, [changes[number] for number in again])
            ready = np.flatnonzero(left & (earlier == 0))
            best = ready[np.argsort(-gains[ready], kind="stable")].tolist()
            tried = itertools.islice(best, rejections_left + 1)
            chosen = next((number for number in tried if legal(units[number])), None)
            if chosen is None:
                return None
            rejections_left += MORE_REJECTIONS - best.index(chosen)
            left[chosen] = False
            later = following.get(chosen, set())
            earlier[sorted(later)] -= 1
            replay(state, (entry.move for entry in units[chosen]))
            scores.read_state()
            made += units[chosen]
            near = set().union(*(at_node[i] for one in units[chosen] for i in one.move.nodes))
            again = [k for k in best[: LIKELY_MOVES + 1] if k != chosen]
            again += sorted(near.intersection(best[LIKELY_MOVES + 1 : MOST_COMPUTED]))
            again += sorted(later)
    return made


class _Changes:
    """By how much some moves change the arrays of `StateScores`.

    Attributes
    ----------
    amounts:
        Position of a node, and the amounts that are added to it.
    reserved:
        Position of a secondary, that of a primary, and the MiB that the one reserves for it more.
    """

    __slots__ = ("amounts", "reserved")

    def __init__(self, unit: Unit, position: Mapping[int, int]) -> None:
        self.amounts: list[tuple[int, Floats]] = []
        self.reserved: list[tuple[int, int, int]] = []
        for entry in unit:
            instance = entry.move.instance
            as_primary, as_secondary = map(np.array, (instance.as_primary, instance.as_secondary))
            for sign, nodes in ((-1, entry.move.before), (1, entry.move.after)):
                primary, *others = (position[index] for index in nodes)
                self.amounts.append((primary, sign * as_primary))
                for node in others:
                    self.amounts.append((node, sign * as_secondary))
                    if instance.reserves:
                        self.reserved.append((node, primary, sign * instance.memory))


def _gains(scores: StateScores, changes: Sequence[_Changes]) -> list[float]:
    """Return by how much each of `changes` lowers the score of the present state."""
    columns = np.repeat(scores.columns[None], len(changes) + 1, axis=0)
    reserved = np.zeros(columns.shape[::2])
    for row, one in enumerate(changes, start=1):
        for node, amounts in one.amounts:
            columns[row, :, node] += amounts
    if scores.peers.any() or any(one.reserved for one in changes):
        peers = np.repeat(scores.peers[None], len(changes) + 1, axis=0)
        for row, one in enumerate(changes, start=1):
            for node, primary, memory in one.reserved:
                peers[row, node, primary] += memory
        reserved = peers.max(axis=2)
    before, *after = scores.scores(columns, reserved).tolist()
    return [before - one for one in after]
