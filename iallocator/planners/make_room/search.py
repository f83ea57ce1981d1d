"""Search the fewest moves that reach a goal, then the least traffic, then the lowest score.

Plans of one, two, three and more moves are tried.  Each move must be allowed after the moves
before it: limits, affinity, storage pools, N+1.  Instances that can only move at once do so, and
each counts as a move.  If every order of moves was tried, the result is proved to have the fewest
moves, or it is proved that there is no plan.  The search for lower scores has a smaller budget.
"""

from __future__ import annotations

from iallocator.deadline import SIMULATIONS, TIME_IS_UP, check
from iallocator.model.columns import MEMORY
from iallocator.model.moves import Move
from iallocator.n1.baseline import Baseline
from iallocator.planners.make_room.moves import Moves
from iallocator.planners.plan import PlanEntry
from iallocator.scoring.scalar import score_of
from iallocator.tolerances import SCORE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iallocator.aliases import Nodes
    from iallocator.placement.context import Context
    from iallocator.planners.make_room.goal import Goal

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


class RoomSearch:
    """A search for at most `most` moves that copy at most `cost` MiB; None: any amount.

    The search changes the state of `context`, and restores it.  `stands` returns whether a whole
    plan passes the check of all limits.

    Attributes
    ----------
    found:
        The moves; None if no plan was found.
    proved:
        Whether no plan has fewer moves, or as many moves with less traffic.
    ended:
        What ended the search early, in words; "" if nothing did.
    """

    def __init__(
        self, context: Context, goal: Goal, most: int, cost: float | None, stands: Stands
    ) -> None:
        self._context = context
        self._goal = goal
        self._most = most
        self._limit = INFINITE if cost is None else cost
        self._stands = stands
        self._moves = Moves(context, goal)
        self._left: float = WORK
        self._effort = context.effort.work[SIMULATIONS]
        self._made: list[PlanEntry] = []
        self._seen: dict[tuple[int, Changed], float] = {}
        self._answers: dict[Changed, bool] = {}
        self._copied = INFINITE
        self._score: float | None = None
        self._width: int | None = None
        self.found: list[PlanEntry] | None = None
        self.proved = True
        self.ended = ""

    def run(self) -> None:
        """Search; if time ends, `found` has the best plan so far.

        The first round tries only the best targets, so that a plan is found soon. The second round
        tries all targets, as long as the plan can become better.
        """
        self._rounds(WIDTH, self._most)
        self._rounds(None, self._most if self.found is None else len(self.found))
        self.proved = self._moves.complete and not self._over()
        if self._over():
            self.ended = TIME_IS_UP if self._context.deadline.over() else WORK_IS_SPENT
        if self.found and not self._over():
            self._left = min(self._left, TIES)
            self._copied = sum(one.move.copied for one in self.found)
            self._score = self.found[-1].score
            self._seen.clear()
            self._deeper(len(self.found), 0)

    def _rounds(self, width: int | None, most: int) -> None:
        """Try plans of 1, 2, ... `most` moves, each to `width` targets, until a plan is found."""
        self._width = width
        known = self.found
        for depth in range(1, most + 1):
            if known is not None and depth < len(known):
                self._copied = INFINITE  # a plan of fewer moves may copy more
            else:
                self._copied = INFINITE if known is None else sum(one.move.copied for one in known)
            self._seen.clear()
            self._deeper(depth, 0)
            if self.found is not known or self._over():
                return

    def _over(self) -> bool:
        """Return whether the budget or the time is spent."""
        check()
        return self._left <= 0 or self._context.deadline.over()

    def _deeper(self, depth: int, copied: float) -> None:
        """Try all plans of `depth` moves more; the moves so far copy `copied` MiB."""
        if depth == 0:
            self._arrived(copied)
            return
        if self._over():
            return
        for price, moves in self._moves.up_to(depth, self._width):
            total = copied + price
            if self._over() or total > self._limit:
                return
            # plans with as much traffic as the best one matter only if scores are compared
            if total > self._copied or (self._score is None and total == self._copied):
                return
            self._try(moves, depth, total)

    def _arrived(self, copied: float) -> None:
        """Keep the moves so far as the best plan if they reach the goal and are allowed.

        Each move gets the score after it.
        """
        if not (self._lowers_score() and self._reached() and self._stands(self._made)):
            return
        self.found, self._copied = list(self._made), copied
        state, nodes = self._context.state, range(len(self._context.cluster.nodes))
        with state.trial():
            for entry in reversed(self.found):
                entry.score = score_of(state, nodes)
                _reversed(entry.move).apply(state)
        if self._score is not None:
            self._score = self.found[-1].score

    def _lowers_score(self) -> bool:
        """Return whether the score is lower than the best, or scores are not compared yet."""
        if self._score is None:
            return True
        nodes = range(len(self._context.cluster.nodes))
        self._spend(len(nodes))
        return score_of(self._context.state, nodes) < self._score - SCORE

    def _reached(self) -> bool:
        """Return whether the goal is reached in the present state; each state is checked once."""
        moved = self._moved()
        if moved not in self._answers:
            self._spend(ANSWER * self._goal.price * len(self._context.cluster.nodes))
            self._answers[moved] = self._goal.reached()
        return self._answers[moved]

    def _moved(self) -> Changed:
        """Return the instances that are not on their initial nodes, with their nodes."""
        where = self._context.state.where
        return frozenset(
            (one.name, where[one.name])
            for one in self._moves.movable
            if where[one.name] != one.nodes
        )

    def _spend(self, amount: int) -> None:
        """Subtract `amount` and the failures simulated since the last call from the budget."""
        effort = self._context.effort.work[SIMULATIONS]
        if effort < self._effort:
            amount += int((self._effort - effort) / SIMULATED)
            self._effort = effort
        self._left -= amount

    def _try(self, moves: Sequence[Move], depth: int, copied: float) -> None:
        """Make `moves` if they are allowed, and continue the search after them.

        `copied`: MiB that the plan copies with them. The state is unchanged in the end.
        """
        state, alone = self._context.state, len(moves) == 1
        with state.trial():
            for move in moves:
                if not self._has_room(move):
                    return
                move.apply(state)
            depth -= len(moves)
            # for one new instance, the goal is checked before the moves, which may need many
            # simulated failures: other plans lead to this state, too
            goal_first = depth == 0 and self._goal.price <= 1
            if goal_first and not (self._lowers_score() and self._reached()):
                return
            if not all(self._legal(move, alone) for move in moves):
                return
            if not (alone or self._keeps_n1(moves)):
                return
            # other moves that copy no more may have led to this state before
            changed = self._moved()
            if self._seen.get((depth, changed), INFINITE) <= copied:
                return
            self._seen[depth, changed] = copied
            names = tuple(sorted(move.instance.name for move in moves))
            colocated = names if len(names) > 1 else ()
            self._made += (PlanEntry(move, colocated=colocated) for move in moves)
            self._deeper(depth, copied)
            del self._made[len(self._made) - len(moves) :]

    def _has_room(self, move: Move) -> bool:
        """Return whether the new primary is allowed and has the memory: a fast first test."""
        instance, target = move.instance, move.after[0]
        if target == move.before[0]:
            return True
        free = self._context.state.columns[MEMORY][target]
        return target not in self._goal.left and (
            not instance.uses_memory or free > instance.memory
        )

    def _legal(self, move: Move, alone: bool) -> bool:
        """Return whether `move`, which has been made, is allowed.

        If it is not `alone`, the other instances of its colocation group have moved, too. N+1 is
        then checked after all of them, because it may be lost in between.
        """
        context, state = self._context, self._context.state
        group = context.cluster.nodes[move.after[0]].group
        self._spend(len(group.nodes))
        # a node on which the instance runs only for a while
        passed = move.before[1:] if len(move.steps) > 2 else ()
        with state.trial():
            _reversed(move).apply(state)
            if self._goal.left.intersection(passed) or context.bonds.rejected_passing(
                move.instance, passed
            ):
                return False
            rejection = context.evaluator(group).check(move)
        return rejection is None or (not alone and rejection.reason == "FailN1")

    def _keeps_n1(self, moves: Sequence[Move]) -> bool:
        """Return whether N+1 is kept after `moves`, which have been made at once.

        Moves off nodes that are not online need not keep it.
        """
        context = self._context
        state, nodes = context.state, context.cluster.nodes
        if not any(nodes[move.before[0]].online for move in moves):
            return True
        group = nodes[moves[0].before[0]].group
        mode = context.settings.plan_n1(group.index)
        with state.trial():
            for move in reversed(moves):
                _reversed(move).apply(state)
            baseline = Baseline(state, group, mode, context.bonds.relations)
        return not baseline.broken(state)


def _reversed(move: Move) -> Move:
    """Return the move that leads back to where `move` began."""
    return Move(move.instance, move.after, move.before)
