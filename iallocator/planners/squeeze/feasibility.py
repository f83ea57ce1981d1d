"""Find moves after which given nodes can be powered down, or after which all nodes have a reserve.

`Feasibility.find` answers the question of `squeeze`: is there a plan after which every instance is
on an online node, and every online node has free capacity for the reserve?

Bounds are checked first (`CapacityBounds`).  Moves change neither the total use of instances nor
the capacity of an empty node. So with some nodes off, the other nodes must have capacity for the
total use and for the reserve of each of them.  If one of these nodes fails, the rest must have
capacity for all instances.

Then moves are made in a separate state (`Attempt`).  Balancing compares only scores. It may leave a
node without the reserve although other nodes have more than the reserve.  In this case, further
moves reduce the shortage (`Attempt.repair`).  The nodes of a packed plan are balanced once more as
if the reserves were in use (`Attempt.follow_beside_reserve`).
"""

from __future__ import annotations

from itertools import combinations
from math import comb

from iallocator.compat import OURS
from iallocator.deadline import check
from iallocator.light import ValueObject, copy
from iallocator.model.columns import MEMORY
from iallocator.model.moves import replay
from iallocator.model.node_view import Capacities
from iallocator.model.state import State
from iallocator.n1 import MOVED_WITHIN
from iallocator.planners.balance.descent import Descent
from iallocator.planners.balance.move_kinds import MoveRules
from iallocator.planners.balance.plan_builder import BalanceProblem
from iallocator.planners.direct import rescore
from iallocator.planners.plan import PlanEntry
from iallocator.planners.power_state import Switched
from iallocator.planners.search import Acceptance, LocalSearch, Neighbourhood
from iallocator.planners.squeeze.emptying import PROVED, Arrangement, pack

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from iallocator.aliases import Nodes
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
"""The largest number of moves of one repair."""

LOOKED_AT = 30
"""The largest number of moves that are tried for each step of a repair: those of lowest score."""

REPAIRS_PER_INSTANCE = 4
"""The largest number of moves of one instance that are tried for each step of a repair."""


if TYPE_CHECKING:
    Phase = tuple[MoveRules, Sequence[Instance]]


class Aim(ValueObject):
    """The requirements for the plans of one group.

    Attributes
    ----------
    scope:
        The indices of the nodes of the group, in the order that decides ties.
    reserve:
        The reserve that each online node must have after the plan.
    limits:
        When balancing stops.
    failures:
        N+1 of the group, measured in the initial state. It decides which failures must be
        tolerated after the plan.
    evacuate:
        Whether every instance must be on an online node after the plan.
    full:
        The indices of nodes that may lack memory for failovers: they lack it initially, or soft
        limits are ignored.
    relations:
        The affinity constraints of the instances; None if there are none.
    progress:
        Called with the plan of a balancing after each of its steps.
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
    """The result of a search for moves that allow a set of nodes to be switched.

    Attributes
    ----------
    entries, score:
        The moves, and the score of the group after them, with the nodes switched.
    problem:
        The requirement that the moves do not meet, in words; "" if they meet all requirements.
    loses_n1:
        Whether a failure that must be tolerated is not tolerated after the moves. This is checked
        only if there is a problem, and the search does not free nodes.
    shortage:
        The sum of the amounts that the online nodes lack of the reserve: MiB of memory plus virtual
        cpus. The sum is computed only if there is a problem, and the search does not free nodes.
    packed:
        Whether the moves come from packing, so that their scores are not known yet; see
        `Feasibility.score`.
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
    """One attempt to meet the requirements `aim`, by moves in a separate state.

    `tidy`: make the moves of all phases, even if fewer moves meet the requirements.

    Attributes
    ----------
    off:
        The nodes to free.
    state, entries:
        The state after the moves made so far, and these moves.
    problem:
        The requirement that the state does not meet, in words; "" if it meets all requirements.
    """

    def __init__(self, aim: Aim, off: frozenset[int], tidy: bool) -> None:
        self._aim = aim
        self.off = off
        self._tidy = tidy
        self.state = State(aim.cluster)
        self._fixed = Capacities(aim.cluster.nodes, scope=aim.scope)
        self._balancing: BalanceProblem | None = None
        self._way: Sequence[Phase] = ()
        self._made = 0  # the number of phases of `_way` that are made
        self._centres: Sequence[float] | None = None
        self._score = 0.0
        self.entries: list[PlanEntry] = []
        self.problem = ""

    def outcome(self) -> FeasibilityResult:
        """Return the moves of this attempt, and the requirement that they do not meet."""
        unsolved = bool(self.problem) and not self._aim.evacuate
        loses_n1 = (
            unsolved and self._aim.failures.on(self.state).comparison.first_broken() is not None
        )
        result = FeasibilityResult(self.entries, self._score, self.problem, loses_n1)
        if unsolved:
            result.shortage = self._aim.reserve.shortage(self.state, self._aim.scope)
        return result

    def follow(self, way: Sequence[Phase]) -> None:
        """Make the moves of each phase of `way` by balancing.

        Unless the attempt is `tidy`, stop after the first phase that meets all requirements.
        """
        self._way = way
        self._continue()

    def follow_beside_reserve(self, way: Sequence[Phase]) -> None:
        """Make the moves of each phase of `way` as if the reserves were in use.

        So no move takes the reserve of a node. The scores of the moves are not valid.
        """
        aim, nodes = self._aim, self._aim.cluster.nodes
        reserves: list[tuple[Instance, Nodes]] = []
        for index in aim.scope:
            if nodes[index].online:
                instance = copy(aim.reserve.instance)
                instance.name = f"reserve of {nodes[index].name}"
                reserves.append((instance, (index,)))
        for instance, place in reserves:
            self.state.place(instance, place)
        for phase in way:
            self._balance(phase)
        for instance, place in reserves:
            self.state.remove(instance, place)
        self.check(0.0)

    def follows(self, way: Sequence[Phase]) -> bool:
        """Return whether the moves made so far are those of phases of `way`."""
        return self._made > 0 and self._way == way

    def tidied(self) -> Attempt:
        """Return a tidy attempt that begins with the moves of this one, and makes those of the
        phases that are left. This attempt must not be used any more.
        """
        attempt = copy(self)
        attempt._tidy = True
        attempt.entries = [copy(entry) for entry in self.entries]
        attempt._continue()
        return attempt

    def _continue(self) -> None:
        for phase in self._way[self._made :]:
            score = self._balance(phase)
            self._made += 1
            if self._made == len(self._way) or not self._tidy:
                self.check(score)
                if not self.problem:
                    return

    def _balance(self, phase: Phase) -> float:
        """Make the moves of one phase by balancing; return the score after them."""
        aim, (rules, instances) = self._aim, phase
        now = rules.while_leaving(self.off)
        self._balancing = BalanceProblem(
            self.state, aim.scope, self._fixed, instances, now, aim.relations,
            centres=self._centres,
        ).with_penalties_of(self._balancing)  # fmt: skip
        if self._centres is None:  # all phases compute scores relative to the centres of one
            self._centres = self._balancing.means()
        plan = Descent(self._balancing, aim.limits, aim.progress).run()
        replay(self.state, plan.moves)
        self.entries += plan.entries
        return plan.after

    def pack(self, rules: MoveRules, instances: Sequence[Instance], careful: bool = False) -> None:
        """Move `instances` off the freed nodes by packing, and then repair a lack of the reserve.

        `careful`: see `pack` of `iallocator.planners.squeeze.emptying`.
        """
        aim = self._aim
        balancing = self._balancing = BalanceProblem(
            self.state, aim.scope, self._fixed, instances, rules, aim.relations
        )
        self.entries = pack(balancing, self.off, aim.reserve, careful)
        self.check(0.0)
        if self.problem:
            self.repair()

    def check(self, score: float) -> None:
        """Set `problem` to a requirement that the present state does not meet; "" if none.

        `score`: the score of the group in this state.
        """
        self._score = score
        self.problem = self._homeless() or self._lacking() or self._lost()

    def overbooks(self) -> bool:
        """Return whether an online node that is not in `Aim.full` lacks memory for failovers."""
        nodes, aim = self._aim.cluster.nodes, self._aim
        stay = [index for index in aim.scope if nodes[index].online]
        return any(self.state.fails_n1(index) for index in stay if index not in aim.full)

    def distance(self) -> tuple[bool, float]:
        """Return how far the state is from the requirements, as a tuple; smaller is better.

        The tuple has whether an instance must still move, and the shortage of the reserve.
        """
        aim = self._aim
        return bool(self._homeless()), aim.reserve.shortage(self.state, aim.scope)

    def repair(self) -> None:
        """Make moves that reduce the shortage of the reserve, at most `LONGEST_REPAIR`.

        No move is made while an instance is on a node that must be empty.
        """
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
        """Return which instance is still on a node that must be empty, in words; "" if none."""
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
        """Return which online node lacks the reserve, and why, in words; "" if none."""
        aim = self._aim
        for index, reason in aim.reserve.missing(self.state, aim.scope).items():
            name = aim.cluster.nodes[index].name
            return f"{name} could not take one more instance: {reason}"
        return ""

    def _lost(self) -> str:
        """Return which required failure is not tolerated, in words; "" if none."""
        return self._aim.failures.on(self.state).comparison.problem()


class ReserveStep:
    """One move of a repair."""

    def __init__(self, chosen: ScoredMoves, fixed_penalty: float) -> None:
        self._chosen = chosen
        self._fixed_penalty = fixed_penalty

    def apply(self, state: Attempt) -> None:
        """Move the instance in `state`, and add the move to the plan."""
        move = self._chosen.moves[0]
        move.apply(state.state)
        state.entries.append(PlanEntry(move, self._chosen.score + self._fixed_penalty))


class ReserveMove(Neighbourhood[Attempt, ReserveStep]):
    """The neighbourhood of a repair: moves of instances on nodes that lack the reserve.

    Of the moves with the lowest scores, the best one reduces the shortage of the reserve most.
    """

    name = "reserve"

    def __init__(self, problem: BalanceProblem, reserve: Headroom) -> None:
        self._problem = problem
        self._reserve = reserve

    def best(
        self, state: Attempt, objective: Objective, allows: Callable[[ReserveStep], bool]
    ) -> ReserveStep | None:
        """Return the move that reduces the shortage of the reserve most; None if no move does."""
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
        ).with_penalties_of(problem)
        best, (least,) = None, objective
        for scored in narrow.scan().lowest(LOOKED_AT, REPAIRS_PER_INSTANCE):
            with problem.state.trial():
                scored.moves[0].apply(problem.state)
                left = reserve.shortage(problem.state, problem.scope)
            if left < least:
                best, least = scored, left
        return None if best is None else ReserveStep(best, problem.fixed_penalty)


class CapacityBounds:
    """Tests by sums over the nodes of `scope` whether nodes can be freed.

    The tests only exclude: a set of nodes that passes them may still be impossible to free. Each
    test uses the present condition of the nodes, online or not. Cost of a test: one pass over the
    nodes.
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

    def infeasibility(self, off: Collection[int]) -> str:
        """Return why the instances of the nodes `off` cannot all move to online nodes, or "".

        The nodes `off` must be offline in the cluster at the time of the call.
        """
        online = [index for index in self._scope if self._nodes[index].online]
        if not online:
            held = next((self._first[index] for index in off if self._first[index]), "")
            return f"no other node is online in the group for instance {held}" if held else ""
        leaving = [index for index in self._scope if index in off]
        # The free capacity of the online nodes beside their reserves, once the instances have moved
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
        """Return whether the sums allow that some set of `size` nodes of `candidates` is freed.

        A freed node takes its own slack away, and its instances use slack of other nodes. So for
        each resource alone, the best nodes to free have the smallest sums of their slack and their
        use.
        """
        online = [index for index in self._scope if self._nodes[index].online]
        for k in range(3):
            parts = sorted(self._slack[index][k] + self._held[index][k] for index in candidates)
            if sum(self._slack[index][k] for index in online) < sum(parts[:size]):
                return False
        failing = self._failures.comparison.required(MOVED_WITHIN)
        largest = sorted((self._empty(one) for one in failing if len(one) == 1), reverse=True)
        if len(largest) <= size:
            return True
        # Suppose that the largest node that certainly stays online fails
        least = sum(sorted(self._empty((index,)) for index in candidates)[:size])
        return largest[size] + least <= sum(self._free[index] for index in online)

    def _lost(self, online: Sequence[int], leaving: Sequence[int]) -> str:
        """Return which failure no placement on the online nodes tolerates, in words; or "".

        The instances of the nodes `leaving` must move to the nodes `online`.
        """
        failing = self._failures.comparison.required(MOVED_WITHIN)
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
        """Return the MiB of memory that the nodes of `failure` have free if they are empty."""
        return sum(self._free[index] + self._held[index][0] for index in failure)


def _held(state: State, index: int) -> tuple[float, float, float]:
    """Return what the primary instances of node `index` use.

    The result has the MiB of memory that they use now, the MiB if all of them run, and their
    virtual cpus.
    """
    instances = state.primaries[index].values()
    running = sum(one.memory for one in instances if one.uses_memory)
    cpus = sum(one.vcpus for one in instances if not one.admin_offline)
    return running, sum(one.memory for one in instances), cpus


BALANCING_BUDGET = 60_000_000
"""The budget for balancing the sets of nodes that packing did not free: one to two seconds.

A move costs instances × nodes, plus `COST_OF_MOVE`. Balancing is not tried for a set of nodes if
the rest of the budget is less than the cost of two moves of each instance on these nodes.
"""

COST_OF_MOVE = 165_000
"""The part of the cost of a move that does not depend on the size of the group."""

MOST_PLACES = 100_000
"""The largest product of instances and nodes for which exact search is tried.

This number is multiplied by the thoroughness.
"""

FEW_SETS = 1_000
"""The largest number of sets of nodes of one size that are checked one by one for a bound."""

MOST_MEMORY_CLASSES = 12
"""The largest number of classes by memory; the class of the largest instances moves first."""


class Feasibility:
    """Finds plans after which nodes of one group can be switched.

    Parameters
    ----------
    aim:
        The requirements of every attempt.
    instances:
        The instances of the group that may move, in the order that breaks ties.
    lighter:
        The instances of `instances` that are tried alone at first: those on shared storage if
        only such instances are selected, else all instances.
    ignore_soft:
        Whether soft limits are ignored.
    behaviour:
        The differences between this program and htools.
    budget:
        The budget of exact search, which is tried if moving one instance after the other does not
        meet the requirements; None: no exact search.
    thoroughness:
        The factor of the work of all searches, 1 or more. Above 1, exact search is tried before
        balancing, because balancing takes longer and proves nothing.
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
        # The last nodes off and on for which balancing met the requirements, and its attempt
        self._known: tuple[frozenset[int], frozenset[int], Attempt] | None = None
        self._effort = BALANCING_BUDGET * thoroughness
        self._cost_of_move = len(instances) * len(aim.scope) + COST_OF_MOVE
        relations = aim.relations
        colocated = relations is not None and relations.colocates
        self._packs = behaviour is OURS and aim.evacuate and not colocated
        self._cheap = all(instance.shared for instance in lighter)
        self._whole = MoveRules(ignore_soft=ignore_soft, behaviour=behaviour)
        self._first = MoveRules(evacuate_only=True, ignore_soft=ignore_soft, behaviour=behaviour)

    def find(
        self,
        off: Collection[int] = (),
        on: Collection[int] = (),
        tidy: bool = False,
    ) -> FeasibilityResult:
        """Return a plan after which the nodes `off` can be offline and the nodes `on` are online.

        By default, the fastest method is used. `tidy`: the method with the best balance is used.

        Raises
        ------
        Stopped
            If the run is interrupted.
        """
        off = frozenset(off)
        with Switched(self.aim.cluster, off, on):
            infeasibility = "" if tidy else self._bounds.infeasibility(off)
            if infeasibility:
                return FeasibilityResult((), 0.0, infeasibility)
            if self.behaviour.squeezes_by_balancing:
                attempt = Attempt(self.aim, off, True)
                attempt.follow([(self._whole, self._movable_sets[-1])])
                return attempt.outcome()
            if off and not tidy and self._packs:
                # Pack the lighter instances alone at first
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
                known = self._attempt(off, frozenset(on), way) if tidy else None
                if known is None:
                    attempt = Attempt(self.aim, off, tidy)
                    attempt.follow(way)
                else:
                    attempt = known.tidied()
                self._effort -= len(attempt.entries) * self._cost_of_move
                if not attempt.problem and not tidy:
                    self._known = off, frozenset(on), attempt
                if not attempt.problem or self.aim.limits.deadline.over():
                    return attempt.outcome()
                if near is None or attempt.distance() < near.distance():
                    near = attempt
                if tidy and self._packs:
                    attempt = Attempt(self.aim, off, tidy)
                    attempt.follow_beside_reserve(way)
                    if not attempt.problem:
                        found = attempt.outcome()
                        found.packed = True
                        return found
            assert near is not None
            near.repair()
            searched = self._packs and self.thoroughness > 1 and not tidy
            return near.outcome() if searched or not near.problem else self._exactly(near)

    def _attempt(
        self, off: frozenset[int], on: frozenset[int], way: Sequence[Phase]
    ) -> Attempt | None:
        """Return an attempt that has made the first phases of `way` for the nodes `off` and `on`,
        or None. It is returned once.
        """
        if self._known is None:
            return None
        *nodes, attempt = self._known
        if nodes != [off, on] or not attempt.follows(way):
            return None
        self._known = None
        return attempt

    def score(self, off: Collection[int], entries: Sequence[PlanEntry], each: bool) -> float:
        """Set the score of each move of `entries`, which come from packing; return the last score.

        The nodes `off` are switched off. Without `each`, every move has the score after the last
        move, which is faster.
        """
        with Switched(self.aim.cluster, off):
            problem = self._present(off)
            if each:
                return rescore(problem, entries)
            replay(problem.state, (entry.move for entry in entries))
            last = problem.present_score()
            for entry in entries:
                entry.score = last
            return last

    def present_score(self) -> float:
        """Return the score of the group before any move, with penalties of soft constraints."""
        return self._present().present_score()

    def _present(self, off: Collection[int] = ()) -> BalanceProblem:
        """Return the group in its present state, without instances to move, to compute scores."""
        cluster, scope = self.aim.cluster, self.aim.scope
        fixed, rules = Capacities(cluster.nodes, scope=scope), self._whole.while_leaving(off)
        return BalanceProblem(State(cluster), scope, fixed, (), rules, self.aim.relations)

    def _exactly(self, near: Attempt) -> FeasibilityResult:
        """Return the result of exact search, with the nodes of the attempt `near` switched.

        If exact search finds no plan or is not tried, return the result of `near`.
        """
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
            # The search moves only instances on shared storage: else it proves nothing
            if proved and len(self._movable_sets) == 1 and all(one.shared for one in movable):
                result.problem += f" ({PROVED})"
                self._impossible.add(near.off)
            return result
        return FeasibilityResult(entries, rescore(self._present(near.off), entries), "")

    def without_moves(self, on: Collection[int]) -> FeasibilityResult:
        """Return the result of powering on the nodes `on` without any move."""
        with Switched(self.aim.cluster, on=on):
            attempt = Attempt(self.aim, frozenset(), False)
            attempt.check(self.present_score())
            return attempt.outcome()

    @property
    def impossible(self) -> Collection[frozenset[int]]:
        """Return the sets of nodes for which exact search has proved that they cannot be freed."""
        return self._impossible

    def infeasibility(self, off: Collection[int]) -> str:
        """Return why the bounds exclude that the nodes `off` are freed; "" if they do not."""
        with Switched(self.aim.cluster, off):
            return self._bounds.infeasibility(off)

    def most_freed(
        self, candidates: Sequence[int], known: int, proved: Collection[frozenset[int]] = ()
    ) -> int:
        """Return an upper bound of the number of `candidates` that can be freed together.

        `known`: the number of candidates that a known plan frees. `proved`: sets of nodes that
        cannot be freed, see `impossible`.

        Cost: sums over the nodes for each number of freed nodes. If a number has few sets of nodes,
        also sums for each set.
        """
        for size in range(len(candidates), known, -1):
            check()
            if not self._bounds.may_free(size, candidates):
                continue
            if comb(len(candidates), size) > FEW_SETS:
                return size
            if not all(
                self._includes(frozenset(off), proved) or self.infeasibility(off)
                for off in combinations(candidates, size)
            ):
                return size
        return known

    def _includes(self, off: frozenset[int], proved: Collection[frozenset[int]]) -> bool:
        """Return whether one of the sets `proved` shows that the nodes `off` cannot be freed.

        A set of `proved` cannot be freed. If `off` includes the set, a plan that frees `off` also
        frees the set: the other nodes of `off` are empty then, and can stay online if each of them
        has the reserve when empty. So there is no such plan.
        """
        return off in proved or any(
            some < off and all(map(self._has_reserve_if_empty, off - some)) for some in proved
        )

    def _has_reserve_if_empty(self, index: int) -> bool:
        """Return whether node `index` has the reserve if it is empty."""
        if index not in self._empty:
            state = State(self.aim.cluster)
            for instance in [*state.instances_on(index)]:
                state.remove(instance, state.where[instance.name])
            self._empty[index] = not self.aim.reserve.lacks(state, index)
        return self._empty[index]

    def _ways(self, off: frozenset[int], tidy: bool) -> Iterator[list[Phase]]:
        """Yield ways to move the instances off the nodes `off`, each as a list of phases.

        A phase has the rules of its moves, and the instances that may move.
        """
        for instances in self._movable_sets:
            whole: Phase = (self._whole, instances)
            ways = [[(self._first, instances), whole]]
            if self.thoroughness > 1 and (tidy or self._cheap):
                ways.append([whole])
            # The instances on freed nodes in classes by memory, the largest class first
            leaving = [i for i in instances if not off.isdisjoint(i.nodes)]
            leaving.sort(key=lambda instance: -instance.memory)
            size = max(1, -(-len(leaving) // MOST_MEMORY_CLASSES))
            classes = [leaving[k : k + size] for k in range(0, len(leaving), size)]
            if len(classes) > 1:
                # For shared storage, moving by classes is faster, and mostly gives a lower score
                first = 0 if all(instance.shared for instance in leaving) else len(ways)
                ways.insert(first, [*((self._first, some) for some in classes), whole])
            yield from ways
