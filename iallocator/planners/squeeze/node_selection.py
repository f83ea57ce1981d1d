"""Squeezing one group: which nodes can be powered down, or which must be powered on.

Both searches call `Feasibility.find` with sets of nodes, in the order of the candidates, and keep
the best set found so far.  They end with a local search over sets of nodes,
in which steps add a node to free, or spare one that need not be powered on.
"""

from __future__ import annotations

from itertools import combinations

from iallocator.deadline import TIME_IS_UP, check
from iallocator.model.columns import MEMORY
from iallocator.model.state import State
from iallocator.planners.power_state import Switched
from iallocator.planners.search import Acceptance, LocalSearch, Neighbourhood

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iallocator.deadline import Stopped
    from iallocator.planners.plan import PlanEntry
    from iallocator.planners.plan_limits import StopCriteria
    from iallocator.planners.search import Objective
    from iallocator.planners.squeeze.feasibility import Feasibility, FeasibilityResult

__all__ = ["LAST_ONE", "NodeSelection"]

SMALL = 12
"""Other sets of nodes are tried if there are so many candidates at most."""

SETS = 60
"""How many other sets of nodes are tried, multiplied by the thoroughness of the search."""

LAST_ONE = "it is the last online node, and the master node is unknown"


class NodeSelection:
    """Chooses some of `candidates`, which are tried in their order.

    Attributes
    ----------
    chosen:
        The nodes to switch, in the order in which they were taken.
    before:
        The group's score before any moves.
    entries, score:
        The moves that go with them, and the group's score after them.
    most:
        How many nodes may be chosen.
    rejected:
        Nodes that were tried -> why they are not chosen.
    problem:
        The requirement that the group breaks even then; "" if it breaks none.
    packed:
        Whether the moves only pack, and the scores after them are not known yet.
    stop, stopped:
        The signal or time limit that ended the search, or None; why it ended early, or "".
    """

    __slots__ = (
        "_candidates",
        "_failed",
        "_limits",
        "_powers_on",
        "before",
        "chosen",
        "entries",
        "feasibility",
        "most",
        "packed",
        "problem",
        "rejected",
        "score",
        "stop",
        "stopped",
    )  # fmt: skip

    def __init__(
        self,
        feasibility: Feasibility,
        candidates: Sequence[int],
        score: float,
        limits: StopCriteria,
    ) -> None:
        self.feasibility = feasibility
        self._candidates = candidates
        self._limits = limits
        self.most = len(candidates)
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
            self.score = self.feasibility.score(self.chosen, self.entries, each=stop is None)
        for index in self._candidates:
            if index not in self.chosen:
                self.rejected.setdefault(index, untried)

    def power_down(self, most: int) -> None:
        """Free as many candidates as possible, the first ones first, and at most `most`."""
        self.most = most
        # first a long beginning: the longest that may be possible, or what halving finds below it
        candidates, feasibility = self._candidates, self.feasibility
        low, high = 0, min(len(candidates), max(0, most))
        while high and feasibility.hopeless(candidates[:high]):
            check()
            high -= 1
        step = self.freeing(candidates[:high]) if high else None
        if step is not None:
            step.apply(self)
            low = high
        while high - low > 1 and not self.stopped:
            middle = (low + high) // 2
            step = self.freeing(candidates[:middle])
            if step is None:
                high = middle
            else:
                step.apply(self)
                low = middle
        self.rejected = {}
        # then single nodes
        moves: list[Neighbourhood[NodeSelection, _Step]] = [_OneMore(candidates[low:])]
        if feasibility.budget is not None and len(candidates) <= SMALL:
            moves.append(_OtherNodes(candidates, SETS * feasibility.thoroughness))
        self._improve(moves, lambda work: (-len(work.chosen),))
        if self.chosen and not self.stopped:
            result = feasibility.find(off=self.chosen, tidy=True)
            if not result.problem:
                self.keep(self.chosen, result)

    def choose(self, off: Sequence[int]) -> bool:
        """Free exactly the nodes `off` if that is possible; return whether it is."""
        step = self.freeing(off)
        if step is not None:
            step.apply(self)
        return step is not None

    def freeing(self, off: Sequence[int]) -> _Step | None:
        """Return a plan that frees the nodes `off`, or None after recording the reason."""
        if self._out_of_time():
            return None
        if len(off) > self.most:
            self.rejected[off[-1]] = LAST_ONE
            return None
        tried = frozenset(off)
        if tried not in self._failed:
            result = self.feasibility.find(off=off)
            if not result.problem:
                return _Step(off, result)
            self._failed[tried] = result.problem
        if off and not self._out_of_time():
            self.rejected[off[-1]] = self._failed[tried]
        return None

    def sparing(self, on: Sequence[int]) -> _Step | None:
        """Return a plan that powers on the nodes `on`, or None if none is found."""
        if self._out_of_time():
            return None
        result = self.feasibility.find(on=on)
        return None if result.problem else _Step(on, result)

    def _improve(
        self,
        moves: Sequence[Neighbourhood[NodeSelection, _Step]],
        objective: Callable[[NodeSelection], Objective],
    ) -> None:
        """Change the chosen nodes one by one as long as that is better."""
        acceptance: Acceptance[_Step] = Acceptance(ended=lambda: self.stopped)
        end = LocalSearch(moves, objective, acceptance, self._limits.deadline).run(self)
        if end == TIME_IS_UP:
            self.stopped = end

    def _out_of_time(self) -> bool:
        if self._limits.deadline.over():
            self.stopped = TIME_IS_UP
        return bool(self.stopped)

    def keep(self, chosen: Sequence[int], result: FeasibilityResult) -> None:
        """Record this set of nodes as the best one so far."""
        more = len(result.entries) - len(self.entries)
        self.chosen = list(chosen)
        self.entries, self.score, self.problem = result.entries, result.score, result.problem
        self.packed = result.packed
        self._limits.deadline.spare(more)

    def power_on(self) -> None:
        """Power on the first candidates until every online node has the reserve, or fewer.

        If not even all of them suffice, nor those that are large enough to have the reserve
        themselves, all are chosen, and `problem` names the requirement that is not met.
        """
        self._powers_on = True
        feasibility, standby = self.feasibility, self._candidates
        aim, large = feasibility.aim, []
        for index in standby:
            with Switched(aim.cluster, on=[index]):  # has the empty node the reserve?
                state = State(aim.cluster)
                if state.columns[MEMORY][index] > 0 and not aim.reserve.lacks(state, index):
                    large.append(index)
        orders = [standby] if len(large) == len(standby) else [standby, large]
        tries = [order[:count] for order in orders for count in range(len(order) + 1)]
        for nodes in tries:
            if self._out_of_time():
                return
            result = feasibility.find(on=nodes)
            if not result.problem:
                self.keep(nodes, result)
                # leave out nodes without which the others suffice, and tidy up the moves
                self._improve([_OneLess(self.chosen[-2::-1])], lambda work: (len(work.chosen),))
                if self.stopped:
                    return
                result = feasibility.find(on=self.chosen, tidy=True)
                if not result.problem:
                    self.keep(self.chosen, result)
                return
            self.problem = result.problem
        if not self._limits.deadline.over():
            result = feasibility.find(on=standby, tidy=True)
            still = feasibility.without_moves(standby)
            idle = feasibility.behaviour.squeezes_further and result.shortage >= still.shortage
            self.keep(standby, still if result.loses_n1 or idle else result)


class _Step:
    """A set of nodes to switch, and the moves for it."""

    __slots__ = ("_chosen", "_result")

    def __init__(self, chosen: Sequence[int], result: FeasibilityResult) -> None:
        self._chosen = chosen
        self._result = result

    def apply(self, state: NodeSelection) -> None:
        """Record these nodes as the best set found so far that can be emptied together."""
        state.keep(self._chosen, self._result)
        for index in self._chosen:
            state.rejected.pop(index, None)


class _OneMore(Neighbourhood[NodeSelection, _Step]):
    """Steps that free one more node of `rest`, in turn.

    A node that could not be freed is tried again after others have been freed.
    """

    name = "one more"

    def __init__(self, rest: Sequence[int]) -> None:
        self._rest = list(rest)

    def best(
        self, state: NodeSelection, objective: Objective, allows: Callable[[_Step], bool]
    ) -> _Step | None:
        """Return the next node that can be freed besides the chosen ones."""
        self._rest = [index for index in self._rest if index not in state.chosen]
        for number, index in enumerate(self._rest):
            step = None if state.stopped else state.freeing([*state.chosen, index])
            if step is not None:
                self._rest = [*self._rest[number + 1 :], *self._rest[:number]]
                return step
        return None


class _OtherNodes(Neighbourhood[NodeSelection, _Step]):
    """Sets of nodes to free with one node more than now, but without some of the chosen nodes.

    At most `most` sets are tried.
    """

    name = "other nodes"

    def __init__(self, nodes: Sequence[int], most: int) -> None:
        self._nodes = nodes
        self._left = most

    def best(
        self, state: NodeSelection, objective: Objective, allows: Callable[[_Step], bool]
    ) -> _Step | None:
        """Return the next set of nodes that can be freed."""
        present, rejected = frozenset(state.chosen), dict(state.rejected)
        if len(present) >= state.most:
            return None
        for off in combinations(self._nodes, len(present) + 1):
            check()
            if present.issubset(off) or state.feasibility.hopeless(off):
                continue
            self._left -= 1
            if self._left < 0 or state.stopped:
                break
            step = state.freeing(off)
            if step is not None:
                return step
        state.rejected = rejected  # which says why one more node cannot be freed
        return None


class _OneLess(Neighbourhood[NodeSelection, _Step]):
    """Steps that power on one node less: each of `nodes` in turn is left out."""

    name = "one less"

    def __init__(self, nodes: Sequence[int]) -> None:
        self._nodes = list(nodes)

    def best(
        self, state: NodeSelection, objective: Objective, allows: Callable[[_Step], bool]
    ) -> _Step | None:
        """Return the next node that the others do not need."""
        while self._nodes and not state.stopped:
            spared = self._nodes.pop(0)
            step = state.sparing([index for index in state.chosen if index != spared])
            if step is not None:
                return step
        return None
