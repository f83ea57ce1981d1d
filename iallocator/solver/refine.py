"""Solving until an answer passes the rules that an integer program cannot hold."""

from __future__ import annotations

from iallocator.solver.highs import GAP, solve
from iallocator.solver.problem import FOUND, TIME_OUT, Answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from iallocator.solver.problem import Problem

    Check = Callable[[Mapping[str, Any]], Sequence[str] | None]

__all__ = ["Deadline", "search"]


class Deadline:
    """A moment to stop at, on a clock that nobody sets."""

    __slots__ = ("_end",)

    def __init__(self, seconds: float) -> None:
        from time import monotonic

        self._end = monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds that are left; negative afterwards."""
        from time import monotonic

        return self._end - monotonic()


def search(problem: Problem, check: Check, deadline: Deadline, gap: float = GAP) -> Answer:
    """The first answer that `check` lets pass.

    `check` is given member -> value and returns None, or the members whose choices
    together break a rule, whatever the others do; that combination is then ruled
    out, so a proof that nothing is possible stays one.
    """
    while True:
        answer = solve(problem, deadline.left, gap)
        if answer.status != FOUND:
            return answer
        broken = check(answer.values(problem))
        if broken is None:
            return answer
        problem.cuts.append(_combination(problem, answer, broken))
        if deadline.left <= 0:
            return Answer(TIME_OUT)


def _combination(
    problem: Problem, answer: Answer, members: Sequence[str]
) -> dict[tuple[int, int], int]:
    """How often each choice is taken by `members`."""
    counts: dict[tuple[int, int], int] = {}
    values = answer.values(problem)
    for number, kind in enumerate(problem.kinds):
        positions = {choice.value: position for position, choice in enumerate(kind.choices)}
        for member in kind.members:
            if member in members:
                key = (number, positions[values[member]])
                counts[key] = counts.get(key, 0) + 1
    return counts
