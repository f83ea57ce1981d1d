"""Search the fewest moves that reach a goal; of these, the least traffic, then the lowest score.

Branch and bound tries all plans of one move, then of two moves, and so on, until a plan reaches the
goal. Local search is not used, because no score shows how far a state is from the goal
(`docs/design/local-search.md`).

Each move must be allowed after the moves before it: limits, affinity, storage pools, N+1. Instances
that can only move at once are moved at once, and each of them counts as a move.  If every order of
moves was tried, it is proved that the result has the fewest moves, or that there is no plan.  The
search for lower scores has a smaller budget.

Cost: exponential in the number of moves; `SEARCH_BUDGET` limits it.
"""

from __future__ import annotations

from math import inf

from iallocator.deadline import SIMULATIONS, TIME_IS_UP, check
from iallocator.model.columns import MEMORY
from iallocator.model.moves import Move
from iallocator.n1 import plan_rules
from iallocator.n1.tolerance import FailureTolerance
from iallocator.planners.make_room.moves import Moves
from iallocator.planners.plan import PlanEntry
from iallocator.scoring.scalar import score_of
from iallocator.solver.branch_and_bound import BranchAndBound
from iallocator.tolerances import SCORE_TOLERANCE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.state import Trial
    from iallocator.placement.context import Context
    from iallocator.planners.make_room.moves import Goal

    Cost = tuple[float, float]
    """The number of moves of a plan, and the MiB that it copies."""

    Choice = tuple[float, Sequence[Move]]
    """The MiB that a plan copies with these moves, and the moves."""

    Changed = frozenset[tuple[str, Nodes]]
    """Names of instances that are not on their initial nodes, with their present nodes."""

    PlanTest = Callable[[Sequence[PlanEntry]], bool]

__all__ = ["WORK_IS_SPENT", "RoomSearch"]

SEARCH_BUDGET = 400_000
"""Budget of the search in moves × nodes of their group; it lasts for some seconds."""

WORK_IS_SPENT = "the work for it is spent"

SCORE_SEARCH_BUDGET = 40_000
"""Budget of the search for a lower score, in moves × nodes of their group."""

GOAL_CHECK_COST = 5
"""The cost of checking the goal for one new instance, relative to checking a move."""

SIMULATION_COST = 25
"""The effort of simulated failures that costs as much as checking a move on one node."""

TARGETS_OF_A_KIND = 2
"""The number of targets of each kind of move that are tried in the first round."""

MOST_EXPOSED_PLANS = 20
"""The largest number of plans that violate N+1 during a move and are tried before giving up."""


class RoomSearch:
    """A search for at most `most` moves that copy at most `cost` MiB; None: any amount.

    The search changes the state of `context`, and restores it.  `is_verified` returns whether a
    whole plan passes the check of all limits, and `exposes` whether it violates N+1 during a move.
    A plan that does is used only if no other plan has as few moves.

    Attributes
    ----------
    context, goal, moves:
        The state, the goal, and the possible moves.
    best_moves:
        The moves of the best plan; None if no plan was found.
    exposing:
        The moves of the best plan that violates N+1 during a move; None if none was found.
    limit:
        The largest amount that a plan may copy, in MiB.
    proved:
        Whether it is proved that no plan has fewer moves, or as many moves with less traffic.
    ended:
        What ended the search early, in words; "" if nothing did.
    """

    def __init__(
        self,
        context: Context,
        goal: Goal,
        most: int,
        cost: float | None,
        is_verified: PlanTest,
        exposes: PlanTest,
    ) -> None:
        self.context = context
        self.goal = goal
        self.moves = Moves(context, goal)
        self.limit = inf if cost is None else cost
        self.best_moves: list[PlanEntry] | None = None
        self.exposing: list[PlanEntry] | None = None
        self.proved = True
        self.ended = ""
        self._most = most
        self._is_verified = is_verified
        self._exposes = exposes
        self._exposed = 0
        self._left: float = SEARCH_BUDGET
        self._effort = context.effort.work[SIMULATIONS]
        self._answers: dict[Changed, bool] = {}

    def run(self) -> None:
        """Search until the best plan is proved, or time ends; `best_moves` then has the best plan.

        First only the best targets are tried, so that a plan is found soon.  Then all targets are
        tried, as long as the plan can become better.
        """
        for width in (TARGETS_OF_A_KIND, None):
            for depth in range(1, self._most + 1):
                if depth <= self.cost()[0] and depth <= len(self.exposing or range(depth)):
                    _Plans(self, depth, width).search()
        self.proved = self.moves.complete and not self.over()
        if self.over():
            self.ended = TIME_IS_UP if self.context.deadline.over() else WORK_IS_SPENT
        elif self.best_moves:
            self._left = min(self._left, SCORE_SEARCH_BUDGET)
            _Plans(self, len(self.best_moves), None, by_score=True).search()

    def cost(self) -> Cost:
        """Return the number of moves of the best plan, and the MiB that it copies."""
        if not self.best_moves:
            return inf, inf
        return len(self.best_moves), sum(one.move.copied for one in self.best_moves)

    def keep(self, entries: list[PlanEntry]) -> bool:
        """Keep a plan as the best one; return False if it breaks a limit, or N+1 during a move.

        Its moves have been made in the state.  Each entry gets the score after its move.
        """
        if not self._is_verified(entries):
            return False
        made, nodes = self.context.state, range(len(self.context.cluster.nodes))
        with made.trial():
            for entry in reversed(entries):
                entry.score = score_of(made, nodes)
                _reversed(entry.move).apply(made)
        if self._exposes(entries):
            self._exposed += 1
            copied = sum(one.move.copied for one in entries)
            if self.exposing is None or copied < sum(one.move.copied for one in self.exposing):
                self.exposing = entries
            return False
        self.best_moves = entries
        return True

    def over(self) -> bool:
        """Return whether the budget or the time is spent."""
        check()
        spent = self._left <= 0 or self._exposed >= MOST_EXPOSED_PLANS
        return spent or self.context.deadline.over()

    def reached(self) -> bool:
        """Return whether the goal is reached in the present state; a state is checked once."""
        moved = self.moved()
        if moved not in self._answers:
            self.spend(GOAL_CHECK_COST * self.goal.relative_cost * len(self.context.cluster.nodes))
            self._answers[moved] = self.goal.reached()
        return self._answers[moved]

    def moved(self) -> Changed:
        """Return the instances that are not on their initial nodes, with their present nodes."""
        where = self.context.state.where
        return frozenset(
            (one.name, where[one.name])
            for one in self.moves.movable
            if where[one.name] != one.nodes
        )

    def spend(self, amount: int) -> None:
        """Subtract from the budget `amount`, and the failures simulated since the last call."""
        effort = self.context.effort.work[SIMULATIONS]
        if effort < self._effort:
            amount += int((self._effort - effort) / SIMULATION_COST)
            self._effort = effort
        self._left -= amount


class _Plans(BranchAndBound):
    """A search for the plan of `depth` moves with least traffic; each decision makes one move.

    If instances can only move at once, the first decision chooses the moves of all of them; the
    decisions for the others then have no choice. `width`: the number of targets of each kind of
    move; None: all.  `by_score`: plans with as many moves and as much traffic as the best plan are
    better if their score is lower.
    """

    def __init__(
        self, search: RoomSearch, depth: int, width: int | None, by_score: bool = False
    ) -> None:
        super().__init__(depth, search.cost(), ())
        self._search = search
        self._width = width
        self._by_score = by_score
        self._made: list[Choice] = []  # the choices of all decisions so far
        self._count = 0  # moves made
        self._trials: list[Trial] = []  # one for each decision, to undo it
        self._possible = True  # no fast test has rejected the last decision
        self._seen: dict[tuple[int, Changed], float] = {}

    def must_end(self) -> bool:
        return self._search.over()

    def improves(self, bound: Cost) -> bool:
        if bound[1] > self._search.limit:
            return False
        return bound < self.cost or (self._by_score and bound == self.cost)

    def branches(self, depth: int) -> Iterator[tuple[Cost, Choice]]:
        copied = self._made[-1][0] if self._made else 0.0
        if depth < self._count:  # an earlier decision has made this move, too
            yield (self._depth, copied), (copied, ())
            return
        for mib, moves in self._search.moves.up_to(self._depth - depth, self._width):
            yield (self._depth, copied + mib), (copied + mib, moves)

    def enter(self, depth: int, choice: Choice) -> None:
        """Make the moves of `choice`, unless a new primary is forbidden or lacks the memory."""
        search, (_, moves) = self._search, choice
        state = search.context.state
        self._made.append(choice)
        self._count += len(moves)
        trial = state.trial()
        trial.__enter__()
        self._trials.append(trial)
        self._possible = True
        for move in moves:
            instance, target = move.instance, move.after[0]
            if target != move.before[0]:
                short = state.columns[MEMORY][target] <= instance.memory
                if target in search.goal.left or (instance.uses_memory and short):
                    self._possible = False
                    return
            move.apply(state)

    def leave(self, depth: int, choice: Choice) -> None:
        self._trials.pop().__exit__()
        self._count -= len(choice[1])
        self._made.pop()

    def promises(self, depth: int) -> bool:
        """Return whether the last moves are allowed, and may lead to a better plan."""
        if not self._possible:
            return False
        search, (copied, moves) = self._search, self._made[-1]
        if not moves:
            return True
        left, alone = self._depth - self._count, len(moves) == 1
        # For one new instance, the goal is checked before the moves: a check of moves may need
        # many simulated failures, and other plans lead to this state, too
        if left == 0 and search.goal.relative_cost <= 1 and not self._reaches():
            return False
        if not all(self._legal(search, move, alone) for move in moves):
            return False
        if not (alone or _keeps_n1(search.context, moves)):
            return False
        # Other moves that copy no more may have led to this state before
        changed = search.moved()
        if self._seen.get((left, changed), inf) <= copied:
            return False
        self._seen[left, changed] = copied
        return True

    def accept(self, cost: Cost) -> bool:
        if not (self.promises(self._depth - 1) and self._reaches()):
            return False
        entries: list[PlanEntry] = []
        for _, moves in self._made:
            names = tuple(sorted(move.instance.name for move in moves))
            colocated = names if len(names) > 1 else ()
            entries += (PlanEntry(move, colocated=colocated) for move in moves)
        return self._search.keep(entries)

    def _reaches(self) -> bool:
        """Return whether the goal is reached, and with `by_score`, whether the score is lower."""
        search = self._search
        if self._by_score and search.best_moves:
            nodes = range(len(search.context.cluster.nodes))
            search.spend(len(nodes))
            if (
                score_of(search.context.state, nodes)
                >= search.best_moves[-1].score - SCORE_TOLERANCE
            ):
                return False
        return search.reached()

    @staticmethod
    def _legal(search: RoomSearch, move: Move, alone: bool) -> bool:
        """Return whether `move`, which has been made, is allowed.

        If it is not `alone`, the other instances of its colocation group have moved, too. Then N+1
        is checked after all these moves, because it may be violated between them.
        """
        context, state = search.context, search.context.state
        group = context.cluster.nodes[move.after[0]].group
        search.spend(len(group.nodes))
        # The node on which the instance runs only during the move
        passed = move.before[1:] if len(move.steps) > 2 else ()
        with state.trial():
            _reversed(move).apply(state)
            if search.goal.left.intersection(passed) or context.affinity.rejected_passing(
                move.instance, passed
            ):
                return False
            rejection = context.evaluator(group).check(move)
        return rejection is None or (not alone and rejection.reason == "FailN1")


def _keeps_n1(context: Context, moves: Sequence[Move]) -> bool:
    """Return whether N+1 is kept after `moves`, which have been made at once.

    Moves off nodes that are not online need not keep N+1.
    """
    state, nodes = context.state, context.cluster.nodes
    if not any(nodes[move.before[0]].online for move in moves):
        return True
    group = nodes[moves[0].before[0]].group
    mode = context.settings.plan_n1(group.index)
    with state.trial():
        for move in reversed(moves):
            _reversed(move).apply(state)
        rules = plan_rules(mode, context.affinity.relations)
        failures = FailureTolerance(state, rules, group=group)
        failures.measure()
    return not failures.comparison.broken()


def _reversed(move: Move) -> Move:
    """Return the move that undoes `move`."""
    return Move(move.instance, move.after, move.before)
