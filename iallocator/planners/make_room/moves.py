"""Every move that may be worth a look: of one instance, or of all that must be on one node."""

from __future__ import annotations

from itertools import islice, product

from iallocator.model.columns import MEMORY
from iallocator.planners.balance.move_kinds import KINDS, MoveRules
from iallocator.planners.balance.unit_steps import kinds_to
from iallocator.planners.eligible import movable
from iallocator.planners.plan import traffic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context
    from iallocator.planners.balance.move_kinds import MoveKind
    from iallocator.planners.make_room.goal import Goal
    from iallocator.planners.make_room.room import Room

    Part = tuple[Instance, MoveKind, int]
    """Who moves, how, and with which target."""
    Move = tuple[float, tuple[Part, ...]]
    """MiB that are copied, and the parts: several for those that must be on one node."""
    Ways = tuple[float, Iterator[tuple[Part, ...]]]

__all__ = ["Moves"]

FEW = 3
"""Of a larger unit each member moves in its cheapest way only."""


class Moves:
    """The moves of bystanders of `goal`, on the state of `context` as it is when asked.

    Attributes
    ----------
    movable:
        Who may be moved: not those that the request is about.
    complete:
        Whether there are no others.  Units that a failure domain binds to each other do not
        move all at once, and of large ones not every way is tried.
    """

    def __init__(self, context: Context, goal: Goal, room: Room) -> None:
        self._context = context
        self._goal = goal
        self._room = room
        self._rules = MoveRules()
        relations = context.bonds.relations
        self.complete = relations is None or not relations.wide_units()
        self.movable = self._movers()
        self._units, self._in_unit = self._units_of(self.movable)

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

    def _units_of(self, movers: Sequence[Instance]) -> tuple[list[list[Instance]], frozenset[str]]:
        """Those who can only move together, and their names; not those who cannot at all.

        Who has lost the others already may join them, like anybody else.
        """
        relations, where = self._context.bonds.relations, self._context.state.where
        units = {} if relations is None else relations.units()
        known = {one.name: one for one in movers}
        found: dict[tuple[str, ...], list[Instance]] = {}
        bound: set[str] = set()
        for one in movers:
            names = tuple(sorted(name for name in units.get(one.name, ()) if name in where))
            homes = {where[name][0] for name in names}
            if len(names) > 1 and len(homes) == 1:
                bound.add(one.name)
                if all(name in known for name in names):
                    found[names] = [known[name] for name in names]
        return list(found.values()), frozenset(bound)

    def up_to(self, depth: int, width: int | None = None) -> Iterator[Move]:
        """Every move that may be worth a look, of one or of units of at most `depth`.

        The cheapest first, to the emptiest target first; with `width` of each kind of move to so
        many targets only.  The state may be another meanwhile, but must be the same when the
        next one is asked for.
        """
        self._room.look()
        order = sorted(
            (i for i in range(len(self._context.cluster.nodes)) if self._open(i)),
            key=lambda i: -self._context.state.columns[MEMORY][i],
        )
        ways = [way for one in self.movable for way in self._single(one, depth, order)]
        for unit in self._units:
            if len(unit) <= depth:
                ways += self._together(unit, depth, order)
        for price, found in sorted(ways, key=_price):
            for parts in islice(found, width):
                yield price, parts

    def _single(self, instance: Instance, depth: int, order: Sequence[int]) -> Iterator[Ways]:
        """What each kind of move of one instance costs, and its moves."""
        if depth == 1 and not self._room.helped([instance]):
            return
        present = self._context.state.where[instance.name]
        drbd, bound = len(present) > 1, instance.name in self._in_unit
        for kind in KINDS:
            if kind.drbd != drbd or (bound and kind.letters != ("r",)):
                continue
            targets = self._targets(present, order) if kind.targeted else iter(present[:1])
            yield traffic(instance, kind.letters), _each(instance, kind, targets)

    def _targets(self, present: Sequence[int], order: Sequence[int]) -> Iterator[int]:
        """The other nodes of the group that anybody may come to."""
        nodes = self._context.cluster.nodes
        group = nodes[present[0]].group
        return (i for i in order if nodes[i].group is group and i not in present)

    def _open(self, target: int) -> bool:
        """Whether anybody may come to `target`."""
        return self._context.cluster.nodes[target].online and target not in self._goal.left

    def _together(
        self, unit: Sequence[Instance], depth: int, order: Sequence[int]
    ) -> Iterator[Ways]:
        """The ways of a unit to another node, by what they cost."""
        home = self._context.state.where[unit[0].name][:1]
        if depth == len(unit) and not self._room.helped(unit):
            return
        for target in self._targets(home, order):
            ways = [self._kinds(one, target) for one in unit]
            if len(unit) > FEW and any(len(kinds) > 1 for kinds in ways):
                ways = [kinds[:1] for kinds in ways]
                self.complete = False
            for kinds in product(*ways):
                price = sum(traffic(one, kind.letters) for one, kind in zip(unit, kinds))
                parts = tuple((one, kind, target) for one, kind in zip(unit, kinds))
                yield price, iter((parts,))

    def _kinds(self, instance: Instance, target: int) -> list[MoveKind]:
        """How `instance` can get `target` as its primary, cheapest first."""
        return sorted(
            kinds_to(self._context.state, instance, target, self._rules),
            key=lambda kind: traffic(instance, kind.letters),
        )


def _each(instance: Instance, kind: MoveKind, targets: Iterator[int]) -> Iterator[tuple[Part, ...]]:
    return (((instance, kind, target),) for target in targets)


def _price(ways: Ways) -> float:
    return ways[0]
