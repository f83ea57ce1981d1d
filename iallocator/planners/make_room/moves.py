"""Every move that may be worth a look: of one instance, or of those who can only move at once.

Instances can only move at once if they must be together on one node or in one failure domain.
"""

from __future__ import annotations

from itertools import islice, product

from iallocator.model.columns import MEMORY
from iallocator.model.moves import traffic
from iallocator.planners.balance.move_kinds import KINDS, MoveRules
from iallocator.planners.eligible import movable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.instance import Instance
    from iallocator.model.moves import Move
    from iallocator.placement.context import Context
    from iallocator.planners.balance.move_kinds import MoveKind
    from iallocator.planners.make_room.goal import Goal

__all__ = ["Bound", "Moves"]

if TYPE_CHECKING:
    Unit = tuple[tuple[Instance, ...], ...]

    """Those that must be on one node, for each of the nodes that a failure domain binds."""


class Bound:
    """Who moves with whom, as `context` is at first; those of `movers` who may move at all.

    Attributes
    ----------
    units:
        Those who move at once; all of them are `movers`.
    pinned:
        The names of those who cannot leave their node alone, whether they may move or not.
    whole:
        Whether nobody else could move only at once: nobody is parted from whom it must be with,
        and every node is in one failure domain of a kind.
    """

    def __init__(self, context: Context, movers: Sequence[Instance]) -> None:
        self._relations = context.bonds.relations
        self._where = context.state.where
        self._movers = {one.name: one for one in movers}
        self.units: list[Unit] = []
        self.pinned: frozenset[str] = frozenset()
        self.whole = True
        if self._relations is not None:
            self._on_one_node(self._relations.units())
            self._in_one_domain(self._relations.wide_units(), self._relations.units())

    def part(self, one: str, at: int, other: str, there: int) -> bool:
        """Whether two instances, each on that node, break a must between them."""
        return self._relations is not None and self._relations.part(one, at, other, there)

    def crosses(self, before: int, after: int) -> bool:
        """Whether two nodes are in different failure domains of those that bind anybody."""
        relations = self._relations
        return relations is None or relations.sites_of(before) != relations.sites_of(after)

    def _on_one_node(self, units: dict[str, tuple[str, ...]]) -> None:
        pinned: set[str] = set()
        for names in dict.fromkeys(units.values()):
            present = [name for name in names if name in self._where]
            if len(present) < 2:
                continue
            if len({self._where[name][0] for name in present}) > 1:
                self.whole = False  # who has lost the others may join them, like anybody else
                continue
            pinned.update(present)
            self._add((present,))
        self.pinned = frozenset(pinned)

    def _in_one_domain(
        self, wide: dict[str, tuple[str, ...]], units: dict[str, tuple[str, ...]]
    ) -> None:
        for names in dict.fromkeys(wide.values()):
            present = [name for name in names if name in self._where]
            several = dict.fromkeys(units.get(name, (name,)) for name in present)
            if len(several) < 2:
                continue
            self.whole = self.whole and not self._parted(present)
            self._add([[name for name in some if name in self._where] for some in several])

    def _parted(self, names: Sequence[str]) -> bool:
        """Whether some of `names` are not as they must be, or could be so in several ways."""
        assert self._relations is not None
        domains = self._relations.domains
        kinds = {m.domain for name in names for m in self._relations.memberships(name)}
        if not all(domains.zones(kind).disjoint for kind in kinds):
            return True
        homes = [(name, self._where[name][0]) for name in names]
        return any(self.part(*one, *other) for one in homes for other in homes if one != other)

    def _add(self, unit: Sequence[Sequence[str]]) -> None:
        """Note those who move at once, if all of them may move."""
        if all(name in self._movers for some in unit for name in some):
            self.units.append(tuple(tuple(self._movers[n] for n in sorted(s)) for s in unit))


if TYPE_CHECKING:
    Way = tuple[Instance, MoveKind]

    Kinds = tuple[MoveKind, ...]

    Ways = tuple[float, Iterator[tuple[Move, ...]]]

    """MiB that are copied, and moves that copy so much: several for a colocation group."""


FEW = 4
"""Of a larger unit all members move in the same way only."""


class Moves:
    """The moves of bystanders of `goal`, on the state of `context` as it is when asked.

    Attributes
    ----------
    movable:
        Who may be moved: not those that the request is about.
    complete:
        Whether there are no others: see `Bound.whole`; of large units not every way is tried.
    """

    def __init__(self, context: Context, goal: Goal) -> None:
        self._context = context
        self._goal = goal
        self._rules = MoveRules()
        self.movable = self._movers()
        self._bound = Bound(context, self.movable)
        self.complete = self._bound.whole

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

    def up_to(
        self, depth: int, width: int | None = None
    ) -> Iterator[tuple[float, tuple[Move, ...]]]:
        """Every move that may be worth a look, of one or of units of at most `depth`.

        The cheapest first, to the emptiest target first; with `width` of each kind of move to so
        many targets only.  The state may be another meanwhile, but must be the same when the
        next one is asked for.
        """
        order = sorted(
            (i for i in range(len(self._context.cluster.nodes)) if self._open(i)),
            key=lambda i: -self._context.state.columns[MEMORY][i],
        )
        ways = [way for one in self.movable for way in self._single(one, depth, order)]
        for unit in self._bound.units:
            ways += self._at_once(unit, depth, order)
        for price, found in sorted(ways, key=_price):
            for moves in islice(found, width):
                yield price, moves

    def _single(self, instance: Instance, depth: int, order: Sequence[int]) -> Iterator[Ways]:
        """What each kind of move of one instance costs, and its moves."""
        present = self._context.state.where[instance.name]
        for kind in self._kinds(instance):
            if instance.name in self._bound.pinned and kind.letters != ("r",):
                continue
            targets = self._targets(present, order) if kind.targeted else iter(present[:1])
            yield traffic(instance, kind.letters), _each(instance, present, kind, targets)

    def _kinds(self, instance: Instance) -> list[MoveKind]:
        """How `instance` may move from where it is."""
        nodes, present = self._context.cluster.nodes, self._context.state.where[instance.name]
        ends = nodes[present[0]], nodes[present[-1]]
        drbd = len(present) > 1
        return [kind for kind in KINDS if kind.drbd == drbd and self._rules.allows_of(kind, *ends)]

    def _targets(self, present: Sequence[int], order: Sequence[int]) -> Iterator[int]:
        """The other nodes of the group that anybody may come to."""
        nodes = self._context.cluster.nodes
        group = nodes[present[0]].group
        return (i for i in order if nodes[i].group is group and i not in present)

    def _open(self, target: int) -> bool:
        """Whether anybody may come to `target`."""
        return self._context.cluster.nodes[target].online and target not in self._goal.left

    def _at_once(self, unit: Unit, depth: int, order: Sequence[int]) -> Iterator[Ways]:
        """The ways of those who move at once, by what they cost."""
        members = [one for some in unit for one in some]
        if len(members) > depth:
            return
        kinds = [[k for k in self._kinds(one) if k.letters != ("r",)] for one in members]
        if len(members) > FEW and max(map(len, kinds)) > 1:
            self.complete = False
            chosen: Iterable[Kinds] = [k for k in zip(*kinds) if len(set(k)) == 1]
        else:
            chosen = product(*kinds)
        for some in chosen:
            price = sum(traffic(one, kind.letters) for one, kind in zip(members, some))
            yield price, self._choices(unit, tuple(zip(members, some)), order, ())

    def _choices(
        self, unit: Unit, ways: Sequence[Way], order: Sequence[int], moves: Sequence[Move]
    ) -> Iterator[tuple[Move, ...]]:
        """Every choice of targets, `moves` chosen already, after which those bound may be there."""
        if len(moves) == len(ways):
            yield tuple(moves)
            return
        instance, kind = ways[len(moves)]
        present = self._context.state.where[instance.name]
        join = self._to_join(unit, instance, moves)
        targets: Iterable[int] = self._targets(present, order) if kind.targeted else present[:1]
        if join is not None and kind.letters[-1] != "r" and kind.targeted:
            targets = [join] if join not in present else []
        for target in targets:
            move = kind.move(instance, present, target)
            home = move.after[0]
            fits = join == home if join is not None else self._suits(unit, move, moves)
            if fits:
                yield from self._choices(unit, ways, order, (*moves, move))

    def _to_join(self, unit: Unit, instance: Instance, moves: Sequence[Move]) -> int | None:
        """Where those are taken that must be on one node with `instance`; None: nowhere yet."""
        mates = next(some for some in unit if instance in some)
        return next((move.after[0] for move in moves if move.instance in mates), None)

    def _suits(self, unit: Unit, move: Move, moves: Sequence[Move]) -> bool:
        """Return whether `move` may be made with `moves`; of several units, only to another domain.

        An instance that stays in its failure domain can move alone.
        """
        name, home = move.instance.name, move.after[0]
        if len(unit) > 1 and not self._bound.crosses(move.before[0], home):
            return False
        return not any(
            self._bound.part(name, home, one.instance.name, one.after[0]) for one in moves
        )


def _each(
    instance: Instance, present: Nodes, kind: MoveKind, targets: Iterator[int]
) -> Iterator[tuple[Move, ...]]:
    return ((kind.move(instance, present, target),) for target in targets)


def _price(ways: Ways) -> float:
    return ways[0]
