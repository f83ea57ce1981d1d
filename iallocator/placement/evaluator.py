"""Whether an instance may be somewhere, and where it is best: the one place that answers.

An `Evaluator` belongs to one group and judges by that group's settings (how N+1 counts,
whether soft limits do, which strategy ranks); a context makes it, see
`iallocator.placement.context.Context.evaluator`.  It looks at the state as it is when it is
asked and leaves it so; it may be kept while the state changes.  The caller carries out what
it likes, and asks again for the next instance.

Candidates
    `new`, `moved`, `moved_mirror` and `moved_pair` give every placement that is possible,
    scored; `ranked` puts them into the order of the group's strategy, prices of broken
    shoulds included.  The instance must be off the state.  Asked for are the limits of
    nodes, storage pools, the group's policy (for new instances), migration tags (for
    moves), and bonds to other instances; what is refused is counted by reason.  N+1 is
    asked for one placement at a time, with `keeps_n1`, because it is dear.
Verdicts
    `refusal` says why an instance may not go from where it is to given nodes, with the
    numbers, or None: everything above and N+1.  The instance is on the state (or off it, if
    it is new).  It makes no kernel, and is meant for each move that somebody wants to apply.
    `failover_refusal` is the same for exchanging the roles of two nodes, without N+1.

Which limits count follows from the *motion*: how an instance comes to its place, see
`Motions`.  Requests that move instances are not held to global N+1, as in hail: whoever
leaves a node has to go somewhere.  A move that a planner makes of its own accord is.
"""

from __future__ import annotations

from iallocator.limits.group import refused_by_policy
from iallocator.limits.migration import may_not_receive
from iallocator.limits.node import FORCED_LIMITS, PRIMARY, checks_for
from iallocator.placement.motions import ALL_FORCED, heeding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Protocol

    from iallocator.aliases import Nodes
    from iallocator.limits.node import Check
    from iallocator.limits.refusal import Refusal
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.n1.rules import Rules
    from iallocator.options.settings import Settings
    from iallocator.placement.motions import Motion, Motions
    from iallocator.placement.results import RankedMoves
    from iallocator.placement.score_scope import ScoreScope
    from iallocator.placement.trace import Trace
    from iallocator.placement.verdict.verdict import Verdicts
    from iallocator.placement.verdict.what_if import WhatIf
    from iallocator.placement.working import Working
    from iallocator.scoring.candidates import Candidates

    class Shared(Working, Protocol):
        """What all evaluators of a request share, and who hears of what they decide."""

        trace: Trace | None


__all__ = ["Evaluator"]


def _but(nodes: Sequence[int], refused: Collection[int]) -> Sequence[int]:
    """`nodes` without those that are `refused`."""
    return [index for index in nodes if index not in refused] if refused else nodes


def _counting(
    found: Candidates, primaries: Sequence[int], refused: Mapping[int, str]
) -> Candidates:
    """`found`, and counted in it the pairs whose mirror is `refused`."""
    for index, reason in refused.items():
        number = len(primaries) - (index in primaries)
        if number:
            found.failures[reason] = found.failures.get(reason, 0) + number
    return found


class Evaluator:
    """Candidates and verdicts in one group; see the module for the contract.

    Attributes
    ----------
    group, settings:
        The group that instances go to, and its settings.
    motions:
        Which limits count for whom.
    rules:
        How N+1 is judged.
    scope:
        The nodes that scores run over.
    """

    __slots__ = ("_known_verdicts", "_working", "group", "motions", "rules", "scope", "settings")

    def __init__(
        self,
        working: Shared,
        group: Group,
        settings: Settings,
        motions: Motions,
        rules: Rules,
        scope: ScoreScope,
    ) -> None:
        self._working = working
        self.group = group
        self.settings = settings
        self.motions = motions
        self.rules = rules
        self.scope = scope
        self._known_verdicts: Verdicts | None = None

    def heeding_soft_limits(self) -> Evaluator:
        """The same, but that soft limits count, whatever the settings say."""
        return self._with(heeding(self.settings), self.scope)

    def unhurried(self) -> Evaluator:
        """The same, but that who leaves a node that is not online is held to as much as others."""
        return self._with(self.motions.unhurried(), self.scope)

    def for_steps(self) -> Evaluator:
        """For the steps that lead to a place which was asked for before: all moves are forced.

        Nobody asks for their scores, which are of no nodes.
        """
        from iallocator.placement.score_scope import Unscored

        return self._with(ALL_FORCED, Unscored(self._working, ()))

    def _with(self, motions: Motions, scope: ScoreScope) -> Evaluator:
        return Evaluator(self._working, self.group, self.settings, motions, self.rules, scope)

    def online_nodes(self, allowed: Collection[str] | None = None) -> list[int]:
        """Online nodes of the group, of those named in `allowed` if that is given."""
        nodes = self._working.cluster.nodes
        return [
            i
            for i in self.group.nodes
            if nodes[i].online and (allowed is None or nodes[i].name in allowed)
        ]

    # Candidates: the instance is off the state

    def new(
        self,
        instance: Instance,
        nodes: Sequence[int],
        secondaries: Sequence[int] | None = None,
        bound: bool = True,
    ) -> Candidates:
        """The placements of a new `instance` on `nodes` of the group.

        For pairs `nodes` are the primaries, and the secondaries unless those are given.
        `bound`: its bonds to other instances count.
        """
        working, motion = self._working, self.motions.new
        refusals = working.bonds.refused(instance, nodes) if bound else {}
        refusals |= refused_by_policy(
            working.cluster, self.group, instance, self.settings.behaviour.policy_reason
        )
        kernel = self.scope.kernel
        seconds = nodes if secondaries is None else secondaries
        out = working.bonds.refused_mirrors(instance, seconds)
        self._tell("new", instance, (), nodes, seconds, refusals, out, motion)
        if instance.required_nodes == 2:
            found = kernel.pairs(
                instance, nodes, _but(seconds, out), refusals, motion.primary, motion.secondary
            )
            return _counting(found, nodes, out)
        return kernel.singles(instance, nodes, refusals, motion.primary)

    def moved(self, instance: Instance, source: int, nodes: Sequence[int]) -> Candidates:
        """The nodes that an instance on shared storage may go to from `source`."""
        motion = self._motion_off(source)
        refusals = self._barred(instance, source, nodes)
        self._tell("moved", instance, (source,), nodes, (), refusals, {}, motion)
        return self.scope.kernel.singles(instance, nodes, refusals, motion.primary)

    def moved_mirror(self, instance: Instance, present: Nodes, nodes: Sequence[int]) -> Candidates:
        """The nodes that may take the mirror of an instance on `present`; its primary stays."""
        motion = self._motion_off(present[-1])
        kernel, limits = self.scope.kernel, motion.secondary
        out = self._working.bonds.refused_mirrors(instance, nodes)
        self._tell("mirror", instance, present, present[:1], nodes, {}, out, motion)
        if self.settings.behaviour.tests_primary_again:
            return kernel.pairs(instance, present[:1], nodes, {}, FORCED_LIMITS, limits)
        found = kernel.secondaries(instance, present[0], _but(nodes, out), limits)
        return _counting(found, present[:1], out)

    def moved_pair(
        self,
        instance: Instance,
        present: Nodes,
        primaries: Sequence[int],
        secondaries: Sequence[int],
    ) -> Candidates:
        """The pairs that an instance on `present` may move to, by way of the first of each.

        A new primary first takes the mirror, then receives the instance from the primary
        of now, which keeps the mirror; then that goes to the new secondary.
        """
        motion = self._motion_off(present[0])
        refusals = self._refused_on_the_way(instance, present, primaries)
        out = self._working.bonds.refused_mirrors(instance, secondaries)
        self._tell("pair", instance, present, primaries, secondaries, refusals, out, motion)
        found = self.scope.kernel.pairs(
            instance, primaries, _but(secondaries, out), refusals, motion.primary,
            motion.secondary,
        )  # fmt: skip
        return _counting(found, primaries, out)

    def possible_pairs(self, instance: Instance, nodes: Sequence[int]) -> Candidates:
        """Every pair of `nodes` that the limits allow that count for any move.

        What a search may choose from where several move at once; how each gets there, and
        by which limits, is then asked with `moved_pair`.
        """
        return self.scope.kernel.pairs(instance, nodes, nodes, {}, FORCED_LIMITS)

    def ranked(
        self,
        instance: Instance,
        candidates: Candidates,
        present: Nodes,
        primary_given: bool = False,
    ) -> RankedMoves:
        """`candidates` for an instance that was on `present`, in the order of the strategy."""
        from iallocator.placement.ranked_moves import rank_moves

        found = rank_moves(
            self._working, self.settings.strategy, self.group, instance, candidates, present,
            primary_given,
        )  # fmt: skip
        if self._decides_by_rounding(found.candidates):
            from iallocator.scoring.rounding import decided_now

            found.candidates = decided_now(
                self._working.state, self.scope.nodes, instance, found.candidates
            )
        if self._working.trace is not None:
            self._working.trace.ranked(self, instance, found)
        return found

    def decided(self, instance: Instance, candidates: Candidates) -> Candidates:
        """`candidates` for a new instance, ranked by score; equals decided as behaviour has it."""
        if not self._decides_by_rounding(candidates):
            return candidates
        from iallocator.scoring.rounding import decided

        return decided(self._working.state, self.scope.nodes, instance, candidates)

    def _decides_by_rounding(self, candidates: Candidates) -> bool:
        by_score = self.settings.strategy == "score"
        return by_score and candidates.feasible > 1 and self.settings.behaviour.decides_by_rounding

    def takes_primary(self, instance: Instance, index: int) -> bool:
        """Whether node `index` can be the primary of `instance` by its limits alone."""
        source = instance.nodes[:1]
        motion = self._motion_off(source[0]) if source else self.motions.new
        checker = self._working.kernels.checker(self._working.state)
        checks = checks_for(PRIMARY, instance, motion.primary)
        return checker.primary_refusal(instance, index, checks) is None

    def keeps_n1(self, instance: Instance, nodes: Nodes) -> bool:
        """Whether `instance`, which is off the state, may be on `nodes` as far as N+1 goes."""
        return self.scope.n1_check(self.rules).accepts(instance, nodes)

    def _tell(
        self,
        kind: str,
        instance: Instance,
        present: Nodes,
        primaries: Sequence[int],
        secondaries: Sequence[int],
        refusals: Mapping[int, str],
        mirrors: Mapping[int, str],
        motion: Motion,
    ) -> None:
        """Have the trace, if there is one, hear what is asked of which nodes."""
        if self._working.trace is not None:
            from iallocator.placement.question import Question

            question = Question(
                kind, instance, present, primaries, secondaries, refusals, mirrors, motion
            )
            self._working.trace.asked(self, question)

    def _motion_off(self, source: int) -> Motion:
        return self.motions.off(self._working.cluster.nodes[source])

    def _barred(self, instance: Instance, source: int, nodes: Sequence[int]) -> dict[int, str]:
        """Those of `nodes` that an instance must not move to from `source`, whatever is free."""
        refusals = self._working.bonds.refused(instance, nodes)
        return refusals | may_not_receive(self._working.cluster, source, nodes)

    def _refused_on_the_way(
        self, instance: Instance, present: Nodes, nodes: Sequence[int]
    ) -> dict[int, str]:
        """Why one of `nodes` cannot be the new primary, before its own limits as that count."""
        old, mirror = present
        state = self._working.state
        refusals = self._barred(instance, old, nodes)
        limits = self._motion_off(mirror).secondary
        mirrors = self.scope.kernel.mirror_refusals(instance, old, nodes, limits)
        refusals = mirrors | refusals
        checker = self._working.kernels.checker(state)
        left = self.motions.old_primary_checks(instance, self._working.cluster.nodes[old])
        if self.settings.behaviour.tests_primary_again:
            again = checks_for(PRIMARY, instance, FORCED_LIMITS)
            reason = checker.primary_refusal(instance, old, again)
            if reason is not None:
                return refusals | dict.fromkeys(nodes, reason)
        keeps: dict[float, str | None] = {}  # by what the old primary reserves for the new one
        for index in nodes:
            amount = state.peers[old].get(index, 0)
            if amount not in keeps:
                keeps[amount] = checker.secondary_refusal(instance, index, old, left)
            reason = keeps[amount]
            if reason is not None and index not in refusals:
                refusals[index] = reason
        return refusals

    def what_if(self, instance: Instance, motion: Motion, **asked: tuple[Check, ...]) -> WhatIf:
        """Every limit that single nodes break, with the numbers, by the limits of `motion`.

        `on_primary` and `on_secondary`, if given, are the checks that are asked.
        """
        from iallocator.placement.verdict.what_if import WhatIf

        return WhatIf(self._working.state, self._working.kernels, instance, motion, **asked)

    # Verdicts: the instance is where it is

    @property
    def _verdicts(self) -> Verdicts:
        if self._known_verdicts is None:  # they keep what they know of a state while it is the same
            from iallocator.placement.verdict.verdict import Verdicts

            self._known_verdicts = Verdicts(
                self._working,
                self.group,
                self.motions,
                self.rules,
                self.scope.nodes,
                self.settings.behaviour.policy_reason,
            )
        return self._known_verdicts

    def failover_refusal(self, instance: Instance, present: Nodes) -> Refusal | None:
        """Why an instance on two nodes cannot exchange their roles, N+1 aside."""
        return self._exchanged(
            instance, present, self._verdicts.failover_refusal(instance, present)
        )

    def passage_refusal(self, instance: Instance, present: Nodes) -> Refusal | None:
        """The same for one that goes on at once: those it must be with may be elsewhere."""
        return self._exchanged(instance, present, self._verdicts.passage_refusal(instance, present))

    def _exchanged(
        self, instance: Instance, present: Nodes, found: Refusal | None
    ) -> Refusal | None:
        """`found`; the trace, if there is one, hears of it."""
        if self._working.trace is not None:
            self._working.trace.exchanged(self, instance, present, found)
        return found

    def refusal(self, instance: Instance, before: Nodes, after: Nodes) -> Refusal | None:
        """Why `instance` may not go from `before`, where it is, to `after`; see `Verdicts`."""
        return self._verdicts.refusal(instance, before, after)

    def arrival_refusal(self, instance: Instance, before: Nodes, after: Nodes) -> Refusal | None:
        """Why `instance`, which is off the state, may not come to `after`; see `Verdicts`."""
        return self._verdicts.arrival_refusal(instance, before, after)

    def arrival_refusals(
        self, instance: Instance, before: Nodes, nodes: Sequence[int]
    ) -> dict[int, Refusal]:
        """The same for each of `nodes` as the primary alone; those that refuse."""
        return self._verdicts.arrival_refusals(instance, before, nodes)

    def mirror_arrival_refusals(
        self, instance: Instance, before: Nodes, primary: int, nodes: Sequence[int]
    ) -> dict[int, Refusal]:
        """The same for each of `nodes` as the secondary, if `primary` does not refuse it."""
        return self._verdicts.mirror_arrival_refusals(instance, before, primary, nodes)
