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

from iallocator.deadline import TIME_IS_UP, Stopped, check
from iallocator.planners.balance.exchanges import Exchanges
from iallocator.planners.balance.making import PlanInMaking
from iallocator.planners.plan import Plan, traffic
from iallocator.planners.stop_criteria import lowest_score
from iallocator.planners.survival import FailureGuard
from iallocator.scoring.state_score import score_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from iallocator.planners.balance.found_move import FoundMove
    from iallocator.planners.balance.problem import BalanceProblem
    from iallocator.planners.balance.scan.batch_scan import Measure
    from iallocator.planners.balance.units import UnitMove, UnitMoves
    from iallocator.planners.stop_criteria import StopCriteria

    Progress = Callable[[Plan], None]

__all__ = ["GreedyBalancer", "balance"]

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
        guard: FailureGuard | None = None,
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
        before, count, rounding = making.score, len(self.plan.moves), making.rounding()
        found = self._best(by_value)
        helps = found is not None and making.helps(found)
        unit = self._unit(found if helps else None, by_value)
        if unit is not None:
            making.make_unit(unit)
        elif found is not None and helps:
            making.make(found)
        elif not self._exchanges.make():
            if not self._mend() and not self.plan.reason:
                self.plan.reason = self._why_not(found, by_value)
            return
        if before - making.score <= rounding / 2:  # else it might go on for ever
            making.take_back(count, before)
            self.plan.reason = ROUNDING

    def _best(self, by_value: bool, budget: float | None = None) -> FoundMove | None:
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
        making, count = self._making, len(self.plan.moves)
        while self._units is not None and not making.limits.expired():
            unit = self._units.mending(making.budget(), making.left())
            if unit is None:
                break
            making.make_unit(unit, mends=True)
        return len(self.plan.moves) > count

    def _unit(
        self, single: FoundMove | None, by_value: bool, budget: float | None = None
    ) -> UnitMove | None:
        """Return the move of a colocation group that helps, and helps more than `single`."""
        if not self._units:
            return None
        making, floor = self._making, -INFINITE
        if single is not None:
            price = traffic(single.instance, single.kind.letters)
            floor = making.gain(single) / (price + 1) if by_value else making.gain(single)
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
        if limits.max_length is not None and len(plan.moves) >= limits.max_length:
            plan.reason = LONGEST
        elif self._making.score <= self._floor:
            plan.reason = "the score is as low as it needs to be"
        elif limits.expired():
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

    def _why_not(self, found: FoundMove | None, by_value: bool) -> str:
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
    state, survival = problem.state, problem.survival
    with state.trial():
        plan = _attempt(problem, limits, progress, by_value)
        try:
            if survival is None or plan.stop or not survival.lost(state):
                return plan
        except Stopped as stop:  # whoever prints the plan judges it
            plan.stop_at_best(stop)
            return plan
    with state.trial():
        guard = FailureGuard(survival, state)
        plan = _attempt(problem, limits, progress, by_value, guard)
        down = survival.down(state)
    if plan.stop or not down:
        return plan
    with state.trial():
        guard = FailureGuard(survival, state, rescues=True)
        other = _attempt(problem, limits, progress, by_value, guard)
        back = survival.down(state) < down
    if back:
        other.reason += "; who comes back could not be saved again"
    return other if back else plan


def _attempt(
    problem: BalanceProblem,
    limits: StopCriteria,
    progress: Progress,
    by_value: bool,
    guard: FailureGuard | None = None,
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


def _unit_moves(problem: BalanceProblem, guard: FailureGuard | None) -> UnitMoves | None:
    """The moves of those that must be together; None where nothing binds instances."""
    if problem.relations is None or not problem.relations.binding:
        return None
    from iallocator.planners.balance.units import UnitMoves

    return UnitMoves(problem, problem.relations, guard)
