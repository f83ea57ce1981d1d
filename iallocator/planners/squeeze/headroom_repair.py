"""Making room where a balanced group leaves too little: moves that lessen what nodes lack.

Balancing looks at the score only, and may leave a node without the reserve although
others have more than that.
"""

from __future__ import annotations

from iallocator.model.moves import apply_steps
from iallocator.planners.balance.problem import BalanceProblem
from iallocator.planners.plan import PlannedMove, traffic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from iallocator.planners.balance.found_move import FoundMove
    from iallocator.planners.squeeze.headroom import Headroom

__all__ = ["repair"]

LONGEST = 30
"""Moves of one repair at most."""

LOOKED_AT = 30
"""Moves that are tried for each, those with the lowest scores, and how many of an instance."""

EACH = 4


def repair(
    problem: BalanceProblem, reserve: Headroom, expired: Callable[[], bool]
) -> list[PlannedMove]:
    """Moves until every online node has `reserve`, or no move lessens what they lack.

    They are made in the state of `problem`.
    """
    made: list[PlannedMove] = []
    lacking = reserve.shortage(problem.state, problem.scope)
    while len(made) < LONGEST and not expired():
        missing = set(reserve.missing(problem.state, problem.scope))
        where = problem.state.where
        affected = [i for i in problem.instances if not missing.isdisjoint(where[i.name])]
        if not affected:
            break
        narrow = BalanceProblem(
            problem.state, problem.scope, problem.fixed, affected, problem.rules, problem.relations
        )
        best: tuple[float, FoundMove] | None = None
        for found in narrow.scan().lowest(LOOKED_AT, EACH):
            steps = found.kind.steps(found.before, found.target)
            with problem.state.trial():
                apply_steps(problem.state, found.instance, steps)
                left = reserve.shortage(problem.state, problem.scope)
            if left < (best[0] if best else lacking):
                best = left, found
        if best is None:
            break
        lacking, found = best
        made.append(_make(problem, found))
    return made


def _make(problem: BalanceProblem, found: FoundMove) -> PlannedMove:
    """Carry out a move."""
    steps = found.kind.steps(found.before, found.target)
    apply_steps(problem.state, found.instance, steps)
    notation = found.kind.notation(problem.state.cluster.nodes[found.target].name)
    copied = traffic(found.instance, found.kind.letters)
    return PlannedMove(found.instance, found.before, steps, notation, found.score, copied)
