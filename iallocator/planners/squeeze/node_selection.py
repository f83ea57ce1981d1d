"""Squeezing one group: which nodes can be powered down, or which must be powered on.

Both searches ask `Feasibility.find` for sets of nodes, in the order in which they are given, and
keep the best set that they have found so far.
"""

from __future__ import annotations

from iallocator.deadline import TIME_IS_UP, check
from iallocator.model.columns import MEMORY
from iallocator.model.state import State
from iallocator.planners.power_state import Switched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.deadline import Stopped
    from iallocator.planners.plan import PlanEntry
    from iallocator.planners.plan_limits import StopCriteria
    from iallocator.planners.squeeze.feasibility import Feasibility, FeasibilityResult

__all__ = ["NodeSelection", "balanced"]

LAST_ONE = "it is the last online node, and the master node is unknown"


class NodeSelection:
    """Chooses some of `candidates`, which are asked about in their order.

    Attributes
    ----------
    chosen:
        The nodes to switch, in the order in which they were taken.
    before:
        The group's score before any moves.
    entries, score:
        The moves that go with them, and the group's score after them.
    rejected:
        Nodes that were tried -> why they are not chosen.
    problem:
        What is still wrong with the group after all that; "" if nothing is.
    packed:
        Whether the moves only pack, and the scores after them are not known yet.
    stop, stopped:
        What interrupted the search, if anything did; why it ended early, "" if it did not.
    """

    __slots__ = (
        "_candidates", "_failed", "_feasibility", "_limits", "_most", "_powers_on", "before",
        "chosen", "entries", "packed", "problem", "rejected", "score", "stop", "stopped",
    )  # fmt: skip

    def __init__(
        self,
        feasibility: Feasibility,
        candidates: Sequence[int],
        score: float,
        limits: StopCriteria,
    ) -> None:
        self._feasibility = feasibility
        self._candidates = candidates
        self._limits = limits
        self._most = len(candidates)
        self._powers_on = False
        self._failed: dict[frozenset[int], str] = {}
        self.chosen: list[int] = []
        self.entries: Sequence[PlanEntry] = ()
        self.before = self.score = score
        self.rejected: dict[int, str] = {}
        self.problem = ""
        self.packed = False
        self.stopped = ""
        self.stop: Stopped | None = None

    def end(self, stop: Stopped | None) -> None:
        """Complete what has been found, once the search has ended, or `stop` has ended it."""
        if stop is not None:
            self.stop, self.stopped = stop, stop.reason
        untried = f"not tried: {self.stopped}"
        if self._powers_on:
            untried = self.stopped or "not needed"
        if self.packed:
            self.score = self._feasibility.score(self.chosen, self.entries, each=stop is None)
        for index in self._candidates:
            if index not in self.chosen:
                self.rejected.setdefault(index, untried)

    def power_down(self, most: int) -> None:
        """Free as many candidates as possible, the first ones first, and at most `most`."""
        self._most = most
        rest = self._free_beginning()
        while rest and not self.stopped:
            check()
            rejected = []
            for index in rest:
                if self.stopped or not self._frees([*self.chosen, index]):
                    rejected.append(index)
            if len(rejected) == len(rest):
                break
            rest = rejected  # what is off now may have been what was in the way
        if self.chosen and not self.stopped:
            found = balanced(self._feasibility, self.chosen)
            if found is not None:
                self._keep(self.chosen, found)

    def _free_beginning(self) -> list[int]:
        """Free a long beginning of the candidates; return the others.

        The longest that may be possible, or what halving finds below it.
        """
        candidates, feasibility = self._candidates, self._feasibility
        low, high = 0, min(len(candidates), max(0, self._most))
        while high and feasibility.hopeless(candidates[:high]):
            check()
            high -= 1
        if high and self._frees(candidates[:high]):
            low = high
        while high - low > 1 and not self.stopped:
            middle = (low + high) // 2
            if self._frees(candidates[:middle]):
                low = middle
            else:
                high = middle
        self.rejected = {}
        return list(candidates[low:])

    def _frees(self, off: Sequence[int]) -> bool:
        """Keep the nodes `off` if they can be freed; return whether they can."""
        if self._out_of_time():
            return False
        if len(off) > self._most:
            self.rejected[off[-1]] = LAST_ONE
            return False
        tried = frozenset(off)
        if tried not in self._failed:
            found = self._feasibility.find(off=off)
            if not found.problem:
                self._keep(off, found)
                self.rejected.pop(off[-1], None)
                return True
            self._failed[tried] = found.problem
        if not self._out_of_time():
            self.rejected[off[-1]] = self._failed[tried]
        return False

    def _out_of_time(self) -> bool:
        if self._limits.deadline.over():
            self.stopped = TIME_IS_UP
        return bool(self.stopped)

    def _keep(self, chosen: Sequence[int], found: FeasibilityResult) -> None:
        """Take this set of nodes for the best so far."""
        more = len(found.entries) - len(self.entries)
        self.chosen = list(chosen)
        self.entries, self.score, self.problem = found.entries, found.score, found.problem
        self.packed = found.packed
        self._limits.deadline.spare(more)

    def power_on(self) -> None:
        """Power on the first candidates until every online node has the reserve, or fewer.

        If not even all of them suffice, nor those that are large enough to have the reserve
        themselves, all are chosen, and `problem` says what is still wrong.
        """
        self._powers_on = True
        feasibility, standby = self._feasibility, self._candidates
        large = [index for index in standby if self._large_enough(index)]
        orders = [standby] if len(large) == len(standby) else [standby, large]
        tries = [order[:count] for order in orders for count in range(len(order) + 1)]
        for nodes in tries:
            if self._out_of_time():
                return
            found = feasibility.find(on=nodes)
            if not found.problem:
                self._keep(nodes, found)
                self._spare_nodes()
                return
            self.problem = found.problem
        if not self._limits.deadline.over():
            found = feasibility.find(on=standby, tidy=True)
            still = feasibility.without_moves(standby)
            idle = feasibility.behaviour.squeezes_further and found.shortage >= still.shortage
            self._keep(standby, still if found.loses_n1 or idle else found)

    def _large_enough(self, index: int) -> bool:
        """Return whether the node has the reserve while it is empty."""
        aim = self._feasibility.aim
        with Switched(aim.cluster, on=[index]):
            state = State(aim.cluster)
            return state.columns[MEMORY][index] > 0 and not aim.reserve.lacks(state, index)

    def _spare_nodes(self) -> None:
        """Leave out the nodes without which the others suffice, and tidy up the moves."""
        for index in self.chosen[-2::-1]:
            if self._out_of_time():
                return
            fewer = [other for other in self.chosen if other != index]
            found = self._feasibility.find(on=fewer)
            if not found.problem:
                self._keep(fewer, found)
        found = self._feasibility.find(on=self.chosen, tidy=True)
        if not found.problem:
            self._keep(self.chosen, found)


def balanced(feasibility: Feasibility, off: Sequence[int]) -> FeasibilityResult | None:
    """Return the plan for `off` that balances best, or else the quickest one that balances.

    None if there is neither.
    """
    for tidy in (True, False):
        found = feasibility.find(off=off, tidy=tidy, thorough=True)
        if not found.problem:
            return found
    return None
