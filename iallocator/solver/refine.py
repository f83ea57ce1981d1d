"""Solving until an answer passes the rules that an integer program cannot hold."""

from __future__ import annotations

from iallocator.solver.highs import GAP, solve
from iallocator.solver.problem import FOUND, LEFT_OUT, TIME_OUT, Answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from iallocator.solver.budget import Budget
    from iallocator.solver.problem import Problem

    Check = Callable[[Mapping[str, Any]], Sequence[str] | None]

__all__ = ["search"]


def search(problem: Problem, check: Check, budget: Budget, gap: float = GAP) -> Answer:
    """The first answer that `check` lets pass.

    `check` is given member -> value, those left out missing, and returns None, or the
    members whose choices together break a rule, whatever the others do; that combination
    is then ruled out, so a proof that nothing is possible stays one.
    """
    while True:
        answer = solve(problem, budget, gap)
        if answer.status != FOUND:
            return answer
        values = answer.values(problem)
        budget.trials -= len(values)
        broken = check(values)
        if broken is None:
            return answer
        problem.cuts.append(_combination(problem, answer, broken))
        if budget.spent:
            return Answer(TIME_OUT)


def _combination(
    problem: Problem, answer: Answer, members: Sequence[str]
) -> dict[tuple[int, int], int]:
    """How often each choice is taken by `members`; to be left out is one, too."""
    counts: dict[tuple[int, int], int] = {}
    values = answer.values(problem)
    for number, kind in enumerate(problem.kinds):
        positions = {choice.value: position for position, choice in enumerate(kind.choices)}
        for member in kind.members:
            if member in members:
                position = positions[values[member]] if member in values else LEFT_OUT
                counts[number, position] = counts.get((number, position), 0) + 1
    return counts
