"""The fewest moves, and of those the least traffic, after which a goal is reached.

Moves are tried one, two, three deep; each must be legal as things are after those before it:
limits, bonds, pools, N+1.  Where no order of moves is left untried, what is found is proved to
be the fewest, and that nothing is found is a proof, too.
"""

from __future__ import annotations

from heapq import nlargest

from iallocator.model.columns import DISK, MEMORY
from iallocator.model.moves import places_after
from iallocator.planners.balance.move_kinds import KINDS
from iallocator.planners.eligible import movable
from iallocator.planners.plan import PlannedMove, traffic
from iallocator.scoring.state_score import score_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context
    from iallocator.planners.balance.move_kinds import MoveKind
    from iallocator.planners.make_room.goal import Goal

    Nodes = tuple[int, ...]
    Stands = Callable[[Sequence[PlannedMove]], bool]

__all__ = ["RoomSearch"]

WORK = 400_000
"""Moves looked at × nodes of their group, after which the search ends: some seconds."""

ANSWER = 5
"""How many looks at a move it costs to ask for the goal."""

INFINITE = float("inf")


class RoomSearch:
    """Searches for at most `most` moves that copy at most `cost` MiB; None: any amount.

    `context` is moved meanwhile, and is as it was afterwards.  `stands` says whether the whole
    of a plan stands the test of all limits.

    Attributes
    ----------
    found:
        The moves; None if there are none that do.
    proved:
        Whether fewer moves, or as many with less traffic, would not do.
    """

    def __init__(
        self, context: Context, goal: Goal, most: int, cost: float | None, stands: Stands
    ) -> None:
        self._context = context
        self._goal = goal
        self._most = most
        self._limit = INFINITE if cost is None else cost
        self._stands = stands
        self._room = _Room(context, goal)
        self._movable = self._movers()
        self._left = WORK
        self._made: list[PlannedMove] = []
        self._seen: dict[tuple[int, frozenset[tuple[str, Nodes]]], float] = {}
        self._copied = INFINITE
        self.found: list[PlannedMove] | None = None
        self.proved = True

    def run(self) -> None:
        """Search; what was found until the time is up stays."""
        for depth in range(1, self._most + 1):
            self._seen.clear()
            self._deeper(depth, 0)
            if self.found is not None or self._over():
                break
        self.proved = not self._over()

    def _over(self) -> bool:
        return self._left <= 0 or self._context.alarm.over()

    def _movers(self) -> list[Instance]:
        """Who may be moved: not those that the request is about."""
        context = self._context
        relations = context.bonds.relations
        kept = self._goal.concerned.union(relations.stuck if relations is not None else ())
        return [
            one
            for group in context.cluster.groups
            if group.nodes
            for one in movable(context.cluster, group, excluded=kept)
            if not one.forthcoming
        ]

    def _deeper(self, depth: int, copied: float) -> None:
        """Make one more move, whichever may lead to the goal in `depth` of them."""
        if depth == 0:
            self._arrived(copied)
            return
        if not self._room.possible(self._movable, depth):
            return
        for price, instance, kind, target in sorted(self._moves(depth), key=_price):
            if self._over() or copied + price > self._limit or copied + price >= self._copied:
                return
            self._try(instance, kind, target, depth, copied + price)

    def _arrived(self, copied: float) -> None:
        self._spend(ANSWER * len(self._context.cluster.nodes))
        if self._goal.reached() and self._stands(self._made):
            self.found, self._copied = list(self._made), copied

    def _spend(self, amount: int) -> None:
        self._left -= amount

    def _moves(self, depth: int) -> Iterator[tuple[float, Instance, MoveKind, int]]:
        """MiB, who, how and where to: every move that may be worth a look."""
        state, nodes = self._context.state, self._context.cluster.nodes
        for instance in self._movable:
            present = state.where[instance.name]
            if depth == 1 and not self._room.helped(instance, present):
                continue
            drbd = len(present) > 1
            for kind in KINDS:
                if kind.drbd != drbd:
                    continue
                targets = nodes[present[0]].group.nodes if kind.targeted else [present[0]]
                price = traffic(instance, kind.letters)
                for target in targets:
                    open_ = nodes[target].online and target not in self._goal.left
                    if not kind.targeted or (target not in present and open_):
                        yield price, instance, kind, target

    def _try(
        self, instance: Instance, kind: MoveKind, target: int, depth: int, copied: float
    ) -> None:
        """Make a move if it is legal, go on from there, and take it back."""
        context, state = self._context, self._context.state
        before = state.where[instance.name]
        steps = kind.steps(before, target)
        after = places_after(before, steps)
        if after[0] != before[0] and (
            after[0] in self._goal.left
            or (instance.uses_memory and state.columns[MEMORY][after[0]] <= instance.memory)
        ):
            return
        group = context.cluster.nodes[after[0]].group
        self._spend(len(group.nodes))
        if context.evaluator(group).refusal(instance, before, after) is not None:
            return
        self._put(instance, before, after)
        moved = frozenset(
            (one.name, state.where[one.name])
            for one in self._movable
            if state.where[one.name] != one.nodes
        )
        key = depth, moved
        if self._seen.get(key, INFINITE) > copied:
            self._seen[key] = copied
            notation = kind.notation(context.cluster.nodes[target].name)
            score = score_of(state, range(len(context.cluster.nodes)))
            price = traffic(instance, kind.letters)
            self._made.append(PlannedMove(instance, before, steps, notation, score, price))
            self._deeper(depth - 1, copied)
            self._made.pop()
        self._put(instance, after, before)

    def _put(self, instance: Instance, before: Nodes, after: Nodes) -> None:
        self._context.state.remove(instance, before)
        self._context.state.place(instance, after)


class _Room:
    """What the goal needs at least of the nodes, where it is one new instance: else nothing.

    Only limits that no setting takes away: free memory of a primary, free disk.
    """

    def __init__(self, context: Context, goal: Goal) -> None:
        self._state = context.state
        self._nodes = [index for index, node in enumerate(context.cluster.nodes) if node.online]
        self._new = goal.needs()

    def possible(self, movers: Sequence[Instance], count: int) -> bool:
        """Whether some node could have the room after `count` of `movers` have left it."""
        if self._new is None:
            return True
        here: dict[int, list[Instance]] = {}
        for one in movers:
            for index in self._state.where[one.name]:
                here.setdefault(index, []).append(one)
        primaries = able = 0
        for index in self._nodes:
            some = here.get(index, ())
            disk = sum(nlargest(count, (one.own_disk for one in some)))
            memory = sum(nlargest(count, (one.memory for one in some)))
            if self._disk(index, disk):
                able += 1
                primaries += self._memory(index, memory)
        return primaries > 0 and able >= self._new.required_nodes

    def helped(self, instance: Instance, present: Nodes) -> bool:
        """Whether the goal can be one move away, that of `instance` off `present`."""
        if self._new is None or self.possible((), 0):
            return True
        return any(self._disk(index, instance.own_disk) for index in present) and (
            self._new.required_nodes > 1
            or any(self._memory(index, instance.memory) for index in present)
        )

    def _memory(self, index: int, more: float) -> bool:
        assert self._new is not None
        need = self._new.memory if self._new.uses_memory else 0
        return self._state.columns[MEMORY][index] + more > need

    def _disk(self, index: int, more: float) -> bool:
        assert self._new is not None
        if not (self._new.local and self._new.counts_disk):
            return True
        return self._state.columns[DISK][index] + more > self._new.own_disk


def _price(move: tuple[float, Instance, MoveKind, int]) -> float:
    return move[0]
