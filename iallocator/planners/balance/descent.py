"""Balance one group: make plans by local search, and choose between them.

Each step of the search lowers the score as much as possible.  Steps that repair violated hard
constraints come first, even if they raise the score.  `BestMove` makes one move.  If no single move
lowers the score, `compound_moves.py` has swaps and chains of several moves, and `GroupExchange`
moves a colocation group and one more instance. Between swaps, single moves are left out;
`EveryMove` makes them before the search for chains.  `Repair` makes the moves that satisfy a
violated hard constraint.

With a limit on the amount of data to copy, two plans are made: one chooses moves by their gain, the
other by their gain per MiB. The plan with the lower score is used.

If N+1 does not allow the final state of the plan or a state between its moves, the plan is made
again with a check of N+1 after each step. If N+1 rejects a step, the next best step is used.

Cost: a scan of instances × nodes for each step, and the cost of `compound_moves.py`.
"""

from __future__ import annotations

from math import inf

from iallocator.deadline import check
from iallocator.model.moves import replay
from iallocator.planners.balance.plan_builder import PlanBuilder, Step, keep_n1
from iallocator.planners.plan import Plan
from iallocator.planners.plan_limits import length_reached, lowest_score
from iallocator.planners.search import (
    LOCAL_OPTIMUM,
    STALLED,
    Acceptance,
    LocalSearch,
    Neighbourhood,
)
from iallocator.tolerances import GAIN_TOLERANCE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from iallocator.aliases import Floats
    from iallocator.deadline import Stopped
    from iallocator.planners.balance.colocation_groups import ColocationMoves
    from iallocator.planners.balance.move_kinds import ScoredMoves
    from iallocator.planners.balance.plan_builder import BalanceProblem, Guard, Progress, Search
    from iallocator.planners.balance.rearrangement import KnownPlacements
    from iallocator.planners.balance.scan.scan import Placed
    from iallocator.planners.plan_limits import StopCriteria
    from iallocator.planners.search import Objective

    Allows = Callable[[Step], bool]

__all__ = ["BestMove", "Descent", "EveryMove", "GroupBalancer", "GroupExchange", "Repair"]

SHARE_OF_GAIN = 0.97
"""Moves that gain at least this share of the best one are made without a search in between."""

EXCHANGES_TRIED = 24
"""The number of moves of colocation groups with which an exchange may begin, best first."""


class BestMove(Neighbourhood[PlanBuilder, Step]):
    """Moves of one instance or one colocation group; the one that lowers the score most is used.

    With `by_value`, the move that lowers the score most for each MiB that it copies is used.

    A search finds further moves that gain almost as much on other nodes. They are made before the
    next search, if the moves before them have not made them worse. This nearly halves the time of
    single moves. With hbal's moves, moves by value, or colocation groups, each move is searched.

    Attributes
    ----------
    last:
        The best move of a single instance in the last search, even if it does not lower the score.
    """

    name = "best move"

    def __init__(self, groups: ColocationMoves | None, by_value: bool) -> None:
        self._groups = groups
        self._by_value = by_value
        self.last: ScoredMoves | None = None
        self._found: list[Placed] = []  # further moves of the last search
        self._least = 0.0  # the gain that they need
        self._moves_then = 0  # the number of moves of the plan when the last step is made

    def best(self, state: PlanBuilder, objective: Objective, allows: Allows) -> Step | None:
        """Return the move with the largest gain; None if no move lowers the score enough.

        None, too, if moves are not evaluated again yet after a swap: the next swap is more likely
        to help. `EveryMove` evaluates them.
        """
        if state.deferred:
            return None
        if (found := self._further(state, allows)) is not None:
            return self._step(state, found)
        single = self.last = self._of_instance(state, allows, state.budget())
        if single is not None and not state.helps(single):
            single = None
        chosen = self._of_group(state, single, state.budget()) or single
        if chosen is None:
            return None
        self._least = SHARE_OF_GAIN * state.gain(chosen)
        if state.limits.compound and not (self._by_value or self._groups):
            self._found = state.scan.independent(chosen, state.score - self._least)
        return self._step(state, chosen)

    def _step(self, state: PlanBuilder, chosen: ScoredMoves) -> Step:
        """Return the step of `chosen`, and note after how many moves further ones may follow it."""
        self._moves_then = len(state.plan.entries) + 1
        return Step(chosen)

    def _further(self, state: PlanBuilder, allows: Allows) -> ScoredMoves | None:
        """Return a further move of the last search that still gains nearly as much as its best one.

        None if there is none, or if another neighbourhood has made moves since then.
        """
        found, self._found = self._found, []
        if len(state.plan.entries) != self._moves_then:
            return None
        for number, placed in enumerate(found, 1):
            scored = state.scan.scored_now(placed)
            gains = state.helps(scored) and state.gain(scored) >= self._least
            if gains and scored.copied <= state.budget() and allows(Step(scored)):
                self._found = found[number:]
                return scored
        return None

    def exists_without_budget(self, builder: PlanBuilder, allows: Allows) -> bool:
        """Return whether a move would lower the score enough if the amount to copy had no limit."""
        moves = self._of_instance(builder, allows, inf)
        if moves is not None and builder.helps(moves):
            return True
        return self._of_group(builder, None, inf) is not None

    def _of_instance(
        self, builder: PlanBuilder, allows: Allows, budget: float
    ) -> ScoredMoves | None:
        """Return the best move of an instance that copies at most `budget` MiB, or None.

        The returned move may fail to lower the score enough. A move that lowers it enough is
        returned only if `allows` accepts it.
        """
        present = builder.score

        def gain_per_mib(scores: Floats, traffic: Floats) -> Floats:
            return (scores - present) / (traffic + 1)

        while True:
            check()
            if self._by_value:
                best = builder.scan.best(gain_per_mib, budget, 0.0)
            else:
                best = builder.scan.best(budget=budget, limit=present, decide=builder.decide)
            if best is None or not builder.helps(best):
                if not builder.outdated:
                    return best
                builder.evaluate_all()
            elif allows(Step(best)):
                return best
            else:
                builder.bar(best)

    def _of_group(
        self, builder: PlanBuilder, single: ScoredMoves | None, budget: float
    ) -> ScoredMoves | None:
        """Return moves of a colocation group that lower the score enough, and more than `single`.

        None if there are none. They copy at most `budget` MiB.
        """
        if not self._groups:
            return None
        floor = -inf
        if single is not None:
            floor = builder.gain(single) / (single.copied + 1 if self._by_value else 1)
        left = builder.moves_left()
        moves = self._groups.best(builder.score, floor, budget, left, self._by_value)
        return moves if moves is not None and builder.helps(moves) else None


class EveryMove(Neighbourhood[PlanBuilder, Step]):
    """All moves of `best_move`, evaluated again after swaps; the one with the largest gain is used.

    If no swap has been made since moves were evaluated, there is no step.
    """

    name = "every move"

    def __init__(self, best_move: BestMove) -> None:
        self._best_move = best_move

    def best(self, state: PlanBuilder, objective: Objective, allows: Allows) -> Step | None:
        """Return the move with the largest gain; None if no move lowers the score enough."""
        if not state.deferred:
            return None
        state.deferred = False
        return self._best_move.best(state, objective, allows)


class GroupExchange(Neighbourhood[PlanBuilder, Step]):
    """The moves of a colocation group together with one more move."""

    name = "group exchange"

    def __init__(self, groups: ColocationMoves) -> None:
        self._groups = groups

    def best(self, state: PlanBuilder, objective: Objective, allows: Allows) -> Step | None:
        """Return the exchange that lowers the score most, None if none lowers it enough.

        An exchange begins with one of the `EXCHANGES_TRIED` best moves of a colocation group.
        """
        limit = state.limit_of_compounds()
        best: tuple[ScoredMoves, ScoredMoves] | None = None
        for first in self._groups.promising(
            EXCHANGES_TRIED, state.budget(), state.moves_left() - 1
        ):
            check()
            if state.limits.deadline.over():
                break
            with state.scan.trial(), state.state.trial():
                state.try_out(first)
                budget = state.budget() - first.copied
                second = state.scan.best(budget=budget, limit=limit)
                if second is not None and second.score < limit and allows(Step(second)):
                    best, limit = (first, second), second.score
        return None if best is None else Step(*best)


class Repair(Neighbourhood[PlanBuilder, Step]):
    """The moves that satisfy violated hard constraints, even if the score rises.

    `then` is a search that runs after these moves; None: no search.
    """

    name = "repair"

    def __init__(self, groups: ColocationMoves | None, then: Search | None = None) -> None:
        self._groups = groups
        self._then = then

    def best(self, state: PlanBuilder, objective: Objective, allows: Allows) -> Step | None:
        """Return the moves that leave the fewest violated hard constraints, or None."""
        if self._groups is None or state.limits.deadline.over():
            return None
        moves = self._groups.repairing(state.budget(), state.moves_left())
        return None if moves is None else Step(moves, repairs=True, then=self._then)


NO_NODE_ONLINE = "no node of the group is online"

NOTHING_TO_EVACUATE = "no node of the group is offline or drained (--evac-mode)"

RESCUED = "; some instances that leave offline nodes could not be restarted if another node failed"

ROUNDING = "no move lowers the score by more than rounding"


class Descent:
    """The local search that makes one plan; `plan` has the moves found so far at any time.

    Parameters
    ----------
    problem, limits:
        The group to balance, and when to stop.
    progress:
        Is called with the plan after each step.
    guard:
        Rejects steps after which N+1 is violated; None: N+1 is not checked at each step.
    by_value:
        Choose moves by their gain per MiB.
    anew:
        Begin with a step that may place all instances of a small cluster anew, before single moves.
    known:
        A cache of scored placements, shared with other searches of this problem; see
        `Rearrangement`.
    """

    def __init__(
        self,
        problem: BalanceProblem,
        limits: StopCriteria,
        progress: Progress,
        guard: Guard | None = None,
        by_value: bool = False,
        anew: bool = False,
        known: KnownPlacements | None = None,
    ) -> None:
        builder = self._builder = PlanBuilder(problem, limits, progress, guard)
        groups: ColocationMoves | None = None
        if problem.relations is not None and problem.relations.binding:
            from iallocator.planners.balance.colocation_groups import ColocationMoves

            groups = ColocationMoves(problem, guard)
        self._floor = limits.min_score + lowest_score(problem.state, problem.scope)
        self._best_move = BestMove(groups, by_value)
        self.can_begin_anew = False
        self._repairs: Search = LocalSearch(
            [Repair(groups)], _objective, Acceptance(), limits.deadline
        )
        compound: list[Neighbourhood[PlanBuilder, Step]] = []
        if limits.compound and not problem.rules.evacuate_only:
            from iallocator.planners.balance.compound_moves import (
                Chains,
                EverySwap,
                Rotations,
                Swaps,
            )
            from iallocator.planners.balance.rearrangement import Rearrangement

            exchange = [GroupExchange(groups)] if groups else []
            swaps = Swaps(builder)
            compound = [swaps, EveryMove(self._best_move), *exchange, Rotations(swaps)]
            compound += [Chains(), EverySwap(swaps), Rearrangement(known)]
            self.can_begin_anew = Rearrangement.looks_at_all(builder)
        first = [compound.pop()] if anew and compound else []
        self._search: Search = LocalSearch(
            [*first, self._best_move, *compound, Repair(groups, self._repairs)],
            _objective,
            Acceptance(self._ended, builder.keeps_n1, GAIN_TOLERANCE / 2),
            limits.deadline,
        )

    @property
    def plan(self) -> Plan:
        """Return the plan with the moves found so far."""
        return self._builder.plan

    def run(self) -> Plan:
        """Find moves until no move helps or a limit is reached; return the plan with the reason.

        The state is restored.

        Raises
        ------
        Stopped
            If the run must end; `plan` has the moves found until then.
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
        if plan.reason == STALLED:  # steps within rounding errors could repeat without end
            plan.reason = ROUNDING
            limits.deadline.spare(builder.count - len(plan.entries))
            del plan.entries[builder.count :]
        return plan

    def _ended(self) -> str:
        """Return why to make no more moves; "" if there is no reason."""
        most = self._builder.limits.max_length
        if most is not None and len(self.plan.entries) >= most:
            return length_reached(most)
        return "the score is as low as it needs to be" if self._builder.score <= self._floor else ""


def _objective(builder: PlanBuilder) -> tuple[float, float]:
    """Return the negative number of repairing moves, then the score; lower is better."""
    return -builder.plan.repaired, builder.score


class GroupBalancer:
    """Finds the best plan for the group of one problem; the state of the problem is restored."""

    def __init__(
        self, problem: BalanceProblem, limits: StopCriteria, progress: Progress = lambda plan: None
    ) -> None:
        self._problem = problem
        self._limits = limits
        self._progress = progress
        self._plans: list[Plan] = []  # one for each way to choose moves
        self._placements: KnownPlacements = {}

    def run(self) -> Plan:
        """Return the plan with most repairs of hard constraints, and of those the lowest score.

        Raises
        ------
        Stopped
            If a signal or the time limit ends the search.
        """
        nodes = self._problem.state.cluster.nodes
        dead = not any(nodes[index].online for index in self._problem.scope)
        if dead and not self._problem.rules.behaviour.scores_dead_clusters:
            self._plans = [Plan("balance", 0.0)]
            self._plans[0].reason = NO_NODE_ONLINE
        elif self._limits.max_length == 0:  # a scan would be instances × nodes
            self._plans = [self._empty()]
            self._plans[0].reason = length_reached(0)
        else:
            self._make(False)
            if self._limits.cost is not None:
                self._make(True)
        plan = self._best()
        online = all(nodes[index].online for index in self._problem.scope)
        if self._problem.rules.evacuate_only and online and not plan.entries:
            plan.reason = NOTHING_TO_EVACUATE
        return plan

    def stopped(self, stop: Stopped) -> Plan:
        """Return the best plan found until `stop` ended `run`."""
        for plan in self._plans or [self._empty()]:
            plan.stop_at_best(stop)
        return self._best()

    def _empty(self) -> Plan:
        return Plan("balance", self._problem.present_score())

    def _best(self) -> Plan:
        """Return the plan with most repairing moves; of equal plans, that with the lowest score."""
        return min(self._plans, key=lambda plan: (-plan.repaired, plan.after))

    def _make(self, by_value: bool) -> None:
        """Make a plan; if N+1 rejects it, make further plans with checks of N+1, and keep the best.

        N+1 is checked after each step in several ways, with one plan for each. First, the rules of
        the mode are checked at the end of each step. If instances are on offline nodes, a second
        plan counts returned instances as already lost, and a third one only checks the states
        between moves. Of the plans that N+1 allows, the best one leaves the fewest instances on
        offline nodes; then it is one after which returned instances can be restarted once more;
        then the one with the lowest score.
        """
        problem = self._problem
        state, failures, losses = problem.state, problem.failures, problem.losses
        self._plans.append(self._empty())
        plan, whole = self._searched(None, by_value)
        if whole or failures is None or losses is None:
            return
        comparison = failures.comparison
        guards: list[Guard] = [comparison.guard()]
        offline = any(
            state.primaries[i] or state.secondaries[i]
            for i in problem.scope
            if not state.cluster.nodes[i].online
        )
        if offline:
            guards += [comparison.guard(rescues=True), losses.comparison.passing_guard()]
        elif failures.rules.requires_all:
            guards.append(comparison.guard(rescues=True))
        plans = [plan]
        for guard in guards:
            plan, _ = self._searched(guard, by_value)
            plans.append(plan)
            self._plans[-1] = best = min((*plans[1:], plans[0]), key=self._rank)
        if self._rank(best)[2]:
            best.reason += RESCUED

    def _searched(self, guard: Guard | None, by_value: bool) -> tuple[Plan, bool]:
        """Return the best plan of a search, cut where N+1 requires it, and whether none is cut.

        A small cluster is searched twice, because single moves can lead to a placement that no
        further move improves. The second search begins with a step that may place all instances
        anew. If the run must end, the moves found so far are the plan.
        """
        plans: list[Plan] = []
        shortened = False
        descent: Descent | None = None
        for anew in (False, True):
            if descent is not None and not (descent.can_begin_anew and descent.plan.entries):
                break
            descent = Descent(
                self._problem, self._limits, self._progress, guard, by_value, anew, self._placements
            )
            plans.append(descent.plan)
            self._plans[-1:] = plans
            plan = descent.run()
            whole = len(plan.entries)
            keep_n1(self._problem, plan)
            shortened |= len(plan.entries) < whole
        best = min(plans, key=self._rank)
        self._plans[-len(plans) :] = [best]
        return best, not shortened

    def _rank(self, plan: Plan) -> tuple[int, int, bool, float]:
        """Return the sort key of a plan; lower is better.

        The key consists of the negative number of repairing moves; the number of instances that
        stay on offline nodes; whether more instances than initially cannot be restarted after a
        failure; the score. Without N+1, the second and third part are equal for all plans.
        """
        state, failures = self._problem.state, self._problem.failures
        if failures is None:
            return -plan.repaired, 0, False, plan.after
        with state.trial():
            replay(state, plan.moves)
            down = failures.comparison.still_offline()
            rescued = bool(plan.entries and failures.comparison.broken())
        return -plan.repaired, down, rescued, plan.after
