"""The fewest moves, of those the least traffic, of those the lowest score, to reach a goal.

Moves are tried one, two, three deep; each must be legal as things are after those before it:
limits, bonds, pools, N+1.  Those that can only move at once do so, each a move.  Where no
order of moves is left untried, what is found is proved to be the fewest, and that nothing is
found is a proof, too.  Scores are compared as far as a little more work goes.
"""

from __future__ import annotations

from iallocator.deadline import TIME_IS_UP, check
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
    """Instances that are not where they were at first, and their nodes."""

    Stands = Callable[[Sequence[PlanEntry]], bool]

__all__ = ["WORK_IS_SPENT", "RoomSearch"]

WORK = 400_000
"""Moves looked at × nodes of their group, after which the search ends: some seconds."""

WORK_IS_SPENT = "the work for it is spent"

TIES = 40_000
"""The same for the search of a lower score."""

ANSWER = 5
"""How many looks at a move it costs to ask for the goal, for one new instance."""

SIMULATED = 25
"""Moves × nodes of simulated failures that cost as much as a look at a move."""

WIDTH = 2
"""How many targets of each kind of move are tried at first."""

INFINITE = float("inf")


class RoomSearch:
    """Searches for at most `most` moves that copy at most `cost` MiB; None: any amount.

    `context` is moved meanwhile, and is as it was afterwards.  `stands` says whether the whole
    of a plan stands the test of all limits.

    Attributes
    ----------
    found:
        The moves; None if there are none that do.
    proved:
        Whether fewer moves, or as many with less traffic, would not do.
    ended:
        What ended the search before that was known, in words; "" if nothing did.
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
        self._effort = context.effort.left
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
        """Search; what was found until the time is up stays.

        At first only the best targets are tried, so that something is found soon; then all,
        as far as that may be better.
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
        """Try 1, 2, ... `most` moves, each to `width` targets, until some do."""
        self._width = width
        known = self.found
        for depth in range(1, most + 1):
            if known is not None and depth < len(known):
                self._copied = INFINITE  # fewer moves may cost more
            else:
                self._copied = INFINITE if known is None else sum(one.move.copied for one in known)
            self._seen.clear()
            self._deeper(depth, 0)
            if self.found is not known or self._over():
                return

    def _over(self) -> bool:
        check()
        return self._left <= 0 or self._context.deadline.over()

    def _deeper(self, depth: int, copied: float) -> None:
        """Make one more move, whichever may lead to the goal in `depth` of them."""
        if depth == 0:
            self._arrived(copied)
            return
        if self._over():
            return
        for price, moves in self._moves.up_to(depth, self._width):
            if self._over() or copied + price > self._limit or self._too_dear(copied + price):
                return
            self._try(moves, depth, copied + price)

    def _too_dear(self, copied: float) -> bool:
        """Whether that is more than the best needs, or as much where no score is compared."""
        return copied > self._copied if self._score is not None else copied >= self._copied

    def _arrived(self, copied: float) -> None:
        if self._lowers_score() and self._reached() and self._stands(self._made):
            self.found, self._copied = list(self._made), copied
            self._tell_scores(self.found)
            if self._score is not None:
                self._score = self.found[-1].score

    def _lowers_score(self) -> bool:
        """Whether the score is lower than the best, or not compared."""
        if self._score is None:
            return True
        nodes = range(len(self._context.cluster.nodes))
        self._spend(len(nodes))
        return score_of(self._context.state, nodes) < self._score - SCORE

    def _reached(self) -> bool:
        """Whether the goal is reached as things are; kept for the next who comes here."""
        moved = self._moved()
        if moved not in self._answers:
            self._spend(ANSWER * self._goal.price * len(self._context.cluster.nodes))
            self._answers[moved] = self._goal.reached()
        return self._answers[moved]

    def _moved(self) -> Changed:
        """Who is elsewhere than at first, and where."""
        where = self._context.state.where
        return frozenset(
            (one.name, where[one.name])
            for one in self._moves.movable
            if where[one.name] != one.nodes
        )

    def _tell_scores(self, entries: Sequence[PlanEntry]) -> None:
        """Note the score after each move, from the last, which has been made, to the first."""
        state, nodes = self._context.state, range(len(self._context.cluster.nodes))
        with state.trial():
            for entry in reversed(entries):
                entry.score = score_of(state, nodes)
                _reversed(entry.move).apply(state)

    def _spend(self, amount: int) -> None:
        """Pay that, and for the failures that were simulated since the last time."""
        effort = self._context.effort.left
        if effort < self._effort:
            amount += int((self._effort - effort) / SIMULATED)
            self._effort = effort
        self._left -= amount

    def _try(self, moves: Sequence[Move], depth: int, copied: float) -> None:
        """Make `moves` if they are legal, and go on from there; the state is left as it is."""
        state, alone = self._context.state, len(moves) == 1
        with state.trial():
            for move in moves:
                if not self._has_room(move):
                    return
                move.apply(state)
            last = depth == len(moves)
            legal = (not last or self._promising()) and all(
                self._legal(move, alone) for move in moves
            )
            if legal and (alone or self._survived(moves)):
                self._go_on(moves, depth - len(moves), copied)

    def _promising(self) -> bool:
        """Whether the goal may be reached as things are, as far as that is cheaper to say.

        Of one new instance it is asked itself: the way here may have to be judged by many
        simulated failures, and others lead here, too.
        """
        return self._goal.price > 1 or (self._lowers_score() and self._reached())

    def _go_on(self, moves: Sequence[Move], depth: int, copied: float) -> None:
        """Make `depth` moves more, unless others have led here before and copied less."""
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
        """Whether the new primary may be that and has the memory: the cheap test."""
        instance, target = move.instance, move.after[0]
        if target == move.before[0]:
            return True
        free = self._context.state.columns[MEMORY][target]
        return target not in self._goal.left and (
            not instance.uses_memory or free > instance.memory
        )

    def _legal(self, move: Move, alone: bool) -> bool:
        """Whether `move`, which is made, is allowed.

        If it is not `alone`, the others of its unit are there, and failures are judged when all
        have moved: what one of them would lose in between says nothing.
        """
        context, state = self._context, self._context.state
        group = context.cluster.nodes[move.after[0]].group
        self._spend(len(group.nodes))
        passed = move.before[1:] if len(move.steps) > 2 else ()  # it fails over, and goes on
        with state.trial():
            _reversed(move).apply(state)
            if self._goal.left.intersection(passed) or context.bonds.rejected_passing(
                move.instance, passed
            ):
                return False
            rejection = context.evaluator(group).check(move)
        return rejection is None or (not alone and rejection.reason == "FailN1")

    def _survived(self, moves: Sequence[Move]) -> bool:
        """Whether N+1 is kept by those who have moved at once.

        Who flees from nodes that are not online may break it.
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
