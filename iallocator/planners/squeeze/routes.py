"""One plan from two that follow each other: each instance goes straight to its last place.

The first plan may move instances to nodes that the second one frees. Such nodes are drained before
anything moves, so that no instance may come there.

Algorithm: pass over the instances that are not at their last place, and move each one whose way
there is legal now. If a pass moves none, make the next legal move of the two plans instead. Cost:
a check of the limits for each instance and pass.
"""

from __future__ import annotations

from iallocator.deadline import check
from iallocator.model.moves import replay
from iallocator.planners.balance.colocation_groups import possible
from iallocator.planners.direct import shortest_ways
from iallocator.planners.plan import PlanEntry, mark_colocation_groups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from iallocator.constraints.relations import Relations
    from iallocator.model.moves import Move
    from iallocator.model.node_view import Capacities
    from iallocator.model.state import State
    from iallocator.planners.balance.move_kinds import MoveRules

__all__ = ["straight_moves"]


def straight_moves(
    state: State,
    moves: Sequence[Move],
    fixed: Capacities,
    rules: MoveRules,
    relations: Relations | None,
    over: Callable[[], bool],
) -> list[PlanEntry] | None:
    """Return moves with the same end as `moves`; None if no legal order is found, or time is up.

    The moves begin at `state`, which is left as it is, and go to online nodes only. Their scores
    are not known.
    """
    routes = _Routes(state, moves, fixed, rules, relations)
    with state.trial():
        return routes.find(over)


class _Routes:
    """Finds the moves, and makes them in the state."""

    def __init__(
        self,
        state: State,
        moves: Sequence[Move],
        fixed: Capacities,
        rules: MoveRules,
        relations: Relations | None,
    ) -> None:
        self._state = state
        self._fixed = fixed
        self._rules = rules
        self._relations = relations
        self._units = {} if relations is None else relations.units()
        self._own: dict[str, list[Move]] = {}
        for move in moves:
            self._own.setdefault(move.instance.name, []).append(move)
        self._left = list(moves)

    def find(self, over: Callable[[], bool]) -> list[PlanEntry] | None:
        """Move every instance to its last place."""
        made: list[Move] = []
        waiting = list(dict.fromkeys(self._unit(name) for name in self._own))
        while waiting := [unit for unit in waiting if self._away(unit)]:
            check()
            if over():
                return None
            count = len(made)
            for unit in waiting:
                made += self._whole_way(unit)
            if len(made) == count:
                made += self._on_the_way()
            if len(made) == count:
                return None
        entries = [PlanEntry(move) for move in made]
        mark_colocation_groups(entries, self._units)
        return entries

    def _unit(self, name: str) -> tuple[str, ...]:
        """Return the instances that move together with `name`."""
        return tuple(one for one in self._units.get(name, (name,)) if one in self._own)

    def _away(self, unit: Sequence[str]) -> list[str]:
        """Return the members of `unit` that are not at their last place."""
        return [name for name in unit if self._state.where[name] != self._own[name][-1].after]

    def _whole_way(self, unit: Sequence[str]) -> list[Move]:
        """Move all of `unit` to their last places; [] if that breaks a limit."""
        made: list[Move] = []
        with self._state.trial():
            for name in self._away(unit):
                way = next((way for way in self._ways(name) if self._legal(way)), None)
                if way is None:
                    return []
                replay(self._state, way)
                made += way
        return made if self._make(made) else []

    def _ways(self, name: str) -> Iterator[list[Move]]:
        """Return the ways of an instance to its last place."""
        own, here = self._own[name], self._state.where[name]
        if own[-1].before == here:
            yield own[-1:]
        yield from shortest_ways(self._state, own[0].instance, here, own[-1].after, self._rules)

    def _on_the_way(self) -> list[Move]:
        """Make the next move of the two plans that is legal now; [] if there is none."""
        for number, move in enumerate(self._left):
            name = move.instance.name
            alone = self._unit(name) == (name,)
            next_one = alone and move.before == self._state.where[name]
            if next_one and self._legal([move]) and self._make([move]):
                del self._left[number]
                return [move]
        return []

    def _legal(self, moves: Sequence[Move]) -> bool:
        """Return whether the limits allow `moves` of one instance."""
        with self._state.trial():
            return all(possible(self._state, self._fixed, move, self._rules) for move in moves)

    def _make(self, moves: Sequence[Move]) -> bool:
        """Make `moves`, unless a hard constraint is violated after them; return whether."""
        names = {move.instance.name for move in moves}
        before = self._violating(names)
        with self._state.trial():
            replay(self._state, moves)
            if not self._violating(names) <= before:
                return False
        replay(self._state, moves)
        return True

    def _violating(self, names: set[str]) -> set[str]:
        """Return the instances of `names` that violate a hard constraint where they are."""
        relations, where = self._relations, self._state.where
        if relations is None or not any(map(relations.binds, names)):
            return set()
        rule_counts = relations.rule_counts(where)
        return {name for name in names if relations.rejected(name, where[name][:1], rule_counts)}
