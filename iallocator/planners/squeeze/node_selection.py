"""Choose the nodes of one group that can be powered down, or that must be powered on.

Both searches call `Feasibility.find` with sets of nodes, in the order of the candidates, and keep
the best set found so far.  They end with a local search over sets of nodes. Each of its steps frees
one more node, or leaves out a node that need not be powered on.
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

MOST_SET_CANDIDATES = 12
"""The largest number of candidates for which other sets of nodes are tried."""

MOST_SETS_TRIED = 60
"""The largest number of other sets of nodes that are tried.

This number is multiplied by the thoroughness of the search.
"""

LAST_ONE = "it is the last online node, and the master node is unknown"


class NodeSelection:
    """Chooses the nodes of one group to switch, from `candidates`, which are tried in their order.

    Attributes
    ----------
    feasibility:
        Finds a plan for a given set of nodes.
    chosen:
        The nodes to switch, in the order in which they were chosen.
    before:
        The score of the group before any move.
    entries, score:
        The moves for the chosen nodes, and the score of the group after them.
    most:
        The largest number of nodes that may be chosen.
    rejected:
        Node -> why it is not chosen, for candidates that are not chosen.
    problem:
        The requirement that the group does not meet with the chosen nodes switched; "" if it meets
        all requirements.
    packed:
        Whether the moves come from packing, so that their scores are not known yet.
    stop:
        The signal or time limit that raised `Stopped` in the search; None if there was none.
    stopped:
        Why the search ended early; "" if it did not.
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
        """Complete the scores and the reasons of rejected nodes after the end of the search.

        `stop`: the signal or time limit that ended the search; None if there was none.
        """
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
        """Free as many candidates as possible, but at most `most`; the first candidates first."""
        self.most = most
        # First free the first candidates together: as many as the bounds allow, or as many as
        # bisection finds
        candidates, feasibility = self._candidates, self.feasibility
        low, high = 0, min(len(candidates), max(0, most))
        while high and feasibility.infeasibility(candidates[:high]):
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
        # Then free single nodes
        moves: list[Neighbourhood[NodeSelection, _Step]] = [_OneMore(candidates[low:])]
        if feasibility.budget is not None and len(candidates) <= MOST_SET_CANDIDATES:
            moves.append(_OtherNodes(candidates, MOST_SETS_TRIED * feasibility.thoroughness))
        self._improve(moves, lambda work: (-len(work.chosen),))
        if self.chosen and not self.stopped:
            result = feasibility.find(off=self.chosen, tidy=True)
            if not result.problem:
                self.keep(self.chosen, result)

    def choose(self, off: Sequence[int]) -> bool:
        """Choose exactly the nodes `off` if they can be freed together; return whether they can."""
        step = self.freeing(off)
        if step is not None:
            step.apply(self)
        return step is not None

    def freeing(self, off: Sequence[int]) -> _Step | None:
        """Return the step that frees exactly the nodes `off`; None if no plan is found.

        Unless time is up, the reason for None is recorded for the last node of `off`.
        """
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
        """Return the step that powers on only the nodes `on`; None if they do not suffice."""
        if self._out_of_time():
            return None
        result = self.feasibility.find(on=on)
        return None if result.problem else _Step(on, result)

    def _improve(
        self,
        moves: Sequence[Neighbourhood[NodeSelection, _Step]],
        objective: Callable[[NodeSelection], Objective],
    ) -> None:
        """Take steps of `moves` as long as they lower `objective`, or until time is up."""
        acceptance: Acceptance[_Step] = Acceptance(ended=lambda: self.stopped)
        end = LocalSearch(moves, objective, acceptance, self._limits.deadline).run(self)
        if end == TIME_IS_UP:
            self.stopped = end

    def _out_of_time(self) -> bool:
        if self._limits.deadline.over():
            self.stopped = TIME_IS_UP
        return bool(self.stopped)

    def keep(self, chosen: Sequence[int], result: FeasibilityResult) -> None:
        """Record the nodes `chosen`, with the plan `result`, as the best set found so far."""
        more = len(result.entries) - len(self.entries)
        self.chosen = list(chosen)
        self.entries, self.score, self.problem = result.entries, result.score, result.problem
        self.packed = result.packed
        self._limits.deadline.spare(more)

    def power_on(self) -> None:
        """Choose as few of the first candidates as give every online node the reserve.

        If all candidates together do not suffice, only those are tried that have the reserve
        when they are empty. If these do not suffice either, all candidates are chosen, and
        `problem` names the requirement that is not met.
        """
        self._powers_on = True
        feasibility, standby = self.feasibility, self._candidates
        aim, large = feasibility.aim, []
        for index in standby:
            with Switched(aim.cluster, on=[index]):  # an empty node may be smaller than the reserve
                state = State(aim.cluster)
                if state.columns[MEMORY][index] > 0 and not aim.reserve.lacks(state, index):
                    large.append(index)
        alone = feasibility.behaviour.squeezes_by_balancing  # hsqueeze tries this order alone
        orders = [standby] if alone or len(large) == len(standby) else [standby, large]
        tries = [order[:count] for order in orders for count in range(len(order) + 1)]
        for nodes in tries:
            if self._out_of_time():
                return
            result = feasibility.find(on=nodes)
            if not result.problem:
                self.keep(nodes, result)
                if alone:
                    return
                # Leave out nodes that the others do not need, and find better balanced moves
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
    """A step of the local search: a set of nodes to switch, with the plan for these nodes."""

    __slots__ = ("_chosen", "_result")

    def __init__(self, chosen: Sequence[int], result: FeasibilityResult) -> None:
        self._chosen = chosen
        self._result = result

    def apply(self, state: NodeSelection) -> None:
        """Choose the nodes of this step in `state`; none of them counts as rejected any more."""
        state.keep(self._chosen, self._result)
        for index in self._chosen:
            state.rejected.pop(index, None)


class _OneMore(Neighbourhood[NodeSelection, _Step]):
    """Steps that free one more node; the nodes of `rest` are tried in turn.

    A node that could not be freed is tried again after other nodes have been freed.
    """

    name = "one more"

    def __init__(self, rest: Sequence[int]) -> None:
        self._rest = list(rest)

    def best(
        self, state: NodeSelection, objective: Objective, allows: Callable[[_Step], bool]
    ) -> _Step | None:
        """Return the step that also frees the next possible node; None if no node is possible."""
        self._rest = [index for index in self._rest if index not in state.chosen]
        for number, index in enumerate(self._rest):
            step = None if state.stopped else state.freeing([*state.chosen, index])
            if step is not None:
                self._rest = [*self._rest[number + 1 :], *self._rest[:number]]
                return step
        return None


class _OtherNodes(Neighbourhood[NodeSelection, _Step]):
    """Steps that replace the chosen nodes by another set, which has one node more.

    The sets lack at least one chosen node. At most `most` sets are tried.
    """

    name = "other nodes"

    def __init__(self, nodes: Sequence[int], most: int) -> None:
        self._nodes = nodes
        self._left = most

    def best(
        self, state: NodeSelection, objective: Objective, allows: Callable[[_Step], bool]
    ) -> _Step | None:
        """Return the step that frees the next possible set of nodes; None if none is found."""
        present, rejected = frozenset(state.chosen), dict(state.rejected)
        if len(present) >= state.most:
            return None
        for off in combinations(self._nodes, len(present) + 1):
            check()
            if present.issubset(off) or state.feasibility.infeasibility(off):
                continue
            self._left -= 1
            if self._left < 0 or state.stopped:
                break
            step = state.freeing(off)
            if step is not None:
                return step
        state.rejected = rejected  # keep the reasons why no single further node can be freed
        return None


class _OneLess(Neighbourhood[NodeSelection, _Step]):
    """Steps that power on one node less; the nodes of `nodes` are left out in turn."""

    name = "one less"

    def __init__(self, nodes: Sequence[int]) -> None:
        self._nodes = list(nodes)

    def best(
        self, state: NodeSelection, objective: Objective, allows: Callable[[_Step], bool]
    ) -> _Step | None:
        """Return the step that leaves out the next unneeded node; None if all are needed."""
        while self._nodes and not state.stopped:
            spared = self._nodes.pop(0)
            step = state.sparing([index for index in state.chosen if index != spared])
            if step is not None:
                return step
        return None
