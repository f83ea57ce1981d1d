"""Moving instances so that some nodes can be powered down, or that all nodes have a reserve.

`Feasibility.find` answers the one question of squeezing: is there a plan that leaves every
instance on an online node, and every online node with room for the reserve?
"""

from __future__ import annotations

from iallocator.compat import OURS
from iallocator.model.node_view import capacities
from iallocator.model.state import State
from iallocator.planners.balance.greedy import GreedyBalancer
from iallocator.planners.balance.move_kinds import MoveRules
from iallocator.planners.balance.problem import BalanceProblem
from iallocator.planners.plan import replay
from iallocator.planners.power_state import Switched
from iallocator.planners.squeeze.amounts import Amounts
from iallocator.planners.squeeze.emptying import empty
from iallocator.planners.squeeze.headroom_repair import repair
from iallocator.planners.squeeze.packing import pack
from iallocator.planners.squeeze.straight import rescore, straightened
from iallocator.scoring.state_score import score_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from iallocator.compat import Behaviour
    from iallocator.constraints.relations import Relations
    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.planners.plan import Plan, PlannedMove
    from iallocator.planners.squeeze.headroom import Headroom
    from iallocator.planners.stop_criteria import StopCriteria
    from iallocator.planners.survival import Survival
    from iallocator.solver.budget import Budget

    Phase = tuple[MoveRules, Sequence[Instance]]

__all__ = ["Feasibility", "FeasibilityResult"]

EFFORT = 6_000_000
"""What all balancing of sets that packing did not free may cost: moves × instances × nodes."""

CLASSES = 12
"""Into how many classes of memory instances are put to be moved, the largest first."""


class FeasibilityResult:
    """What was found for a set of nodes.

    Attributes
    ----------
    moves, score:
        The moves, and the score of the group after them with those nodes switched.
    problem:
        Why they do not do; "" if they do.
    loses_n1:
        Whether a failure that must be survivable is not, once they are made.
    packed:
        Whether nothing is balanced, and no scores are known; see `Feasibility.score`.
    """

    __slots__ = ("loses_n1", "moves", "packed", "problem", "score")

    def __init__(
        self, moves: Sequence[PlannedMove], score: float, problem: str, loses_n1: bool = False
    ) -> None:
        self.loses_n1 = loses_n1
        self.packed = False
        self.moves = moves
        self.score = score
        self.problem = problem


class Feasibility:
    """Plans for the nodes of one group.

    Parameters
    ----------
    scope, instances:
        The nodes of the group, and the instances of it that may move, in the order
        that breaks ties.
    lighter:
        Those of `instances` that are cheap to move; they are tried alone first.
    evacuate:
        Whether every instance must be on an online node in the end.
    survival:
        The failures that must be survivable in the end.
    relations:
        The bonds between instances.
    budget:
        What exact search may spend in all, where moving one instance after the
        other does not do; None: it is not tried.
    """

    def __init__(
        self,
        cluster: Cluster,
        scope: Sequence[int],
        instances: Sequence[Instance],
        lighter: Sequence[Instance],
        reserve: Headroom,
        limits: StopCriteria,
        survival: Survival,
        *,
        evacuate: bool,
        ignore_soft: bool = False,
        behaviour: Behaviour = OURS,
        progress: Callable[[Plan], None] = lambda plan: None,
        relations: Relations | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.cluster = cluster
        self.relations = relations
        self.budget = budget
        self.scope = scope
        self.reserve = reserve
        self._worlds = [lighter] if len(lighter) == len(instances) else [lighter, instances]
        self.limits = limits
        self.survival = survival
        self.evacuate = evacuate
        self.progress = progress
        self._amounts = Amounts(cluster, scope, reserve, survival)
        self._effort = EFFORT
        start = State(cluster)
        self.full = {index for index in scope if ignore_soft or start.fails_n1(index)}
        self._packs = (
            behaviour is OURS and evacuate and (relations is None or not relations.binding)
        )
        self._cheap = all(instance.shared for instance in lighter)
        self._whole = MoveRules(ignore_soft=ignore_soft, behaviour=behaviour)
        self._first = MoveRules(evacuate_only=True, ignore_soft=ignore_soft, behaviour=behaviour)

    def find(
        self,
        off: Collection[int] = (),
        on: Collection[int] = (),
        tidy: bool = False,
        thorough: bool = False,
    ) -> FeasibilityResult:
        """A plan with the nodes `off` offline and `on` online.

        The quickest way that leads there, with `tidy` the one that balances best, with
        `thorough` none that only packs.

        Raises
        ------
        KeyboardInterrupt
            As soon as someone interrupts.
        """
        off = frozenset(off)
        with Switched(self.cluster, off, on):
            hopeless = "" if tidy else self._hopeless(off)
            if hopeless:
                return FeasibilityResult((), 0.0, hopeless)
            if off and not (tidy or thorough) and self._packs:
                packed = self._packed(off)
                if not packed.problem or not self._pays(off):
                    return packed
            near: _Attempt | None = None
            for way in self._ways(off, tidy):
                attempt = _Attempt(self, off, tidy)
                attempt.follow(way)
                if not attempt.problem or self.limits.expired():
                    return attempt.found()
                if near is None or attempt.distance() < near.distance():
                    near = attempt
            assert near is not None
            near.repair()
            return self._exactly(near) if near.problem else near.found()

    def _packed(self, off: frozenset[int]) -> FeasibilityResult:
        """What packing finds, one world of instances after the other."""
        rules = self._whole.while_leaving(off)
        for instances in self._worlds:
            attempt = _Attempt(self, off, False)
            attempt.pack(rules, instances)
            if not attempt.problem and attempt.overbooks():
                attempt = _Attempt(self, off, False)
                attempt.pack(rules, instances, careful=True)
            if not attempt.problem:
                break
        found = attempt.found()
        found.packed = True
        return found

    def score(self, off: Collection[int], moves: Sequence[PlannedMove]) -> float:
        """Note at each of the packed `moves` the score after it; return the last.

        If nobody has the time for that, the last stands at each.
        """
        with Switched(self.cluster, off):
            try:
                return self._rescored(off, moves)
            except KeyboardInterrupt:
                state = State(self.cluster)
                replay(state, moves)
                last = score_of(state, self.scope)
                for move in moves:
                    move.score = last
                return last

    def _rescored(self, off: Collection[int], moves: Sequence[PlannedMove]) -> float:
        """The score after `moves`, which have that after each of them then."""
        fixed = [capacities(node) for node in self.cluster.nodes]
        rules = self._whole.while_leaving(off)
        state = State(self.cluster)
        return rescore(BalanceProblem(state, self.scope, fixed, (), rules, self.relations), moves)

    def straight(
        self, off: Collection[int], on: Collection[int], moves: Sequence[PlannedMove]
    ) -> Sequence[PlannedMove]:
        """`moves` with the nodes `off` offline and `on` online, without needless detours."""
        with Switched(self.cluster, off, on):
            fixed = [capacities(node) for node in self.cluster.nodes]
            rules = self._whole.while_leaving(off)
            found = straightened(State(self.cluster), moves, fixed, rules)
            if found != moves:
                self._rescored(off, found)
            return found

    def _pays(self, off: frozenset[int]) -> bool:
        """Whether balancing may be tried where packing does not do; each time costs of `EFFORT`."""
        instances = self._worlds[-1]
        leaving = sum(not off.isdisjoint(instance.nodes) for instance in instances)
        self._effort -= leaving * len(instances) * len(self.scope)
        return self._effort >= 0

    def _exactly(self, near: _Attempt) -> FeasibilityResult:
        """What exact search finds instead of `near`, where it may be tried."""
        if self.budget is None or self.budget.spent:
            return near.found()
        from iallocator.planners.squeeze.exact import PROVED, Arrangement

        movable = self._worlds[0]
        rules = self._whole.while_leaving(near.off)
        moves, proved = Arrangement(
            self.cluster,
            self.scope,
            self.reserve,
            self.survival,
            rules,
            self.evacuate,
            self.relations,
        ).find(movable, self.budget)
        if moves is None:
            found = near.found()
            if proved and len(self._worlds) == 1:
                found.problem += f" ({PROVED})"
            return found
        return FeasibilityResult(moves, moves[-1].score if moves else near.found().score, "")

    def without_moves(self, on: Collection[int]) -> FeasibilityResult:
        """What comes of switching the nodes `on` online, and nothing else."""
        with Switched(self.cluster, on=on):
            attempt = _Attempt(self, frozenset(), False)
            attempt.judge(score_of(State(self.cluster), self.scope))
            return attempt.found()

    def hopeless(self, off: Collection[int]) -> str:
        """Why the nodes `off` cannot be freed, if amounts alone say so; "" if they do not."""
        with Switched(self.cluster, off):
            return self._hopeless(frozenset(off))

    def _hopeless(self, off: frozenset[int]) -> str:
        """Why no moves whatever can succeed: what is used in all stays the same."""
        return self._amounts.hopeless(off)

    def _ways(self, off: frozenset[int], tidy: bool) -> Iterator[list[Phase]]:
        """Several ways to move the instances, each in phases."""
        for instances in self._worlds:
            whole: Phase = (self._whole, instances)
            first: Phase = (self._first, instances)
            yield [first, whole]
            if tidy or self._cheap:
                yield [whole]
            largest_first = [(self._first, some) for some in self._by_size(instances, off)]
            if len(largest_first) > 1:
                yield [*largest_first, whole]

    def _by_size(self, instances: Iterable[Instance], off: frozenset[int]) -> list[list[Instance]]:
        """The instances on the nodes `off`, in classes of memory, the largest first."""
        leaving = [i for i in instances if not off.isdisjoint(i.nodes)]
        leaving.sort(key=lambda instance: -instance.memory)
        every = max(1, -(-len(leaving) // CLASSES))
        return [leaving[k : k + every] for k in range(0, len(leaving), every)]


class _Attempt:
    """Moves made one after the other in a state of their own; see `Feasibility.find`."""

    def __init__(self, relief: Feasibility, off: frozenset[int], tidy: bool) -> None:
        self._relief = relief
        self.off = off
        self._tidy = tidy
        self._state = State(relief.cluster)
        self._fixed = [capacities(node) for node in relief.cluster.nodes]
        self._arena: BalanceProblem | None = None
        self._score = 0.0
        self.moves: list[PlannedMove] = []
        self.problem = ""

    def found(self) -> FeasibilityResult:
        """What came of it."""
        loses_n1 = bool(self.problem) and bool(self._relief.survival.lost(self._state))
        return FeasibilityResult(self.moves, self._score, self.problem, loses_n1)

    def follow(self, way: Sequence[Phase]) -> None:
        """Make the moves of every phase; if not `tidy`, only until they do."""
        relief = self._relief
        centres: Sequence[float] | None = None
        for number, (rules, instances) in enumerate(way, start=1):
            now = rules.while_leaving(self.off)
            self._arena = BalanceProblem(
                self._state, relief.scope, self._fixed, instances, now, relief.relations,
                centres=centres,
            )  # fmt: skip
            if self._tidy:  # however many phases: the scores of one
                centres = self._arena.means()
            if rules.evacuate_only:
                plan = empty(self._arena, relief.limits, relief.progress)
            else:
                plan = GreedyBalancer(self._arena, relief.limits, relief.progress).run()
            if plan.stop:
                raise plan.stop
            self.moves += plan.moves
            if number == len(way) or not self._tidy:
                self.judge(plan.after)
                if not self.problem:
                    return

    def pack(self, rules: MoveRules, instances: Sequence[Instance], careful: bool = False) -> None:
        """Empty the nodes at once, and repair what that lacks."""
        relief = self._relief
        arena = self._arena = BalanceProblem(
            self._state, relief.scope, self._fixed, instances, rules, relief.relations
        )
        self.moves = pack(arena, self.off, relief.reserve, careful)
        self.judge(0.0)
        if self.problem:
            self.repair()

    def judge(self, score: float) -> None:
        """Say what is wrong as things are, at this score."""
        self._score = score
        self.problem = self._homeless() or self._lacking() or self._lost()

    def overbooks(self) -> bool:
        """Whether a node comes to lack the memory for failovers to it, where that counts."""
        nodes, relief = self._relief.cluster.nodes, self._relief
        stay = [index for index in relief.scope if nodes[index].online]
        return any(self._state.fails_n1(index) for index in stay if index not in relief.full)

    def distance(self) -> tuple[bool, float]:
        """How far it is from what is wanted, for comparison."""
        relief = self._relief
        return bool(self._homeless()), relief.reserve.shortage(self._state, relief.scope)

    def repair(self) -> None:
        """Make moves that help those nodes that lack the reserve, if nothing else is wrong."""
        if self._arena is None or self._homeless():
            return
        repairs = repair(self._arena, self._relief.reserve, self._relief.limits.expired)
        if repairs:
            self.moves += repairs
            self._score = repairs[-1].score
            self.problem = self._lacking() or self._lost()

    def _homeless(self) -> str:
        """An instance that should be on online nodes and is not, or ""."""
        relief, nodes = self._relief, self._relief.cluster.nodes
        for index in relief.scope if relief.evacuate else ():
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
        relief = self._relief
        for index, reason in relief.reserve.missing(self._state, relief.scope).items():
            name = relief.cluster.nodes[index].name
            return f"{name} could not take one more instance: {reason}"
        return ""

    def _lost(self) -> str:
        """A node whose failure must be survivable and is not, or ""."""
        return self._relief.survival.problem(self._state)
