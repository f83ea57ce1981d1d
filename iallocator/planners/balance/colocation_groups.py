"""Instances that must be on one node move as one unit; where each unit could go.

A move of a unit takes its members, one after the other, to one node; where a failure
domain binds several units, the others follow the first into its domain.  In between the
members may be apart; at the end no must is broken that held before.  Each member may go
by every way whose steps all keep the limits.
"""

from __future__ import annotations

from iallocator.model.moves import Move, places_after
from iallocator.placement.move_limits import MoveLimits
from iallocator.planners.balance.move_kinds import KINDS, ScoredMoves
from iallocator.planners.balance.scan.affinity import BondCosts
from iallocator.scoring.arrays import ArrayKernel, capacity_matrix
from iallocator.scoring.candidates import DECIMALS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from iallocator.constraints.relations import Relations
    from iallocator.model.instance import Instance
    from iallocator.model.node_view import Capacities
    from iallocator.model.state import State
    from iallocator.n1.baseline import MoveGuard
    from iallocator.planners.balance.move_kinds import MoveKind, MoveRules
    from iallocator.planners.balance.problem import BalanceProblem

__all__ = ["ColocationMoves", "kinds_to", "possible"]


def kinds_to(state: State, instance: Instance, target: int, rules: MoveRules) -> Iterator[MoveKind]:
    """The kinds of moves that `rules` allow and that make `target` the primary."""
    nodes, present = state.cluster.nodes, state.where[instance.name]
    ends = nodes[present[0]], nodes[present[-1]]
    for kind in KINDS:
        if kind.drbd != (len(present) > 1) or not rules.allows_of(kind, *ends):
            continue
        if kind.targeted == (target in present):
            continue
        if places_after(present, kind.steps(present, target))[0] == target:
            yield kind


def possible(
    state: State,
    fixed: Capacities,
    move: Move,
    rules: MoveRules,
) -> bool:
    """Carry out the steps of `move` while the limits allow each; return whether they allow all.

    Changes the state: call it in a trial.  A move off a node that is not online is not
    held back by soft limits.
    """
    instance, present = move.instance, move.before
    nodes = [state.cluster.nodes[index] for index in present]
    limits = MoveLimits(state, fixed, rules.limit_policies.all_the_way(nodes))
    for step in move.steps:
        after = places_after(present, [step])
        state.remove(instance, present)
        if not limits.allow(instance, present, after):
            return False
        state.place(instance, after)
        present = after
    return True


if TYPE_CHECKING:
    Names = tuple[str, ...]

    Unit = tuple[Names, ...]

    """Those that must be on one node, for each of the nodes that a failure domain binds."""

    MendingKey = tuple[float, float, int]


INFINITE = float("inf")

HOPELESS = -1e18
"""What a unit without any move gains: less than all others."""


WIDEST = 64
"""Of more units that a failure domain binds nobody tries to move all at once."""


class ColocationMoves:
    """The moves of units of `problem`, on its state as it is at the time of asking.

    What the best move of a unit gained when it was last looked at says which units to
    look at again: only those that may gain most, but all before none is said to gain.
    """

    def __init__(
        self, problem: BalanceProblem, relations: Relations, guard: MoveGuard | None = None
    ) -> None:
        self._guard = guard
        self._state = problem.state
        self._scope = problem.scope
        self._fixed = problem.fixed
        self._rules = problem.rules
        self._relations = relations
        self._rule_counts = relations.live(problem.state)
        self._bonds = BondCosts(relations, self._rule_counts)
        self._position = {index: k for k, index in enumerate(problem.scope)}
        self._movable = {instance.name: instance for instance in problem.instances}
        nodes = problem.state.cluster.nodes
        self._wide: dict[int, Unit] = {}
        self._sorted: dict[int, Names] = {}
        self._targets = [index for index in problem.scope if nodes[index].online]
        found = [unit for name in self._movable for unit in self._units_of(name)]
        several = (unit for unit in found if len(unit) > 1 or len(unit[0]) > 1)
        self._gains: dict[Unit, float] = dict.fromkeys(several, INFINITE)
        self._matrix = capacity_matrix(problem.fixed.all())
        self._kernel = self._new_kernel()

    def _new_kernel(self) -> ArrayKernel:
        return ArrayKernel(self._state, self._scope, self._matrix)

    def _units_of(self, name: str) -> list[Unit]:
        """The unit of `name`, and the one that a failure domain binds it to."""
        own: Unit = (self._unit_of(name),)
        together = self._relations.wide_units().get(name, ())
        wide = self._wide.get(id(together))
        if wide is None:
            wide = tuple(dict.fromkeys(map(self._unit_of, sorted(together))))
            self._wide[id(together)] = wide
        return [own, wide] if 1 < len(wide) <= WIDEST else [own]

    def _unit_of(self, name: str) -> Names:
        """The unit of an instance, by name."""
        unit = self._relations.units().get(name)
        if unit is None:
            return (name,)
        if id(unit) not in self._sorted:
            self._sorted[id(unit)] = tuple(sorted(unit))
        return self._sorted[id(unit)]

    def __bool__(self) -> bool:
        return bool(self._gains)

    # What is found

    def best(
        self, present: float, floor: float, budget: float, count: float, by_value: bool
    ) -> ScoredMoves | None:
        """What gains more than `floor` on the score `present`, and most of all.

        The gain counts per MiB if `by_value`.  At most `budget` MiB are copied, in at most
        `count` moves.
        """
        self._kernel = self._new_kernel()
        found: tuple[float, ScoredMoves] | None = None
        for unit in sorted(self._gains, key=lambda unit: -self._gains[unit]):
            if self._gains[unit] <= (found[0] if found else floor):
                break
            self._gains[unit] = HOPELESS
            for move in self._moves(unit):
                if move.copied > budget or len(move.moves) > count:
                    continue
                gain = (present - move.score) / (move.copied + 1 if by_value else 1)
                self._gains[unit] = max(self._gains[unit], gain)
                least = found[0] if found else max(floor, 0.0)
                if gain > least and self._keeps_n1():
                    found = gain, move
        return found[1] if found else None

    def promising(self, most: int, budget: float, count: float) -> list[ScoredMoves]:
        """The moves of units that end lowest, `most` of them, whether they gain or not."""
        self._kernel = self._new_kernel()
        found = [
            move
            for unit in self._gains
            for move in self._moves(unit)
            if move.copied <= budget and len(move.moves) <= count
        ]
        return sorted(found, key=lambda move: round(move.score, DECIMALS))[:most]

    def mending(self, budget: float, count: float) -> ScoredMoves | None:
        """The move after which fewest musts are broken, then with the lowest score, if any.

        It breaks none that holds now.
        """
        self._kernel = self._new_kernel()
        units: dict[Unit, None] = {}
        for name in sorted(name for name in self._movable if self._broken([name])):
            units |= dict.fromkeys([*self._units_of(name), ((name,),)])
        best: tuple[MendingKey, ScoredMoves] | None = None
        for least, place, unit, target in self._mending_moves(list(units)):
            if best is not None and least > best[0][0]:
                break
            now = self._broken(name for names in unit for name in names)
            for move in self._moves(unit, None if target is None else (target,)):
                if move.copied > budget or len(move.moves) > count or move.violated >= now:
                    continue
                key = move.violated - now, round(move.score, DECIMALS), place
                if (best is None or key < best[0]) and self._keeps_n1():
                    best = key, move
        return best[1] if best else None

    def _mending_moves(
        self, units: Sequence[Unit]
    ) -> Iterator[tuple[float, int, Unit, int | None]]:
        """What may mend: how much at best, the place of the unit, the unit, the node.

        First those of several instances, of which that is not known (nor the node); then
        those of one, by how much they mend.
        """
        single: list[tuple[float, int, Unit, int | None]] = []
        rule_counts, where = self._rule_counts.now(), self._state.where
        for place, unit in enumerate(units):
            if len(unit) > 1 or len(unit[0]) > 1:
                yield -INFINITE, place, unit, None
                continue
            name = unit[0][0]
            more = self._relations.mending(name, where[name][0], self._targets, rule_counts)
            single += ((less, place, unit, target) for target, less in more.items())
        yield from sorted(single, key=lambda one: one[:2])

    def _keeps_n1(self) -> bool:
        return self._guard is None or self._guard.keeps()

    def _broken(self, names: Iterable[str]) -> int:
        """How many musts of `names` are broken now."""
        rule_counts, where = self._rule_counts.now(), self._state.where
        return sum(self._relations.musts_broken(n, where[n][0], rule_counts) for n in names)

    # Moves of one unit

    def _moves(self, unit: Unit, targets: Iterable[int] | None = None) -> Iterator[ScoredMoves]:
        """Every move of `unit` that the limits allow and that breaks no further must.

        Of a single instance only those to `targets`, where they are given.
        Each is made on the state until the next is asked for.
        """
        rules = self._rules_for(unit)
        if rules is None:
            return
        before = {name: self._state.where[name][0] for names in unit for name in names}
        for target in self._first_targets(unit, rules) if targets is None else targets:
            with self._state.trial():
                moves = self._gather(unit[0], target, rules)
                for names in unit[1:]:
                    moves = None if moves is None else self._follow(names, unit, moves, rules)
                if not moves:
                    continue
                moved = {n: at for n, at in before.items() if self._state.where[n][0] != at}
                if not any(self._newly_broken(moved)):
                    yield ScoredMoves(moves, self._score(), self._broken(before))

    def _newly_broken(self, moved: Mapping[str, int | None]) -> Iterator[object]:
        where, rule_counts = self._state.where, self._rule_counts.now()
        return self._relations.newly_broken(moved, where, rule_counts)

    def _rules_for(self, unit: Unit) -> MoveRules | None:
        """What the members may do; all or nobody leaves where only offline nodes are left."""
        if not self._rules.evacuate_only:
            return self._rules
        nodes, where = self._state.cluster.nodes, self._state.where
        held = (index for names in unit for name in names for index in where[name])
        return None if all(nodes[i].online for i in held) else self._rules.for_everyone()

    def _first_targets(self, unit: Unit, rules: MoveRules) -> Iterable[int]:
        """Where the first of `unit` may go; with others, the best node of each domain."""
        if len(unit) == 1:
            return self._targets
        best: dict[frozenset[str], tuple[float, int]] = {}
        for target in self._targets:
            with self._state.trial():
                moves = self._gather(unit[0], target, rules)
                if moves is None:
                    continue
                found = self._score(), target
            site = self._relations.sites_of(target)
            best[site] = min(found, best.get(site, found))
        return [target for _, target in best.values()]

    def _follow(
        self, names: Names, unit: Unit, moves: list[Move], rules: MoveRules
    ) -> list[Move] | None:
        """Take `names` where those of `unit` that are placed already want them; all moves then."""
        placed = {name for before in unit[: unit.index(names)] for name in before}
        best: tuple[float, int] | None = None
        for target in self._targets:
            with self._state.trial():
                more = self._gather(names, target, rules)
                if more is None or self._parted(names, placed):
                    continue
                found = self._score(), target
            best = min(found, best) if best else found
        if best is None:
            return None
        more = self._gather(names, best[1], rules)
        assert more is not None
        return [*moves, *more]

    def _parted(self, names: Names, placed: set[str]) -> bool:
        where = self._state.where
        return any(
            self._relations.part(name, where[name][0], other, where[other][0])
            for name in names
            for other in placed
        )

    def _gather(self, names: Names, target: int, rules: MoveRules) -> list[Move] | None:
        """Take all of `names` to `target`, the largest first; None if some cannot go there."""
        moves: list[Move] = []
        leaving = [name for name in names if self._state.where[name][0] != target]
        if not all(name in self._movable for name in leaving):
            return None
        for name in sorted(leaving, key=lambda name: (-self._movable[name].memory, name)):
            instance = self._movable[name]
            move = self._move(instance, target, rules)
            if move is None:
                return None
            move.apply(self._state)
            moves.append(move)
        return moves

    def _move(self, instance: Instance, target: int, rules: MoveRules) -> Move | None:
        """The best way to `target` of those that the limits allow, or None."""
        before = self._state.where[instance.name]
        found: list[tuple[float, int, Move]] = []
        kinds = list(kinds_to(self._state, instance, target, rules))
        for number, kind in enumerate(kinds):
            if kind.mirror_leads and self._barred(instance, before[1]):
                continue
            with self._state.trial():
                move = kind.move(instance, before, target)
                if possible(self._state, self._fixed, move, rules):
                    score = self._score() if len(kinds) > 1 else 0.0
                    found.append((score, number, move))
        return min(found, key=lambda one: one[:2])[2] if found else None

    def _barred(self, instance: Instance, node: int) -> bool:
        """Whether `instance` must be apart from something on `node`, even for a while."""
        return bool(
            self._relations.rejected_passing(instance.name, (node,), self._rule_counts.now())
        )

    # Scores

    def _score(self) -> float:
        """Return the score as the state is now."""
        self._kernel.follow()
        return self._kernel.score() + self._bonds.penalty(self._position)
