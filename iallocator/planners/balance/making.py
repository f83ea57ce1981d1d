"""A plan in the making: the state it has come to, its moves, and what may still be spent."""

from __future__ import annotations

from iallocator.model.moves import apply_steps
from iallocator.planners.plan import Plan, PlannedMove, traffic
from iallocator.tolerances import GAIN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iallocator.planners.balance.found_move import FoundMove
    from iallocator.planners.balance.problem import BalanceProblem
    from iallocator.planners.balance.scan.neighbourhood import MoveScan
    from iallocator.planners.balance.units import UnitMove
    from iallocator.planners.stop_criteria import StopCriteria
    from iallocator.planners.survival import FailureGuard

    Progress = Callable[[Plan], None]

__all__ = ["PlanInMaking"]

INFINITE = float("inf")


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
        Whether the scan passes over moves that would lose the survival of a failure, and
        whether moves have been made since that these may do now.
    """

    def __init__(
        self,
        problem: BalanceProblem,
        limits: StopCriteria,
        progress: Progress,
        guard: FailureGuard | None,
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

    def gain(self, found: FoundMove | UnitMove) -> float:
        """By how much a move lowers the score."""
        return self.score - found.score

    def helps(self, found: FoundMove | UnitMove) -> bool:
        """Whether a move gains what is wanted, and more than rounding."""
        wanted = self.limits.gain_wanted(self.score)
        return self.gain(found) > self.rounding() and self.gain(found) >= wanted

    def left(self) -> float:
        """How many moves may still be made."""
        longest = self.limits.max_length
        return INFINITE if longest is None else longest - len(self.plan.moves)

    def budget(self) -> float:
        """How many MiB may still be copied."""
        if self.limits.cost is None:
            return INFINITE
        return self.limits.cost - self.plan.copied

    def keeps_n1(self, found: FoundMove, also: FoundMove | None = None) -> bool:
        """Whether global N+1 is kept after a move; `also` has been made just before."""
        if self.guard is None:
            return True
        touched = {*found.before, found.target}
        if also is not None:
            touched |= {*also.before, also.target}
        with self.state.trial():
            apply_steps(self.state, found.instance, found.kind.steps(found.before, found.target))
            return self.guard.keeps(touched)

    def bar(self, found: FoundMove) -> None:
        """Have the scan pass over a move."""
        self.scan.bar(found)
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

    def make(self, *found: FoundMove) -> None:
        """Carry out moves that belong together, and note them."""
        self._note([self._made(one) for one in found])

    def make_unit(self, unit: UnitMove, mends: bool = False) -> None:
        """Carry out the moves of a unit; nobody sees a plan with only some of them."""
        made = [self._made(found) for found in unit.moves]
        names = tuple(sorted(one.instance.name for one in made))
        for move in made:
            move.mends = mends
            if len(made) > 1:
                move.unit = names
        self._note(made)

    def _note(self, made: Sequence[PlannedMove]) -> None:
        """Add moves that are made to the plan."""
        self.plan.moves += made
        self.limits.spare(len(made))
        self._progress(self.plan)

    def _made(self, found: FoundMove) -> PlannedMove:
        """Carry out a move."""
        steps = found.kind.steps(found.before, found.target)
        target = self.state.cluster.nodes[found.target].name
        apply_steps(self.state, found.instance, steps)
        self.scan.refresh([*found.before, found.target])
        self._moved |= {*found.before, found.target}
        self.outdated = self.barred  # what was barred before may do now
        if self.guard is not None:
            self.guard.moved((*found.before, found.target))
        self.score = self.scan.score()
        copied = traffic(found.instance, found.kind.letters)
        notation = found.kind.notation(target)
        return PlannedMove(found.instance, found.before, steps, notation, self.score, copied)

    def try_out(self, found: FoundMove) -> None:
        """Carry out a move in a trial."""
        apply_steps(self.state, found.instance, found.kind.steps(found.before, found.target))
        self.scan.refresh([*found.before, found.target])

    def take_back(self, count: int, score: float) -> None:
        """Undo all but the first `count` moves, after which the score was `score`.

        The scans are of no more use then.
        """
        self.limits.spare(min(0, count - len(self.plan.moves)))
        while len(self.plan.moves) > count:
            move = self.plan.moves.pop()
            self.state.remove(move.instance, move.after)
            self.state.place(move.instance, move.before)
        self.score = score
