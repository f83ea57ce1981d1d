"""Emptying nodes at once: each instance, the largest first, to where most room is left.

Whether a set of nodes can be freed is asked many times, and a balanced end is of use only once.
Here no move is compared with all others, so that an answer costs about as much as the moves.
"""

from __future__ import annotations

from itertools import islice

from iallocator.deadline import check
from iallocator.limits.migration import missing_migration_tags
from iallocator.model.columns import CPUS, MEMORY, MEMORY_LATER
from iallocator.model.moves import places_after
from iallocator.placement.move_limits import MoveLimits
from iallocator.planners.balance.colocation_groups import possible
from iallocator.planners.balance.move_kinds import KINDS
from iallocator.planners.kept_order import KeptOrder
from iallocator.planners.plan import PlanEntry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.cluster import Node
    from iallocator.model.instance import Instance
    from iallocator.model.moves import Move
    from iallocator.model.state import State
    from iallocator.planners.balance.move_kinds import MoveKind
    from iallocator.planners.balance.problem import BalanceProblem
    from iallocator.planners.squeeze.headroom import Headroom

    Place = tuple[MoveKind, int, Nodes]
    """A move, its target, and the nodes after it."""

__all__ = ["Rooms", "pack"]

TARGETS = 6
"""New secondaries of a drbd instance that are compared, those with most room."""

INFINITE = float("inf")

NOTHING: Sequence[float] = (0,) * (max(CPUS, MEMORY, MEMORY_LATER) + 1)
"""What does not change a node."""


def pack(
    problem: BalanceProblem, off: frozenset[int], reserve: Headroom, careful: bool = False
) -> list[PlanEntry]:
    """Moves off the nodes `off`, made in the state of `problem`, each allowed when it is made.

    Primaries leave nodes that are not online, too.  A mirror that stays reserves memory for
    a new primary; only if `careful` it is asked whether it can: what comes later may make that
    well, and it is quicker not to ask.
    Whoever finds no place stays.  The scores of the moves are not known.
    """
    packing = _Packing(problem, off, reserve, careful)
    leaving = [i for i in problem.instances if packing.is_left(problem.state.where[i.name])]
    leaving.sort(key=lambda instance: -instance.memory)
    made: list[PlanEntry] = []
    for instance in leaving:
        check()
        while packing.is_left(problem.state.where[instance.name]):
            move = packing.move(instance)
            if move is None:
                break
            made.append(PlanEntry(move))
    return made


class Rooms(KeptOrder):
    """How much room nodes have: the share that is left beside the reserve, of what is scarcest.

    Those of `nodes` are kept in the order of most room.
    """

    __slots__ = ("_cpus", "_memory", "_sizes", "_state")

    def __init__(self, state: State, nodes: Sequence[int], reserve: Headroom) -> None:
        self._state = state
        self._memory, self._cpus = reserve.instance.memory, reserve.instance.vcpus
        self._sizes = [
            (node.total_memory or 1, node.vcpu_ratio * node.total_cpus)
            for node in state.cluster.nodes
        ]
        super().__init__(nodes)

    def key(self, index: int) -> float:
        """Those with most room come first."""
        return -self.of(index)

    def of(self, index: int, more: Sequence[float] = NOTHING, reserved: float = 0) -> float:
        """The room of a node once `more` is added to it, and `reserved` MiB are reserved there."""
        columns, kept = self._state.columns, self._state.reserved[index]
        total, size = self._sizes[index]
        memory = columns[MEMORY][index] + more[MEMORY] - (kept if kept > reserved else reserved)
        later = columns[MEMORY_LATER][index] + more[MEMORY_LATER]
        memory = min(memory, later)
        rest = (memory - self._memory - 1) / total
        cpus = (size - columns[CPUS][index] - more[CPUS] - self._cpus) / (size or 1)
        return cpus if cpus < rest else rest


class _Packing:
    """Finds the next move of one instance."""

    def __init__(
        self, problem: BalanceProblem, off: frozenset[int], reserve: Headroom, careful: bool
    ) -> None:
        self._problem = problem
        self._careful = careful
        self._state = problem.state
        self._freed = off
        nodes = problem.state.cluster.nodes
        online = [index for index in problem.scope if nodes[index].online]
        self._down = frozenset(problem.scope).difference(online)
        self._off = off | self._down
        self._limits = MoveLimits(problem.state, problem.fixed, problem.rules.limit_policies)
        self._rooms = Rooms(problem.state, online, reserve)
        self._known: dict[tuple[bool, ...], list[tuple[MoveKind, Nodes]]] = {}

    def is_left(self, nodes: Sequence[int]) -> bool:
        """Whether one of `nodes`, primary first, is to be left: nobody runs where it is offline."""
        return not self._freed.isdisjoint(nodes) or nodes[0] in self._down

    def move(self, instance: Instance) -> Move | None:
        """Make the best move that leaves fewer nodes to be left; None if there is none."""
        before = self._state.where[instance.name]
        if len(before) > 1:
            with self._state.trial():
                self._state.remove(instance, before)
                place = self._first_allowed(instance, before)
        else:  # what it leaves is no target, and matters to none of them
            place = self._first_allowed(instance, before)
        if place is None:
            return None
        kind, target, after = place
        move = kind.move(instance, before, target)
        move.apply(self._state)
        self._rooms.renew((*before, *after))
        return move

    def _first_allowed(self, instance: Instance, before: Nodes) -> Place | None:
        """The best place that is allowed for an instance that is on none of the targets."""
        places = self._pairs(instance, before) if len(before) > 1 else self._singles()
        return next((place for place in places if self._allows(instance, before, place)), None)

    def _allows(self, instance: Instance, before: Nodes, place: Place) -> bool:
        """Return whether the limits allow every step of a move that begins at `before`."""
        kind, target, after = place
        if len(kind.letters) > 1:
            changed = before[0] != after[0], before[1] != after[1]
            if self._limits.rejection(instance, before, after, *changed) is not None:
                return False  # the end alone is checked first, because that is fast
            with self._state.trial():
                self._state.place(instance, before)
                move = kind.move(instance, before, target)
                return possible(self._state, self._problem.fixed, move, self._problem.rules)
        if not self._limits.allow(instance, before, after):
            return False
        if not self._careful or before[1:] != after[1:]:
            return True
        return self._limits.rejection(instance, before, after, False, True) is None

    def _singles(self) -> Iterator[Place]:
        """The places of an instance on shared storage, those with most room first."""
        return ((KINDS[-1], index, (index,)) for index in self._rooms.in_order())

    def _pairs(self, instance: Instance, before: Nodes) -> Iterator[Place]:
        """Return the places of a drbd instance, those that leave most free capacity first.

        Last come those where migration tags bar a failover: no failure of the primary is
        tolerated there.
        """
        targets = self._targets(before)
        leads: dict[int, float] = {}
        found: list[tuple[bool, float, Place]] = []
        cluster = self._state.cluster
        for kind, shape in self._shapes(before):
            for target in targets:
                check()
                after = shape[0] if shape[0] >= 0 else target, shape[1] if shape[1] >= 0 else target
                barred = bool(missing_migration_tags(cluster, *after))
                room = self._left(instance, after, leads)
                found.append((barred, room, (kind, target, after)))
        found.sort(key=lambda one: (one[0], -one[1]))
        yield from (place for _, _, place in found)

    def _shapes(self, before: Nodes) -> Iterator[tuple[MoveKind, Nodes]]:
        """The kinds of moves that leave fewer nodes to be left; -1 stands for the target."""
        ends = [self._state.cluster.nodes[index] for index in before]
        left = tuple(index in self._off for index in before)
        reaches = self._problem.rules.limit_policies.reaches(ends[0])
        condition = (*left, ends[0].online, ends[1].online, reaches)
        known = self._known.get(condition)
        if known is None:
            known = self._known[condition] = self._shapes_of(ends, left)
        for kind, places in known:
            yield kind, tuple(before[place] if place >= 0 else -1 for place in places)

    def _shapes_of(
        self, ends: Sequence[Node], left: tuple[bool, ...]
    ) -> list[tuple[MoveKind, Nodes]]:
        """The same, with the places in `before` for the nodes; it depends on their condition."""
        found = []
        for kind in KINDS[:-1]:
            if kind.targeted and self._problem.rules.allows_of(kind, ends[0], ends[1]):
                after = places_after((0, 1), kind.steps((0, 1), -1))
                if sum(left[place] for place in after if place >= 0) < sum(left):
                    found.append((kind, after))
        return found

    def _targets(self, before: Nodes) -> list[int]:
        """The new secondaries that are compared."""
        others = (index for index in self._rooms.in_order() if index not in before)
        return list(islice(others, TARGETS))

    def _left(self, instance: Instance, after: Nodes, leads: dict[int, float]) -> float:
        """The least room of the nodes `after` that stay, with the instance there.

        `leads`: the room that is known of some nodes with the instance as their primary.
        """
        primary, secondary = after
        room = INFINITE
        if primary not in self._off:
            if primary not in leads:
                leads[primary] = self._rooms.of(primary, instance.as_primary)
            room = leads[primary]
        if secondary not in self._off:
            reserved = 0.0
            if instance.reserves:
                reserved = self._state.peers[secondary].get(primary, 0) + instance.memory
            room = min(room, self._rooms.of(secondary, instance.as_secondary, reserved))
        return room
