"""Search the fewest moves that reach a goal, then the least traffic, then the lowest score.

This is a local search over plans.  A step replaces the best plan so far by a better one.  A
neighbourhood has all plans of a number of moves; a depth-first search yields those that are better
than the best plan, and goes on from where it stopped when the next plan is asked for.

Each move must be allowed after the moves before it: limits, affinity, storage pools, N+1.
Instances that can only move at once do so, and each counts as a move.  If every order of moves was
tried, the result is proved to have the fewest moves, or it is proved that there is no plan.  The
search for lower scores has a smaller budget.
"""

from __future__ import annotations

from iallocator.deadline import SIMULATIONS, TIME_IS_UP, check
from iallocator.model.columns import MEMORY
from iallocator.model.moves import Move
from iallocator.n1 import plan_rules
from iallocator.n1.tolerance import FailureTolerance
from iallocator.planners.make_room.moves import Moves
from iallocator.planners.plan import PlanEntry
from iallocator.planners.search import Acceptance, LocalSearch, Neighbourhood
from iallocator.scoring.scalar import score_of
from iallocator.tolerances import SCORE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from iallocator.aliases import Nodes
    from iallocator.placement.context import Context
    from iallocator.planners.make_room.goal import Goal
    from iallocator.planners.search import Objective

    Changed = frozenset[tuple[str, Nodes]]
    """Instances that are not on their initial nodes, and their present nodes."""

    Stands = Callable[[Sequence[PlanEntry]], bool]

__all__ = ["WORK_IS_SPENT", "RoomSearch"]

WORK = 400_000
"""Budget of the search in moves × nodes of their group: some seconds."""

WORK_IS_SPENT = "the work for it is spent"

TIES = 40_000
"""Budget of the search for a lower score, in moves × nodes of their group."""

ANSWER = 5
"""The cost of checking the goal for one new instance, relative to checking a move."""

SIMULATED = 25
"""How much effort of simulated failures costs as much as checking a move on one node."""

WIDTH = 2
"""How many targets of each kind of move are tried in the first round."""

INFINITE = float("inf")


class _Plan:
    """Moves that reach the goal, in order; each has been made in the state of the search."""

    __slots__ = ("entries",)

    def __init__(self, entries: Sequence[PlanEntry]) -> None:
        self.entries = list(entries)

    def apply(self, state: RoomSearch) -> None:
        """Keep the plan as the best one, and note at each move the score after it."""
        made, nodes = state.context.state, range(len(state.context.cluster.nodes))
        with made.trial():
            for entry in reversed(self.entries):
                entry.score = score_of(made, nodes)
                _reversed(entry.move).apply(made)
        state.found = self.entries


class RoomSearch:
    """A search for at most `most` moves that copy at most `cost` MiB; None: any amount.

    The search changes the state of `context`, and restores it.  `stands` returns whether a whole
    plan passes the check of all limits.

    Attributes
    ----------
    context, goal, moves:
        The state, what has to be reached, and the moves that may be made.
    found:
        The moves; None if no plan was found.
    limit:
        The most MiB that a plan may copy.
    proved:
        Whether no plan has fewer moves, or as many moves with less traffic.
    ended:
        What ended the search early, in words; "" if nothing did.
    """

    def __init__(
        self, context: Context, goal: Goal, most: int, cost: float | None, stands: Stands
    ) -> None:
        self.context = context
        self.goal = goal
        self.moves = Moves(context, goal)
        self.limit = INFINITE if cost is None else cost
        self.found: list[PlanEntry] | None = None
        self.proved = True
        self.ended = ""
        self._most = most
        self._stands = stands
        self._left: float = WORK
        self._effort = context.effort.work[SIMULATIONS]
        self._answers: dict[Changed, bool] = {}

    def run(self) -> None:
        """Search; if time ends, `found` has the best plan so far.

        First only the best targets are tried, so that a plan is found soon.  Then all targets are
        tried, as long as the plan can become better.
        """
        depths = range(1, self._most + 1)
        self._improve([_Plans(depth, width) for width in (WIDTH, None) for depth in depths])
        self.proved = self.moves.complete and not self.over()
        if self.over():
            self.ended = TIME_IS_UP if self.context.deadline.over() else WORK_IS_SPENT
        elif self.found:
            self._left = min(self._left, TIES)
            self._improve([_Plans(len(self.found), None, by_score=True)])

    def _improve(self, plans: Sequence[_Plans]) -> None:
        """Find better plans than the best one; the state is unchanged in the end."""
        by_score = any(one.by_score for one in plans)
        acceptance: Acceptance[_Plan] = Acceptance(allows=lambda plan: self._stands(plan.entries))
        search = LocalSearch(
            plans,
            lambda work: work.value() if by_score else work.value()[:2],
            acceptance,
            self.context.deadline,
        )
        try:
            search.run(self)
        finally:
            for one in plans:
                one.close()

    def value(self) -> tuple[float, float, float]:
        """Return the number of moves of the best plan, the MiB that it copies, and its score."""
        if not self.found:
            return INFINITE, INFINITE, INFINITE
        copied = sum(one.move.copied for one in self.found)
        return len(self.found), copied, self.found[-1].score

    def over(self) -> bool:
        """Return whether the budget or the time is spent."""
        check()
        return self._left <= 0 or self.context.deadline.over()

    def reached(self) -> bool:
        """Return whether the goal is reached in the present state; each state is checked once."""
        moved = self.moved()
        if moved not in self._answers:
            self.spend(ANSWER * self.goal.price * len(self.context.cluster.nodes))
            self._answers[moved] = self.goal.reached()
        return self._answers[moved]

    def moved(self) -> Changed:
        """Return the instances that are not on their initial nodes, with their nodes."""
        where = self.context.state.where
        return frozenset(
            (one.name, where[one.name])
            for one in self.moves.movable
            if where[one.name] != one.nodes
        )

    def spend(self, amount: int) -> None:
        """Subtract `amount` and the failures simulated since the last call from the budget."""
        effort = self.context.effort.work[SIMULATIONS]
        if effort < self._effort:
            amount += int((self._effort - effort) / SIMULATED)
            self._effort = effort
        self._left -= amount


class _Plans(Neighbourhood[RoomSearch, _Plan]):
    """The plans of `depth` moves that are better than the best one.

    `width`: how many targets of each kind of move are tried; None: all.  `by_score`: plans with as
    many moves and as much traffic as the best one are better if their score is lower.
    """

    def __init__(self, depth: int, width: int | None, by_score: bool = False) -> None:
        self.name = f"plans of {depth} moves"
        self.by_score = by_score
        self._depth = depth
        self._width = width
        self._made: list[PlanEntry] = []
        self._seen: dict[tuple[int, Changed], float] = {}
        self._plans: Generator[_Plan] | None = None

    def best(
        self, state: RoomSearch, objective: Objective, allows: Callable[[_Plan], bool]
    ) -> _Plan | None:
        """Return the next plan that is better than the best one."""
        if self._depth > objective[0]:
            return None
        if self._plans is None:
            self._plans = self._deeper(state, self._depth, 0)
        return next(filter(allows, self._plans), None)

    def close(self) -> None:
        """Undo the moves of the plan that was found last."""
        if self._plans is not None:
            self._plans.close()

    def _lowers_score(self, search: RoomSearch) -> bool:
        """Return whether the score is lower than the best, or scores are not compared."""
        if not self.by_score:
            return True
        nodes = range(len(search.context.cluster.nodes))
        search.spend(len(nodes))
        return score_of(search.context.state, nodes) < search.value()[2] - SCORE

    def _deeper(self, search: RoomSearch, depth: int, copied: float) -> Generator[_Plan]:
        """Yield all plans with `depth` moves more; the moves so far copy `copied` MiB."""
        if depth == 0:
            if self._lowers_score(search) and search.reached():
                yield _Plan(self._made)
            return
        if search.over():
            return
        for price, moves in search.moves.up_to(depth, self._width):
            total = copied + price
            if search.over() or total > search.limit:
                return
            length, most, _ = search.value()
            if self._depth == length and (total > most or (total == most and not self.by_score)):
                return
            yield from self._after(search, moves, depth, total)

    def _after(
        self, search: RoomSearch, moves: Sequence[Move], depth: int, copied: float
    ) -> Generator[_Plan]:
        """Make `moves` if they are allowed, and yield the plans that go on after them.

        `copied`: MiB that the plan copies with them. The state is unchanged in the end.
        """
        context = search.context
        state, alone = context.state, len(moves) == 1
        with state.trial():
            for move in moves:
                # a fast first test: the new primary is allowed and has the memory
                instance, target = move.instance, move.after[0]
                if target != move.before[0]:
                    short = state.columns[MEMORY][target] <= instance.memory
                    if target in search.goal.left or (instance.uses_memory and short):
                        return
                move.apply(state)
            depth -= len(moves)
            # for one new instance, the goal is checked before the moves, which may need many
            # simulated failures: other plans lead to this state, too
            goal_first = depth == 0 and search.goal.price <= 1
            if goal_first and not (self._lowers_score(search) and search.reached()):
                return
            if not all(self._legal(search, move, alone) for move in moves):
                return
            if not (alone or _keeps_n1(context, moves)):
                return
            # other moves that copy no more may have led to this state before
            changed = search.moved()
            if self._seen.get((depth, changed), INFINITE) <= copied:
                return
            self._seen[depth, changed] = copied
            names = tuple(sorted(move.instance.name for move in moves))
            colocated = names if len(names) > 1 else ()
            self._made += (PlanEntry(move, colocated=colocated) for move in moves)
            yield from self._deeper(search, depth, copied)
            del self._made[len(self._made) - len(moves) :]

    @staticmethod
    def _legal(search: RoomSearch, move: Move, alone: bool) -> bool:
        """Return whether `move`, which has been made, is allowed.

        If it is not `alone`, the other instances of its colocation group have moved, too. N+1 is
        then checked after all of them, because it may be lost in between.
        """
        context, state = search.context, search.context.state
        group = context.cluster.nodes[move.after[0]].group
        search.spend(len(group.nodes))
        # a node on which the instance runs only for a while
        passed = move.before[1:] if len(move.steps) > 2 else ()
        with state.trial():
            _reversed(move).apply(state)
            if search.goal.left.intersection(passed) or context.bonds.rejected_passing(
                move.instance, passed
            ):
                return False
            rejection = context.evaluator(group).check(move)
        return rejection is None or (not alone and rejection.reason == "FailN1")


def _keeps_n1(context: Context, moves: Sequence[Move]) -> bool:
    """Return whether N+1 is kept after `moves`, which have been made at once.

    Moves off nodes that are not online need not keep it.
    """
    state, nodes = context.state, context.cluster.nodes
    if not any(nodes[move.before[0]].online for move in moves):
        return True
    group = nodes[moves[0].before[0]].group
    mode = context.settings.plan_n1(group.index)
    with state.trial():
        for move in reversed(moves):
            _reversed(move).apply(state)
        rules = plan_rules(mode, context.bonds.relations)
        failures = FailureTolerance(state, rules, group=group)
        failures.measure()
    return not failures.broken()


def _reversed(move: Move) -> Move:
    """Return the move that leads back to where `move` began."""
    return Move(move.instance, move.after, move.before)
