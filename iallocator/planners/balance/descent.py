"""Balancing: steepest descent, each step the move that lowers the score most.

Before that, violated hard constraints are mended, whatever the score.  Instances that must be
together move as one colocation group, whose score counts once all have moved.  If no move helps,
`StopCriteria.lookahead` lets two instances, or a colocation group and an instance, move
together: the first move is tried, all moves that may follow it are evaluated, and the pair with
the lowest score is made.  With a traffic limit, one plan chooses moves by what they gain, another
one by what they gain per MiB; the plan with the lower score is kept.

If a failure that was tolerated before the plan is not tolerated after it, the plan is made again,
and no step may cause that: of moves that would, the next best is taken.

Cost: a scan of instances × nodes for each step.
"""

from __future__ import annotations

from iallocator.deadline import TIME_IS_UP, Stopped, check
from iallocator.model.moves import replay
from iallocator.n1.baseline import MoveGuard
from iallocator.planners.plan import Plan, PlanEntry
from iallocator.planners.plan_limits import lowest_score
from iallocator.planners.search import LOCAL_OPTIMUM, STALLED, local_search
from iallocator.scoring.scalar import score_of
from iallocator.tolerances import GAIN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeVar

    from iallocator.aliases import Floats
    from iallocator.model.moves import Move
    from iallocator.model.state import State
    from iallocator.planners.balance.colocation_groups import ColocationMoves
    from iallocator.planners.balance.move_kinds import ScoredMoves
    from iallocator.planners.balance.problem import BalanceProblem
    from iallocator.planners.balance.scan.scan import MoveScan
    from iallocator.planners.plan_limits import StopCriteria

    Progress = Callable[[Plan], None]
    V = TypeVar("V")

__all__ = ["Descent", "GroupBalancer", "PlanBuilder"]

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

INFINITE = float("inf")

LONGEST = "the longest plan allowed"

NO_NODE = "no node of the group is online"

ROUNDING = "no move lowers the score by more than rounding"


class Step:
    """Moves that are made together; `mends`: because they mend a hard constraint."""

    __slots__ = ("mends", "moves")

    def __init__(self, *moves: ScoredMoves, mends: bool = False) -> None:
        self.moves = moves
        self.mends = mends


class PlanBuilder:
    """A plan in the making: carries moves out on the state and adds them to `plan`.

    Attributes
    ----------
    problem, state, limits:
        What is balanced, as it is after the moves so far; when to stop.
    scan:
        Evaluates all moves.
    guard:
        Checks that failures stay tolerated after each move; None: they are not checked.
    score:
        The score of the state.
    plan:
        The moves so far; complete at any time.
    barred, outdated:
        Whether the scan skips moves that `guard` rejects, and whether moves have been made since
        that `guard` may accept now.
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
        self._moved: set[int] = set()  # nodes that have changed since `_relaxed` was renewed
        self.plan = Plan("balance", self.score)

    def rounding(self) -> float:
        """Return a difference from the score that may be a rounding error."""
        return GAIN * max(1.0, abs(self.score))

    def gain(self, found: ScoredMoves) -> float:
        """Return by how much moves lower the score."""
        return self.score - found.score

    def helps(self, found: ScoredMoves) -> bool:
        """Return whether moves gain as much as is asked for, and more than a rounding error."""
        wanted = self.limits.gain_wanted(self.score)
        return self.gain(found) > self.rounding() and self.gain(found) >= wanted

    def moves_left(self) -> float:
        """Return how many moves may still be made."""
        longest = self.limits.max_length
        return INFINITE if longest is None else longest - len(self.plan.entries)

    def budget(self) -> float:
        """Return how many MiB may still be copied."""
        if self.limits.cost is None:
            return INFINITE
        return self.limits.cost - self.plan.copied

    def keeps_n1(self, found: ScoredMoves) -> bool:
        """Return whether failures stay tolerated after moves."""
        if self.guard is None:
            return True
        with self.state.trial():
            replay(self.state, found.moves)
            return self.guard.keeps()

    def bar(self, found: ScoredMoves) -> None:
        """Let the scan skip a move."""
        self.scan.bar(found.moves[0])
        self.barred = True

    def evaluate_all(self) -> None:
        """Evaluate all moves again, also those that were skipped."""
        self.scan = self.problem.scan()
        self.barred = self.outdated = False

    def relaxed(self) -> MoveScan:
        """Return all moves, also those that soft limits or affinity constraints forbid."""
        if self._relaxed is None or not self._relaxed.renew(self._moved):
            self._relaxed = self.problem.relaxed()
        self._moved = set()
        return self._relaxed

    def make(self, *chosen: ScoredMoves, mends: bool = False) -> None:
        """Carry out moves that belong together, and add all of them to the plan at once."""
        made: list[PlanEntry] = []
        for one in chosen:
            names = tuple(sorted(move.instance.name for move in one.moves))
            colocated = names if len(names) > 1 else ()
            for move in one.moves:
                self._carry_out(move)
                self._moved |= move.nodes
                self.outdated = self.barred
                if self.guard is not None:
                    self.guard.moved()
                self.score = self.scan.score()
                made.append(PlanEntry(move, self.score, colocated, mends))
        self.plan.entries += made
        self.limits.deadline.spare(len(made))
        self._progress(self.plan)

    def try_out(self, found: ScoredMoves) -> None:
        """Carry out moves in a trial."""
        for move in found.moves:
            self._carry_out(move)

    def _carry_out(self, move: Move) -> None:
        move.apply(self.state)
        self.scan.refresh(move.nodes)


class Descent:
    """Makes one plan; `plan` is always what is found so far."""

    def __init__(
        self,
        problem: BalanceProblem,
        limits: StopCriteria,
        progress: Progress,
        guard: MoveGuard | None = None,
    ) -> None:
        self._builder = PlanBuilder(problem, limits, progress, guard)
        self._groups: ColocationMoves | None = None
        if problem.relations is not None and problem.relations.binding:
            from iallocator.planners.balance.colocation_groups import ColocationMoves

            self._groups = ColocationMoves(problem, problem.relations, guard)
        self._floor = limits.min_score + lowest_score(problem.state, problem.scope)
        self._by_value = False
        self._best: ScoredMoves | None = None
        self._count = 0  # of moves before the last step

    @property
    def plan(self) -> Plan:
        """The moves found so far."""
        return self._builder.plan

    def run(self, by_value: bool = False) -> Plan:
        """Find moves until none helps or a limit is reached; see `Plan.reason`.

        The state is left as it was.  `by_value`: choose moves by what they gain per MiB.

        Raises
        ------
        Stopped
            If the run has to end; `plan` has the moves found until then.
        """
        builder, plan, self._by_value = self._builder, self.plan, by_value
        with builder.state.trial():
            self._mend()
            plan.reason = local_search(
                (self._steps, self._exchanges, self._mending),
                lambda: (-plan.mended, builder.score),
                self._take,
                self._ended,
                GAIN / 2,
            )
            if plan.reason == LOCAL_OPTIMUM:
                plan.reason = self._why_not()
        if plan.reason == STALLED:  # rounding errors could go on for ever
            plan.reason = ROUNDING
            builder.limits.deadline.spare(self._count - len(plan.entries))
            del plan.entries[self._count :]
        return plan

    def _take(self, step: Step) -> None:
        self._count = len(self.plan.entries)
        self._builder.make(*step.moves, mends=step.mends)
        if step.mends:
            self._mend()

    def _ended(self) -> str:
        """Return why to make no more moves; "" if there is no reason."""
        limits = self._builder.limits
        if self._builder.moves_left() <= 0:
            return LONGEST
        if self._builder.score <= self._floor:
            return "the score is as low as it needs to be"
        return TIME_IS_UP if limits.deadline.over() else ""

    # Neighbourhoods

    def _mend(self) -> None:
        """Make all moves that mend violated hard constraints."""
        while step := next(self._mending(), None):
            check()
            self._builder.make(*step.moves, mends=True)

    def _mending(self) -> Iterator[Step]:
        """Yield the moves that mend most violated hard constraints."""
        builder = self._builder
        if self._groups is not None and not builder.limits.deadline.over():
            moves = self._groups.mending(builder.budget(), builder.moves_left())
            if moves is not None:
                yield Step(moves, mends=True)

    def _steps(self) -> Iterator[Step]:
        """Yield the move that helps most, of an instance or a colocation group."""
        single = self._best = self._best_single()
        if single is not None and not self._builder.helps(single):
            single = None
        chosen = self._best_group(single) or single
        if chosen is not None:
            yield Step(chosen)

    def _best_single(self, budget: float | None = None) -> ScoredMoves | None:
        """Return the best move of an instance; if it helps, it keeps global N+1.

        It copies at most `budget` MiB; None stands for what ``--cost`` has left.
        """
        builder = self._builder
        budget = builder.budget() if budget is None else budget
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
            elif builder.keeps_n1(found):
                return found
            else:
                builder.bar(found)

    def _best_group(
        self, single: ScoredMoves | None, budget: float | None = None
    ) -> ScoredMoves | None:
        """Return the moves of a colocation group that help, and help more than `single`."""
        if not self._groups:
            return None
        builder, floor = self._builder, -INFINITE
        if single is not None:
            floor = builder.gain(single) / (single.copied + 1 if self._by_value else 1)
        budget = builder.budget() if budget is None else budget
        left = builder.moves_left()
        found = self._groups.best(builder.score, floor, budget, left, self._by_value)
        return found if found is not None and builder.helps(found) else None

    def _exchanges(self) -> Iterator[Step]:
        """Yield the two moves, or those of a colocation group and one more, that help most."""
        builder = self._builder
        if not builder.limits.lookahead:
            return
        # An exchange must end below this score
        wanted = builder.limits.gain_wanted(builder.score)
        limit = builder.score - max(EXCHANGE_GAIN, wanted, builder.rounding())
        best: tuple[ScoredMoves, ScoredMoves] | None = None
        since = 0
        for first in self._first_moves() if builder.moves_left() >= 2 else ():
            check()
            if builder.limits.deadline.over() or (best is not None and since >= PATIENCE):
                break
            since += 1
            if first.copied > builder.budget():
                continue
            second = self._follower(first, best[1].score if best else limit)
            if second is not None:
                best, since = (first, second), 0
        if best is None and self._groups:
            left = builder.moves_left() - 1
            for first in self._groups.promising(TRIED, builder.budget(), left):
                check()
                if builder.limits.deadline.over():
                    break
                second = self._follower_of_group(first, best[1].score if best else limit)
                best = best if second is None else (first, second)
        if best is not None:
            yield Step(*best)

    def _first_moves(self) -> list[ScoredMoves]:
        """Return first moves of exchanges; those come first that go best with another move.

        The second move need not be possible now: the first one may free the capacity for it.
        """
        builder = self._builder
        firsts = builder.scan.lowest(FIRST_MOVES, PER_INSTANCE)
        seconds = builder.relaxed().lowest(FIRST_MOVES, PER_INSTANCE)
        if not (firsts and seconds):
            return firsts[:TRIED]
        moves = ([found.moves[0] for found in some] for some in (firsts, seconds))
        lowest = builder.scan.pair_scores(*moves).min(axis=1)
        order = sorted(range(len(firsts)), key=lambda k: float(lowest[k]))
        chosen = dict.fromkeys([*order[:PAIRED], *range(len(firsts))])
        return [firsts[k] for k in list(chosen)[:TRIED]]

    def _follower(self, first: ScoredMoves, limit: float) -> ScoredMoves | None:
        """Return the best move after `first`; None if the score is not below `limit` then.

        Global N+1 is kept after both.
        """
        builder = self._builder
        with builder.scan.trial(), builder.state.trial():
            builder.try_out(first)
            for _ in range(FOLLOWERS):
                second = builder.scan.best(budget=builder.budget() - first.copied, limit=limit)
                if second is None or second.score >= limit:
                    break
                if builder.keeps_n1(second):
                    return second
                builder.scan.bar(second.moves[0])
            return None

    def _follower_of_group(self, first: ScoredMoves, limit: float) -> ScoredMoves | None:
        """Return the best move after those of a colocation group, as `_follower` does."""
        builder = self._builder
        with builder.scan.trial(), builder.state.trial():
            builder.try_out(first)
            second = builder.scan.best(budget=builder.budget() - first.copied, limit=limit)
            if second is None or second.score >= limit:
                return None
            builder.try_out(second)
            return second if builder.guard is None or builder.guard.keeps() else None

    def _why_not(self) -> str:
        """Return why no more moves are made, where no step is left."""
        builder, best = self._builder, self._best
        if builder.limits.cost is not None:
            free = self._best_single(INFINITE)
            helps = free is not None and builder.helps(free)
            if helps or self._best_group(None, INFINITE) is not None:
                return "no move that helps is within --cost"
        if best is not None and builder.gain(best) > builder.rounding():
            return "no move gains enough"
        if builder.barred:
            return "no move lowers the score and keeps global N+1"
        return "no move lowers the score"


class GroupBalancer:
    """Finds the best plan for one problem, whose state it leaves as it was."""

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
        """Return the plan that mends most, and of those the one that ends lowest."""
        return min(self._plans, key=lambda plan: (-plan.mended, plan.after))

    def _make(self, by_value: bool) -> None:
        """Make a plan; if global N+1 is not kept at its end, one each of whose steps keeps it.

        Instances on nodes that are not online are moved even if a failure of their new node
        could not be tolerated.
        """
        state, baseline = self._problem.state, self._problem.baseline
        self._plans.append(self._empty())

        def found(guard: MoveGuard | None, keep: bool = True) -> Plan:
            descent = Descent(self._problem, self._limits, self._progress, guard)
            if keep:
                self._plans[-1] = descent.plan
            return descent.run(by_value)

        def at_the_end(plan: Plan, value: Callable[[State], V]) -> V:
            with state.trial():
                replay(state, plan.moves)
                return value(state)

        plan = found(None)
        if baseline is None or not at_the_end(plan, baseline.broken):
            return
        plan = found(MoveGuard(baseline, state))
        down = at_the_end(plan, baseline.still_offline)
        if down:
            other = found(MoveGuard(baseline, state, rescues=True), keep=False)
            if at_the_end(other, baseline.still_offline) < down:
                other.reason += "; who comes back could not be saved again"
                self._plans[-1] = other
