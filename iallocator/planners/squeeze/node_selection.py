"""Squeezing one group: which nodes can be powered down, or which must be powered on.

Both searches ask `Feasibility.find` for sets of nodes, in the order in which they are given,
and keep what they have found when time is up or someone interrupts.
"""

from __future__ import annotations

from iallocator.deadline import TIME_IS_UP, Stopped, check
from iallocator.model.columns import MEMORY
from iallocator.model.state import State
from iallocator.planners.power_state import Switched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.deadline import Deadline
    from iallocator.planners.plan import PlanEntry
    from iallocator.planners.plan_limits import StopCriteria
    from iallocator.planners.squeeze.attempt import FeasibilityResult
    from iallocator.planners.squeeze.feasibility import Feasibility

__all__ = ["Search", "balanced", "power_down", "power_on"]

LAST_ONE = "it is the last online node, and the master node is unknown"


class Search:
    """What a search has found so far.

    Attributes
    ----------
    chosen:
        The nodes to switch, in the order in which they were taken.
    entries, score:
        The moves that go with them, and the group's score after them.
    rejected:
        Nodes that were tried -> why they are not chosen.
    problem:
        What is still wrong with the group after all that; "" if nothing is.
    packed:
        Whether the moves only pack, and neither they nor `score` know what comes of it.
    stop, stopped:
        What interrupted the search, if anything did; why it ended early, "" if it did not.
    """

    __slots__ = (
        "_limits", "chosen", "entries", "packed", "problem", "rejected", "score", "stop", "stopped",
    )  # fmt: skip

    def __init__(self, score: float, limits: StopCriteria) -> None:
        self._limits = limits
        self.chosen: list[int] = []
        self.entries: Sequence[PlanEntry] = ()
        self.score = score
        self.rejected: dict[int, str] = {}
        self.problem = ""
        self.packed = False
        self.stopped = ""
        self.stop: Stopped | None = None

    def keep(self, chosen: Sequence[int], found: FeasibilityResult) -> None:
        """Take this set of nodes for the best so far."""
        more = len(found.entries) - len(self.entries)
        self.chosen = list(chosen)
        self.entries, self.score, self.problem = found.entries, found.score, found.problem
        self.packed = found.packed
        self._limits.deadline.spare(more)


def power_down(
    feasibility: Feasibility,
    candidates: Sequence[int],
    score: float,
    limits: StopCriteria,
    most: int,
) -> Search:
    """Free as many of `candidates` as can be, the first ones first; `score` is the present one.

    At most `most` nodes are freed.
    """
    search = Search(score, limits)
    descent = _Descent(feasibility, search, limits.deadline, most)
    try:
        rest = descent.free_beginning(candidates)
        while rest:
            check()
            rejected = descent.one_by_one(rest)
            if len(rejected) in (0, len(rest)) or search.stopped:
                break
            rest = rejected  # what is off now may have been what was in the way
        if search.chosen and not search.stopped:
            found = balanced(feasibility, search.chosen)
            if found is not None:
                search.keep(search.chosen, found)
    except Stopped as stop:
        search.stop, search.stopped = stop, stop.reason
    if search.packed:
        search.score = feasibility.score(search.chosen, search.entries, each=search.stop is None)
    for index in candidates:
        if index not in search.chosen:
            search.rejected.setdefault(index, f"not tried: {search.stopped}")
    return search


def balanced(feasibility: Feasibility, off: Sequence[int]) -> FeasibilityResult | None:
    """Return the plan for `off` that balances best, or else the quickest one that balances.

    None if there is neither.
    """
    for tidy in (True, False):
        found = feasibility.find(off=off, tidy=tidy, thorough=True)
        if not found.problem:
            return found
    return None


class _Descent:
    """Tries sets of nodes, and keeps the best in `search`."""

    def __init__(
        self, feasibility: Feasibility, search: Search, deadline: Deadline, most: int
    ) -> None:
        self._most = most
        self._feasibility = feasibility
        self._search = search
        self._deadline = deadline
        self._failed: dict[frozenset[int], str] = {}

    def _try(self, off: Sequence[int]) -> bool:
        """Whether the nodes `off` can be freed; if so, they are kept."""
        if self._deadline.over():
            self._search.stopped = TIME_IS_UP
            return False
        if len(off) > self._most:
            self._search.rejected[off[-1]] = LAST_ONE
            return False
        tried = frozenset(off)
        if tried not in self._failed:
            found = self._feasibility.find(off=off)
            if not found.problem:
                self._search.keep(off, found)
                self._search.rejected.pop(off[-1], None)
                return True
            self._failed[tried] = found.problem
        if self._deadline.over():
            self._search.stopped = TIME_IS_UP
        else:
            self._search.rejected[off[-1]] = self._failed[tried]
        return False

    def free_beginning(self, candidates: Sequence[int]) -> list[int]:
        """Free a long beginning of `candidates`; return the others.

        The longest that may be possible, or what halving finds below it.
        """
        low, high = 0, min(len(candidates), max(0, self._most))
        while high and not self._deadline.over() and self._feasibility.hopeless(candidates[:high]):
            high -= 1
        if high and self._try(candidates[:high]):
            low = high
        while high - low > 1 and not self._search.stopped:
            middle = (low + high) // 2
            if self._try(candidates[:middle]):
                low = middle
            else:
                high = middle
        self._search.rejected = {}
        return [] if self._search.stopped else list(candidates[low:])

    def one_by_one(self, candidates: Sequence[int]) -> list[int]:
        """Free every one of `candidates` that can be in addition; return the others."""
        rejected = []
        for index in candidates:
            if self._search.stopped:
                break
            if not self._try([*self._search.chosen, index]):
                rejected.append(index)
        return rejected


def power_on(
    feasibility: Feasibility,
    standby: Sequence[int],
    score: float,
    limits: StopCriteria,
) -> Search:
    """Power on the first of `standby` until every online node has the reserve; fewer, if they do.

    If they do not all together, and neither do those that are large enough to have it
    themselves, all are chosen, and `Search.problem` says what is wrong still.
    """
    search = Search(score, limits)
    try:
        _power_on(feasibility, standby, search, limits.deadline)
    except Stopped as stop:
        search.stop, search.stopped = stop, stop.reason
    for index in standby:
        if index not in search.chosen:
            search.rejected.setdefault(index, search.stopped or "not needed")
    return search


def _power_on(
    feasibility: Feasibility, standby: Sequence[int], search: Search, deadline: Deadline
) -> None:
    large = [index for index in standby if _large_enough(feasibility, index)]
    orders = [standby] if len(large) == len(standby) else [standby, large]
    last: FeasibilityResult | None = None
    for order in orders:
        for count in range(len(order) + 1):
            if deadline.over():
                search.stopped = TIME_IS_UP
                return
            found = feasibility.find(on=order[:count])
            if not found.problem:
                search.keep(order[:count], found)
                _spare(feasibility, search, deadline)
                return
            search.problem = found.problem
            last = found
    if last is not None and not deadline.over():
        found = feasibility.find(on=standby, tidy=True)
        still = feasibility.without_moves(standby)
        idle = feasibility.behaviour.squeezes_further and found.shortage >= still.shortage
        search.keep(standby, still if found.loses_n1 or idle else found)


def _large_enough(feasibility: Feasibility, index: int) -> bool:
    """Whether the node has the reserve while it is empty."""
    with Switched(feasibility.aim.cluster, on=[index]):
        state = State(feasibility.aim.cluster)
        return state.columns[MEMORY][index] > 0 and not feasibility.aim.reserve.lacks(state, index)


def _spare(feasibility: Feasibility, search: Search, deadline: Deadline) -> None:
    """Leave those off without which it does as well, and tidy up the moves."""
    for index in search.chosen[-2::-1]:
        if deadline.over():
            search.stopped = TIME_IS_UP
            return
        fewer = [other for other in search.chosen if other != index]
        found = feasibility.find(on=fewer)
        if not found.problem:
            search.keep(fewer, found)
    found = feasibility.find(on=search.chosen, tidy=True)
    if not found.problem:
        search.keep(search.chosen, found)
