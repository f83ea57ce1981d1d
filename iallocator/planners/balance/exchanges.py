"""Moves that help together where no single one does: of two instances, or of a unit and another.

The first of an exchange is tried out, all that may follow it is evaluated, and what ends lowest
is made.
"""

from __future__ import annotations

from iallocator.planners.plan import traffic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.planners.balance.found_move import FoundMove
    from iallocator.planners.balance.making import PlanInMaking
    from iallocator.planners.balance.units import UnitMove, UnitMoves

__all__ = ["Exchanges"]

FIRST_MOVES = 200
"""Moves that an exchange may be made of, the best single ones."""

PER_INSTANCE = 8
"""How many of them may be of the same instance."""

TRIED, PAIRED = 24, 16
"""With how many of them an exchange is tried out, and how many of those for a partner."""

PATIENCE = 4
"""How many of those are tried out in vain once an exchange is found."""

FOLLOWERS = 4
"""How many second moves are looked at for one that keeps global N+1."""

EXCHANGE_GAIN = 0.001
"""The least that an exchange of two instances must gain."""


class Exchanges:
    """Looks for exchanges in the plan in the making, and makes them; `units`: their moves."""

    def __init__(self, making: PlanInMaking, units: UnitMoves | None) -> None:
        self._making = making
        self._units = units

    def make(self) -> bool:
        """Make the moves that help most together, if any do; whether there were any."""
        if not self._making.limits.lookahead:
            return False
        return self._exchange() or self._unit_exchange()

    def _limit(self) -> float:
        """The score below which an exchange must end."""
        making = self._making
        wanted = making.limits.gain_wanted(making.score)
        return making.score - max(EXCHANGE_GAIN, wanted, making.rounding())

    def _unit_exchange(self) -> bool:
        """Make the moves of a unit and the one after them that help most together."""
        if not self._units:
            return False
        limit = self._limit()
        best: tuple[UnitMove, FoundMove] | None = None
        for unit in self._units.promising(TRIED, self._making.budget(), self._making.left() - 1):
            if self._making.limits.expired():
                break
            second = self._after_unit(unit, best[1].score if best else limit)
            best = best if second is None else (unit, second)
        if best is None:
            return False
        self._making.make_unit(best[0])
        self._making.make(best[1])
        return True

    def _after_unit(self, unit: UnitMove, limit: float) -> FoundMove | None:
        """The best move after those of `unit`, if the score is below `limit` and N+1 kept then."""
        making = self._making
        with making.scan.trial(), making.state.trial():
            for found in unit.moves:
                making.try_out(found)
            second = making.scan.best(budget=making.budget() - unit.copied, limit=limit)
            if second is None or second.score >= limit:
                return None
            making.try_out(second)
            return second if making.guard is None or making.guard.keeps() else None

    def _exchange(self) -> bool:
        """Make the two moves of different instances that help most together."""
        limits = self._making.limits
        if self._making.left() < 2:
            return False
        limit = self._limit()
        best: tuple[float, FoundMove, FoundMove] | None = None
        since = 0
        for first in self._promising():
            if limits.expired() or (best is not None and since >= PATIENCE):
                break
            since += 1
            if traffic(first.instance, first.kind.letters) > self._making.budget():
                continue
            second = self._follower(first, best[0] if best else limit)
            if second is not None:
                best, since = (second.score, first, second), 0
        if best is None:
            return False
        self._making.make(*best[1:])
        return True

    def _follower(self, first: FoundMove, limit: float) -> FoundMove | None:
        """The best move after `first`, if the score is below `limit` and N+1 kept after both.

        All is as before then.
        """
        with self._making.scan.trial(), self._making.state.trial():
            self._making.try_out(first)
            budget = self._making.budget() - traffic(first.instance, first.kind.letters)
            return self._second(first, budget, limit)

    def _second(self, first: FoundMove, budget: float, limit: float) -> FoundMove | None:
        """The same, once `first` is made."""
        for _ in range(FOLLOWERS):
            second = self._making.scan.best(budget=budget, limit=limit)
            if second is None or second.score >= limit:
                break
            if self._making.keeps_n1(second, also=first):
                return second
            self._making.scan.bar(second)
        return None

    def _promising(self) -> list[FoundMove]:
        """First moves of exchanges, those first that go best with another.

        That one need not be possible now: the first may make the room for it.
        """
        firsts = self._making.scan.lowest(FIRST_MOVES, PER_INSTANCE)
        seconds = self._making.relaxed().lowest(FIRST_MOVES, PER_INSTANCE)
        if not (firsts and seconds):
            return firsts[:TRIED]
        lowest = self._making.scan.pair_scores(firsts, seconds).min(axis=1)
        order = sorted(range(len(firsts)), key=lambda k: float(lowest[k]))
        chosen = dict.fromkeys([*order[:PAIRED], *range(len(firsts))])
        return [firsts[k] for k in list(chosen)[:TRIED]]
