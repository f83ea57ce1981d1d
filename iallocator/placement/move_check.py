"""Whether an instance may go from where it is to given nodes, and if not, why: one verdict.

What an `iallocator.placement.evaluator.Evaluator` is asked about single placements; its
module has the contract.  N+1 is kept if what could be survived before the move is survived after
it.
"""

from __future__ import annotations

from iallocator.limits.rejection import Rejection, group_rejections, migration_rejection
from iallocator.model.moves import Move
from iallocator.n1.tolerance import FailureTolerance
from iallocator.placement.move_limits import MoveLimits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.rules import Rules
    from iallocator.placement.limit_policy import LimitPolicies
    from iallocator.placement.score_scope import SharedContext
    from iallocator.scoring import Kernels

__all__ = ["MoveChecks", "n1_rejection"]


class MoveChecks:
    """MoveChecks on single placements in `group`; N+1 by `rules`, scores run over `nodes`.

    `policy_reason` is as `Behaviour.policy_reason`.
    """

    __slots__ = (
        "_context",
        "_limits",
        "_policy_reason",
        "group",
        "limit_policies",
        "nodes",
        "rules",
    )

    def __init__(
        self,
        context: SharedContext,
        group: Group,
        limit_policies: LimitPolicies,
        rules: Rules,
        nodes: Sequence[int],
        policy_reason: str,
    ) -> None:
        self._context = context
        self.group = group
        self.limit_policies = limit_policies
        self.rules = rules
        self.nodes = nodes
        self._policy_reason = policy_reason
        self._limits = MoveLimits(context.state, context.kernels.fixed, limit_policies)

    def check(self, move: Move, n1: bool, passing: bool) -> Rejection | None:
        """Return why `move` is not allowed; see `iallocator.placement.evaluator.Evaluator.check`.

        The order of the checks: networks and storage pools of the group, and its policy, if the
        instance comes from another group; affinity; migration tags; the limits of each node
        whose role changes; global N+1 unless the instance leaves a node that is not online.
        """
        instance, before, after = move.instance, move.before, move.after
        if instance.name not in self._context.state.where:  # both roles of a pair may be new
            return (
                self._group_rejection(instance, before, after)
                or self._bar(instance, before, after[0])
                or self._mirror_bar(instance, before, after)
                or self._limits.rejection(instance, before, after, len(after) < 2, True)
            )
        if passing:
            rules = self._passing_rejection(instance, before, after)
        else:
            rules = self._rule_rejection(instance, before, after)
        return (
            (None if after == before[::-1] else self._group_rejection(instance, before, after))
            or rules
            or self._limit_rejection(instance, before, after)
            or (self._n1_rejection(instance, before, after) if n1 else None)
        )

    def rejections(
        self, instance: Instance, before: Nodes, nodes: Sequence[int], primary: int | None
    ) -> dict[int, Rejection]:
        """Return those of `nodes` that reject `instance`, which is off the state.

        They are checked as its primary, or as its secondary if `primary` is given.
        """
        if primary is None:
            found = self._bars(instance, before, nodes)
        else:
            found = self._mirror_bars(instance, before, nodes)
        found |= self._group_rejections(instance, before, nodes)
        left = [index for index in nodes if index not in found]
        if primary is None:
            return found | self._limits.primary_rejections(instance, before, left)
        return found | self._limits.mirror_rejections(instance, before, primary, left)

    def _passing_rejection(
        self, instance: Instance, before: Nodes, after: Nodes
    ) -> Rejection | None:
        """Return what affinity and migration tags say if the instance then goes on at once."""
        bonds = self._context.bonds
        reason = bonds.rejected_passing(instance, after[:1]).get(after[0])
        if reason is not None:
            return Rejection(reason, bonds.rejection_texts(instance, after[:1])[after[0]], after[0])
        return migration_rejection(self._context.cluster, *before)

    def _group_rejection(self, instance: Instance, before: Nodes, after: Nodes) -> Rejection | None:
        found = self._group_rejections(instance, before, after)
        return next((found[index] for index in after if index in found), None)

    def _group_rejections(
        self, instance: Instance, before: Nodes, nodes: Sequence[int]
    ) -> dict[int, Rejection]:
        """What the group has against one that is not from it, for each of `nodes`."""
        cluster = self._context.cluster
        if before and cluster.nodes[before[0]].group is self.group:
            return {}
        return group_rejections(cluster, self.group, instance, nodes, self._policy_reason)

    def _rule_rejection(self, instance: Instance, before: Nodes, after: Nodes) -> Rejection | None:
        """Bonds, hard locations and migration tags, for each node whose role changes."""
        mirror = self._mirror_bar(instance, before, after)
        if before[:1] == after[:1]:
            return mirror
        return self._bar(instance, before, after[0]) or mirror

    def _bar(self, instance: Instance, before: Nodes, target: int) -> Rejection | None:
        """What keeps the primary of `instance` off `target`, whatever that has left."""
        return self._bars(instance, before, (target,)).get(target)

    def _bars(
        self, instance: Instance, before: Nodes, targets: Sequence[int]
    ) -> dict[int, Rejection]:
        """The same for each of `targets` that it is kept off."""
        bonds = self._context.bonds
        found: dict[int, Rejection] = {}
        rejected = bonds.rejected(instance, targets)
        if rejected:
            texts = bonds.rejection_texts(instance, rejected)
            found = {index: Rejection(why, texts[index], index) for index, why in rejected.items()}
        if before:
            found |= self._way_bars(before, targets)
        return found

    def _way_bars(self, before: Nodes, targets: Sequence[int]) -> dict[int, Rejection]:
        """What keeps it off by migration tags; off a dead primary all ways begin at the mirror."""
        cluster, source = self._context.cluster, before[0]
        reached = self.limit_policies.reaches(cluster.nodes[source])
        if len(before) > 1 and not (
            reached or self._context.settings.behaviour.copies_from_offline
        ):
            failover = self._failover_bar(*before)
            if failover is not None:
                return dict.fromkeys(targets, failover)
            source = before[1]
        if not cluster.nodes[source].migration:
            return {}
        rejections = {index: migration_rejection(cluster, source, index) for index in targets}
        return {index: barred for index, barred in rejections.items() if barred is not None}

    def _failover_bar(self, dead: int, mirror: int) -> Rejection | None:
        """Why what has its disks on `dead`, too, cannot start on `mirror`, whatever that has."""
        nodes = self._context.cluster.nodes
        if nodes[mirror].online:
            return migration_rejection(self._context.cluster, dead, mirror)
        names = nodes[dead].name, nodes[mirror].name
        return Rejection(
            "FailMig", "neither {} nor {}, where its disks are, is online".format(*names)
        )

    def _mirror_bar(self, instance: Instance, before: Nodes, after: Nodes) -> Rejection | None:
        """The hard location that keeps the mirror off a node where `instance` is not now."""
        return next(iter(self._mirror_bars(instance, before, after[1:]).values()), None)

    def _mirror_bars(
        self, instance: Instance, before: Nodes, targets: Sequence[int]
    ) -> dict[int, Rejection]:
        """The same for each of `targets` that it is kept off."""
        bonds = self._context.bonds
        reasons = bonds.rejected_mirrors(instance, targets)
        rejected = {index: why for index, why in reasons.items() if index not in before}
        if not rejected:
            return {}
        texts = bonds.rejection_texts(instance, tuple(rejected))
        return {index: Rejection(why, texts[index], index) for index, why in rejected.items()}

    def _limit_rejection(self, instance: Instance, before: Nodes, after: Nodes) -> Rejection | None:
        """The first limit that a node breaks whose role changes."""
        state = self._context.state
        with state.trial():
            if before:
                state.remove(instance, before)
            changed = before[:1] != after[:1], before[1:] != after[1:]
            return self._limits.rejection(instance, before, after, *changed)

    def _n1_rejection(self, instance: Instance, before: Nodes, after: Nodes) -> Rejection | None:
        """Which failure could not be survived any more; see `iallocator.n1.rules.Rules`."""
        nodes, limit_policy = self._context.cluster.nodes, self.limit_policies.new
        if before:
            limit_policy = self.limit_policies.off(nodes[before[0]])
        if self.rules.mode == "off" or not limit_policy.asks_n1:
            return None

        state, kernels = self._context.state, self._context.kernels
        return n1_rejection(state, kernels, self.rules, self.nodes, instance, before, after)


def n1_rejection(
    state: State,
    kernels: Kernels,
    rules: Rules,
    scope: Sequence[int],
    instance: Instance,
    before: Nodes,
    after: Nodes,
) -> Rejection | None:
    """Return the rejection by a failure that is not tolerated if `instance` is on `after`.

    `before`: its nodes now; () for a new instance. Cost: see `iallocator.n1.tolerance`.
    """
    with state.trial():
        if before:
            state.remove(instance, before)
        tolerance = FailureTolerance(state, kernels, rules, scope)
        move = Move(instance, before, after)
        if tolerance.allows(move):
            return None
        stranded = tolerance.obstacle(move)
    if stranded is None:
        return Rejection("FailN1", "some node's failure could not be survived any more", after[0])
    nodes = state.cluster.nodes
    text = (
        f"if {nodes[stranded.node].name} failed, {stranded.instance.name} "
        f"({stranded.instance.memory} MiB memory) would have no place: {stranded.why}"
    )
    return Rejection("FailN1", text, after[0])
