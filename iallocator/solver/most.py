"""Exact search for choices of all members; if that is impossible, of as many as possible.

Members of the highest priority come first.  For each priority in turn, the search minimises the
number of members that are left out, without leaving out more members of higher priorities.  Each
answer must leave out fewer members than the best answer so far. So the first search often proves
that no answer is better.
"""

from __future__ import annotations

from math import inf

from iallocator.solver.highs import search
from iallocator.solver.problem import (
    FOUND,
    IMPOSSIBLE,
    UNAVAILABLE,
    Choice,
    Kind,
    Problem,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from iallocator.deadline import Deadline
    from iallocator.solver.highs import Check

__all__ = ["Most", "find_all_or_most"]

LEFT_OUT_ROW = ("left out",)
"""The name of the row that counts the members without a choice.

With a priority as second part of the name, the row counts only the members of this priority.
"""

SHARE_OF_ALL = 0.5
"""The share of the budget for placing all members; the rest is for placing as many as possible."""


class Most:
    """The best known answer, and whether it is proved that none leaves out fewer members.

    Attributes
    ----------
    left_out:
        Priority -> the number of members that the best answer leaves out.
    values:
        Member -> the value of its choice in the best answer; None if the initial answer is the
        best.
    proved:
        Whether no answer is better.
    """

    __slots__ = ("_priorities", "left_out", "proved", "values")

    def __init__(self, priorities: Mapping[str, int], failed: Collection[str]) -> None:
        """Start with an answer that leaves out `failed`; `priorities`: member -> its priority."""
        self._priorities = priorities
        self.left_out = self._count(failed)
        self.values: Mapping[str, Any] | None = None
        self.proved = False

    def _count(self, names: Collection[str]) -> dict[int, int]:
        counts = dict.fromkeys(sorted(self._priorities.values(), reverse=True), 0)
        for name, priority in self._priorities.items():
            counts[priority] += name in names
        return counts

    def better(self, values: Mapping[str, Any]) -> bool:
        """Return whether `values` leave out fewer, by priority, than the best answer."""
        return [*self._left_out_by(values).values()] < [*self.left_out.values()]

    def _left_out_by(self, values: Mapping[str, Any]) -> dict[int, int]:
        return self._count(self._priorities.keys() - values.keys())

    def offer(self, values: Mapping[str, Any]) -> None:
        """Keep `values`, which have passed the check, if they are better than the best answer."""
        if self.better(values):
            self.left_out, self.values = self._left_out_by(values), values


def find_all_or_most(problem: Problem, check: Check, budget: Deadline, most: Most) -> str:
    """Find a choice for every member; if there is none, for as many as possible.

    Returns the status of the search for all members.  `most` has the best answer that was found
    within `budget`, even if a signal ends the search.  `check` returns None for a valid answer,
    else the members that violate a constraint. If it rejects an answer, it may offer the valid part
    to `most`.
    """
    answer = search(problem, check, budget.part(SHARE_OF_ALL))
    if answer.status == FOUND:
        most.offer(answer.values(problem))
        most.proved = True
        return answer.status
    if answer.status == UNAVAILABLE or budget.must_end:
        return answer.status
    # Rows that count the members left out: at least one if the first search proved that
    counted = _with(
        problem,
        [
            Kind(
                kind.members, kind.choices, 0.0, kind.priority,
                {**kind.remains, LEFT_OUT_ROW: 1.0, (*LEFT_OUT_ROW, kind.priority): 1.0},
            )
            for kind in problem.kinds
        ],
    )  # fmt: skip
    counted.bounds[LEFT_OUT_ROW] = (1 if answer.status == IMPOSSIBLE else 0, inf)
    most.proved = True
    # Leave out as few members as possible, of the highest priority first
    for priority in most.left_out:
        if most.left_out[priority]:
            fewer = _with(
                counted,
                [  # only to leave out a member of this priority has a cost
                    Kind(
                        kind.members,
                        [Choice(choice.value, 0.0, choice.uses) for choice in kind.choices],
                        float(kind.priority == priority),
                        kind.priority,
                        kind.remains,
                    )
                    for kind in counted.kinds
                ],
            )
            fewer.at_most((*LEFT_OUT_ROW, priority), most.left_out[priority] - 1)
            status = search(fewer, check, budget, gap=0)
            if status.status == FOUND:
                most.offer(status.values(counted))
            most.proved &= status.status == IMPOSSIBLE or status.proved
        counted.at_most((*LEFT_OUT_ROW, priority), most.left_out[priority])
    # Then look for the lowest cost with as many left out
    if most.values is not None:
        cheapest = search(counted, check, budget)
        if cheapest.status == FOUND:
            most.values = cheapest.values(counted)
    return answer.status


def _with(problem: Problem, kinds: list[Kind]) -> Problem:
    """Return a problem with the bounds of `problem` and other `kinds`; the two share the cuts."""
    other = Problem()
    other.kinds = kinds
    other.bounds = dict(problem.bounds)
    other.free = problem.free
    other.cuts = problem.cuts
    return other
