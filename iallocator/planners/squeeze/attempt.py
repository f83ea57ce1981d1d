"""One attempt to empty nodes, or to give all the reserve: moves in a state of their own.

Balancing looks at the score only, and may leave a node without the reserve although
others have more than that.  Then moves are made that lessen what nodes lack.
"""

from __future__ import annotations

from dataclasses import dataclass

from iallocator.deadline import check
from iallocator.model.moves import replay
from iallocator.model.node_view import Capacities
from iallocator.model.state import State
from iallocator.planners.balance.descent import Descent
from iallocator.planners.balance.problem import BalanceProblem
from iallocator.planners.plan import PlanEntry
from iallocator.planners.squeeze.packing import pack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from iallocator.constraints.relations import Relations
    from iallocator.deadline import Deadline
    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.n1.baseline import Baseline
    from iallocator.planners.balance.move_kinds import MoveRules, ScoredMoves
    from iallocator.planners.plan import Plan
    from iallocator.planners.plan_limits import StopCriteria
    from iallocator.planners.squeeze.headroom import Headroom

__all__ = ["Aim", "Attempt", "FeasibilityResult", "repair"]

LONGEST = 30
"""Moves of one repair at most."""

LOOKED_AT = 30
"""Moves that are tried for each, those with the lowest scores, and how many of an instance."""

EACH = 4


def repair(problem: BalanceProblem, reserve: Headroom, deadline: Deadline) -> list[PlanEntry]:
    """Moves until every online node has `reserve`, or no move lessens what they lack.

    They are made in the state of `problem`.
    """
    made: list[PlanEntry] = []
    lacking = reserve.shortage(problem.state, problem.scope)
    while len(made) < LONGEST and not deadline.over():
        check()
        missing = set(reserve.missing(problem.state, problem.scope))
        where = problem.state.where
        affected = [i for i in problem.instances if not missing.isdisjoint(where[i.name])]
        if not affected:
            break
        narrow = BalanceProblem(
            problem.state, problem.scope, problem.fixed, affected, problem.rules, problem.relations
        )
        best: tuple[float, ScoredMoves] | None = None
        for found in narrow.scan().lowest(LOOKED_AT, EACH):
            with problem.state.trial():
                found.moves[0].apply(problem.state)
                left = reserve.shortage(problem.state, problem.scope)
            if left < (best[0] if best else lacking):
                best = left, found
        if best is None:
            break
        lacking, found = best
        found.moves[0].apply(problem.state)
        made.append(PlanEntry(found.moves[0], found.score))
    return made


if TYPE_CHECKING:
    Phase = tuple[MoveRules, Sequence[Instance]]


@dataclass(frozen=True, slots=True)
class Aim:
    """What every attempt is held to.

    Attributes
    ----------
    scope, reserve:
        The nodes of the group, in the order that breaks ties; what each that is online must be
        able to take in the end.
    limits:
        When balancing stops.
    baseline:
        The failures that must be survivable in the end.
    evacuate:
        Whether every instance must be on an online node in the end.
    full:
        Nodes that may lack memory for failovers to them: they do now, or it does not count.
    relations:
        The bonds between instances.
    """

    cluster: Cluster
    scope: Sequence[int]
    reserve: Headroom
    limits: StopCriteria
    baseline: Baseline
    evacuate: bool
    full: Collection[int]
    relations: Relations | None
    progress: Callable[[Plan], None]


class FeasibilityResult:
    """What was found for a set of nodes.

    Attributes
    ----------
    entries, score:
        The moves, and the score of the group after them with those nodes switched.
    problem:
        Why they do not do; "" if they do.
    loses_n1:
        Whether a failure that must be survivable is not, once they are made; looked at only
        where there is a problem and nothing has to leave.
    shortage:
        How much the online nodes lack of the reserve in all, in MiB of memory and virtual cpus;
        looked at only there, too.
    packed:
        Whether nothing is balanced, and no scores are known; see `Feasibility.score`.
    """

    __slots__ = ("entries", "loses_n1", "packed", "problem", "score", "shortage")

    def __init__(
        self, entries: Sequence[PlanEntry], score: float, problem: str, loses_n1: bool = False
    ) -> None:
        self.loses_n1 = loses_n1
        self.packed = False
        self.shortage = 0.0
        self.entries = entries
        self.score = score
        self.problem = problem


class Attempt:
    """Moves made one after the other in a state of their own; see `Aim`."""

    def __init__(self, aim: Aim, off: frozenset[int], tidy: bool) -> None:
        self._aim = aim
        self.off = off
        self._tidy = tidy
        self._state = State(aim.cluster)
        self._fixed = Capacities(aim.cluster.nodes, scope=aim.scope)
        self._balancing: BalanceProblem | None = None
        self._score = 0.0
        self.entries: list[PlanEntry] = []
        self.problem = ""

    def found(self) -> FeasibilityResult:
        """What came of it."""
        asked = bool(self.problem) and not self._aim.evacuate
        loses_n1 = asked and self._aim.baseline.first_broken(self._state) is not None
        found = FeasibilityResult(self.entries, self._score, self.problem, loses_n1)
        if asked:
            found.shortage = self._aim.reserve.shortage(self._state, self._aim.scope)
        return found

    def follow(self, way: Sequence[Phase]) -> None:
        """Make the moves of every phase; if not `tidy`, only until they do."""
        aim = self._aim
        centres: Sequence[float] | None = None
        for number, (rules, instances) in enumerate(way, start=1):
            now = rules.while_leaving(self.off)
            self._balancing = BalanceProblem(
                self._state, aim.scope, self._fixed, instances, now, aim.relations,
                centres=centres,
            )  # fmt: skip
            if self._tidy:  # however many phases: the scores of one
                centres = self._balancing.means()
            plan = Descent(self._balancing, aim.limits, aim.progress).run()
            replay(self._state, plan.moves)
            self.entries += plan.entries
            if number == len(way) or not self._tidy:
                self.judge(plan.after)
                if not self.problem:
                    return

    def pack(self, rules: MoveRules, instances: Sequence[Instance], careful: bool = False) -> None:
        """Empty the nodes at once, and repair what that lacks."""
        aim = self._aim
        balancing = self._balancing = BalanceProblem(
            self._state, aim.scope, self._fixed, instances, rules, aim.relations
        )
        self.entries = pack(balancing, self.off, aim.reserve, careful)
        self.judge(0.0)
        if self.problem:
            self.repair()

    def judge(self, score: float) -> None:
        """Say what is wrong as things are, at this score."""
        self._score = score
        self.problem = self._homeless() or self._lacking() or self._lost()

    def overbooks(self) -> bool:
        """Whether a node comes to lack the memory for failovers to it, where that counts."""
        nodes, aim = self._aim.cluster.nodes, self._aim
        stay = [index for index in aim.scope if nodes[index].online]
        return any(self._state.fails_n1(index) for index in stay if index not in aim.full)

    def distance(self) -> tuple[bool, float]:
        """How far it is from what is wanted, for comparison."""
        aim = self._aim
        return bool(self._homeless()), aim.reserve.shortage(self._state, aim.scope)

    def repair(self) -> None:
        """Make moves that help those nodes that lack the reserve, if nothing else is wrong."""
        if self._balancing is None or self._homeless():
            return
        repairs = repair(self._balancing, self._aim.reserve, self._aim.limits.deadline)
        if repairs:
            self.entries += repairs
            self._score = repairs[-1].score
            self.problem = self._lacking() or self._lost()

    def _homeless(self) -> str:
        """An instance that should be on online nodes and is not, or ""."""
        aim, nodes = self._aim, self._aim.cluster.nodes
        for index in aim.scope if aim.evacuate else ():
            held = [] if nodes[index].online else list(self._state.primaries[index].values())
            held += self._state.secondaries[index].values() if index in self.off else ()
            if held:
                largest = max(held, key=lambda instance: instance.memory)
                return (
                    f"instance {largest.name} ({largest.memory} MiB) on {nodes[index].name} "
                    "has no other place"
                )
        return ""

    def _lacking(self) -> str:
        """A node without the reserve, or ""."""
        aim = self._aim
        for index, reason in aim.reserve.missing(self._state, aim.scope).items():
            name = aim.cluster.nodes[index].name
            return f"{name} could not take one more instance: {reason}"
        return ""

    def _lost(self) -> str:
        """A node whose failure must be survivable and is not, or ""."""
        return self._aim.baseline.problem(self._state)
