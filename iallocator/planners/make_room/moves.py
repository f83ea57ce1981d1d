"""Define the goal of `make-room`, and the moves that it tries.

The goal is reached if the handler of a request satisfies it completely in the present state.  A
move is of one instance, or of several instances that can only move at once, because they must be on
one node or in one failure domain.
"""

from __future__ import annotations

from itertools import islice, product

from iallocator.handlers import handler_for
from iallocator.handlers.allocate import allocation_request
from iallocator.model.columns import MEMORY
from iallocator.model.moves import traffic
from iallocator.placement.groups import collect_offers
from iallocator.planners.balance.move_kinds import MOVE_KINDS, MoveRules
from iallocator.planners.eligible import movable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.instance import Instance
    from iallocator.model.moves import Move
    from iallocator.placement.context import Context
    from iallocator.planners.balance.move_kinds import MoveKind
    from iallocator.reply import Reply
    from iallocator.requests import Allocate
    from iallocator.requests.existing import Request

__all__ = ["Bound", "Goal", "Moves", "satisfied"]


def satisfied(request: Request, reply: Reply) -> bool:
    """Return whether `reply` satisfies `request` completely."""
    if not reply.success:
        return False
    return not request.may_be_partial or not reply.result[1]


SEVERAL_COST_FACTOR = 3
"""The cost factor of each of several instances, which are tried singly and all at once."""


class Goal:
    """The goal that `request` is satisfied in the state of `context`, which the search changes.

    Attributes
    ----------
    request:
        The request.
    concerned:
        The names of the instances that may not be moved to make the request possible.
    left:
        Indices of the nodes that the request evacuates: no other instance may move there.
    asked:
        The instances that the request moves, if it has several; else ().
    relative_cost:
        The cost of a call of `reached`, relative to the cost for one new instance.
    """

    def __init__(self, context: Context, request: Request) -> None:
        self._context = context
        self.request = request
        cluster, several = context.cluster, request.may_be_partial
        self.left = frozenset(request.evacuated_nodes())
        self.concerned = frozenset(one.name for one in request.reserved(cluster))
        self._new = request.new if several else ()
        self.asked = request.existing(cluster) if several else ()
        self.relative_cost = SEVERAL_COST_FACTOR * (len(self._new) + len(self.asked)) or 1

    def proved_infeasible(self) -> bool:
        """Return whether no moves of other instances can make the request possible."""
        if any(allocation_request(self._context, one) is None for one in self._new):
            return True
        # The request evacuates secondaries, and one of its instances has none
        if not self.request.leaves_primaries and any(len(one.nodes) < 2 for one in self.asked):
            return True
        if not all(one.kind.planners_move for one in self.asked):
            return True
        # The new instances need more memory than all online nodes together have free
        new = [one.instance for one in self.request.new if one.recreated is None]
        needed = sum(one.memory for one in new if one.uses_memory)
        free = self._context.state.columns[MEMORY]
        nodes = self._context.cluster.nodes
        if needed > 0 and needed >= sum(max(0, free[n.index]) for n in nodes if n.online):
            return True
        # The request moves a part of a colocation group, and no plan can move the other part alone
        relations, where = self._context.affinity.relations, self._context.state.where
        if relations is None:
            return False
        units = relations.units()
        return any(
            where[mate][0] == one.nodes[0]
            for one in (self.asked if self.request.leaves_primaries else ())
            for mate in units.get(one.name, ())
            if mate in where and mate not in self.concerned
        )

    def reached(self) -> bool:
        """Return whether the request can be satisfied now; the state is restored."""
        context, new = self._context, self.needs()
        undecided = context.effort.undecided
        allocation = None
        if new is not None:
            allocation = allocation_request(context, new)
            if allocation is None:
                return False
            allocation.counted = False
            size, free = new.instance, context.state.columns[MEMORY]
            if size.uses_memory and max(free, default=0) <= size.memory:
                return False  # sums of memory are much faster than offers of all groups
        try:
            if allocation is not None:  # faster than the handler, which also explains its result
                return collect_offers(context, allocation).best is not None
            with context.state.trial():
                reply = handler_for(self.request.kind)(context, self.request)
            return satisfied(self.request, reply)
        finally:  # the next call must not use anything from this one
            context.leaving = None
            context.kept.clear()
            context.remarks.clear()
            context.effort.undecided = undecided

    def needs(self) -> Allocate | None:
        """Return the request if it only creates one new instance; None for any other request."""
        if self.request.may_be_partial:
            return None
        return next((one for one in self.request.new if one.recreated is None), None)


if TYPE_CHECKING:
    Unit = tuple[tuple[Instance, ...], ...]

    """Colocation groups that must be in one failure domain; often only one of them."""


class Bound:
    """Sets of instances that constraints force, in the initial state, to move at the same time.

    Attributes
    ----------
    units:
        The sets of instances that move at once; all their members are in `movers`.
    pinned:
        The names of instances that cannot leave their node alone, whether in `movers` or not.
    whole:
        Whether `units` has all sets of instances that can only move at once. This is so if no
        instance is separated from its colocation group, and no failure domains of one kind
        overlap.
    """

    def __init__(self, context: Context, movers: Sequence[Instance]) -> None:
        self._relations = context.affinity.relations
        self._where = context.state.where
        self._movers = {one.name: one for one in movers}
        self.units: list[Unit] = []
        self.pinned: frozenset[str] = frozenset()
        self.whole = True
        if self._relations is None:
            return
        # Find instances that must be on one node
        units = self._relations.units()
        pinned: set[str] = set()
        for names in dict.fromkeys(units.values()):
            present = [name for name in names if name in self._where]
            if len(present) < 2:
                continue
            if len({self._where[name][0] for name in present}) > 1:
                self.whole = False  # a separated instance can join the others alone
                continue
            pinned.update(present)
            self._add((present,))
        self.pinned = frozenset(pinned)
        # Find colocation groups that must be in one failure domain
        for names in dict.fromkeys(self._relations.wide_units().values()):
            present = [name for name in names if name in self._where]
            several = dict.fromkeys(units.get(name, (name,)) for name in present)
            if len(several) < 2:
                continue
            self.whole = self.whole and not self._may_separate(present)
            self._add([[name for name in some if name in self._where] for some in several])

    def separates(self, one: str, at: int, other: str, there: int) -> bool:
        """Return whether two instances on these nodes violate a hard constraint between them.

        Instance `one` is on node `at`, and instance `other` on node `there`.
        """
        return self._relations is not None and self._relations.separates(one, at, other, there)

    def crosses(self, before: int, after: int) -> bool:
        """Return whether two nodes differ in a failure domain that any constraint names."""
        relations = self._relations
        return relations is None or relations.sites_of(before) != relations.sites_of(after)

    def _may_separate(self, names: Sequence[str]) -> bool:
        """Return whether `names` may be in different failure domains at some time.

        That is so if they violate their constraints now, or if failure domains overlap.
        """
        assert self._relations is not None
        domains = self._relations.domains
        kinds = {m.domain for name in names for m in self._relations.rule_members(name)}
        if not all(domains.zones(kind).disjoint for kind in kinds):
            return True
        homes = [(name, self._where[name][0]) for name in names]
        return any(self.separates(*one, *other) for one in homes for other in homes if one != other)

    def _add(self, unit: Sequence[Sequence[str]]) -> None:
        """Add a unit of instances that move at once, if all of them may move."""
        if all(name in self._movers for some in unit for name in some):
            self.units.append(tuple(tuple(self._movers[n] for n in sorted(s)) for s in unit))


if TYPE_CHECKING:
    Way = tuple[Instance, MoveKind]

    Kinds = tuple[MoveKind, ...]

    Ways = tuple[float, Iterator[tuple[Move, ...]]]

    """MiB that a kind of move copies, and its moves: several at once for a colocation group."""


LARGEST_MIXED_UNIT = 4
"""In a unit of more instances, all members use one kind of move."""


class Moves:
    """The moves of instances that may be moved for `goal`, in the present state of `context`.

    Attributes
    ----------
    movable:
        The instances that may be moved: no instance that the request creates or moves.
    complete:
        Whether all possible moves are tried: see `Bound.whole`. For large units, not all are tried.
    """

    def __init__(self, context: Context, goal: Goal) -> None:
        self._context = context
        self._goal = goal
        self._rules = MoveRules()
        self.movable = self._movers()
        self._bound = Bound(context, self.movable)
        self.complete = self._bound.whole
        self._kinds_from: dict[tuple[str, Nodes], list[tuple[float, MoveKind]]] = {}

    def _movers(self) -> list[Instance]:
        """Return the instances that the plan may move."""
        context = self._context
        relations = context.affinity.relations
        kept = set(self._goal.concerned)
        if relations is not None:
            kept.update(relations.stuck, relations.settled)
        return [
            one
            for group in context.cluster.groups
            if group.nodes
            for one in movable(context.cluster, group, excluded=kept)
            if not one.forthcoming
        ]

    def up_to(
        self, depth: int, width: int | None = None
    ) -> Iterator[tuple[float, tuple[Move, ...]]]:
        """Yield the MiB copied and the moves of each step, of one or of up to `depth` instances.

        Steps that copy least come first; of these, moves to the node with most free memory.
        `width`: the number of targets of each kind of move; None: all. The state may change between
        two steps, but must be restored before the next one is taken.
        """
        state, nodes = self._context.state, self._context.cluster.nodes
        order = [node.index for node in nodes if node.online and node.index not in self._goal.left]
        order.sort(key=lambda index: -state.columns[MEMORY][index])
        ways: list[Ways] = []
        for one in self.movable:
            present = state.where[one.name]
            for mib, kind in self._kinds(one, present):
                if one.name in self._bound.pinned and kind.letters != ("r",):
                    continue
                targets = self._targets(present, order) if kind.targeted else iter(present[:1])
                ways.append((mib, _each(one, present, kind, targets)))
        for unit in self._bound.units:
            ways += self._at_once(unit, depth, order)
        for mib, way_moves in sorted(ways, key=lambda way: way[0]):
            for moves in islice(way_moves, width):
                yield mib, moves

    def _kinds(self, instance: Instance, present: Nodes) -> list[tuple[float, MoveKind]]:
        """Return the kinds of moves that `instance` may make from its nodes `present`.

        Each is returned with the MiB that it copies.
        """
        key = instance.name, present
        if key not in self._kinds_from:
            nodes = self._context.cluster.nodes
            ends, drbd = (nodes[present[0]], nodes[present[-1]]), len(present) > 1
            self._kinds_from[key] = [
                (traffic(instance, kind.letters), kind)
                for kind in MOVE_KINDS
                if kind.drbd == drbd and self._rules.allows_of(kind, *ends)
            ]
        return self._kinds_from[key]

    def _targets(self, present: Sequence[int], order: Sequence[int]) -> Iterator[int]:
        """Return the nodes of `order` in the group of the nodes `present`, without these nodes."""
        nodes = self._context.cluster.nodes
        group = nodes[present[0]].group
        return (i for i in order if nodes[i].group is group and i not in present)

    def _at_once(self, unit: Unit, depth: int, order: Sequence[int]) -> Iterator[Ways]:
        """Yield each combination of kinds of moves for a unit that must move at once."""
        members = [one for some in unit for one in some]
        if len(members) > depth:
            return
        where = self._context.state.where
        kinds = [
            [kind for _, kind in self._kinds(one, where[one.name]) if kind.letters != ("r",)]
            for one in members
        ]
        if len(members) > LARGEST_MIXED_UNIT and max(map(len, kinds)) > 1:
            self.complete = False
            chosen: Iterable[Kinds] = [k for k in zip(*kinds) if len(set(k)) == 1]
        else:
            chosen = product(*kinds)
        for some in chosen:
            mib = sum(traffic(one, kind.letters) for one, kind in zip(members, some))
            yield mib, self._choices(unit, tuple(zip(members, some)), order, ())

    def _choices(
        self, unit: Unit, ways: Sequence[Way], order: Sequence[int], moves: Sequence[Move]
    ) -> Iterator[tuple[Move, ...]]:
        """Yield all choices of targets that satisfy the constraints, after the chosen `moves`.

        `ways`: the instances of the unit, each with its kind of move.
        """
        if len(moves) == len(ways):
            yield tuple(moves)
            return
        instance, kind = ways[len(moves)]
        present = self._context.state.where[instance.name]
        # The node to which members of the colocation group have already moved
        mates = next(some for some in unit if instance in some)
        join = next((move.after[0] for move in moves if move.instance in mates), None)
        targets: Iterable[int] = self._targets(present, order) if kind.targeted else present[:1]
        if join is not None and kind.letters[-1] != "r" and kind.targeted:
            targets = [join] if join not in present else []
        for target in targets:
            move = kind.move(instance, present, target)
            home = move.after[0]
            fits = join == home if join is not None else self._suits(unit, move, moves)
            if fits:
                yield from self._choices(unit, ways, order, (*moves, move))

    def _suits(self, unit: Unit, move: Move, moves: Sequence[Move]) -> bool:
        """Return whether `move` may be made after `moves` of other members of `unit`.

        If several colocation groups must be in one failure domain, each must change its domain,
        because an instance that stays in its domain can move alone.
        """
        name, home = move.instance.name, move.after[0]
        if len(unit) > 1 and not self._bound.crosses(move.before[0], home):
            return False
        return not any(
            self._bound.separates(name, home, one.instance.name, one.after[0]) for one in moves
        )


def _each(
    instance: Instance, present: Nodes, kind: MoveKind, targets: Iterator[int]
) -> Iterator[tuple[Move, ...]]:
    return ((kind.move(instance, present, target),) for target in targets)
