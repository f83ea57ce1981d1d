"""Local search: take the best step of a neighbourhood until no step lowers the objective.

This is variable neighbourhood descent (Mladenović and Hansen, 1997): a neighbourhood is searched
only if the neighbourhoods before it have no step.  Objectives are tuples of numbers, the most
important number first. They are compared lexicographically, and lower is better.  So a step may
raise a later number if it lowers an earlier one.

Cost: for each step, one search in each neighbourhood up to the first one that has a step.
"""

from __future__ import annotations

from iallocator.deadline import TIME_IS_UP, check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Generic, Protocol, TypeVar

    from iallocator.deadline import Deadline

    Objective = tuple[float, ...]
else:
    from iallocator.light import Any, Generic, Protocol, TypeVar

__all__ = [
    "LOCAL_OPTIMUM", "STALLED", "Acceptance", "Appliable", "LocalSearch", "Neighbourhood", "lower",
]  # fmt: skip

LOCAL_OPTIMUM, STALLED = "local optimum", "stalled"
"""Reasons why a search ends: no neighbourhood has a step; the last step gained nothing."""

State = TypeVar("State")

Searched_contra = TypeVar("Searched_contra", contravariant=True)


class Appliable(Protocol[Searched_contra]):
    """A step of a search, which can be applied to the search's state.

    The state is what the search improves: a cluster with a plan, a set of nodes, or a plan alone.
    """

    def apply(self, state: Searched_contra) -> None:
        """Change `state` by this step of the search."""


Step = TypeVar("Step", bound=Appliable[Any])


class Neighbourhood(Generic[State, Step]):
    """The steps of one kind that a local search may take.

    Attributes
    ----------
    name:
        The kind of step; `LocalSearch.steps` counts the steps of each kind by this name.
    """

    name = ""

    def best(
        self, state: State, objective: Objective, allows: Callable[[Step], bool]
    ) -> Step | None:
        """Return the best step from `state` that lowers `objective` and that `allows` accepts.

        Return None if there is no such step. The state is not changed.  `allows` is usually
        expensive, so it should be called for the best steps only.

        Raises
        ------
        Stopped
            If the run must end.
        """
        raise NotImplementedError


class Acceptance(Generic[Step]):
    """Decides which steps a search takes, and when the search ends.

    Attributes
    ----------
    ended:
        Returns the reason to take no more steps; "" to continue.
    allows:
        Returns whether a step keeps the constraints that neighbourhoods do not check themselves.
    tolerance:
        Numbers count as equal if they differ by at most this amount, or this share of the
        larger number if it is above 1.
    """

    __slots__ = ("allows", "ended", "tolerance")

    def __init__(
        self,
        ended: Callable[[], str] = lambda: "",
        allows: Callable[[Step], bool] = lambda step: True,
        tolerance: float = 0.0,
    ) -> None:
        self.ended = ended
        self.allows = allows
        self.tolerance = tolerance


class LocalSearch(Generic[State, Step]):
    """A search in several neighbourhoods, the preferred one first.

    Parameters
    ----------
    moves:
        The neighbourhoods. A step is taken from the first neighbourhood that has one.
    objective:
        Returns the objective of a state; lower is better.
    acceptance:
        Decides which steps are taken, and when the search ends.
    deadline:
        When it is over, no more steps are taken.

    Attributes
    ----------
    steps:
        Name of a neighbourhood -> how many of its steps were taken.
    """

    __slots__ = ("_acceptance", "_deadline", "_moves", "_objective", "steps")

    def __init__(
        self,
        moves: Sequence[Neighbourhood[State, Step]],
        objective: Callable[[State], Objective],
        acceptance: Acceptance[Step],
        deadline: Deadline,
    ) -> None:
        self._moves = moves
        self._objective = objective
        self._acceptance = acceptance
        self._deadline = deadline
        self.steps = {one.name: 0 for one in moves}

    def run(self, state: State) -> str:
        """Take steps from `state` until there are no more or a reason to end; return the reason.

        Returns
        -------
        str
            What `Acceptance.ended` returned, `TIME_IS_UP`, `LOCAL_OPTIMUM`, or `STALLED`.  In
            the last case, the last step has been taken, but did not lower the objective.

        Raises
        ------
        Stopped
            If the run must end.
        """
        acceptance = self._acceptance
        while True:
            reason = acceptance.ended()
            if reason:
                return reason
            if self._deadline.over():
                return TIME_IS_UP
            check()
            before = self._objective(state)
            for one in self._moves:
                step = one.best(state, before, acceptance.allows)
                if step is not None:
                    break
            else:
                return LOCAL_OPTIMUM
            step.apply(state)
            self.steps[one.name] += 1
            if not lower(self._objective(state), before, acceptance.tolerance):
                return STALLED


def lower(one: Objective, other: Objective, tolerance: float = 0.0) -> bool:
    """Return whether objective `one` is lower than `other`: the first number that differs decides.

    Numbers that differ by at most `tolerance` are equal; for numbers above 1, `tolerance` is a
    share.
    """
    for here, there in zip(one, other, strict=True):
        margin = tolerance and tolerance * max(1.0, abs(there))  # numbers may be infinite
        if there - here > margin:
            return True
        if here - there > margin:
            return False
    return False
