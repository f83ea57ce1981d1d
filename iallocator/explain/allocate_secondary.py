"""Why an instance gets this secondary: the explanation of ``allocate-secondary``."""

from __future__ import annotations

from iallocator.explain.context import WitnessedContext, option_notes, scope_note
from iallocator.explain.contributions import Contributions, standing
from iallocator.explain.explanation import Decision, GroupReport
from iallocator.explain.facts import Placed
from iallocator.explain.limits import RolesTested, by_policy, exclusions, node_reports
from iallocator.explain.nearest_miss import closest, closest_move
from iallocator.explain.strategy import note_order, placed_by
from iallocator.explain.what_if import WhatIf
from iallocator.placement.new import place_new
from iallocator.render.words import subject

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.explain.facts import Json
    from iallocator.explain.n1 import RecordingN1Check
    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.options import Settings
    from iallocator.placement.new import GroupPlacements
    from iallocator.requests import AllocateSecondary

__all__ = ["explain"]


def explain(
    cluster: Cluster, request: AllocateSecondary, settings: Settings, response: Json
) -> list[Decision]:
    """The one decision of an ``allocate-secondary``."""
    instance = request.instance
    context = WitnessedContext(cluster, settings, [])
    desk = _Desk(context, instance)
    decision = Decision(instance.name, subject(desk.mirrored), None, [desk.report])
    decision.present = cluster.node_names(instance.nodes)
    decision.notes.append(
        f"It is of type {instance.template} now; its primary stays. The score runs over all nodes."
    )
    decision.notes += option_notes(settings) + scope_note(context, instance)
    desk.fill()
    if desk.report.placements:
        decision.answer = desk.report.placements[0]
    else:
        decision.reason = "no node can be the secondary"
    return [decision]


class _Desk:
    """Takes `instance` off its node for good, and tells of the pairs that it could be on.

    hail offers nodes that are not online, too; its N+1 takes the instance for what it was.
    """

    def __init__(self, context: WitnessedContext, instance: Instance) -> None:
        cluster, like_hail = context.cluster, context.settings.like_hail
        self.mirrored = self._judged = instance.as_template("drbd")
        if like_hail:
            self._judged = instance.as_template("drbd")
            self._judged.template = instance.template
        self._context = context
        self._group = group = cluster.group_of(instance)
        self._primary = instance.nodes[0]
        self.report = GroupReport(group.name, group.uuid, group.alloc_policy)
        self._excluded = {
            index: [] if like_hail else exclusions(cluster.nodes[index], None)
            for index in group.nodes
        }
        self._excluded[self._primary] = []
        before = standing(context.state, context.all_nodes())
        context.state.remove(instance, instance.nodes)
        self._scores = Contributions(context.state, context.all_nodes(), self.mirrored, before)

    def fill(self) -> None:
        """Fill the report."""
        context, group, report = self._context, self._group, self.report
        seconds = [i for i in group.nodes if not self._excluded[i] and i != self._primary]
        policy = by_policy(context, group, self.mirrored)
        evaluator = context.evaluator(group, context.all_nodes())
        prospect = WhatIf(context, self.mirrored, evaluator.motions.new)
        seats = RolesTested(prospect, [self._primary], seconds, policy)
        report.nodes = node_reports(context, group, seats, self._excluded)
        if not seconds:
            return
        found = place_new(
            context,
            evaluator,
            self.mirrored,
            [self._primary],
            secondaries=seconds,
            judged=self._judged,
            primary_given=True,
        )
        if found.order is not None:
            note_order(report, found.order, context.cluster)
        report.successes, report.failures = found.successes, found.failures
        report.placements = self._placements(found)
        witness = context.judge(context.all_nodes(), evaluator.rules)
        report.unsurvived = witness.obstacles(self._judged, group, self._scores.score)
        if not found.best:
            report.closest = self._closest(found, witness) or closest_move(context, seats, policy)

    def _placements(self, found: GroupPlacements) -> list[Placed]:
        names = self._context.cluster.node_names
        if found.order is not None and found.best:
            ways = [(p[1], found.score(p), self._scores.of(p[1])) for p in found.best]
            return placed_by(found.order, self._context.cluster, self._group.name, ways)
        return [
            Placed(
                self._group.name, names(placed[1]), found.score(placed), self._scores.of(placed[1])
            )
            for placed in found.best
        ]

    def _closest(self, found: GroupPlacements, witness: RecordingN1Check) -> str:
        """What stood in the way where only N+1 did, else ""."""
        if found.refused is None:
            return ""
        best = found.refused
        return closest(self._context, witness, self._group, self._judged, (), refused=best)
