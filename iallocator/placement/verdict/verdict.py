"""Whether an instance may go from where it is to given nodes, and if not, why: one verdict.

What an `iallocator.placement.evaluator.Evaluator` is asked about single placements; its
module has the contract.
"""

from __future__ import annotations

from iallocator.limits.refusal import Refusal, group_refusals, migration_refusal
from iallocator.placement.verdict.move_limits import MoveLimits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.n1.rules import Rules
    from iallocator.placement.motions import Motions
    from iallocator.placement.working import Working


__all__ = ["Verdicts"]


class Verdicts:
    """Verdicts on single placements in `group`; N+1 by `rules`, scores run over `nodes`.

    `policy_reason` is as `Behaviour.policy_reason`.
    """

    __slots__ = ("_limits", "_policy_reason", "_working", "group", "motions", "nodes", "rules")

    def __init__(
        self,
        working: Working,
        group: Group,
        motions: Motions,
        rules: Rules,
        nodes: Sequence[int],
        policy_reason: str,
    ) -> None:
        self._working = working
        self.group = group
        self.motions = motions
        self.rules = rules
        self.nodes = nodes
        self._policy_reason = policy_reason
        self._limits = MoveLimits(working.state, working.kernels.fixed, motions)

    def failover_refusal(self, instance: Instance, present: Nodes) -> Refusal | None:
        """Why an instance on two nodes cannot exchange their roles, N+1 aside."""
        return self._rule_refusal(instance, present, present[::-1]) or self._limit_refusal(
            instance, present, present[::-1]
        )

    def passage_refusal(self, instance: Instance, present: Nodes) -> Refusal | None:
        """The same for one that goes on at once: those it must be with may be elsewhere."""
        bonds, after = self._working.bonds, present[::-1]
        reason = bonds.refused_passing(instance, after[:1]).get(after[0])
        if reason is not None:
            return Refusal(reason, bonds.refusal_texts(instance, after[:1])[after[0]], after[0])
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
            or self._bar(instance, before, after[0])
            or self._mirror_bar(instance, before, after)
            or self._limits.refusal(instance, before, after, len(after) < 2, True)
        )

    def arrival_refusals(
        self, instance: Instance, before: Nodes, nodes: Sequence[int]
    ) -> dict[int, Refusal]:
        """Those of `nodes` that refuse `instance` as its primary, as `arrival_refusal` would."""
        found = self._bars(instance, before, nodes)
        found |= self._group_refusals(instance, before, nodes)
        left = [index for index in nodes if index not in found]
        return found | self._limits.primary_refusals(instance, before, left)

    def mirror_arrival_refusals(
        self, instance: Instance, before: Nodes, primary: int, nodes: Sequence[int]
    ) -> dict[int, Refusal]:
        """Those of `nodes` that refuse the mirror of `instance`, whose primary will be `primary`.

        As `arrival_refusal` would, if nothing speaks against the primary.
        """
        found = self._mirror_bars(instance, before, nodes)
        found |= self._group_refusals(instance, before, nodes)
        left = [index for index in nodes if index not in found]
        return found | self._limits.mirror_refusals(instance, before, primary, left)

    def _group_refusal(self, instance: Instance, before: Nodes, after: Nodes) -> Refusal | None:
        found = self._group_refusals(instance, before, after)
        return next((found[index] for index in after if index in found), None)

    def _group_refusals(
        self, instance: Instance, before: Nodes, nodes: Sequence[int]
    ) -> dict[int, Refusal]:
        """What the group has against one that is not from it, for each of `nodes`."""
        cluster = self._working.cluster
        if before and cluster.nodes[before[0]].group is self.group:
            return {}
        return group_refusals(cluster, self.group, instance, nodes, self._policy_reason)

    def _rule_refusal(self, instance: Instance, before: Nodes, after: Nodes) -> Refusal | None:
        """Bonds, hard locations and migration tags, for each node whose role changes."""
        mirror = self._mirror_bar(instance, before, after)
        if before[:1] == after[:1]:
            return mirror
        return self._bar(instance, before, after[0]) or mirror

    def _bar(self, instance: Instance, before: Nodes, target: int) -> Refusal | None:
        """What keeps the primary of `instance` off `target`, whatever that has left."""
        return self._bars(instance, before, (target,)).get(target)

    def _bars(
        self, instance: Instance, before: Nodes, targets: Sequence[int]
    ) -> dict[int, Refusal]:
        """The same for each of `targets` that it is kept off."""
        bonds = self._working.bonds
        found: dict[int, Refusal] = {}
        refused = bonds.refused(instance, targets)
        if refused:
            texts = bonds.refusal_texts(instance, refused)
            found = {index: Refusal(why, texts[index], index) for index, why in refused.items()}
        if before:
            found |= self._way_bars(before, targets)
        return found

    def _way_bars(self, before: Nodes, targets: Sequence[int]) -> dict[int, Refusal]:
        """What keeps it off by migration tags; off a dead primary all ways begin at the mirror."""
        cluster, source = self._working.cluster, before[0]
        reached = self.motions.reaches(cluster.nodes[source])
        if len(before) > 1 and not (
            reached or self._working.settings.behaviour.copies_from_offline
        ):
            failover = self._failover_bar(*before)
            if failover is not None:
                return dict.fromkeys(targets, failover)
            source = before[1]
        if not cluster.nodes[source].migration:
            return {}
        refusals = {index: migration_refusal(cluster, source, index) for index in targets}
        return {index: barred for index, barred in refusals.items() if barred is not None}

    def _failover_bar(self, dead: int, mirror: int) -> Refusal | None:
        """Why what has its disks on `dead`, too, cannot start on `mirror`, whatever that has."""
        nodes = self._working.cluster.nodes
        if nodes[mirror].online:
            return migration_refusal(self._working.cluster, dead, mirror)
        names = nodes[dead].name, nodes[mirror].name
        return Refusal(
            "FailMig", "neither {} nor {}, where its disks are, is online".format(*names)
        )

    def _mirror_bar(self, instance: Instance, before: Nodes, after: Nodes) -> Refusal | None:
        """The hard location that keeps the mirror off a node where `instance` is not now."""
        return next(iter(self._mirror_bars(instance, before, after[1:]).values()), None)

    def _mirror_bars(
        self, instance: Instance, before: Nodes, targets: Sequence[int]
    ) -> dict[int, Refusal]:
        """The same for each of `targets` that it is kept off."""
        bonds = self._working.bonds
        reasons = bonds.refused_mirrors(instance, targets)
        refused = {index: why for index, why in reasons.items() if index not in before}
        if not refused:
            return {}
        texts = bonds.refusal_texts(instance, tuple(refused))
        return {index: Refusal(why, texts[index], index) for index, why in refused.items()}

    def _limit_refusal(self, instance: Instance, before: Nodes, after: Nodes) -> Refusal | None:
        """The first limit that a node breaks whose role changes."""
        state = self._working.state
        with state.trial():
            if before:
                state.remove(instance, before)
            changed = before[:1] != after[:1], before[1:] != after[1:]
            return self._limits.refusal(instance, before, after, *changed)

    def _n1_refusal(self, instance: Instance, before: Nodes, after: Nodes) -> Refusal | None:
        """Which failure could not be survived any more; see `iallocator.n1.rules.Rules`."""
        nodes, motion = self._working.cluster.nodes, self.motions.new
        if before:
            motion = self.motions.off(nodes[before[0]])
        if self.rules.mode == "off" or not motion.asks_n1:
            return None
        from iallocator.placement.verdict.n1_of_moves import n1_refusal

        state, kernels = self._working.state, self._working.kernels
        return n1_refusal(state, kernels, self.rules, self.nodes, instance, before, after)
