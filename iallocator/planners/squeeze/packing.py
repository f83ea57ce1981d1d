"""Emptying nodes at once: each instance, the largest first, to where most room is left.

Whether a set of nodes can be freed is asked many times, and a balanced end is of use only once.
Here no move is compared with all others, so that an answer costs instances × nodes.
"""

from __future__ import annotations

from iallocator.model.moves import apply_steps, places_after
from iallocator.placement.verdict.move_limits import MoveLimits
from iallocator.planners.balance.move_kinds import KINDS
from iallocator.planners.plan import PlannedMove, traffic
from iallocator.scoring.state_score import score_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.planners.balance.move_kinds import MoveKind
    from iallocator.planners.balance.problem import BalanceProblem
    from iallocator.planners.squeeze.headroom import Headroom

    Place = tuple[MoveKind, int]

__all__ = ["pack", "scored"]

TARGETS = 6
"""New secondaries of a drbd instance that are compared, those with most room."""


def pack(arena: BalanceProblem, off: frozenset[int], reserve: Headroom) -> list[PlannedMove]:
    """Moves off the nodes `off`, made in the state of `arena`, each allowed when it is made.

    Whoever finds no place stays.  The scores of the moves are not known, see `scored`.
    """
    packing = _Packing(arena, off, reserve)
    leaving = [i for i in arena.instances if packing.is_left(arena.state.where[i.name])]
    leaving.sort(key=lambda instance: -instance.memory)
    made: list[PlannedMove] = []
    for instance in leaving:
        while packing.is_left(arena.state.where[instance.name]):
            move = packing.move(instance)
            if move is None:
                break
            made.append(move)
    return made


def scored(state: State, scope: Sequence[int], moves: Sequence[PlannedMove]) -> float:
    """Make `moves`, note at each the score of the nodes of `scope` after it; return the last."""
    for move in moves:
        apply_steps(state, move.instance, move.steps)
        move.score = score_of(state, scope)
    return moves[-1].score if moves else score_of(state, scope)


class _Packing:
    """Finds the next move of one instance."""

    def __init__(self, arena: BalanceProblem, off: frozenset[int], reserve: Headroom) -> None:
        self._arena = arena
        self._state = arena.state
        self._reserve = reserve
        self._off = off
        nodes = arena.state.cluster.nodes
        self._online = [index for index in arena.scope if nodes[index].online]
        self._limits = MoveLimits(arena.state, arena.fixed, arena.rules.motions)
        self._room = {index: self._room_of(index) for index in self._online}

    def is_left(self, nodes: Sequence[int]) -> bool:
        """Whether one of `nodes` is to be left."""
        return not self._off.isdisjoint(nodes)

    def _room_of(self, index: int) -> float:
        """The share of a node that is left beside the reserve, of what is scarcest there."""
        state, node = self._state, self._state.cluster.nodes[index]
        memory, later, cpus = self._reserve.slack(state, index)
        memory = min(memory - state.reserved[index], later)
        size = node.vcpu_ratio * node.total_cpus
        return min(memory / (node.total_memory or 1), cpus / (size or 1))

    def move(self, instance: Instance) -> PlannedMove | None:
        """Make the best move that leaves fewer nodes to be left; None if there is none."""
        before = self._state.where[instance.name]
        order = sorted(self._online, key=lambda index: -self._room[index])
        places = (
            self._mirrored(instance, before, order)
            if len(before) > 1
            else [(KINDS[-1], index) for index in order]
        )
        for kind, target in places:
            if self._allowed(instance, before, places_after(before, kind.steps(before, target))):
                return self._made(instance, before, kind, target)
        return None

    def _mirrored(
        self, instance: Instance, before: tuple[int, ...], order: Sequence[int]
    ) -> list[Place]:
        """The places of a drbd instance, those first that leave most room where they are least."""
        rules, nodes = self._arena.rules, self._state.cluster.nodes
        online = nodes[before[0]].online, nodes[before[1]].online
        found: list[tuple[float, Place]] = []
        for kind in KINDS[:-1]:
            if not rules.allows(kind, *online):
                continue
            for target in self._targets(kind, before, order):
                after = places_after(before, kind.steps(before, target))
                if sum(n in self._off for n in after) < sum(n in self._off for n in before):
                    found.append((self._left(instance, before, after), (kind, target)))
        found.sort(key=lambda one: -one[0])
        return [place for _, place in found]

    @staticmethod
    def _targets(kind: MoveKind, before: tuple[int, ...], order: Sequence[int]) -> Iterator[int]:
        if not kind.targeted:
            return
        others = [index for index in order if index not in before]
        yield from others[:TARGETS]

    def _left(self, instance: Instance, before: tuple[int, ...], after: tuple[int, ...]) -> float:
        """The least room of the nodes `after` with the instance there."""
        with self._state.trial():
            self._state.remove(instance, before)
            self._state.place(instance, after)
            return min(self._room_of(index) for index in after if index not in self._off)

    def _allowed(self, instance: Instance, before: tuple[int, ...], after: tuple[int, ...]) -> bool:
        state = self._state
        with state.trial():
            state.remove(instance, before)
            return self._limits.allow(instance, before, after)

    def _made(
        self, instance: Instance, before: tuple[int, ...], kind: MoveKind, target: int
    ) -> PlannedMove:
        """Carry out a move."""
        steps = kind.steps(before, target)
        after = apply_steps(self._state, instance, steps)
        for index in {*before, *after}.intersection(self._room):
            self._room[index] = self._room_of(index)
        notation = kind.notation(self._state.cluster.nodes[target].name)
        return PlannedMove(instance, before, steps, notation, 0.0, traffic(instance, kind.letters))
