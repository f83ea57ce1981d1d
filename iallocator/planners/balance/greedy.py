"""Balancing: greedy steps, each the one move that lowers the score most.

First of all broken musts are mended, whatever the score.  Instances that must be together
move as one unit (`units.py`), whose score counts once all have moved.  Where no move
helps, `StopCriteria.lookahead` lets two instances move together.  With
a traffic limit, moves are chosen by what they gain, and once more by what they gain
per MiB; the plan that ends lower is kept.

A plan that in the end loses the survival of a failure is made again, and then no step may
lose it: of moves that would, the next best is taken.
"""

from __future__ import annotations

from iallocator.deadline import TIME_IS_UP
from iallocator.model.moves import apply_steps
from iallocator.planners.plan import Plan, PlannedMove, traffic
from iallocator.planners.stop_criteria import lowest_score
from iallocator.planners.survival import FailureGuard
from iallocator.scoring.state_score import score_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from iallocator.planners.balance.problem import BalanceProblem
    from iallocator.planners.balance.scan.batch_scan import Measure
    from iallocator.planners.balance.scan.found_move import FoundMove
    from iallocator.planners.balance.units import UnitMove, UnitMoves
    from iallocator.planners.stop_criteria import StopCriteria

    Progress = Callable[[Plan], None]

__all__ = ["GreedyBalancer", "balance"]

NOTHING = 1e-10
"""A gain below this is rounding, or below this share of the score."""

LONGEST = "the longest plan allowed"

ROUNDING = "no move lowers the score by more than rounding"

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

INFINITE = float("inf")

EXCHANGE_GAIN = 0.001
"""The least that an exchange of two instances must gain."""


class GreedyBalancer:
    """Makes one plan, changing the state as it goes; `plan` is always what is found so far."""

    def __init__(
        self,
        arena: BalanceProblem,
        limits: StopCriteria,
        progress: Progress,
        guard: FailureGuard | None = None,
    ) -> None:
        self._arena = arena
        self._state = arena.state
        self._scan = arena.scan()
        self._guard = guard
        self._units = _unit_moves(arena, guard)
        self._limits = limits
        self._floor = limits.min_score + lowest_score(arena.state, arena.scope)
        self._progress = progress
        self._score = self._scan.score()
        self._barred = self._outdated = False
        self.plan = Plan("balance", self._score)

    def run(self, by_value: bool = False) -> Plan:
        """Move until nothing helps, a limit is reached or someone interrupts; see `Plan.reason`."""
        try:
            self._run(by_value)
        except KeyboardInterrupt as stop:
            self.plan.stop_at_best(stop)
        return self.plan

    def _run(self, by_value: bool) -> None:
        self._mend()
        while not self._stopped():
            self._step(by_value)

    def _step(self, by_value: bool) -> None:
        """Make what helps most, or say why the plan ends."""
        before, count = self._score, len(self.plan.moves)
        found = self._best(by_value)
        helps = found is not None and self._helps(self._score - found.score)
        unit = self._unit(found if helps else None, by_value)
        if unit is not None:
            self._make_unit(unit)
        elif found is not None and helps:
            self._make(found)
        elif not self._exchanges():
            if not self._mend() and not self.plan.reason:
                self.plan.reason = self._why_not(found)
            return
        if before - self._score <= self._rounding(before) / 2:  # else it might go on for ever
            self._take_back(count)
            self._score = before
            self.plan.reason = ROUNDING

    def _take_back(self, count: int) -> None:
        """Undo all but the first `count` moves; the scan is of no more use then."""
        while len(self.plan.moves) > count:
            move = self.plan.moves.pop()
            self._state.remove(move.instance, move.after)
            self._state.place(move.instance, move.before)

    @staticmethod
    def _rounding(score: float) -> float:
        """A difference from `score` that may be rounding."""
        return NOTHING * max(1.0, abs(score))

    def _best(self, by_value: bool) -> FoundMove | None:
        """The best move; one that helps keeps global N+1, too."""
        while True:
            found = self._scan.best(self._measure(by_value), self._budget())
            if found is None or not self._helps(self._score - found.score):
                if not self._outdated:
                    return found
                self._scan, self._barred, self._outdated = self._arena.scan(), False, False
            elif self._keeps_n1(found):
                return found
            else:
                self._scan.bar(found)
                self._barred = True

    def _keeps_n1(self, found: FoundMove, also: FoundMove | None = None) -> bool:
        """Whether global N+1 is kept after a move; `also` has been made just before."""
        if self._guard is None:
            return True
        touched = {*found.before, found.target}
        if also is not None:
            touched |= {*also.before, also.target}
        with self._state.trial():
            apply_steps(self._state, found.instance, found.kind.steps(found.before, found.target))
            return self._guard.keeps(touched)

    def _mend(self) -> bool:
        """Make the moves that mend broken musts; whether there were any."""
        made = len(self.plan.moves)
        while self._units is not None and not self._limits.expired():
            unit = self._units.mending(self._budget(), self._left())
            if unit is None:
                break
            self._make_unit(unit, mends=True)
        return len(self.plan.moves) > made

    def _unit(self, single: FoundMove | None, by_value: bool) -> UnitMove | None:
        """The move of a unit that helps, and more than `single`."""
        if not self._units:
            return None
        floor = -INFINITE
        if single is not None:
            gain, price = self._score - single.score, traffic(single.instance, single.kind.letters)
            floor = gain / (price + 1) if by_value else gain
        found = self._units.best(self._score, floor, self._budget(), self._left(), by_value)
        return found if found is not None and self._helps(self._score - found.score) else None

    def _left(self) -> float:
        """How many moves may still be made."""
        longest = self._limits.max_length
        return INFINITE if longest is None else longest - len(self.plan.moves)

    def _measure(self, by_value: bool) -> Measure:
        present = self._score
        if by_value:
            return lambda scores, prices: (scores - present) / (prices + 1)
        return lambda scores, prices: scores

    def _budget(self) -> float:
        if self._limits.cost is None:
            return float("inf")
        return self._limits.cost - self.plan.copied

    def _stopped(self) -> bool:
        limits, plan = self._limits, self.plan
        if limits.max_length is not None and len(plan.moves) >= limits.max_length:
            plan.reason = LONGEST
        elif self._score <= self._floor:
            plan.reason = "the score is as low as it needs to be"
        elif limits.expired():
            plan.reason = TIME_IS_UP
        return bool(plan.reason)

    def _helps(self, gain: float) -> bool:
        wanted = self._limits.gain_wanted(self._score)
        return gain > self._rounding(self._score) and gain >= wanted

    def _why_not(self, found: FoundMove | None) -> str:
        if found is not None and self._score - found.score > self._rounding(self._score):
            return "no move gains enough"
        if self._barred:
            return "no move lowers the score and keeps global N+1"
        return "no move lowers the score"

    def _make(self, found: FoundMove) -> None:
        """Carry out a move, and note it."""
        self.plan.moves.append(self._made(found))
        self._progress(self.plan)

    def _make_unit(self, unit: UnitMove, mends: bool = False) -> None:
        """Carry out the moves of a unit; nobody sees a plan with only some of them."""
        made = [self._made(found) for found in unit.moves]
        names = tuple(sorted(one.instance.name for one in made))
        for move in made:
            move.mends = mends
            if len(made) > 1:
                move.unit = names
        self.plan.moves += made
        self._progress(self.plan)

    def _made(self, found: FoundMove) -> PlannedMove:
        """Carry out a move."""
        steps = found.kind.steps(found.before, found.target)
        target = self._state.cluster.nodes[found.target].name
        apply_steps(self._state, found.instance, steps)
        self._scan.refresh([*found.before, found.target])
        self._outdated = self._barred  # what was barred before may do now
        if self._guard is not None:
            self._guard.moved((*found.before, found.target))
        self._score = self._scan.score()
        copied = traffic(found.instance, found.kind.letters)
        notation = found.kind.notation(target)
        return PlannedMove(found.instance, found.before, steps, notation, self._score, copied)

    def _exchange_gain(self) -> float:
        """The least that an exchange must gain."""
        wanted = self._limits.gain_wanted(self._score)
        return max(EXCHANGE_GAIN, wanted, self._rounding(self._score))

    def _exchanges(self) -> bool:
        return self._limits.lookahead and (self._exchange() or self._unit_exchange())

    def _unit_exchange(self) -> bool:
        """Make the moves of a unit and the one after them that help most together."""
        if not self._units:
            return False
        limit = self._score - self._exchange_gain()
        best: tuple[UnitMove, FoundMove] | None = None
        for unit in self._units.promising(TRIED, self._budget(), self._left() - 1):
            if self._limits.expired():
                break
            second = self._after_unit(unit, best[1].score if best else limit)
            best = best if second is None else (unit, second)
        if best is None:
            return False
        self._make_unit(best[0])
        self._make(best[1])
        return True

    def _after_unit(self, unit: UnitMove, limit: float) -> FoundMove | None:
        """The best move after those of `unit`, if the score is below `limit` and N+1 kept then."""
        with self._scan.trial(), self._state.trial():
            for found in unit.moves:
                self._try_out(found)
            second = self._scan.best(budget=self._budget() - unit.copied)
            if second is None or second.score >= limit:
                return None
            self._try_out(second)
            return second if self._guard is None or self._guard.keeps() else None

    def _try_out(self, found: FoundMove) -> None:
        """Carry out a move in a trial."""
        apply_steps(self._state, found.instance, found.kind.steps(found.before, found.target))
        self._scan.refresh([*found.before, found.target])

    def _exchange(self) -> bool:
        """Make the two moves of different instances that help most together."""
        limits = self._limits
        if self._left() < 2:
            return False
        start = self._score
        wanted = self._exchange_gain()
        best: tuple[float, FoundMove, FoundMove] | None = None
        since = 0
        for first in self._promising():
            if limits.expired() or (best is not None and since >= PATIENCE):
                break
            since += 1
            if traffic(first.instance, first.kind.letters) > self._budget():
                continue
            second = self._follower(first, best[0] if best else start - wanted)
            if second is not None:
                best, since = (second.score, first, second), 0
        if best is None:
            return False
        made = [self._made(found) for found in best[1:]]
        self.plan.moves += made
        self._progress(self.plan)
        return True

    def _follower(self, first: FoundMove, limit: float) -> FoundMove | None:
        """The best move after `first`, if the score is below `limit` and N+1 kept after both.

        All is as before then.
        """
        with self._scan.trial(), self._state.trial():
            self._try_out(first)
            budget = self._budget() - traffic(first.instance, first.kind.letters)
            return self._second(first, budget, limit)

    def _second(self, first: FoundMove, budget: float, limit: float) -> FoundMove | None:
        """The same, once `first` is made."""
        for _ in range(FOLLOWERS):
            second = self._scan.best(budget=budget)
            if second is None or second.score >= limit:
                break
            if self._keeps_n1(second, also=first):
                return second
            self._scan.bar(second)
        return None

    def _promising(self) -> list[FoundMove]:
        """First moves of exchanges, those first that go best with another.

        That one need not be possible now: the first may make the room for it.
        """
        firsts = self._scan.lowest(FIRST_MOVES, PER_INSTANCE)
        seconds = self._arena.relaxed().lowest(FIRST_MOVES, PER_INSTANCE)
        if not (firsts and seconds):
            return firsts[:TRIED]
        lowest = self._scan.pair_scores(firsts, seconds).min(axis=1)
        order = sorted(range(len(firsts)), key=lambda k: float(lowest[k]))
        chosen = dict.fromkeys([*order[:PAIRED], *range(len(firsts))])
        return [firsts[k] for k in list(chosen)[:TRIED]]


def balance(
    arena: BalanceProblem, limits: StopCriteria, progress: Progress = lambda plan: None
) -> Plan:
    """The best plan for `arena`, whose state it leaves as it was."""
    plans: list[Plan] = []
    for by_value in (False,) if limits.cost is None else (False, True):
        plans.append(_plan(arena, limits, progress, by_value))
        if plans[-1].stop:
            break
    mended = max(plan.mended for plan in plans)
    return min((p for p in plans if p.mended == mended), key=lambda plan: plan.after)


def _plan(arena: BalanceProblem, limits: StopCriteria, progress: Progress, by_value: bool) -> Plan:
    """One plan; where its end does not keep global N+1, one each of whose steps does."""
    state, survival = arena.state, arena.survival
    with state.trial():
        plan = _attempt(arena, limits, progress, by_value)
        if survival is None or plan.stop or not survival.lost(state):
            return plan
    with state.trial():
        return _attempt(arena, limits, progress, by_value, FailureGuard(survival, state))


def _attempt(
    arena: BalanceProblem,
    limits: StopCriteria,
    progress: Progress,
    by_value: bool,
    guard: FailureGuard | None = None,
) -> Plan:
    """One plan; an empty one if someone interrupts before the first scan is done.

    Where no move may be made none is looked for: a scan is instances × nodes.
    """
    if limits.max_length == 0:
        plan = Plan("balance", score_of(arena.state, arena.scope))
        plan.reason = LONGEST
        return plan
    try:
        return GreedyBalancer(arena, limits, progress, guard).run(by_value)
    except KeyboardInterrupt as stop:
        plan = Plan("balance", score_of(arena.state, arena.scope))
        plan.stop_at_best(stop)
        return plan


def _unit_moves(problem: BalanceProblem, guard: FailureGuard | None) -> UnitMoves | None:
    """The moves of those that must be together; None where nothing binds instances."""
    if problem.relations is None or not problem.relations.binding:
        return None
    from iallocator.planners.balance.units import UnitMoves

    return UnitMoves(problem, problem.relations, guard)
