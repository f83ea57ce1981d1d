"""Move colocation groups: instances that must be on one node move together.

The members of a group move to one node, one after the other.  If constraints keep several
colocation groups in one failure domain, the other groups follow the first group to its new domain.
Between the moves, the members may be on different nodes.  After the moves, no hard constraint is
violated that was satisfied before.  The limits must allow each step of each move.
"""

from __future__ import annotations

from math import inf

from iallocator.model.moves import Move
from iallocator.planners.balance.move_kinds import ScoredMoves, kinds_to, possible
from iallocator.scoring.arrays import ArrayKernel, capacity_matrix
from iallocator.tolerances import SCORE_DECIMALS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from iallocator.planners.balance.move_kinds import MoveRules
    from iallocator.planners.balance.plan_builder import BalanceProblem, Guard

__all__ = ["ColocationMoves"]


if TYPE_CHECKING:
    Names = tuple[str, ...]

    Bound = tuple[Names, ...]
    """Colocation groups that must be in one failure domain; most often only one group."""

    RepairKey = tuple[float, float, int]
    """Sort key of repairing moves: the change of violated constraints, the score, a position."""


NO_MOVE_GAIN = -1e18
"""The gain of colocation groups that have no legal move: less than any other gain."""

MOST_JOINT_GROUPS = 64
"""The largest number of colocation groups of one failure domain that are moved together."""


class ColocationMoves:
    """The moves of the colocation groups of `problem`, from the current state.

    The gain of the best move of each group is kept from one call to the next.  Groups with the
    highest gains are evaluated again first, until no other group can have a higher gain.
    """

    def __init__(self, problem: BalanceProblem, guard: Guard | None = None) -> None:
        affinity = problem.affinity
        assert affinity is not None
        self._guard = guard
        self._state = problem.state
        self._scope = problem.scope
        self._fixed = problem.fixed
        self._rules = problem.rules
        self._relations = affinity.relations
        self._rule_counts = affinity.rule_counts
        self._costs = affinity
        self._position = {index: k for k, index in enumerate(problem.scope)}
        self._movable = {instance.name: instance for instance in problem.instances}
        nodes = problem.state.cluster.nodes
        self._wide: dict[int, Bound] = {}
        self._sorted: dict[int, Names] = {}
        self._targets = [index for index in problem.scope if nodes[index].online]
        bound_groups = [groups for name in self._movable for groups in self._bound_groups(name)]
        several = (groups for groups in bound_groups if len(groups) > 1 or len(groups[0]) > 1)
        self._gains: dict[Bound, float] = dict.fromkeys(several, inf)
        self._matrix = capacity_matrix(problem.fixed.all())
        self._kernel = self._new_kernel()

    def _new_kernel(self) -> ArrayKernel:
        return ArrayKernel(self._state, self._scope, self._matrix)

    def _bound_groups(self, name: str) -> list[Bound]:
        """Return the colocation group of an instance: alone, and with the groups bound to it.

        Groups are bound to each other if they must be in one failure domain.
        """
        own: Bound = (self._group_of(name),)
        together = self._relations.wide_units().get(name, ())
        wide = self._wide.get(id(together))
        if wide is None:
            wide = tuple(dict.fromkeys(map(self._group_of, sorted(together))))
            self._wide[id(together)] = wide
        return [own, wide] if 1 < len(wide) <= MOST_JOINT_GROUPS else [own]

    def _group_of(self, name: str) -> Names:
        """Return the names in the colocation group of an instance, including its own name."""
        group = self._relations.units().get(name)
        if group is None:
            return (name,)
        if id(group) not in self._sorted:
            self._sorted[id(group)] = tuple(sorted(group))
        return self._sorted[id(group)]

    def __bool__(self) -> bool:
        return bool(self._gains)

    def best(
        self, present: float, floor: float, budget: float, count: float, by_value: bool
    ) -> ScoredMoves | None:
        """Return the moves of a colocation group that gain most, and more than `floor`; or None.

        The gain is the decrease of the score from `present`; if `by_value`, it is divided by the
        MiB that the moves copy.  The moves copy at most `budget` MiB, and are at most `count`.
        """
        self._kernel = self._new_kernel()
        lowest: tuple[float, ScoredMoves] | None = None
        for groups in sorted(self._gains, key=lambda groups: -self._gains[groups]):
            if self._gains[groups] <= (lowest[0] if lowest else floor):
                break
            self._gains[groups] = NO_MOVE_GAIN
            for move in self._moves(groups):
                if move.copied > budget or len(move.moves) > count:
                    continue
                gain = (present - move.score) / (move.copied + 1 if by_value else 1)
                self._gains[groups] = max(self._gains[groups], gain)
                least = lowest[0] if lowest else max(floor, 0.0)
                if gain > least and self._keeps_n1():
                    lowest = gain, move
        return lowest[1] if lowest else None

    def promising(self, most: int, budget: float, count: float) -> list[ScoredMoves]:
        """Return at most `most` moves of colocation groups, with the lowest scores.

        They need not lower the present score. Each copies at most `budget` MiB, in at most `count`
        moves.
        """
        self._kernel = self._new_kernel()
        moves = [
            move
            for groups in self._gains
            for move in self._moves(groups)
            if move.copied <= budget and len(move.moves) <= count
        ]
        return sorted(moves, key=lambda move: round(move.score, SCORE_DECIMALS))[:most]

    def repairing(self, budget: float, count: float) -> ScoredMoves | None:
        """Return the moves that lower the number of violated hard constraints most; or None.

        Of equal moves, those with the lowest score are returned. They violate no hard constraint
        that is satisfied now, and copy at most `budget` MiB in at most `count` moves.
        """
        self._kernel = self._new_kernel()
        every: dict[Bound, None] = {}
        for name in sorted(name for name in self._movable if self._violated([name])):
            every |= dict.fromkeys([*self._bound_groups(name), ((name,),)])
        # First moves of several instances, for which the change of violations is not known; then
        # moves of single instances to each target, sorted by the largest possible decrease
        tries: list[tuple[float, int, Bound, int | None]] = []
        single: list[tuple[float, int, Bound, int | None]] = []
        rule_counts, where = self._rule_counts.now(), self._state.where
        for place, groups in enumerate(every):
            name = groups[0][0]
            if len(groups) > 1 or len(groups[0]) > 1:
                tries.append((-inf, place, groups, None))
                continue
            more = self._relations.with_fewer_violations(
                name, where[name][0], self._targets, rule_counts
            )
            single += ((less, place, groups, target) for target, less in more.items())
        tries += sorted(single, key=lambda one: one[:2])
        best: tuple[RepairKey, ScoredMoves] | None = None
        for least, place, groups, target in tries:
            if best is not None and least > best[0][0]:
                break
            now = self._violated(name for names in groups for name in names)
            for move in self._moves(groups, None if target is None else (target,)):
                if move.copied > budget or len(move.moves) > count or move.violated >= now:
                    continue
                key = move.violated - now, round(move.score, SCORE_DECIMALS), place
                if (best is None or key < best[0]) and self._keeps_n1():
                    best = key, move
        return best[1] if best else None

    def _keeps_n1(self) -> bool:
        return self._guard is None or self._guard.keeps()

    def _violated(self, names: Iterable[str]) -> int:
        """Return how many hard constraints the instances `names` violate now, in all."""
        rule_counts, where = self._rule_counts.now(), self._state.where
        return sum(self._relations.hard_violations(n, where[n][0], rule_counts) for n in names)

    def _moves(self, groups: Bound, targets: Iterable[int] | None = None) -> Iterator[ScoredMoves]:
        """Yield legal moves of `groups` that violate no hard constraint that is satisfied now.

        For a single instance, only moves to `targets` are yielded, if given. While the generator is
        suspended, the yielded moves are applied to the state.
        """
        rules, nodes, where = self._rules, self._state.cluster.nodes, self._state.where
        if rules.evacuate_only:
            held = (index for names in groups for name in names for index in where[name])
            if all(nodes[index].online for index in held):
                return
            rules = rules.also_on_online_nodes()
        before = {name: self._state.where[name][0] for names in groups for name in names}
        for target in self._first_targets(groups, rules) if targets is None else targets:
            with self._state.trial():
                moves = self._gather(groups[0], target, rules)
                for names in groups[1:]:
                    moves = None if moves is None else self._follow(names, groups, moves, rules)
                if not moves:
                    continue
                moved = {n: at for n, at in before.items() if self._state.where[n][0] != at}
                counts = self._rule_counts.now()
                if not any(self._relations.newly_broken(moved, self._state.where, counts)):
                    yield ScoredMoves(moves, self._score(), self._violated(before))

    def _first_targets(self, groups: Bound, rules: MoveRules) -> Iterable[int]:
        """Return the nodes to which the first colocation group of `groups` may move.

        If other groups must follow it, only the node with the lowest score in each failure domain
        is returned.
        """
        if len(groups) == 1:
            return self._targets
        best: dict[frozenset[str], tuple[float, int]] = {}
        for target in self._targets:
            with self._state.trial():
                moves = self._gather(groups[0], target, rules)
                if moves is None:
                    continue
                scored = self._score(), target
            site = self._relations.sites_of(target)
            best[site] = min(scored, best.get(site, scored))
        return [target for _, target in best.values()]

    def _follow(
        self, names: Names, groups: Bound, moves: list[Move], rules: MoveRules
    ) -> list[Move] | None:
        """Move the group `names` to the node with the lowest score that affinity allows.

        Affinity between `names` and the groups before it in `groups` is checked. Return `moves`
        with the new moves added; None if no node is allowed.
        """
        placed = {name for before in groups[: groups.index(names)] for name in before}
        best: tuple[float, int] | None = None
        for target in self._targets:
            with self._state.trial():
                more = self._gather(names, target, rules)
                where, separates = self._state.where, self._relations.separates
                if more is None or any(
                    separates(name, where[name][0], other, where[other][0])
                    for name in names
                    for other in placed
                ):
                    continue
                scored = self._score(), target
            best = min(scored, best) if best else scored
        if best is None:
            return None
        more = self._gather(names, best[1], rules)
        assert more is not None
        return [*moves, *more]

    def _gather(self, names: Names, target: int, rules: MoveRules) -> list[Move] | None:
        """Move all of `names` to `target`, the largest first; return the moves.

        None if one of the instances cannot move.
        """
        state, moves = self._state, list[Move]()
        leaving = [name for name in names if state.where[name][0] != target]
        if not all(name in self._movable for name in leaving):
            return None
        for name in sorted(leaving, key=lambda name: (-self._movable[name].memory, name)):
            # The best move of the instance that the limits allow
            instance, before = self._movable[name], state.where[name]
            gathered: list[tuple[float, int, Move]] = []
            kinds = list(kinds_to(state, instance, target, rules))
            for number, kind in enumerate(kinds):
                if kind.secondary_leads and self._relations.rejected_passing(
                    name, before[1:2], self._rule_counts.now()
                ):
                    continue  # it must not run on its secondary even for a while
                with state.trial():
                    move = kind.move(instance, before, target)
                    if possible(state, self._fixed, move, rules):
                        score = self._score() if len(kinds) > 1 else 0.0
                        gathered.append((score, number, move))
            if not gathered:
                return None
            *_, move = min(gathered, key=lambda one: one[:2])
            move.apply(state)
            moves.append(move)
        return moves

    # Scores

    def _score(self) -> float:
        """Return the score of the present state, with penalties of violated soft constraints."""
        self._kernel.follow()
        return self._kernel.score() + self._costs.penalty(self._position)
