"""The evaluator of placements: which are possible, which is best, and why others are rejected.

An `Evaluator` belongs to one group and uses the settings of this group: the mode of N+1, whether
soft limits are enforced, and the strategy. The method
`iallocator.placement.context.Context.evaluator` makes it.  Each method reads the present state and
leaves it unchanged, so an evaluator may be kept while the state changes.  The caller applies a
placement to the state before it asks for the next instance.

Candidates
    `candidates` returns every possible placement with its score. `ranked` returns them in the order
    of the group's strategy, with the penalties of violated soft constraints. The instance must not
    be placed. The checks are the limits of nodes, storage pools, the group's policy (for new
    instances), migration tags (for moves), and affinity constraints. Rejections are counted by
    reason.  N+1 is checked for one placement at a time, with `keeps_n1`, because the check is
    expensive.
Checks
    `check` returns why a move is not allowed, with the amounts, or None. It checks all constraints
    and N+1. It makes no kernel; call it for each move before the move is applied. `rejections`
    checks many nodes for one role at once.
Scores
    `score` is the score of the cluster, or the group, after one move.

The *limit policy* determines which limits are enforced: a new instance, a moved one and a forced
move have different ones, see `LimitPolicies`.  Requests that must move an instance do not check
global N+1, as in hail. Planners do check it: their moves are optional.
"""

from __future__ import annotations

from iallocator.constraints.table import entry_rejections, move_rejections
from iallocator.limits.node import FORCED_LIMITS, PRIMARY, checks_for
from iallocator.model.moves import Move
from iallocator.placement.limit_policy import ALL_FORCED, enforcing
from iallocator.placement.results import NodeQuery, RankedMoves
from iallocator.placement.score_scope import Unscored
from iallocator.ranking import ranks_nodes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Protocol

    from iallocator.aliases import Nodes
    from iallocator.constraints.checks import Check
    from iallocator.limits.node import RoleLimits
    from iallocator.limits.rejection import Rejection
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.n1 import Rules
    from iallocator.options.settings import Settings
    from iallocator.placement.limit_policy import LimitPolicies, LimitPolicy
    from iallocator.placement.move_check import MoveChecks
    from iallocator.placement.score_scope import ScoreScope, SharedContext
    from iallocator.placement.trace import Trace, TracedEvaluator
    from iallocator.placement.what_if import KnownNodes, WhatIf
    from iallocator.scoring.candidates import Candidates

    class TracedContext(SharedContext, Protocol):
        """A context that records the queries of evaluators, and may have a trace."""

        trace: Trace | None
        last_query: tuple[TracedEvaluator, NodeQuery] | None

        def with_soft_costs(
            self, instance: Instance, candidates: Candidates
        ) -> tuple[Candidates, dict[Nodes, float]]:
            """Return `candidates` with penalties in their scores, and placement -> score without
            penalty.
            """


__all__ = ["Evaluator"]


class Evaluator:
    """The evaluator of one group: it finds, ranks and checks placements on the present state.

    Attributes
    ----------
    context:
        The request, its cluster and its state.
    group, settings:
        The group that instances go to, and its settings.
    limit_policies:
        The limits that are enforced for new instances, moves and forced moves.
    rules:
        The rules of N+1.
    scope:
        The nodes that are included in scores.
    """

    __slots__ = (
        "_known_checks",
        "context",
        "group",
        "limit_policies",
        "rules",
        "scope",
        "settings",
    )

    def __init__(
        self,
        context: TracedContext,
        group: Group,
        settings: Settings,
        limit_policies: LimitPolicies,
        rules: Rules,
        scope: ScoreScope,
    ) -> None:
        self.context = context
        self.group = group
        self.settings = settings
        self.limit_policies = limit_policies
        self.rules = rules
        self.scope = scope
        self._known_checks: MoveChecks | None = None

    def enforcing_soft_limits(self) -> Evaluator:
        """Return a copy that enforces soft limits, regardless of the settings."""
        return self._with(enforcing(self.settings), self.scope)

    def with_normal_limits(self) -> Evaluator:
        """Return a copy that enforces soft limits also for instances leaving offline nodes."""
        return self._with(self.limit_policies.with_normal_limits(), self.scope)

    def for_steps(self) -> Evaluator:
        """Return a copy that checks the steps of a move as forced moves; it has no scores.

        Use the copy if the last placement of the move has been checked before.
        """
        return self._with(ALL_FORCED, Unscored(self.context, ()))

    def _with(self, limit_policies: LimitPolicies, scope: ScoreScope) -> Evaluator:
        return Evaluator(self.context, self.group, self.settings, limit_policies, self.rules, scope)

    def online_nodes(self, allowed: Collection[str] | None = None) -> list[int]:
        """Return the online nodes of the group, only those named in `allowed` if it is given."""
        nodes = self.context.cluster.nodes
        return [
            i
            for i in self.group.nodes
            if nodes[i].online and (allowed is None or nodes[i].name in allowed)
        ]

    # Candidates: the instance is not placed

    def candidates(
        self,
        instance: Instance,
        role: str,
        present: Nodes,
        nodes: Sequence[int],
        secondaries: Sequence[int] | None = None,
        bound: bool = True,
    ) -> Candidates:
        """Return the possible placements on `nodes` of `instance`, which was on `present`.

        Parameters
        ----------
        instance:
            The instance, which must not be placed.
        role:
            ``new``: the instance is new. ``moved``: it has one node, which changes. ``secondary``:
            only its secondary changes. ``pair``: both nodes change. The new primary first becomes
            the secondary; after a failover, the old primary is the secondary; then the new
            secondary replaces it. ``any pair``: every pair that the limits for moves of any kind
            allow, regardless of steps; a search that moves several instances may choose from these.
        present:
            The nodes of the instance before, primary first; () for a new instance.
        nodes, secondaries:
            The nodes to test. For pairs, `nodes` are the primaries; they are the secondaries, too,
            unless `secondaries` are given.
        bound:
            Whether affinity constraints are enforced.
        """
        kernel, behaviour = self.scope.kernel, self.settings.behaviour
        if role == "any pair":
            return kernel.pairs(instance, nodes, nodes, {}, FORCED_LIMITS)
        affinity, seconds = self.context.affinity, nodes if secondaries is None else secondaries
        bound_out: dict[int, str] = {}
        if role != "secondary" and bound:
            bound_out = affinity.rejected(instance, nodes)
        rejections: dict[int, str] = {}
        as_secondaries: Mapping[int, Check] = {}
        behind: Mapping[int, Check] = {}
        if role == "new":
            limit_policy = self.limit_policies.new
            rejections = bound_out | entry_rejections(
                self.context.cluster, self.group, instance, behaviour.policy_reason
            )
        elif role == "moved":
            limit_policy, seconds = self._limit_policy_off(present[0]), ()
            rejections = bound_out | move_rejections(self.context.cluster, present[0], nodes)
        elif role == "secondary":
            limit_policy, nodes = self._limit_policy_off(present[-1]), present[:1]
        else:
            limit_policy = self._limit_policy_off(present[0])
            barred = bound_out | move_rejections(self.context.cluster, present[0], nodes)
            rejections, as_secondaries, behind = self._rejected_on_the_way(
                instance, present, nodes, barred
            )
        out = {} if role == "moved" else affinity.rejected_secondaries(instance, seconds)
        query = NodeQuery(role, instance, present, nodes, seconds, rejections, out, limit_policy)
        query.bound, query.as_secondaries, query.behind = bound_out, as_secondaries, behind
        self.context.last_query = self, query
        offer: Candidates
        if role == "moved" or (role == "new" and instance.required_nodes != 2):
            offer = kernel.singles(instance, nodes, rejections, limit_policy.primary)
        elif role == "secondary" and behaviour.tests_primary_again:
            offer = kernel.pairs(
                instance, nodes, seconds, {}, FORCED_LIMITS, limit_policy.secondary
            )
        else:
            if out:
                seconds = [index for index in seconds if index not in out]
            if role == "secondary":
                offer = kernel.secondaries(instance, present[0], seconds, limit_policy.secondary)
            else:
                offer = kernel.pairs(
                    instance, nodes, seconds, rejections,
                    limit_policy.primary, limit_policy.secondary,
                )  # fmt: skip
            for index, reason in out.items():  # no pair is counted for these secondaries yet
                number = len(nodes) - (index in nodes)
                if number:
                    offer.failures[reason] = offer.failures.get(reason, 0) + number
        query.limit_results = offer.limit_results
        if self.context.trace is not None:
            results = offer.limit_results()
            query.limit_results = lambda: results  # a trace keeps queries, but no candidates
            self.context.trace.asked(self, query, offer)
        return offer

    def ranked(
        self,
        instance: Instance,
        candidates: Candidates,
        present: Nodes,
        primary_given: bool = False,
    ) -> RankedMoves:
        """Return `candidates` in the order of the strategy, for an instance that was on `present`.

        The instance must not be placed. `primary_given`: only the secondary is chosen.
        """
        context, strategy = self.context, self.settings.strategy
        if strategy == "score":
            moves = RankedMoves(*context.with_soft_costs(instance, candidates))
        elif ranks_nodes(strategy):
            from iallocator.ranking.pairs import order_candidates

            ordered = order_candidates(
                strategy, context, instance, candidates, present, primary_given
            )
            moves = RankedMoves(ordered, ordered.scores, ordered)
        else:
            from iallocator.ranking.lost_allocations import rank

            moves = RankedMoves(
                *rank(context.state, self.group, instance, candidates, context.affinity)
            )
        if self._decides_by_rounding(moves.candidates):
            from iallocator.scoring.rounding import decided_now

            moves.candidates = decided_now(
                self.context.state, self.scope.nodes, instance, moves.candidates
            )
        if self.context.trace is not None:
            self.context.trace.ranked(self, instance, moves)
        return moves

    def decided(self, instance: Instance, candidates: Candidates) -> Candidates:
        """Return `candidates` for a new instance in the order of the score, with ties decided as by
        hail.
        """
        if not self._decides_by_rounding(candidates):
            return candidates
        from iallocator.scoring.rounding import decided

        return decided(self.context.state, self.scope.nodes, instance, candidates)

    def _decides_by_rounding(self, candidates: Candidates) -> bool:
        by_score = self.settings.strategy == "score"
        return by_score and candidates.feasible > 1 and self.settings.behaviour.decides_by_rounding

    def takes_primary(self, instance: Instance, index: int) -> bool:
        """Return whether the limits of node `index` allow it to be the primary of `instance`."""
        source = instance.nodes[:1]
        limit_policy = self._limit_policy_off(source[0]) if source else self.limit_policies.new
        checker = self.context.kernels.checker(self.context.state)
        checks = checks_for(PRIMARY, instance, limit_policy.primary)
        return checker.primary_rejection(instance, index, checks) is None

    def keeps_n1(self, instance: Instance, nodes: Nodes) -> bool:
        """Return whether N+1 still holds after `instance`, which is not placed, is placed on
        `nodes`.
        """
        return self.scope.tolerance(self.rules).allows(Move(instance, (), nodes))

    def _limit_policy_off(self, source: int) -> LimitPolicy:
        return self.limit_policies.off(self.context.cluster.nodes[source])

    def _rejected_on_the_way(
        self, instance: Instance, present: Nodes, nodes: Sequence[int], barred: Mapping[int, str]
    ) -> tuple[dict[int, str], dict[int, Check], dict[int, Check]]:
        """Return node -> reason, for `nodes` rejected in the steps before they are the new primary.

        The second result is node -> the limit that the node fails as the secondary of the old
        primary. The third is node -> the limit that the old primary fails as the secondary of the
        node. `barred`: the nodes that are rejected for other reasons.
        """
        old, secondary = present
        state = self.context.state
        limits = self._limit_policy_off(secondary).secondary
        as_secondaries = self.scope.kernel.secondary_rejections(instance, old, nodes, limits)
        rejections = {index: check.reason for index, check in as_secondaries.items()}
        rejections |= barred
        checker = self.context.kernels.checker(state)
        left = self.limit_policies.old_primary_checks(instance, self.context.cluster.nodes[old])
        keeps: dict[float, Check | None] = {}  # by what the old primary reserves for the new one
        behind: dict[int, Check] = {}
        for index in nodes:
            amount = state.peers[old].get(index, 0)
            if amount not in keeps:
                keeps[amount] = checker.secondary_rejection(instance, index, old, left)
            check = keeps[amount]
            if check is not None and index not in rejections:
                behind[index] = check
                rejections[index] = check.reason
        if self.settings.behaviour.tests_primary_again:
            again = checks_for(PRIMARY, instance, FORCED_LIMITS)
            check = checker.primary_rejection(instance, old, again)
            if check is not None:
                rejections |= dict.fromkeys(nodes, check.reason)
        return rejections, as_secondaries, behind

    def what_if(
        self,
        instance: Instance,
        limit_policy: LimitPolicy,
        known: KnownNodes | None = None,
        **limits: RoleLimits,
    ) -> WhatIf:
        """Return an object that tests single nodes for every limit of `limit_policy`, with amounts.

        `limits`: the checks of a role, ``on_primary`` or ``on_secondary``, if not all. `known`: the
        nodes as they were at an earlier moment; None: as they are now.
        """
        from iallocator.placement.what_if import WhatIf

        state, kernels = self.context.state, self.context.kernels
        return WhatIf(state, kernels, instance, limit_policy, known=known, **limits)

    # Checks of one move

    @property
    def _move_checks(self) -> MoveChecks:
        if self._known_checks is None:  # they keep what they know of a state while it is the same
            from iallocator.placement.move_check import MoveChecks

            self._known_checks = MoveChecks(
                self.context,
                self.group,
                self.limit_policies,
                self.rules,
                self.scope.nodes,
                self.settings.behaviour.policy_reason,
            )
        return self._known_checks

    def check(self, move: Move, *, n1: bool = True, passing: bool = False) -> Rejection | None:
        """Return why `move` is not allowed in the present state, with the amounts, or None.

        An instance that is not placed is checked on each node of `move.after`, but not for N+1:
        during a full re-placement, no instance is placed. If such an instance requires two nodes,
        `move.after` may be the primary alone. If it has both nodes, the primary must have been
        checked before.

        Parameters
        ----------
        move:
            The nodes before and after; the steps are not checked. Nodes need not be online: hail
            fails over to offline nodes, and a planner may power a node on.
        n1:
            Whether global N+1 is checked, too.
        passing:
            Whether the instance leaves `move.after` at once: then the other members of its
            colocation group may be elsewhere.
        """
        rejection = self._move_checks.check(move, n1, passing)
        if not n1 and self.context.trace is not None:
            self.context.trace.exchanged(self, move.instance, move.before, rejection)
        return rejection

    def rejections(
        self, instance: Instance, before: Nodes, nodes: Sequence[int], primary: int | None = None
    ) -> dict[int, Rejection]:
        """Return node -> rejection, for those of `nodes` that reject `instance`.

        The nodes are checked as its secondary beside `primary`, which is not checked; if `primary`
        is None, as its primary. `before`: the nodes of the instance before the move. The instance
        must not be placed.
        """
        return self._move_checks.rejections(instance, before, nodes, primary)

    def score(self, move: Move) -> float:
        """Return the cluster score after `move`; lower is better."""
        state = self.context.state
        with state.trial():
            if move.before:
                state.remove(move.instance, move.before)
            state.place(move.instance, move.after)
            return self.scope.kernel.score()
