"""Balancing: greedy steps, each the one move that lowers the score most.

First of all broken musts are mended, whatever the score.  Instances that must be together
move as one unit (`iallocator.planners.balance.units`), whose score counts once all have moved.
Where no move helps, `StopCriteria.lookahead` lets two instances, or a unit and another instance,
move together: the first move is tried out, all that may follow it is evaluated, and the pair that
ends lowest is made.  With a traffic limit, moves are chosen by what they gain, and once more by
what they gain per MiB; the plan that ends lower is kept.

A plan after which a failure is not survived that was survived before is made again, and then no
step may cause that: of moves that would, the next best is taken.

Cost: a scan of instances × nodes for each step.
"""

from __future__ import annotations

from iallocator.deadline import TIME_IS_UP, Stopped, check
from iallocator.model.moves import replay
from iallocator.n1.baseline import MoveGuard
from iallocator.planners.plan import Plan, PlanEntry
from iallocator.planners.plan_limits import lowest_score
from iallocator.scoring.scalar import score_of
from iallocator.tolerances import GAIN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from iallocator.model.moves import Move
    from iallocator.planners.balance.move_kinds import ScoredMoves
    from iallocator.planners.balance.problem import BalanceProblem
    from iallocator.planners.balance.scan.batch_scan import Measure
    from iallocator.planners.balance.scan.neighbourhood import MoveScan
    from iallocator.planners.balance.units import UnitMoves
    from iallocator.planners.plan_limits import StopCriteria

__all__ = ["Exchanges", "GreedyBalancer", "PlanInMaking", "balance"]

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
        best: tuple[ScoredMoves, ScoredMoves] | None = None
        for unit in self._units.promising(TRIED, self._making.budget(), self._making.left() - 1):
            check()
            if self._making.limits.deadline.over():
                break
            second = self._after_unit(unit, best[1].score if best else limit)
            best = best if second is None else (unit, second)
        if best is None:
            return False
        for chosen in best:
            self._making.make(chosen)
        return True

    def _after_unit(self, unit: ScoredMoves, limit: float) -> ScoredMoves | None:
        """The best move after those of `unit`, if the score is below `limit` and N+1 kept then."""
        making = self._making
        with making.scan.trial(), making.state.trial():
            making.try_out(unit)
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
        best: tuple[ScoredMoves, ScoredMoves] | None = None
        since = 0
        for first in self._promising():
            check()
            if limits.deadline.over() or (best is not None and since >= PATIENCE):
                break
            since += 1
            if first.copied > self._making.budget():
                continue
            second = self._follower(first, best[1].score if best else limit)
            if second is not None:
                best, since = (first, second), 0
        if best is None:
            return False
        self._making.make(*best)
        return True

    def _follower(self, first: ScoredMoves, limit: float) -> ScoredMoves | None:
        """The best move after `first`, if the score is below `limit` and N+1 kept after both.

        All is as before then.
        """
        with self._making.scan.trial(), self._making.state.trial():
            self._making.try_out(first)
            return self._second(first, self._making.budget() - first.copied, limit)

    def _second(self, first: ScoredMoves, budget: float, limit: float) -> ScoredMoves | None:
        """The same, once `first` is made."""
        for _ in range(FOLLOWERS):
            second = self._making.scan.best(budget=budget, limit=limit)
            if second is None or second.score >= limit:
                break
            if self._making.keeps_n1(second):
                return second
            self._making.scan.bar(second.moves[0])
        return None

    def _promising(self) -> list[ScoredMoves]:
        """First moves of exchanges, those first that go best with another.

        That one need not be possible now: the first may make the room for it.
        """
        firsts = self._making.scan.lowest(FIRST_MOVES, PER_INSTANCE)
        seconds = self._making.relaxed().lowest(FIRST_MOVES, PER_INSTANCE)
        if not (firsts and seconds):
            return firsts[:TRIED]
        lowest = self._making.scan.pair_scores(
            *([found.moves[0] for found in some] for some in (firsts, seconds))
        ).min(axis=1)
        order = sorted(range(len(firsts)), key=lambda k: float(lowest[k]))
        chosen = dict.fromkeys([*order[:PAIRED], *range(len(firsts))])
        return [firsts[k] for k in list(chosen)[:TRIED]]


class PlanInMaking:
    """Carries moves out, and notes them in `plan`, which is always what is found so far.

    Attributes
    ----------
    problem, state, scan, guard, limits:
        What is balanced, as it is after the moves so far; what evaluates all moves of it; what
        knows which failures must stay survivable, or None; when to stop.
    score:
        The score as it is.
    plan:
        The moves so far.
    barred, outdated:
        Whether the scan passes over moves that would make a failure intolerable, and
        whether moves have been made since that these may do now.
    """

    def __init__(
        self,
        problem: BalanceProblem,
        limits: StopCriteria,
        progress: Progress,
        guard: MoveGuard | None,
    ) -> None:
        self.problem = problem
        self.state = problem.state
        self.guard = guard
        self.limits = limits
        self.scan = problem.scan()
        self._progress = progress
        self.score = self.scan.score()
        self.barred = self.outdated = False
        self._relaxed: MoveScan | None = None
        self._moved: set[int] = set()  # nodes that have changed since that was looked at
        self.plan = Plan("balance", self.score)

    # What may be done

    def rounding(self) -> float:
        """A difference from the score that may be rounding."""
        return GAIN * max(1.0, abs(self.score))

    def gain(self, found: ScoredMoves) -> float:
        """By how much a move lowers the score."""
        return self.score - found.score

    def helps(self, found: ScoredMoves) -> bool:
        """Whether a move gains what is wanted, and more than rounding."""
        wanted = self.limits.gain_wanted(self.score)
        return self.gain(found) > self.rounding() and self.gain(found) >= wanted

    def left(self) -> float:
        """How many moves may still be made."""
        longest = self.limits.max_length
        return INFINITE if longest is None else longest - len(self.plan.entries)

    def budget(self) -> float:
        """How many MiB may still be copied."""
        if self.limits.cost is None:
            return INFINITE
        return self.limits.cost - self.plan.copied

    def keeps_n1(self, found: ScoredMoves) -> bool:
        """Return whether global N+1 holds after moves."""
        if self.guard is None:
            return True
        with self.state.trial():
            replay(self.state, found.moves)
            return self.guard.keeps()

    def bar(self, found: ScoredMoves) -> None:
        """Have the scan pass over a move."""
        self.scan.bar(found.moves[0])
        self.barred = True

    def look_again(self) -> None:
        """Evaluate all moves anew, those that were passed over too."""
        self.scan = self.problem.scan()
        self.barred = self.outdated = False

    def relaxed(self) -> MoveScan:
        """All moves as things are, those that only soft limits or bonds forbid among them."""
        if self._relaxed is None or not self._relaxed.renew(self._moved):
            self._relaxed = self.problem.relaxed()
        self._moved = set()
        return self._relaxed

    # What is done

    def make(self, *chosen: ScoredMoves, mends: bool = False) -> None:
        """Carry out moves that belong together, and add all of them to the plan at once."""
        made: list[PlanEntry] = []
        for one in chosen:
            names = tuple(sorted(move.instance.name for move in one.moves))
            colocated = names if len(names) > 1 else ()
            made += (PlanEntry(move, self._made(move), colocated, mends) for move in one.moves)
        self.plan.entries += made
        self.limits.deadline.spare(len(made))
        self._progress(self.plan)

    def _made(self, move: Move) -> float:
        """Carry out a move, and return the score after it."""
        self._carry_out(move)
        self._moved |= move.nodes
        self.outdated = self.barred  # what was barred before may do now
        if self.guard is not None:
            self.guard.moved()
        self.score = self.scan.score()
        return self.score

    def try_out(self, found: ScoredMoves) -> None:
        """Carry out moves in a trial."""
        for move in found.moves:
            self._carry_out(move)

    def _carry_out(self, move: Move) -> None:
        move.apply(self.state)
        self.scan.refresh(move.nodes)

    def take_back(self, count: int, score: float) -> None:
        """Undo all but the first `count` moves, after which the score was `score`.

        The scans are of no more use then.
        """
        self.limits.deadline.spare(min(0, count - len(self.plan.entries)))
        while len(self.plan.entries) > count:
            move = self.plan.entries.pop().move
            self.state.remove(move.instance, move.after)
            self.state.place(move.instance, move.before)
        self.score = score


if TYPE_CHECKING:
    Progress = Callable[[Plan], None]


LONGEST = "the longest plan allowed"

NO_NODE = "no node of the group is online"

INFINITE = float("inf")

ROUNDING = "no move lowers the score by more than rounding"


class GreedyBalancer:
    """Makes one plan, changing the state as it goes; `plan` is always what is found so far."""

    def __init__(
        self,
        problem: BalanceProblem,
        limits: StopCriteria,
        progress: Progress,
        guard: MoveGuard | None = None,
    ) -> None:
        self._making = PlanInMaking(problem, limits, progress, guard)
        self._units = _unit_moves(problem, guard)
        self._exchanges = Exchanges(self._making, self._units)
        self._floor = limits.min_score + lowest_score(problem.state, problem.scope)

    @property
    def plan(self) -> Plan:
        """What is found so far."""
        return self._making.plan

    def run(self, by_value: bool = False) -> Plan:
        """Move until nothing helps, a limit is reached or someone interrupts; see `Plan.reason`."""
        try:
            self._run(by_value)
        except Stopped as stop:
            self.plan.stop_at_best(stop)
        return self.plan

    def _run(self, by_value: bool) -> None:
        self._mend()
        while not self._stopped():
            check()
            self._step(by_value)

    def _step(self, by_value: bool) -> None:
        """Make what helps most, or say why the plan ends."""
        making = self._making
        before, count, rounding = making.score, len(self.plan.entries), making.rounding()
        found = self._best(by_value)
        helps = found is not None and making.helps(found)
        unit = self._unit(found if helps else None, by_value)
        if unit is not None:
            making.make(unit)
        elif found is not None and helps:
            making.make(found)
        elif not self._exchanges.make():
            if not self._mend() and not self.plan.reason:
                self.plan.reason = self._why_not(found, by_value)
            return
        if before - making.score <= rounding / 2:  # else it might go on for ever
            making.take_back(count, before)
            self.plan.reason = ROUNDING

    def _best(self, by_value: bool, budget: float | None = None) -> ScoredMoves | None:
        """Return the best move; one that helps keeps global N+1, too.

        It copies at most `budget` MiB; None stands for what ``--cost`` has left.
        """
        making = self._making
        budget = making.budget() if budget is None else budget
        while True:
            check()
            limit = 0.0 if by_value else making.score  # what raises the score is of no use
            found = making.scan.best(self._measure(by_value), budget, limit)
            if found is None or not making.helps(found):
                if not making.outdated:
                    return found
                making.look_again()
            elif making.keeps_n1(found):
                return found
            else:
                making.bar(found)

    def _mend(self) -> bool:
        """Make the moves that mend broken musts; whether there were any."""
        making, count = self._making, len(self.plan.entries)
        while self._units is not None and not making.limits.deadline.over():
            check()
            unit = self._units.mending(making.budget(), making.left())
            if unit is None:
                break
            making.make(unit, mends=True)
        return len(self.plan.entries) > count

    def _unit(
        self, single: ScoredMoves | None, by_value: bool, budget: float | None = None
    ) -> ScoredMoves | None:
        """Return the move of a colocation group that helps, and helps more than `single`."""
        if not self._units:
            return None
        making, floor = self._making, -INFINITE
        if single is not None:
            floor = making.gain(single) / (single.copied + 1) if by_value else making.gain(single)
        budget = making.budget() if budget is None else budget
        found = self._units.best(making.score, floor, budget, making.left(), by_value)
        return found if found is not None and making.helps(found) else None

    def _measure(self, by_value: bool) -> Measure:
        present = self._making.score
        if by_value:
            return lambda scores, prices: (scores - present) / (prices + 1)
        return lambda scores, prices: scores

    def _stopped(self) -> bool:
        limits, plan = self._making.limits, self.plan
        if limits.max_length is not None and len(plan.entries) >= limits.max_length:
            plan.reason = LONGEST
        elif self._making.score <= self._floor:
            plan.reason = "the score is as low as it needs to be"
        elif limits.deadline.over():
            plan.reason = TIME_IS_UP
        return bool(plan.reason)

    def _costs_too_much(self, by_value: bool) -> bool:
        """Return whether a move helps that only ``--cost`` prevents."""
        making = self._making
        if making.limits.cost is None:
            return False
        found = self._best(by_value, INFINITE)
        if found is not None and making.helps(found):
            return True
        return self._unit(None, by_value, INFINITE) is not None

    def _why_not(self, found: ScoredMoves | None, by_value: bool) -> str:
        if self._costs_too_much(by_value):
            return "no move that helps is within --cost"
        if found is not None and self._making.gain(found) > self._making.rounding():
            return "no move gains enough"
        if self._making.barred:
            return "no move lowers the score and keeps global N+1"
        return "no move lowers the score"


def balance(
    problem: BalanceProblem, limits: StopCriteria, progress: Progress = lambda plan: None
) -> Plan:
    """The best plan for `problem`, whose state it leaves as it was."""
    plans: list[Plan] = []
    for by_value in (False,) if limits.cost is None else (False, True):
        plans.append(_plan(problem, limits, progress, by_value))
        if plans[-1].stop:
            break
    mended = max(plan.mended for plan in plans)
    return min((p for p in plans if p.mended == mended), key=lambda plan: plan.after)


def _plan(
    problem: BalanceProblem, limits: StopCriteria, progress: Progress, by_value: bool
) -> Plan:
    """One plan; where its end does not keep global N+1, one each of whose steps does.

    Who is on a node that is not online comes back even where it could not be saved again.
    """
    state, baseline = problem.state, problem.baseline
    with state.trial():
        plan = _attempt(problem, limits, progress, by_value)
        try:
            if baseline is None or plan.stop or not baseline.broken(state):
                return plan
        except Stopped as stop:  # whoever prints the plan judges it
            plan.stop_at_best(stop)
            return plan
    with state.trial():
        guard = MoveGuard(baseline, state)
        plan = _attempt(problem, limits, progress, by_value, guard)
        down = baseline.still_offline(state)
    if plan.stop or not down:
        return plan
    with state.trial():
        guard = MoveGuard(baseline, state, rescues=True)
        other = _attempt(problem, limits, progress, by_value, guard)
        back = baseline.still_offline(state) < down
    if back:
        other.reason += "; who comes back could not be saved again"
    return other if back else plan


def _attempt(
    problem: BalanceProblem,
    limits: StopCriteria,
    progress: Progress,
    by_value: bool,
    guard: MoveGuard | None = None,
) -> Plan:
    """One plan; an empty one if someone interrupts before the first scan is done.

    Where no move may be made none is looked for: a scan is instances × nodes.
    """
    nodes = problem.state.cluster.nodes
    dead = not any(nodes[index].online for index in problem.scope)
    if dead and not problem.rules.behaviour.scores_dead_clusters:
        plan = Plan("balance", 0.0)
        plan.reason = NO_NODE
        return plan
    if limits.max_length == 0:
        plan = Plan("balance", score_of(problem.state, problem.scope))
        plan.reason = LONGEST
        return plan
    try:
        return GreedyBalancer(problem, limits, progress, guard).run(by_value)
    except Stopped as stop:
        plan = Plan("balance", score_of(problem.state, problem.scope))
        plan.stop_at_best(stop)
        return plan


def _unit_moves(problem: BalanceProblem, guard: MoveGuard | None) -> UnitMoves | None:
    """The moves of those that must be together; None where nothing binds instances."""
    if problem.relations is None or not problem.relations.binding:
        return None
    from iallocator.planners.balance.units import UnitMoves

    return UnitMoves(problem, problem.relations, guard)
