"""Local search: take steps that lower an objective until no step does.

This is hill climbing over several neighbourhoods (variable neighbourhood descent: Mladenović and
Hansen, 1997): a neighbourhood is searched only if those before it have no step.  Objectives are
tuples of numbers, the most important first.  They are compared lexicographically, and lower is
better.  So a step may raise a later number if it lowers an earlier one.

Cost: the neighbourhoods that are searched, once for each step.
"""

from __future__ import annotations

from itertools import chain

from iallocator.deadline import check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import TypeVar

    Step = TypeVar("Step")

    Neighbourhood = Callable[[], Iterable[Step]]
    """List the steps that may be taken now, the preferred first; at most one is taken."""

    Objective = tuple[float, ...]

__all__ = ["LOCAL_OPTIMUM", "STALLED", "local_search", "lower"]

LOCAL_OPTIMUM, STALLED = "local optimum", "stalled"
"""Why a search ends: no neighbourhood has a step; the last step did not lower the objective."""


def local_search(
    neighbourhoods: Sequence[Neighbourhood[Step]],
    objective: Callable[[], Objective],
    apply: Callable[[Step], None],
    ended: Callable[[], str] = lambda: "",
    tolerance: float = 0.0,
) -> str:
    """Take steps until there are none, `ended` says why to end, or the objective does not fall.

    Parameters
    ----------
    neighbourhoods
        Each lists steps; see `Neighbourhood`.  A step is taken from the first that has one.
    objective
        Of the state as it is; lower is better.
    apply
        Carries a step out.
    ended
        Why to take no more steps; "" to go on.
    tolerance
        By how much numbers from -1 to 1 may differ and still count as equal; larger numbers by as
        much in proportion.

    Returns
    -------
    str
        What `ended` returned, `LOCAL_OPTIMUM`, or `STALLED`.  The last step has been taken then,
        but is of no use.

    Raises
    ------
    Stopped
        If the run has to end.
    """
    while not (reason := ended()):
        check()
        before = objective()
        steps = chain.from_iterable(steps() for steps in neighbourhoods)
        step = next(steps, None)
        if step is None:
            return LOCAL_OPTIMUM
        apply(step)
        if not lower(objective(), before, tolerance):
            return STALLED
    return reason


def lower(one: Objective, other: Objective, tolerance: float = 0.0) -> bool:
    """Return whether the first number that differs is lower in `one`; see `local_search`."""
    for here, there in zip(one, other, strict=True):
        margin = tolerance * max(1.0, abs(there))
        if there - here > margin:
            return True
        if here - there > margin:
            return False
    return False
