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
from iallocator.limits.node import (
    ABANDONED,
    ALL_LIMITS,
    FORCED_LIMITS,
    HARD_LIMITS,
    PRIMARY,
    SECONDARY,
    checks_for,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from iallocator.limits.node import Check, LimitSet
    from iallocator.limits.refusal import Refusal
    from iallocator.model.cluster import Group, Node
    from iallocator.model.instance import Instance
    from iallocator.n1.check import N1Check
    from iallocator.n1.rules import Rules
    from iallocator.options import Settings
    from iallocator.placement.ranked_moves import RankedMoves
    from iallocator.placement.working import Working
    from iallocator.scoring import Kernel
    from iallocator.scoring.candidates import Candidates

    Nodes = tuple[int, ...]

__all__ = ["Evaluator", "Motion", "Motions", "ScoreScope", "motions_for"]


class Motion:
    """How an instance comes to a place, and what it is held to there.

    Attributes
    ----------
    primary, secondary:
        Which limits count on a node that becomes that.
    asks_n1:
        Whether `Evaluator.refusal` asks for global N+1.
    """

    __slots__ = ("asks_n1", "name", "primary", "secondary")

    def __init__(
        self, name: str, primary: LimitSet, secondary: LimitSet, asks_n1: bool = True
    ) -> None:
        self.name = name
        self.primary = primary
        self.secondary = secondary
        self.asks_n1 = asks_n1

    def __repr__(self) -> str:
        return self.name


NEW = Motion("new", ALL_LIMITS, ALL_LIMITS)
MOVE = Motion("move", ALL_LIMITS, ALL_LIMITS)
FORCED_MOVE = Motion("forced move", FORCED_LIMITS, FORCED_LIMITS, asks_n1=False)
"""Off a node that is not online: better anywhere than there."""

LENIENT_NEW = Motion("new, soft limits ignored", HARD_LIMITS, FORCED_LIMITS)
LENIENT_MOVE = Motion("move, soft limits ignored", FORCED_LIMITS, FORCED_LIMITS)

HAIL_LENIENT_NEW = Motion("new, soft limits of its primary ignored", HARD_LIMITS, ALL_LIMITS)
HAIL_MOVE = Motion("move by the limits of nodes alone", ALL_LIMITS, ALL_LIMITS, asks_n1=False)


class Motions:
    """The motions by the settings of one group: of a new instance, and of one that moves."""

    __slots__ = ("_forced", "_usual", "new")

    def __init__(self, new: Motion, usual: Motion, forced: Motion = FORCED_MOVE) -> None:
        self.new = new
        self._usual = usual
        self._forced = forced

    def off(self, source: Node) -> Motion:
        """The motion of an instance that leaves `source`: forced if that is not online."""
        return self._usual if source.online else self._forced

    def unhurried(self) -> Motions:
        """The same, but that nobody's motion is forced."""
        return Motions(self.new, self._usual, self._usual)


HEEDING = Motions(NEW, MOVE)
LENIENT = Motions(LENIENT_NEW, LENIENT_MOVE)
HAIL_HEEDING = Motions(NEW, HAIL_MOVE)
HAIL_LENIENT = Motions(HAIL_LENIENT_NEW, FORCED_MOVE)
ALL_FORCED = Motions(FORCED_MOVE, FORCED_MOVE)


def motions_for(settings: Settings) -> Motions:
    """Those of a group with these `settings`."""
    if settings.ignore_soft_errors:
        return LENIENT if settings.ways.spares_soft_limits_of_secondaries else HAIL_LENIENT
    return _heeding(settings)


def _heeding(settings: Settings) -> Motions:
    """Those where soft limits count."""
    return HEEDING if settings.ways.holds_moves_to_n1 else HAIL_HEEDING


class ScoreScope:
    """The nodes that a score runs over; kernel and N+1 checks over them, as the state is.

    Both are made when first needed, and made anew once the state has changed.
    """

    __slots__ = ("_checks", "_kernel", "_version", "_working", "nodes")

    def __init__(self, working: Working, nodes: Sequence[int]) -> None:
        self.nodes = nodes
        self._working = working
        self._version = -1
        self._kernel: Kernel | None = None
        self._checks: dict[str, N1Check] = {}

    def _catch_up(self) -> None:
        """Forget what is about another state."""
        version = self._working.state.version
        if version != self._version:
            self._version = version
            self._kernel = None
            self._checks = {}

    @property
    def kernel(self) -> Kernel:
        """Scores over the nodes."""
        self._catch_up()
        if self._kernel is None:
            self._kernel = self._working.kernel(self.nodes)
        return self._kernel

    def n1_check(self, rules: Rules) -> N1Check:
        """N+1 by `rules`."""
        self._catch_up()
        check = self._checks.get(rules.mode)
        if check is None:
            check = self._checks[rules.mode] = self._working.judge(self.nodes, rules)
        return check


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

    __slots__ = ("_working", "group", "motions", "rules", "scope", "settings")

    def __init__(
        self,
        working: Working,
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

    def heeding_soft_limits(self) -> Evaluator:
        """The same, but that soft limits count, whatever the settings say."""
        return self._with(_heeding(self.settings), self.scope)

    def unhurried(self) -> Evaluator:
        """The same, but that who leaves a node that is not online is held to as much as others."""
        return self._with(self.motions.unhurried(), self.scope)

    def for_steps(self, scope: ScoreScope) -> Evaluator:
        """For the steps that lead to a place which was asked for before: all moves are forced."""
        return self._with(ALL_FORCED, scope)

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
        refusals |= refused_by_policy(working.cluster, self.group, instance)
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
        if self.settings.ways.tests_primary_again:
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
        if self._working.trace is not None:
            self._working.trace.ranked(self, instance, found)
        return found

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
        trace = self._working.trace
        if trace is not None:
            trace.asked(
                self, kind, instance, present, primaries, secondaries, refusals, mirrors, motion
            )

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
        left = self._left_behind(instance, old)
        if self.settings.ways.tests_primary_again:
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

    def _left_behind(self, instance: Instance, old: int) -> Sequence[Check]:
        """What is tested on the old primary of a failover, which becomes the secondary."""
        checks = SECONDARY if self._working.cluster.nodes[old].online else ABANDONED
        return checks_for(checks, instance, self._motion_off(old).secondary)

    # Verdicts: the instance is where it is

    def failover_refusal(self, instance: Instance, present: Nodes) -> Refusal | None:
        """Why an instance on two nodes cannot exchange their roles, N+1 aside."""
        found = self._rule_refusal(instance, present, present[::-1]) or self._limit_refusal(
            instance, present, present[::-1]
        )
        if self._working.trace is not None:
            self._working.trace.exchanged(self, instance, present, found)
        return found

    def passage_refusal(self, instance: Instance, present: Nodes) -> Refusal | None:
        """The same for one that goes on at once: those it must be with may be elsewhere."""
        from iallocator.limits.refusal import Refusal, migration_refusal

        bonds, after = self._working.bonds, present[::-1]
        reason = bonds.refused_passing(instance, after[:1]).get(after[0])
        if reason is not None:
            return Refusal(reason, bonds.told(instance, after[:1])[after[0]], after[0])
        return migration_refusal(self._working.cluster, *present) or self._limit_refusal(
            instance, present, after
        )

    def refusal(self, instance: Instance, before: Nodes, after: Nodes) -> Refusal | None:
        """Why `instance` may not go from `before`, where it is, to `after` in the group.

        `before` is () for one that is nowhere.  What is asked, in this order: networks and
        storage pools of the group, its policy if it is not that of `before`; migration tags;
        bonds; the limits of each node whose role changes; global N+1 unless it flees
        from a node that is not online.
        """
        if before == after:
            return None
        return (
            self._group_refusal(instance, before, after)
            or self._rule_refusal(instance, before, after)
            or self._limit_refusal(instance, before, after)
            or self._n1_refusal(instance, before, after)
        )

    def arrival_refusal(self, instance: Instance, before: Nodes, after: Nodes) -> Refusal | None:
        """Why `instance`, which is off the state, may not come from `before` to `after`.

        For clusters that are placed anew: who shall be where it was is asked like any other.
        Of one that needs two nodes `after` may be the primary alone.  N+1 is not asked.
        """
        return (
            self._group_refusal(instance, before, after)
            or self._bar(instance, before[:1], after[0])
            or self._mirror_bar(instance, before, after)
            or self._failing(instance, before, after, primary=len(after) < 2, mirror=True)
        )

    def _group_refusal(self, instance: Instance, before: Nodes, after: Nodes) -> Refusal | None:
        from iallocator.limits.refusal import group_refusal

        cluster = self._working.cluster
        if before and cluster.nodes[before[0]].group is self.group:
            return None
        return group_refusal(cluster, self.group, instance, after)

    def _rule_refusal(self, instance: Instance, before: Nodes, after: Nodes) -> Refusal | None:
        """Bonds, hard locations and migration tags, for each node whose role changes."""
        mirror = self._mirror_bar(instance, before, after)
        if before[:1] == after[:1]:
            return mirror
        return self._bar(instance, before[:1], after[0]) or mirror

    def _bar(self, instance: Instance, source: Nodes, target: int) -> Refusal | None:
        """What keeps the primary of `instance` off `target`, whatever that has left."""
        bonds, cluster = self._working.bonds, self._working.cluster
        from iallocator.limits.refusal import Refusal, migration_refusal

        barred = migration_refusal(cluster, source[0], target) if source else None
        reason = bonds.refused(instance, (target,)).get(target)
        if barred is None and reason is not None:
            return Refusal(reason, bonds.told(instance, (target,))[target], target)
        return barred

    def _mirror_bar(self, instance: Instance, before: Nodes, after: Nodes) -> Refusal | None:
        """The hard location that keeps the mirror off a node where `instance` is not now."""
        bonds = self._working.bonds
        for target, reason in bonds.refused_mirrors(instance, after[1:]).items():
            if target not in before:
                from iallocator.limits.refusal import Refusal

                return Refusal(reason, bonds.told(instance, (target,))[target], target)
        return None

    def _limit_refusal(self, instance: Instance, before: Nodes, after: Nodes) -> Refusal | None:
        """The first limit that a node breaks whose role changes."""
        state = self._working.state
        with state.trial():
            if before:
                state.remove(instance, before)
            primary, mirror = before[:1] != after[:1], before[1:] != after[1:]
            return self._failing(instance, before, after, primary, mirror)

    def _failing(
        self, instance: Instance, before: Nodes, after: Nodes, primary: bool, mirror: bool
    ) -> Refusal | None:
        """The first limit that fails on the new nodes; `primary`, `mirror`: those are asked."""
        checker = self._working.kernels.checker(self._working.state)
        failing = None
        if primary:
            motion = self._motion_off(before[0]) if before else self.motions.new
            checks = checks_for(PRIMARY, instance, motion.primary)
            index = after[0]
            failing = checker.failing_primary(instance, index, checks)
        if failing is None and len(after) > 1 and mirror:
            index = after[1]
            mirror_checks = self._mirror_checks(instance, before, after)
            failing = checker.failing_secondary(instance, after[0], index, mirror_checks)
        if failing is None:
            return None
        from iallocator.limits.refusal import Refusal

        check, numbers = failing
        return Refusal(check.reason, numbers, index)

    def _mirror_checks(self, instance: Instance, before: Nodes, after: Nodes) -> Sequence[Check]:
        """What is tested on the new secondary of a move or of a new instance."""
        if after[1] in before[:1]:
            return self._left_behind(instance, after[1])
        motion = self._motion_off(before[-1]) if before else self.motions.new
        return checks_for(SECONDARY, instance, motion.secondary)

    def _n1_refusal(self, instance: Instance, before: Nodes, after: Nodes) -> Refusal | None:
        """Which failure could not be survived any more; see `iallocator.n1.rules.Rules`."""
        motion = self._motion_off(before[0]) if before else self.motions.new
        if self.rules.mode == "off" or not motion.asks_n1:
            return None
        from iallocator.placement.n1_of_moves import n1_refusal

        state, kernels = self._working.state, self._working.kernels
        return n1_refusal(state, kernels, self.rules, self.scope.nodes, instance, before, after)
