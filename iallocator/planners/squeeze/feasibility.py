"""Moving instances so that some nodes can be powered down, or that all nodes have a reserve.

`Feasibility.find` answers the one question of squeezing: is there a plan that leaves every
instance on an online node, and every online node with room for the reserve?
"""

from __future__ import annotations

from iallocator.compat import OURS
from iallocator.deadline import Stopped
from iallocator.model.node_view import Capacities
from iallocator.model.state import State
from iallocator.planners.balance.move_kinds import MoveRules
from iallocator.planners.balance.problem import BalanceProblem
from iallocator.planners.direct import rescore
from iallocator.planners.plan import replay
from iallocator.planners.power_state import Switched
from iallocator.planners.squeeze.amounts import Amounts
from iallocator.planners.squeeze.attempt import Aim, Attempt, FeasibilityResult
from iallocator.planners.squeeze.exact import PROVED, Arrangement
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

__all__ = ["Feasibility"]

EFFORT = 6_000_000
"""What all balancing of sets that packing did not free may cost: moves × instances × nodes."""

CLASSES = 12
"""Into how many classes of memory instances are put to be moved, the largest first."""


class Feasibility(Aim):
    """Plans for the nodes of one group.

    Parameters
    ----------
    instances:
        Those of the group that may move, in the order that breaks ties.
    lighter:
        Those of `instances` that are cheap to move; they are tried alone first.
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
        start = State(cluster)
        full = {index for index in scope if ignore_soft or start.fails_n1(index)}
        super().__init__(
            cluster, scope, reserve, limits, survival, evacuate, full, relations, progress
        )
        self.behaviour = behaviour
        self.budget = budget
        self._worlds = [lighter] if len(lighter) == len(instances) else [lighter, instances]
        self._amounts = Amounts(cluster, scope, reserve, survival)
        self._effort = EFFORT
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
        Stopped
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
            near: Attempt | None = None
            for way in self._ways(off, tidy):
                attempt = Attempt(self, off, tidy)
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
            attempt = Attempt(self, off, False)
            attempt.pack(rules, instances)
            if not attempt.problem and attempt.overbooks():
                attempt = Attempt(self, off, False)
                attempt.pack(rules, instances, careful=True)
            if not attempt.problem:
                break
        found = attempt.found()
        found.packed = True
        return found

    def score(self, off: Collection[int], moves: Sequence[PlannedMove], each: bool) -> float:
        """Note at `each` of the packed `moves` the score after it; return the last.

        If nobody has the time for that, the last stands at each.
        """
        with Switched(self.cluster, off):
            if each:
                try:
                    return self._rescored(off, moves)
                except Stopped:
                    pass  # the last one, then
            state = State(self.cluster)
            replay(state, moves)
            last = score_of(state, self.scope)
            for move in moves:
                move.score = last
            return last

    def _rescored(self, off: Collection[int], moves: Sequence[PlannedMove]) -> float:
        """The score after `moves`, which have that after each of them then."""
        fixed = Capacities(self.cluster.nodes, scope=self.scope)
        rules = self._whole.while_leaving(off)
        state = State(self.cluster)
        return rescore(BalanceProblem(state, self.scope, fixed, (), rules, self.relations), moves)

    def _pays(self, off: frozenset[int]) -> bool:
        """Whether balancing may be tried where packing does not do; each time costs of `EFFORT`."""
        instances = self._worlds[-1]
        leaving = sum(not off.isdisjoint(instance.nodes) for instance in instances)
        self._effort -= leaving * len(instances) * len(self.scope)
        return self._effort >= 0

    def _exactly(self, near: Attempt) -> FeasibilityResult:
        """What exact search finds instead of `near`, where it may be tried."""
        if self.budget is None or self.budget.spent:
            return near.found()

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
            attempt = Attempt(self, frozenset(), False)
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
