"""Represent the problem that balancing solves, an incomplete plan, and the steps that extend it."""

from __future__ import annotations

from functools import cached_property
from math import inf

from iallocator.model.moves import replay, traffic
from iallocator.planners.plan import Plan, PlanEntry, ends_of_colocation_groups
from iallocator.scoring.rounding import RunningSums
from iallocator.scoring.scalar import score_of
from iallocator.tolerances import GAIN_TOLERANCE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.constraints.relations import Relations
    from iallocator.model.instance import Instance
    from iallocator.model.moves import Move
    from iallocator.model.node_view import Capacities
    from iallocator.model.state import State
    from iallocator.n1.comparison import PassingGuard, PlanGuard
    from iallocator.n1.tolerance import FailureTolerance
    from iallocator.planners.balance.move_kinds import MoveRules, ScoredMoves
    from iallocator.planners.balance.scan.affinity import AffinityCosts
    from iallocator.planners.balance.scan.scan import MoveScan
    from iallocator.planners.plan_limits import StopCriteria
    from iallocator.planners.search import LocalSearch

    Guard = PlanGuard | PassingGuard

    Progress = Callable[[Plan], None]

    Search = LocalSearch["PlanBuilder", "Step"]

__all__ = ["BalanceProblem", "PlanBuilder", "Step", "keep_n1"]


def keep_n1(problem: BalanceProblem, plan: Plan) -> None:
    """Remove the last moves of `plan` until N+1 allows its final state and every state before it.

    All moves of a colocation group are removed together.
    """
    failures, losses, state = problem.failures, problem.losses, problem.state
    if failures is None or losses is None:
        return
    ends = [0, *(k for k, end in enumerate(ends_of_colocation_groups(plan.entries), 1) if end)]
    passing = losses.comparison.passing_guard()
    with state.trial():
        for number, move in enumerate(plan.moves):
            replay(state, [move])
            if not passing.keeps():
                plan.reason = losses.comparison.problem()
                del plan.entries[max(end for end in ends if end <= number) :]
                break
    reason = ""
    while plan.entries:
        with state.trial():
            replay(state, plan.moves)
            if not failures.comparison.broken(rescues=True):
                break
            reason = reason or failures.comparison.problem()
        left = len(plan.entries)
        del plan.entries[max(end for end in ends if end < left) :]
    plan.reason = reason or plan.reason


class BalanceProblem:
    """The nodes of `scope` in `state`, and the `instances` that can move between them.

    Parameters
    ----------
    state:
        The state in which the moves are searched.
    scope, instances:
        Indices of nodes, and instances. Their order decides between moves with equal scores.
    fixed:
        The capacities of every node of the cluster.
    rules:
        Which moves are allowed.
    relations:
        The affinity constraints of the instances; None if there are none. Constraints that do not
        matter for moves in `scope` are ignored.
    failures:
        The failures, measured in the initial state, that must be tolerated in the final state;
        None: N+1 is not checked.
    centres:
        For each statistic, the number from which deviations are computed; None: its mean when a
        scan begins. Two scans with equal centres compute bit-identical scores.

    Attributes
    ----------
    losses:
        `failures` with the rules of ``no-worse``: what cannot be restarted initially after each
        failure. This must not increase after any move.
    fixed_penalty:
        The part of the penalty of soft constraints that no move changes. The search leaves it out;
        it is added to the scores of plans.
    """

    def __init__(
        self,
        state: State,
        scope: Sequence[int],
        fixed: Capacities,
        instances: Sequence[Instance],
        rules: MoveRules,
        relations: Relations | None = None,
        failures: FailureTolerance | None = None,
        centres: Sequence[float] | None = None,
    ) -> None:
        self.state = state
        self._former: BalanceProblem | None = None
        self.losses = None if failures is None else failures.exactly()
        self.centres = centres
        self.failures = failures
        idle = relations is not None and relations.idle_within(scope)
        self.relations = None if idle else relations
        self._idle = relations if idle else None
        self.scope = scope
        self.fixed = fixed
        self.instances = instances
        self.rules = rules

    def with_penalties_of(self, former: BalanceProblem | None) -> BalanceProblem:
        """Return this problem, which uses the penalties of affinity constraints of `former` as far
        as they are still valid.

        `former` must have the state and the `scope` of this problem; None: there is none.
        """
        self._former = former
        return self

    @cached_property
    def fixed_penalty(self) -> float:
        if self._idle is None:
            return 0.0
        return self._idle.penalty_of_spreads(frozenset(self.scope), self.state.where)

    def present_score(self) -> float:
        """Return the score of the present state, with the penalties of soft constraints."""
        score = score_of(self.state, self.scope) + self.fixed_penalty
        if self.affinity is not None:
            score += self.affinity.penalty({index: k for k, index in enumerate(self.scope)})
        return score

    @cached_property
    def affinity(self) -> AffinityCosts | None:
        """Return the violations and penalties of `relations` on each node; None without them."""
        if self.relations is None:
            return None
        if self._former is not None and self._former.relations is self.relations:
            return self._former.affinity
        # loads numpy, which is not needed if no move is searched
        from iallocator.planners.balance.scan.affinity import AffinityCosts

        return AffinityCosts(self.relations, self.relations.live(self.state))

    def scan(self) -> MoveScan:
        """Return a scan of all moves in the present state."""
        # loads numpy, which is not needed if no move is searched
        from iallocator.planners.balance.scan.scan import MoveScan

        scan = MoveScan(
            self.state,
            self.scope,
            self.fixed,
            self.instances,
            self.rules,
            self.affinity,
            self.centres,
        )
        scan.set_traffic(traffic)
        return scan

    def means(self) -> Sequence[float]:
        """Return the centres that a scan of the present state has, see the parameter `centres`."""
        from iallocator.planners.balance.scan.arrays import NodeTable

        return self.centres or NodeTable(self.state, self.scope, self.fixed).centres


class PlanBuilder:
    """An incomplete plan: makes moves on the state and adds them to `plan`.

    Attributes
    ----------
    problem, limits:
        The problem, and when to stop.
    state:
        The state after the moves so far.
    scan:
        Evaluates all moves.
    guard:
        Checks N+1 after each step; None: N+1 is not checked.
    score:
        The score of the state, without the ``fixed_penalty`` of the problem.
    plan:
        The moves so far. After each step, they are a complete plan.
    count:
        The number of moves before the last step.
    deferred:
        Whether single moves are not searched now: the last step had several moves.
    swap_nodes:
        The nodes that have changed since `Swaps` evaluated them.
    barred:
        Whether the scan leaves out moves that `guard` rejected.
    outdated:
        Whether the state has changed since `guard` rejected them, so that it may accept them now.
    """

    def __init__(
        self,
        problem: BalanceProblem,
        limits: StopCriteria,
        progress: Progress,
        guard: Guard | None,
    ) -> None:
        self.problem = problem
        self.state = problem.state
        self.guard = guard
        losses = None if guard is None else problem.losses
        self._passing = None if losses is None else losses.comparison.passing_guard()
        self.limits = limits
        self.scan = problem.scan()
        self._progress = progress
        self.decide = self._decided if problem.rules.behaviour.decides_by_rounding else None
        self.score = self.scan.score()
        self.barred = self.outdated = self.deferred = False
        self.swap_nodes: set[int] = set()
        self.plan = Plan("balance", self.score + problem.fixed_penalty)
        self.count = 0

    def rounding(self) -> float:
        """Return the largest difference of scores that can be a rounding error."""
        return GAIN_TOLERANCE * max(1.0, abs(self.score))

    def gain(self, scored: ScoredMoves) -> float:
        """Return by how much the moves `scored` lower the score; negative if they raise it."""
        return self.score - scored.score

    def helps(self, scored: ScoredMoves) -> bool:
        """Return whether the moves `scored` gain as much as required, and more than rounding."""
        wanted = self.limits.gain_wanted(self.score)
        return self.gain(scored) > self.rounding() and self.gain(scored) >= wanted

    def limit_of_compounds(self) -> float:
        """Return the cluster score below which a step of several moves must end."""
        wanted = self.limits.gain_wanted(self.score)
        share = min(SHARE_PER_NODE * len(self.problem.scope), LARGEST_SHARE)
        return self.score - max(COMPOUND_GAIN, share * self.score, wanted, self.rounding())

    def moves_left(self) -> float:
        """Return how many moves may still be added to the plan; infinity without a limit."""
        longest = self.limits.max_length
        return inf if longest is None else longest - len(self.plan.entries)

    def budget(self) -> float:
        """Return how many MiB further moves may copy; infinity without a limit."""
        if self.limits.cost is None:
            return inf
        return self.limits.cost - self.plan.copied

    def keeps_n1(self, step: Step) -> bool:
        """Return whether N+1 allows the state after `step`, and the states between its moves."""
        if self.guard is None:
            return True
        with self.state.trial():
            for number, some in enumerate(step.moves):
                if number and not self.keeps_on_the_way():
                    return False
                replay(self.state, some.moves)
            return self.guard.keeps() and self.keeps_on_the_way()

    def keeps_at(self, target: Mapping[str, Nodes]) -> bool:
        """Return whether N+1 allows the state in which instances are on their nodes in `target`.

        `target`: name of an instance -> nodes. N+1 allows any state if it is not checked.
        """
        if self.guard is None:
            return True
        instances = {one.name: one for one in self.problem.instances}
        with self.state.trial():
            for name in target:
                self.state.remove(instances[name], self.state.where[name])
            for name, nodes in target.items():
                self.state.place(instances[name], nodes)
            return self.guard.keeps()

    def keeps_on_the_way(self) -> bool:
        """Return whether N+1 allows the present state between two steps of a plan."""
        return self._passing is None or self._passing.keeps()

    def score_after(self, step: Step) -> float:
        """Return the score after a step, which is not made."""
        with self.scan.trial(), self.state.trial():
            for some in step.moves:
                self.try_out(some)
            return self.scan.score()

    def bar(self, scored: ScoredMoves) -> None:
        """Exclude the first move of `scored` from the scan until one of its nodes changes."""
        self.scan.bar(scored.moves[0])
        self.barred = True

    def evaluate_all(self) -> None:
        """Evaluate all moves again, also those that `bar` excluded."""
        self.scan = self.problem.scan()
        self.barred = self.outdated = self.deferred = False

    def _decided(self, equal: list[ScoredMoves]) -> ScoredMoves:
        """Return the one of the moves `equal` that hbal chooses, by the rounding of its scores."""
        if len(equal) > MOST_DECIDED:
            return equal[0]
        state = self.state
        ranks: dict[str, list[int]] = {}
        for rank, scored in enumerate(equal):
            ranks.setdefault(scored.moves[0].instance.name, []).append(rank)
        exact: list[tuple[float, int]] = []
        for some in ranks.values():
            instance = equal[some[0]].moves[0].instance
            with state.trial():
                state.remove(instance, state.where[instance.name])
                sums = RunningSums(state, self.problem.scope, instance)
                places = [equal[rank].moves[0].after for rank in some]
                exact += zip(sums.moved(places), some)
        return equal[min(exact)[1]]

    def make(self, *chosen: ScoredMoves, repairs: bool = False) -> None:
        """Make moves that belong together, and add all of them to the plan as one step.

        `repairs`: whether the moves are made to satisfy a violated hard constraint.
        """
        self.count = len(self.plan.entries)
        made: list[PlanEntry] = []
        self.deferred = len(chosen) > 1
        for one in chosen:
            names = tuple(sorted(move.instance.name for move in one.moves))
            colocated = names if len(names) > 1 else ()
            for move in one.moves:
                self._carry_out(move)
                self.swap_nodes |= move.nodes
                self.outdated = self.barred
                if self.guard is not None:
                    self.guard.moved()
                self.score = self.scan.score()
                score = self.score + self.problem.fixed_penalty
                made.append(PlanEntry(move, score, colocated, repairs))
        self.plan.entries += made
        self.limits.deadline.spare(len(made))
        self._progress(self.plan)

    def try_out(self, scored: ScoredMoves) -> None:
        """Make the moves `scored` on the state; the caller must undo them."""
        for move in scored.moves:
            self._carry_out(move)

    def _carry_out(self, move: Move) -> None:
        move.apply(self.state)
        self.scan.follow(move.nodes)


MOST_DECIDED = 500
"""The largest number of moves of equal scores that are compared to the last digit."""

COMPOUND_GAIN = 1e-4
"""The least decrease of the score that is worth a step of several moves."""

SHARE_PER_NODE, LARGEST_SHARE = 1e-5, 6e-4
"""The share by which such a step must decrease the score: for each node, and at most.

On large clusters, the last of many steps gain little. With 80 nodes with 12 drbd instances each,
the share saves a quarter of the moves and of the time, and the last score is 1 to 2 % higher.
"""


class Step:
    """Moves that are made together, as one step of a local search.

    Attributes
    ----------
    moves:
        The moves, in order.
    repairs:
        Whether the moves are made to satisfy a violated hard constraint.
    then:
        The search that continues after these moves; None if there is none.
    """

    __slots__ = ("moves", "repairs", "then")

    def __init__(
        self, *moves: ScoredMoves, repairs: bool = False, then: Search | None = None
    ) -> None:
        self.moves = moves
        self.repairs = repairs
        self.then = then

    def apply(self, state: PlanBuilder) -> None:
        """Make the moves of this step, and add them to the plan that `state` builds."""
        state.make(*self.moves, repairs=self.repairs)
        if self.then is not None:
            self.then.run(state)
