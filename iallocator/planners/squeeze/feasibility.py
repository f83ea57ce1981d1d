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
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from iallocator.compat import Behaviour
    from iallocator.model.instance import Instance
    from iallocator.planners.plan import PlannedMove
    from iallocator.solver.budget import Budget

    Phase = tuple[MoveRules, Sequence[Instance]]

__all__ = ["Feasibility"]

EFFORT = 6_000_000
"""What all balancing of sets that packing did not free may cost: moves × instances × nodes."""

CLASSES = 12
"""Into how many classes of memory instances are put to be moved, the largest first."""


class Feasibility:
    """Plans for the nodes of one group.

    Parameters
    ----------
    aim:
        What every attempt is held to.
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
        aim: Aim,
        instances: Sequence[Instance],
        lighter: Sequence[Instance],
        *,
        ignore_soft: bool = False,
        behaviour: Behaviour = OURS,
        budget: Budget | None = None,
    ) -> None:
        self.aim = aim
        self.behaviour = behaviour
        self.budget = budget
        self._worlds = [lighter] if len(lighter) == len(instances) else [lighter, instances]
        self._amounts = Amounts(aim.cluster, aim.scope, aim.reserve, aim.survival)
        self._effort = EFFORT
        bound = aim.relations is not None and aim.relations.binding
        self._packs = behaviour is OURS and aim.evacuate and not bound
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
        with Switched(self.aim.cluster, off, on):
            hopeless = "" if tidy else self._hopeless(off)
            if hopeless:
                return FeasibilityResult((), 0.0, hopeless)
            if off and not (tidy or thorough) and self._packs:
                packed = self._packed(off)
                if not packed.problem or not self._pays(off):
                    return packed
            near: Attempt | None = None
            for way in self._ways(off, tidy):
                attempt = Attempt(self.aim, off, tidy)
                attempt.follow(way)
                if not attempt.problem or self.aim.limits.expired():
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
            attempt = Attempt(self.aim, off, False)
            attempt.pack(rules, instances)
            if not attempt.problem and attempt.overbooks():
                attempt = Attempt(self.aim, off, False)
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
        with Switched(self.aim.cluster, off):
            if each:
                try:
                    return self._rescored(off, moves)
                except Stopped:
                    pass  # the last one, then
            state = State(self.aim.cluster)
            replay(state, moves)
            last = score_of(state, self.aim.scope)
            for move in moves:
                move.score = last
            return last

    def _rescored(self, off: Collection[int], moves: Sequence[PlannedMove]) -> float:
        """The score after `moves`, which have that after each of them then."""
        fixed = Capacities(self.aim.cluster.nodes, scope=self.aim.scope)
        rules = self._whole.while_leaving(off)
        state = State(self.aim.cluster)
        return rescore(
            BalanceProblem(state, self.aim.scope, fixed, (), rules, self.aim.relations), moves
        )

    def _pays(self, off: frozenset[int]) -> bool:
        """Whether balancing may be tried where packing does not do; each time costs of `EFFORT`."""
        instances = self._worlds[-1]
        leaving = sum(not off.isdisjoint(instance.nodes) for instance in instances)
        self._effort -= leaving * len(instances) * len(self.aim.scope)
        return self._effort >= 0

    def _exactly(self, near: Attempt) -> FeasibilityResult:
        """What exact search finds instead of `near`, where it may be tried."""
        if self.budget is None or self.budget.spent:
            return near.found()

        movable = self._worlds[0]
        rules = self._whole.while_leaving(near.off)
        moves, proved = Arrangement(
            self.aim.cluster,
            self.aim.scope,
            self.aim.reserve,
            self.aim.survival,
            rules,
            self.aim.evacuate,
            self.aim.relations,
        ).find(movable, self.budget)
        if moves is None:
            found = near.found()
            if proved and len(self._worlds) == 1:
                found.problem += f" ({PROVED})"
            return found
        return FeasibilityResult(moves, moves[-1].score if moves else near.found().score, "")

    def without_moves(self, on: Collection[int]) -> FeasibilityResult:
        """What comes of switching the nodes `on` online, and nothing else."""
        with Switched(self.aim.cluster, on=on):
            attempt = Attempt(self.aim, frozenset(), False)
            attempt.judge(score_of(State(self.aim.cluster), self.aim.scope))
            return attempt.found()

    def hopeless(self, off: Collection[int]) -> str:
        """Why the nodes `off` cannot be freed, if amounts alone say so; "" if they do not."""
        with Switched(self.aim.cluster, off):
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
