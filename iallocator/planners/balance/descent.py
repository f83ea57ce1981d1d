"""Balancing one group: plans by local search, and the choice between them.

Each step of the search lowers the score as much as possible.  Hard constraints that are violated
are repaired first, whatever the score.  The kinds of steps are in `neighbourhoods.py`.
With a traffic limit, one plan chooses moves by what they gain, another one by what they gain per
MiB; the plan with the lower score is kept.

If a failure that was tolerated before the plan is not tolerated after it, the plan is made again,
and no step may cause that: of moves that would, the next best is taken.

Cost: a scan of instances × nodes for each step.
"""

from __future__ import annotations

from iallocator.model.moves import replay
from iallocator.n1.tolerance import FailureTolerance
from iallocator.planners.balance.neighbourhoods import BestMove, Exchange, Repair
from iallocator.planners.balance.plan_builder import PlanBuilder
from iallocator.planners.plan import Plan
from iallocator.planners.plan_limits import lowest_score
from iallocator.planners.search import LOCAL_OPTIMUM, STALLED, Acceptance, LocalSearch
from iallocator.scoring.scalar import score_of
from iallocator.tolerances import GAIN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from iallocator.deadline import Stopped
    from iallocator.planners.balance.colocation_groups import ColocationMoves
    from iallocator.planners.balance.plan_builder import BalanceProblem, Progress, Search
    from iallocator.planners.plan_limits import StopCriteria

    V = TypeVar("V")

__all__ = ["Descent", "GroupBalancer"]

LONGEST = "the longest plan allowed"

NO_NODE = "no node of the group is online"

RESCUED = "; some instances that leave offline nodes could not be restarted if another node failed"

ROUNDING = "no move lowers the score by more than rounding"


class Descent:
    """Makes one plan; `plan` is always what is found so far.

    `by_value`: choose moves by what they gain per MiB.
    """

    def __init__(
        self,
        problem: BalanceProblem,
        limits: StopCriteria,
        progress: Progress,
        guard: FailureTolerance | None = None,
        by_value: bool = False,
    ) -> None:
        builder = self._builder = PlanBuilder(problem, limits, progress, guard)
        groups: ColocationMoves | None = None
        if problem.relations is not None and problem.relations.binding:
            from iallocator.planners.balance.colocation_groups import ColocationMoves

            groups = ColocationMoves(problem, problem.relations, guard)
        self._floor = limits.min_score + lowest_score(problem.state, problem.scope)
        self._best_move = BestMove(groups, by_value)
        self._repairs: Search = LocalSearch(
            [Repair(groups)], _objective, Acceptance(), limits.deadline
        )
        exchange = [Exchange(groups)] if limits.lookahead else []
        self._search: Search = LocalSearch(
            [self._best_move, *exchange, Repair(groups, self._repairs)],
            _objective,
            Acceptance(self._ended, builder.keeps_n1, GAIN / 2),
            limits.deadline,
        )

    @property
    def plan(self) -> Plan:
        """The moves found so far."""
        return self._builder.plan

    def run(self) -> Plan:
        """Find moves until none helps or a limit is reached; see `Plan.reason`.

        The state is left as it was.

        Raises
        ------
        Stopped
            If the run has to end; `plan` has the moves found until then.
        """
        builder, plan, limits = self._builder, self.plan, self._builder.limits
        with builder.state.trial():
            self._repairs.run(builder)
            plan.reason = self._search.run(builder)
            if plan.reason == LOCAL_OPTIMUM:
                best = self._best_move.last
                if limits.cost is not None and self._best_move.exists_without_budget(
                    builder, builder.keeps_n1
                ):
                    plan.reason = "no move that helps is within --cost"
                elif best is not None and builder.gain(best) > builder.rounding():
                    plan.reason = "no move gains enough"
                elif builder.barred:
                    plan.reason = "no move lowers the score and keeps global N+1"
                else:
                    plan.reason = "no move lowers the score"
        if plan.reason == STALLED:  # rounding errors could go on for ever
            plan.reason = ROUNDING
            limits.deadline.spare(builder.count - len(plan.entries))
            del plan.entries[builder.count :]
        return plan

    def _ended(self) -> str:
        """Return why to make no more moves; "" if there is no reason."""
        if self._builder.moves_left() <= 0:
            return LONGEST
        return "the score is as low as it needs to be" if self._builder.score <= self._floor else ""


def _objective(builder: PlanBuilder) -> tuple[float, float]:
    """Return the number of repairs, negative, and the score."""
    return -builder.plan.repaired, builder.score


class GroupBalancer:
    """Finds the best plan for one problem; the state of the problem is left as it was."""

    def __init__(
        self, problem: BalanceProblem, limits: StopCriteria, progress: Progress = lambda plan: None
    ) -> None:
        self._problem = problem
        self._limits = limits
        self._progress = progress
        self._plans: list[Plan] = []  # one for each way to choose moves

    def run(self) -> Plan:
        """Return the best plan.

        Raises
        ------
        Stopped
            If the run has to end; see `stopped`.
        """
        nodes = self._problem.state.cluster.nodes
        dead = not any(nodes[index].online for index in self._problem.scope)
        if dead and not self._problem.rules.behaviour.scores_dead_clusters:
            self._plans = [Plan("balance", 0.0)]
            self._plans[0].reason = NO_NODE
        elif self._limits.max_length == 0:  # a scan would be instances × nodes
            self._plans = [self._empty()]
            self._plans[0].reason = LONGEST
        else:
            self._make(False)
            if self._limits.cost is not None:
                self._make(True)
        return self._best()

    def stopped(self, stop: Stopped) -> Plan:
        """Return the best plan found until `stop` ended `run`."""
        for plan in self._plans or [self._empty()]:
            plan.stop_at_best(stop)
        return self._best()

    def _empty(self) -> Plan:
        return Plan("balance", score_of(self._problem.state, self._problem.scope))

    def _best(self) -> Plan:
        """Return the plan with most repairs, and of those the one with the lowest score."""
        return min(self._plans, key=lambda plan: (-plan.repaired, plan.after))

    def _make(self, by_value: bool) -> None:
        """Make a plan; if global N+1 is not kept at its end, one in which each step keeps it.

        Instances on nodes that are not online are moved even if a failure of their new node
        could not be tolerated.
        """
        state, failures = self._problem.state, self._problem.failures
        self._plans.append(self._empty())

        def found(guard: FailureTolerance | None, keep: bool = True) -> Plan:
            descent = Descent(self._problem, self._limits, self._progress, guard, by_value)
            if keep:
                self._plans[-1] = descent.plan
            return descent.run()

        def at_the_end(plan: Plan, value: Callable[[], V]) -> V:
            with state.trial():
                replay(state, plan.moves)
                return value()

        plan = found(None)
        if failures is None or not at_the_end(plan, failures.broken):
            return
        plan = found(failures.guard())
        down = at_the_end(plan, failures.still_offline)
        if down:
            other = found(failures.guard(rescues=True), keep=False)
            if at_the_end(other, failures.still_offline) < down:
                other.reason += RESCUED
                self._plans[-1] = other
