"""The neighbourhoods of balancing: the kinds of steps that its local search may take.

`BestMove` makes one move, `Exchange` two moves of which the first may be bad alone, and `Repair`
the moves that satisfy a violated hard constraint.  The moves of a colocation group count as one.

Cost: `BestMove` is a scan of instances × nodes, `Exchange` such a scan for each of some promising
first moves.
"""

from __future__ import annotations

from math import inf

from iallocator.deadline import check
from iallocator.planners.balance.plan_builder import PlanBuilder, Step
from iallocator.planners.search import Neighbourhood

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from iallocator.aliases import Floats
    from iallocator.planners.balance.colocation_groups import ColocationMoves
    from iallocator.planners.balance.move_kinds import ScoredMoves
    from iallocator.planners.balance.plan_builder import Search
    from iallocator.planners.search import Objective

    Allows = Callable[[Step], bool]

__all__ = ["BestMove", "Exchange", "Repair"]

FIRST_MOVES = 200
"""Moves of which an exchange may consist, the best single ones."""

PER_INSTANCE = 8
"""How many of them may be of one instance."""

TRIED, PAIRED = 24, 16
"""How many of them are tried as first moves, and how many of those are chosen by pair scores."""

PATIENCE = 4
"""How many first moves are tried in vain once an exchange is found."""

FOLLOWERS = 4
"""How many second moves are checked until one keeps global N+1."""

EXCHANGE_GAIN = 0.001
"""The least that an exchange of two instances must gain."""


class BestMove(Neighbourhood[PlanBuilder, Step]):
    """The move of an instance, or of a colocation group, that lowers the score most.

    `by_value`: that lowers the score most for each MiB that it copies.

    Attributes
    ----------
    last:
        The best move of an instance that was found last, whether it helps or not.
    """

    name = "best move"

    def __init__(self, groups: ColocationMoves | None, by_value: bool) -> None:
        self._groups = groups
        self._by_value = by_value
        self.last: ScoredMoves | None = None

    def best(self, state: PlanBuilder, objective: Objective, allows: Allows) -> Step | None:
        """Return the move that gains most."""
        single = self.last = self._of_instance(state, allows, state.budget())
        if single is not None and not state.helps(single):
            single = None
        chosen = self._of_group(state, single, state.budget()) or single
        return None if chosen is None else Step(chosen)

    def exists_without_budget(self, builder: PlanBuilder, allows: Allows) -> bool:
        """Return whether a move would help if it could copy any amount."""
        found = self._of_instance(builder, allows, inf)
        if found is not None and builder.helps(found):
            return True
        return self._of_group(builder, None, inf) is not None

    def _of_instance(
        self, builder: PlanBuilder, allows: Allows, budget: float
    ) -> ScoredMoves | None:
        """Return the best move of an instance that copies at most `budget` MiB.

        If the move helps, `allows` has accepted it.
        """
        present = builder.score

        def gain_per_mib(scores: Floats, prices: Floats) -> Floats:
            return (scores - present) / (prices + 1)

        while True:
            check()
            if self._by_value:
                found = builder.scan.best(gain_per_mib, budget, 0.0)
            else:
                found = builder.scan.best(budget=budget, limit=present)
            if found is None or not builder.helps(found):
                if not builder.outdated:
                    return found
                builder.evaluate_all()
            elif allows(Step(found)):
                return found
            else:
                builder.bar(found)

    def _of_group(
        self, builder: PlanBuilder, single: ScoredMoves | None, budget: float
    ) -> ScoredMoves | None:
        """Return the moves of a colocation group that help, and help more than `single`."""
        if not self._groups:
            return None
        floor = -inf
        if single is not None:
            floor = builder.gain(single) / (single.copied + 1 if self._by_value else 1)
        left = builder.moves_left()
        found = self._groups.best(builder.score, floor, budget, left, self._by_value)
        return found if found is not None and builder.helps(found) else None


class Exchange(Neighbourhood[PlanBuilder, Step]):
    """The two moves, or those of a colocation group and one more, that lower the score most."""

    name = "exchange"

    def __init__(self, groups: ColocationMoves | None) -> None:
        self._groups = groups

    def best(self, state: PlanBuilder, objective: Objective, allows: Allows) -> Step | None:
        """Return the best exchange that begins with a promising first move."""
        limits = state.limits
        # an exchange must end below this score
        wanted = limits.gain_wanted(state.score)
        limit = state.score - max(EXCHANGE_GAIN, wanted, state.rounding())
        best: tuple[ScoredMoves, ScoredMoves] | None = None
        since = 0
        for first in self._first_moves(state) if state.moves_left() >= 2 else ():
            check()
            if limits.deadline.over() or (best is not None and since >= PATIENCE):
                break
            since += 1
            if first.copied > state.budget():
                continue
            second = self._second(state, first, best[1].score if best else limit, allows, FOLLOWERS)
            if second is not None:
                best, since = (first, second), 0
        if best is None and self._groups:
            for first in self._groups.promising(TRIED, state.budget(), state.moves_left() - 1):
                check()
                if limits.deadline.over():
                    break
                second = self._second(state, first, best[1].score if best else limit, allows, 1)
                best = best if second is None else (first, second)
        return None if best is None else Step(*best)

    @staticmethod
    def _first_moves(builder: PlanBuilder) -> list[ScoredMoves]:
        """Return first moves of exchanges; those come first that go best with another move.

        The second move need not be possible now: the first one may free the capacity for it.
        """
        firsts = builder.scan.lowest(FIRST_MOVES, PER_INSTANCE)
        seconds = builder.relaxed().lowest(FIRST_MOVES, PER_INSTANCE)
        if not (firsts and seconds):
            return firsts[:TRIED]
        moves = ([found.moves[0] for found in some] for some in (firsts, seconds))
        lowest = builder.scan.pair_scores(*moves).min(axis=1)
        order = sorted(range(len(firsts)), key=lambda k: float(lowest[k]))
        chosen = dict.fromkeys([*order[:PAIRED], *range(len(firsts))])
        return [firsts[k] for k in list(chosen)[:TRIED]]

    @staticmethod
    def _second(
        builder: PlanBuilder, first: ScoredMoves, limit: float, allows: Allows, tries: int
    ) -> ScoredMoves | None:
        """Return the best move after `first` that `allows` accepts, of the best `tries` moves.

        None if the score is not below `limit` after it.
        """
        with builder.scan.trial(), builder.state.trial():
            builder.try_out(first)
            for _ in range(tries):
                second = builder.scan.best(budget=builder.budget() - first.copied, limit=limit)
                if second is None or second.score >= limit:
                    break
                if allows(Step(second)):
                    return second
                builder.scan.bar(second.moves[0])
            return None


class Repair(Neighbourhood[PlanBuilder, Step]):
    """The moves that satisfy most violated hard constraints, whatever the score.

    `then`: a search that goes on after them.
    """

    name = "repair"

    def __init__(self, groups: ColocationMoves | None, then: Search | None = None) -> None:
        self._groups = groups
        self._then = then

    def best(self, state: PlanBuilder, objective: Objective, allows: Allows) -> Step | None:
        """Return the moves that leave the fewest violated hard constraints."""
        if self._groups is None or state.limits.deadline.over():
            return None
        moves = self._groups.repairing(state.budget(), state.moves_left())
        return None if moves is None else Step(moves, repairs=True, then=self._then)
