"""Moving instances so that some nodes can be powered down, or that all nodes have a reserve.

`Feasibility.find` answers the question of `squeeze`: is there a plan that leaves every instance on
an online node, and every online node with capacity for the reserve?

Bounds come first (`CapacityBounds`).  Moves change neither the total use of instances nor the
capacity of an empty node. So with some nodes off, the others must have capacity for the total use
and for the reserve of each of them.  If one of them fails, the others must hold everything.

Then moves are made in a state of their own (`Attempt`).  Balancing compares scores only, and may
leave a node without the reserve although others have more than the reserve.  Then moves are made
that reduce the shortage (`Attempt.repair`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb

from iallocator.compat import OURS
from iallocator.deadline import check
from iallocator.model.columns import MEMORY
from iallocator.model.moves import replay
from iallocator.model.node_view import Capacities
from iallocator.model.state import State
from iallocator.n1 import MOVED
from iallocator.planners.balance.descent import Descent
from iallocator.planners.balance.move_kinds import MoveRules
from iallocator.planners.balance.plan_builder import BalanceProblem
from iallocator.planners.direct import rescore
from iallocator.planners.plan import PlanEntry
from iallocator.planners.power_state import Switched
from iallocator.planners.search import Acceptance, LocalSearch, Neighbourhood
from iallocator.planners.squeeze.emptying import PROVED, Arrangement, pack
from iallocator.scoring.scalar import score_of

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from iallocator.compat import Behaviour
    from iallocator.constraints.relations import Relations
    from iallocator.deadline import Deadline
    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.n1 import Failure
    from iallocator.n1.tolerance import FailureTolerance
    from iallocator.planners.balance.move_kinds import ScoredMoves
    from iallocator.planners.plan import Plan
    from iallocator.planners.plan_limits import StopCriteria
    from iallocator.planners.search import Objective
    from iallocator.planners.squeeze.headroom import Headroom

__all__ = ["Aim", "Attempt", "CapacityBounds", "Feasibility", "FeasibilityResult"]

LONGEST_REPAIR = 30
"""Moves of one repair at most."""

LOOKED_AT = 30
"""Moves that are tried for each move of a repair: those with the lowest scores."""

EACH = 4
"""Moves of one instance that are tried for each move of a repair, at most."""


if TYPE_CHECKING:
    Phase = tuple[MoveRules, Sequence[Instance]]


@dataclass(frozen=True, slots=True)
class Aim:
    """The requirements of every attempt.

    Attributes
    ----------
    scope, reserve:
        The nodes of the group, in the order that breaks ties; the reserve of each online node in
        the end.
    limits:
        When balancing stops.
    failures:
        The failures, as measured initially: they must be tolerated in the end.
    evacuate:
        Whether every instance must be on an online node in the end.
    full:
        Nodes that may lack memory for failovers: they do now, or soft limits are ignored.
    relations:
        The affinity constraints of the instances.
    """

    scope: Sequence[int]
    reserve: Headroom
    limits: StopCriteria
    failures: FailureTolerance
    evacuate: bool
    full: Collection[int]
    relations: Relations | None
    progress: Callable[[Plan], None]

    @property
    def cluster(self) -> Cluster:
        """Return the cluster; attempts switch its nodes on and off."""
        return self.failures.state.cluster


class FeasibilityResult:
    """The result for a set of nodes.

    Attributes
    ----------
    entries, score:
        The moves, and the score of the group after them with those nodes switched.
    problem:
        Why the moves do not suffice; "" if they do.
    loses_n1:
        Whether a failure that must be tolerated is not tolerated after the moves. Checked only if
        there is a problem and no node is freed.
    shortage:
        How much the online nodes lack of the reserve in all, in MiB of memory and virtual cpus.
        Computed only in this case, too.
    packed:
        Whether the moves only pack, and no scores are known; see `Feasibility.score`.
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
    """One attempt to meet the requirements of `aim`: moves made in a state of its own."""

    def __init__(self, aim: Aim, off: frozenset[int], tidy: bool) -> None:
        self._aim = aim
        self.off = off
        self._tidy = tidy
        self.state = State(aim.cluster)
        self._fixed = Capacities(aim.cluster.nodes, scope=aim.scope)
        self._balancing: BalanceProblem | None = None
        self._score = 0.0
        self.entries: list[PlanEntry] = []
        self.problem = ""

    def outcome(self) -> FeasibilityResult:
        """Return the result of this attempt."""
        unsolved = bool(self.problem) and not self._aim.evacuate
        loses_n1 = (
            unsolved and self._aim.failures.on(self.state).comparison.first_broken() is not None
        )
        result = FeasibilityResult(self.entries, self._score, self.problem, loses_n1)
        if unsolved:
            result.shortage = self._aim.reserve.shortage(self.state, self._aim.scope)
        return result

    def follow(self, way: Sequence[Phase]) -> None:
        """Make the moves of every phase; if not `tidy`, only until they suffice."""
        aim = self._aim
        centres: Sequence[float] | None = None
        for number, (rules, instances) in enumerate(way, start=1):
            now = rules.while_leaving(self.off)
            self._balancing = BalanceProblem(
                self.state, aim.scope, self._fixed, instances, now, aim.relations,
                centres=centres,
            )  # fmt: skip
            if self._tidy:  # all phases compute scores relative to the centres of the first
                centres = self._balancing.means()
            plan = Descent(self._balancing, aim.limits, aim.progress).run()
            replay(self.state, plan.moves)
            self.entries += plan.entries
            if number == len(way) or not self._tidy:
                self.check(plan.after)
                if not self.problem:
                    return

    def pack(self, rules: MoveRules, instances: Sequence[Instance], careful: bool = False) -> None:
        """Pack the instances of the freed nodes, and then repair a shortage of the reserve."""
        aim = self._aim
        balancing = self._balancing = BalanceProblem(
            self.state, aim.scope, self._fixed, instances, rules, aim.relations
        )
        self.entries = pack(balancing, self.off, aim.reserve, careful)
        self.check(0.0)
        if self.problem:
            self.repair()

    def check(self, score: float) -> None:
        """Set `problem` to the requirement that the present state breaks; `score` is its score."""
        self._score = score
        self.problem = self._homeless() or self._lacking() or self._lost()

    def overbooks(self) -> bool:
        """Return whether a node lacks memory for failovers, except those of `Aim.full`."""
        nodes, aim = self._aim.cluster.nodes, self._aim
        stay = [index for index in aim.scope if nodes[index].online]
        return any(self.state.fails_n1(index) for index in stay if index not in aim.full)

    def distance(self) -> tuple[bool, float]:
        """Return how far the state is from the requirements; smaller is better."""
        aim = self._aim
        return bool(self._homeless()), aim.reserve.shortage(self.state, aim.scope)

    def repair(self) -> None:
        """Move instances so that the reserve lacks less, if nothing else is wrong."""
        problem, aim = self._balancing, self._aim
        if problem is None or self._homeless():
            return
        first = len(self.entries)

        def shortage(attempt: Attempt) -> tuple[float]:
            return (aim.reserve.shortage(attempt.state, aim.scope),)

        def ended() -> str:
            return "no more moves" if len(self.entries) - first >= LONGEST_REPAIR else ""

        moves = [ReserveMove(problem, aim.reserve)]
        LocalSearch(moves, shortage, Acceptance(ended), aim.limits.deadline).run(self)
        if len(self.entries) > first:
            self._score = self.entries[-1].score
            self.problem = self._lacking() or self._lost()

    def _homeless(self) -> str:
        """Return which instance is on a node that must be empty, or ""."""
        aim, nodes = self._aim, self._aim.cluster.nodes
        for index in aim.scope if aim.evacuate else ():
            held = [] if nodes[index].online else list(self.state.primaries[index].values())
            held += self.state.secondaries[index].values() if index in self.off else ()
            if held:
                largest = max(held, key=lambda instance: instance.memory)
                return (
                    f"instance {largest.name} ({largest.memory} MiB) on {nodes[index].name} "
                    "has no other place"
                )
        return ""

    def _lacking(self) -> str:
        """Return a node without the reserve, or ""."""
        aim = self._aim
        for index, reason in aim.reserve.missing(self.state, aim.scope).items():
            name = aim.cluster.nodes[index].name
            return f"{name} could not take one more instance: {reason}"
        return ""

    def _lost(self) -> str:
        """Return a failure that must be tolerated and is not, or ""."""
        return self._aim.failures.on(self.state).comparison.problem()


class ReserveStep:
    """One move of a repair."""

    def __init__(self, chosen: ScoredMoves) -> None:
        self._chosen = chosen

    def apply(self, state: Attempt) -> None:
        """Move the instance in `state`, and add the move to the plan."""
        move = self._chosen.moves[0]
        move.apply(state.state)
        state.entries.append(PlanEntry(move, self._chosen.score))


class ReserveMove(Neighbourhood[Attempt, ReserveStep]):
    """The move that reduces the shortage of the reserve most, of some moves with low scores."""

    name = "reserve"

    def __init__(self, problem: BalanceProblem, reserve: Headroom) -> None:
        self._problem = problem
        self._reserve = reserve

    def best(
        self, state: Attempt, objective: Objective, allows: Callable[[ReserveStep], bool]
    ) -> ReserveStep | None:
        """Return the best move of an instance on a node that lacks the reserve."""
        problem, reserve = self._problem, self._reserve
        missing = set(reserve.missing(problem.state, problem.scope))
        affected = [
            one
            for one in problem.instances
            if not missing.isdisjoint(problem.state.where[one.name])
        ]
        if not affected:
            return None
        narrow = BalanceProblem(
            problem.state, problem.scope, problem.fixed, affected, problem.rules, problem.relations
        )
        best, (least,) = None, objective
        for scored in narrow.scan().lowest(LOOKED_AT, EACH):
            with problem.state.trial():
                scored.moves[0].apply(problem.state)
                left = reserve.shortage(problem.state, problem.scope)
            if left < least:
                best, least = scored, left
        return None if best is None else ReserveStep(best)


class CapacityBounds:
    """Bounds from sums over the nodes of `scope`; each call costs one pass over the nodes.

    Each call uses the present condition of the nodes: online or not.
    """

    def __init__(
        self, state: State, scope: Sequence[int], reserve: Headroom, failures: FailureTolerance
    ) -> None:
        self._nodes = state.cluster.nodes
        self._scope = scope
        self._failures = failures.on(state)
        self._slack = {index: reserve.slack(state, index) for index in scope}
        self._free = list(state.columns[MEMORY])
        self._held = {index: _held(state, index) for index in scope}
        self._first = {index: next(iter(state.primaries[index]), "") for index in scope}

    def hopeless(self, off: Collection[int]) -> str:
        """Return why instances of the nodes `off` cannot all move to online ones, or ""."""
        online = [index for index in self._scope if self._nodes[index].online]
        if not online:
            held = next((self._first[index] for index in off if self._first[index]), "")
            return f"no other node is online in the group for instance {held}" if held else ""
        leaving = [index for index in self._scope if index in off]
        # what the online nodes lack, each with its reserve
        memory, later, cpus = (
            sum(self._slack[index][k] for index in online)
            - sum(self._held[index][k] for index in leaving)
            for k in range(3)
        )
        if min(memory, later) < 0:
            return f"the online nodes would lack {-min(memory, later):.0f} MiB of memory in all"
        if cpus < 0:
            return f"the online nodes would lack {-cpus:.1f} virtual cpus in all"
        return self._lost(online, leaving)

    def may_free(self, size: int, candidates: Sequence[int]) -> bool:
        """Return whether sums allow that some `size` of `candidates` are freed.

        A node that is freed takes its own slack away, and its instances need that of others. So the
        nodes with the smallest sums of both are the best ones for each resource alone.
        """
        online = [index for index in self._scope if self._nodes[index].online]
        for k in range(3):
            parts = sorted(self._slack[index][k] + self._held[index][k] for index in candidates)
            if sum(self._slack[index][k] for index in online) < sum(parts[:size]):
                return False
        failing = self._failures.comparison.required(MOVED)
        largest = sorted((self._empty(one) for one in failing if len(one) == 1), reverse=True)
        if len(largest) <= size:
            return True
        # the largest node that certainly stays fails
        least = sum(sorted(self._empty((index,)) for index in candidates)[:size])
        return largest[size] + least <= sum(self._free[index] for index in online)

    def _lost(self, online: Sequence[int], leaving: Sequence[int]) -> str:
        """Return a failure that no placement on the online nodes tolerates, or ""."""
        failing = self._failures.comparison.required(MOVED)
        if not failing:
            return ""
        place = {index: k for k, index in enumerate(online)}
        worst = max(failing, key=lambda one: (self._empty(one), -place[one[0]]))
        free = sum(self._free[index] for index in online)
        lacking = self._empty(worst) + sum(self._held[index][0] for index in leaving) - free
        if lacking <= 0:
            return ""
        name = " and ".join(self._nodes[index].name for index in worst)
        others = f"the other nodes are short of {lacking:.0f} MiB of memory in total"
        return f"the failure of {name} would not be tolerated: {others}"

    def _empty(self, failure: Failure) -> float:
        """Return MiB of memory for instances on the nodes of `failure`, without any there."""
        return sum(self._free[index] + self._held[index][0] for index in failure)


def _held(state: State, index: int) -> tuple[float, float, float]:
    """Return the MiB that primaries use, the MiB if all of them run, and their virtual cpus."""
    instances = state.primaries[index].values()
    running = sum(one.memory for one in instances if one.uses_memory)
    cpus = sum(one.vcpus for one in instances if not one.admin_offline)
    return running, sum(one.memory for one in instances), cpus


BALANCING_BUDGET = 60_000_000
"""The work of balancing all sets of nodes that packing did not free, one to two seconds.

A move costs instances × nodes, and `COST_OF_MOVE`. A set of nodes is not balanced if moving the
instances off its nodes twice, in two ways, costs more than what is left.
"""

COST_OF_MOVE = 165_000
"""The part of the cost of a move that does not depend on the size of the group."""

MOST_PLACES = 100_000
"""Exact search is tried up to so many instances × nodes, multiplied by the thoroughness."""

FEW_SETS = 1_000
"""So many sets of nodes are checked for a bound, each by sums over the nodes."""

CLASSES = 12
"""How many classes of memory are formed to move instances, the largest first."""


class Feasibility:
    """Plans for the nodes of one group.

    Parameters
    ----------
    aim:
        The requirements of every attempt.
    instances:
        The instances of the group that may move, in the order that breaks ties.
    lighter:
        Those of `instances` that move without copying disks; they are tried alone first.
    budget:
        The budget of exact search, which is tried if moving one instance after the other does not
        suffice; None: no exact search.
    thoroughness:
        The factor of the work of all searches. Above 1, exact search comes before balancing, which
        takes longer and proves nothing.
    """

    def __init__(
        self,
        aim: Aim,
        state: State,
        instances: Sequence[Instance],
        lighter: Sequence[Instance],
        *,
        ignore_soft: bool = False,
        behaviour: Behaviour = OURS,
        budget: Deadline | None = None,
        thoroughness: int = 1,
    ) -> None:
        self.aim = aim
        self.thoroughness = thoroughness
        self._impossible: set[frozenset[int]] = set()
        self._empty: dict[int, bool] = {}
        self.behaviour = behaviour
        self.budget = budget
        self._movable_sets = [lighter] if len(lighter) == len(instances) else [lighter, instances]
        self._bounds = CapacityBounds(state, aim.scope, aim.reserve, aim.failures)
        self._effort = BALANCING_BUDGET * thoroughness
        self._cost_of_move = len(instances) * len(aim.scope) + COST_OF_MOVE
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
    ) -> FeasibilityResult:
        """Return a plan with the nodes `off` offline and `on` online.

        By default, the fastest method is used. `tidy`: the method that balances best.

        Raises
        ------
        Stopped
            If the run is interrupted.
        """
        off = frozenset(off)
        with Switched(self.aim.cluster, off, on):
            if self.behaviour.squeezes_by_balancing:
                attempt = Attempt(self.aim, off, True)
                attempt.follow([(self._whole, self._movable_sets[-1])])
                return attempt.outcome()
            hopeless = "" if tidy else self._bounds.hopeless(off)
            if hopeless:
                return FeasibilityResult((), 0.0, hopeless)
            if off and not tidy and self._packs:
                # Pack, first the lighter instances alone
                rules = self._whole.while_leaving(off)
                for instances in self._movable_sets:
                    attempt = Attempt(self.aim, off, False)
                    attempt.pack(rules, instances)
                    if not attempt.problem and attempt.overbooks():
                        attempt = Attempt(self.aim, off, False)
                        attempt.pack(rules, instances, careful=True)
                    if not attempt.problem:
                        break
                packed = attempt.outcome()
                packed.packed = True
                if not packed.problem:
                    return packed
                if self.thoroughness > 1:
                    exact = self._exactly(attempt)
                    if not exact.problem or off in self._impossible:
                        return exact
                leaving = sum(not off.isdisjoint(i.nodes) for i in self._movable_sets[-1])
                if 2 * leaving * self._cost_of_move > self._effort:
                    return packed
            near: Attempt | None = None
            for way in self._ways(off, tidy):
                attempt = Attempt(self.aim, off, tidy)
                attempt.follow(way)
                self._effort -= len(attempt.entries) * self._cost_of_move
                if not attempt.problem or self.aim.limits.deadline.over():
                    return attempt.outcome()
                if near is None or attempt.distance() < near.distance():
                    near = attempt
            assert near is not None
            near.repair()
            searched = self._packs and self.thoroughness > 1 and not tidy
            return near.outcome() if searched or not near.problem else self._exactly(near)

    def score(self, off: Collection[int], entries: Sequence[PlanEntry], each: bool) -> float:
        """Record the score after each of the packed moves, and return the last score.

        Without `each` note the last score at each move, which is faster.
        """
        with Switched(self.aim.cluster, off):
            state = State(self.aim.cluster)
            if each:
                fixed = Capacities(self.aim.cluster.nodes, scope=self.aim.scope)
                rules = self._whole.while_leaving(off)
                return rescore(
                    BalanceProblem(state, self.aim.scope, fixed, (), rules, self.aim.relations),
                    entries,
                )
            replay(state, (entry.move for entry in entries))
            last = score_of(state, self.aim.scope)
            for entry in entries:
                entry.score = last
            return last

    def _exactly(self, near: Attempt) -> FeasibilityResult:
        """Return the result of exact search, or `near` if it finds none or is not tried."""
        movable = self._movable_sets[0]
        places = len(movable) * len(self.aim.scope)
        if self.budget is None or self.budget.must_end or places > MOST_PLACES * self.thoroughness:
            return near.outcome()

        rules = self._whole.while_leaving(near.off)
        entries, proved = Arrangement(
            self.aim.cluster,
            self.aim.scope,
            self.aim.reserve,
            self.aim.failures,
            rules,
            self.aim.evacuate,
            self.aim.relations,
            self.thoroughness,
        ).find(movable, self.budget)
        if entries is None:
            result = near.outcome()
            # The search moves instances on shared storage only
            if proved and len(self._movable_sets) == 1 and all(one.shared for one in movable):
                result.problem += f" ({PROVED})"
                self._impossible.add(near.off)
            return result
        score = entries[-1].score if entries else near.outcome().score
        return FeasibilityResult(entries, score, "")

    def without_moves(self, on: Collection[int]) -> FeasibilityResult:
        """Return the result of switching the nodes `on` online without any moves."""
        with Switched(self.aim.cluster, on=on):
            attempt = Attempt(self.aim, frozenset(), False)
            attempt.check(score_of(State(self.aim.cluster), self.aim.scope))
            return attempt.outcome()

    @property
    def impossible(self) -> Collection[frozenset[int]]:
        """Return the sets of nodes that exact search has proved not to be possible to free."""
        return self._impossible

    def hopeless(self, off: Collection[int]) -> str:
        """Return why the nodes `off` cannot be freed, by the bounds alone, or ""."""
        with Switched(self.aim.cluster, off):
            return self._bounds.hopeless(off)

    def most_freed(
        self, candidates: Sequence[int], known: int, proved: Collection[frozenset[int]] = ()
    ) -> int:
        """Return an upper bound of how many of `candidates` can be freed; `known` of them can.

        `proved`: sets of nodes that cannot be freed, see `impossible`.

        Cost: sums for each number of nodes, and for each set of a number that has few sets.
        """
        for size in range(len(candidates), known, -1):
            check()
            if not self._bounds.may_free(size, candidates):
                continue
            if comb(len(candidates), size) > FEW_SETS:
                return size
            if not all(
                self._includes(frozenset(off), proved) or self.hopeless(off)
                for off in combinations(candidates, size)
            ):
                return size
        return known

    def _includes(self, off: frozenset[int], proved: Collection[frozenset[int]]) -> bool:
        """Return whether one of the sets `proved` shows that the nodes `off` cannot be freed.

        A plan that frees more nodes than such a set would free the set as well: the other nodes are
        empty then, and may stay online if each of them alone has the reserve.
        """
        return off in proved or any(
            some < off and all(map(self._has_reserve_if_empty, off - some)) for some in proved
        )

    def _has_reserve_if_empty(self, index: int) -> bool:
        """Return whether a node without instances has the reserve."""
        if index not in self._empty:
            state = State(self.aim.cluster)
            for instance in [*state.instances_on(index)]:
                state.remove(instance, state.where[instance.name])
            self._empty[index] = not self.aim.reserve.lacks(state, index)
        return self._empty[index]

    def _ways(self, off: frozenset[int], tidy: bool) -> Iterator[list[Phase]]:
        """Yield several ways to move the instances, each in phases."""
        for instances in self._movable_sets:
            whole: Phase = (self._whole, instances)
            ways = [[(self._first, instances), whole]]
            if self.thoroughness > 1 and (tidy or self._cheap):
                ways.append([whole])
            # the instances on freed nodes in classes of memory, the largest first
            leaving = [i for i in instances if not off.isdisjoint(i.nodes)]
            leaving.sort(key=lambda instance: -instance.memory)
            size = max(1, -(-len(leaving) // CLASSES))
            classes = [leaving[k : k + size] for k in range(0, len(leaving), size)]
            if len(classes) > 1:
                # for shared storage, this is faster, and mostly gives a lower score
                first = 0 if all(instance.shared for instance in leaving) else len(ways)
                ways.insert(first, [*((self._first, some) for some in classes), whole])
            yield from ways
