"""Check one move: find why an instance may not go from its nodes to other nodes.

The public method is `iallocator.placement.evaluator.Evaluator.check`. N+1 is kept if each failure
that is tolerated before the move is tolerated after it.

Cost: the limits of the nodes with a new role; for N+1 a bound of each node of the group, and
simulations only if the bounds do not decide.
"""

from __future__ import annotations

from iallocator.constraints.table import FAILURE_SAFETY
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
    from iallocator.n1 import Rules
    from iallocator.placement.limit_policy import LimitPolicies
    from iallocator.placement.score_scope import SharedContext

__all__ = ["MoveChecks"]


class MoveChecks:
    """Checks moves into `group` on the present state of `context`.

    N+1 is checked by `rules` for failures that affect `nodes`. `policy_reason`: the failure reason
    if the policy of the group rejects an instance; "": the reason is the violated part of the
    policy.
    """

    __slots__ = (
        "_context",
        "_limits",
        "_policy_reason",
        "_tolerance",
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
        self._tolerance = FailureTolerance(context.state, rules, nodes, context.kernels)
        self._limits = MoveLimits(context.state, context.kernels.fixed, limit_policies)

    def check(self, move: Move, n1: bool, passing: bool) -> Rejection | None:
        """Return why `move` is not allowed, with the amounts, or None.

        The order of the checks: networks and storage pools of the group, and its policy, if the
        instance comes from another group; affinity; migration tags; the limits of each node with a
        new role; global N+1 (if `n1`) unless the instance leaves a node that is not online.
        `passing`: the instance leaves the nodes at once, so that its colocation group may be
        elsewhere.
        """
        instance, before, after = move.instance, move.before, move.after
        context, state = self._context, self._context.state
        new_primary, new_secondary = before[:1] != after[:1], before[1:] != after[1:]

        if after != before[::-1] or instance.name not in state.where:
            by_group = self._group_rejections(instance, before, after)
            for index in after:
                if index in by_group:
                    return by_group[index]

        if instance.name not in state.where:  # both roles of a pair may be new
            return (
                self._primary_rejections(instance, before, after[:1]).get(after[0])
                or next(
                    iter(self._secondary_rejections(instance, before, after[1:]).values()), None
                )
                or self._limits.rejection(instance, before, after, len(after) < 2, True)
            )

        # Affinity and migration tags
        rejection: Rejection | None = None
        if passing:  # the instance then goes on at once
            reason = context.affinity.rejected_passing(instance, after[:1]).get(after[0])
            if reason is not None:
                text = context.affinity.rejection_texts(instance, after[:1])[after[0]]
                return Rejection(reason, text, after[0])
            rejection = migration_rejection(context.cluster, *before)
        else:
            if new_primary:
                rejection = self._primary_rejections(instance, before, after[:1]).get(after[0])
            if rejection is None:
                rejected_secondaries = self._secondary_rejections(instance, before, after[1:])
                rejection = next(iter(rejected_secondaries.values()), None)
        if rejection is not None:
            return rejection

        # The limits of the nodes with a new role
        with state.trial():
            if before:
                state.remove(instance, before)
            rejection = self._limits.rejection(instance, before, after, new_primary, new_secondary)
        if rejection is not None or not n1 or self.rules.mode == "off":
            return rejection

        # Global N+1
        limit_policy = self.limit_policies.new
        if before:
            limit_policy = self.limit_policies.off(context.cluster.nodes[before[0]])
        if not limit_policy.asks_n1:
            return None
        with state.trial():
            if before:
                state.remove(instance, before)
            tested = Move(instance, before, after)
            if self._tolerance.allows(tested):
                return None
            stranded = self._tolerance.obstacle(tested)
        text = "the failure of a node would no longer be tolerated"
        if stranded is not None:
            text = FAILURE_SAFETY.words(
                context.cluster, stranded.failure, stranded.instance, stranded.why
            )
        return Rejection(FAILURE_SAFETY.reason, text, after[0])

    def rejections(
        self, instance: Instance, before: Nodes, nodes: Sequence[int], primary: int | None
    ) -> dict[int, Rejection]:
        """Return node -> rejection, for those of `nodes` that reject `instance`.

        The nodes are checked as its secondary beside `primary`; if `primary` is None, as its
        primary. The instance must not be placed.
        """
        if primary is None:
            rejections = self._primary_rejections(instance, before, nodes)
        else:
            rejections = self._secondary_rejections(instance, before, nodes)
        rejections |= self._group_rejections(instance, before, nodes)
        left = [index for index in nodes if index not in rejections]
        if primary is None:
            return rejections | self._limits.primary_rejections(instance, before, left)
        return rejections | self._limits.secondary_rejections(instance, before, primary, left)

    def _group_rejections(
        self, instance: Instance, before: Nodes, nodes: Sequence[int]
    ) -> dict[int, Rejection]:
        """Return node -> why its group rejects `instance`; {} if the instance is in this group
        already.
        """
        cluster = self._context.cluster
        if before and cluster.nodes[before[0]].group is self.group:
            return {}
        return group_rejections(cluster, self.group, instance, nodes, self._policy_reason)

    def _primary_rejections(
        self, instance: Instance, before: Nodes, targets: Sequence[int]
    ) -> dict[int, Rejection]:
        """Return node -> rejection, for `targets` that affinity or migration tags reject as
        primary.

        If the primary is offline and its disks cannot be copied, all moves begin with a failover to
        the secondary.
        """
        affinity, cluster = self._context.affinity, self._context.cluster
        rejections: dict[int, Rejection] = {}
        rejected = affinity.rejected(instance, targets)
        if rejected:
            texts = affinity.rejection_texts(instance, rejected)
            rejections = {
                index: Rejection(why, texts[index], index) for index, why in rejected.items()
            }
        if not before:
            return rejections
        source = before[0]
        copies = self.limit_policies.reaches(cluster.nodes[source])
        copies = copies or self._context.settings.behaviour.copies_from_offline
        if len(before) > 1 and not copies:
            secondary = cluster.nodes[before[1]]
            if secondary.online:
                failover = migration_rejection(cluster, *before)
            else:
                names = cluster.nodes[source].name, secondary.name
                failover = Rejection(
                    "FailMig", "neither {} nor {}, where its disks are, is online".format(*names)
                )
            if failover is not None:
                return rejections | dict.fromkeys(targets, failover)
            source = before[1]
        if cluster.nodes[source].migration:
            for index in targets:
                migration = migration_rejection(cluster, source, index)
                if migration is not None:
                    rejections[index] = migration
        return rejections

    def _secondary_rejections(
        self, instance: Instance, before: Nodes, targets: Sequence[int]
    ) -> dict[int, Rejection]:
        """Return node -> rejection, for `targets` that hard location constraints reject as
        secondary.

        The present nodes of the instance are not rejected.
        """
        affinity = self._context.affinity
        reasons = affinity.rejected_secondaries(instance, targets)
        rejected = {index: why for index, why in reasons.items() if index not in before}
        if not rejected:
            return {}
        texts = affinity.rejection_texts(instance, tuple(rejected))
        return {index: Rejection(why, texts[index], index) for index, why in rejected.items()}
