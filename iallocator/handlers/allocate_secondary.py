"""Answer ``allocate-secondary``: choose a secondary for an instance that becomes drbd."""

from __future__ import annotations

from iallocator.model.templates import DRBD, PLAIN, TEMPLATES
from iallocator.placement.groups import fill_offer
from iallocator.placement.nearest import nearest_secondary
from iallocator.placement.new import place_new
from iallocator.placement.results import GroupSolution
from iallocator.reply import Reply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.placement.context import Context
    from iallocator.requests.existing import AllocateSecondary

__all__ = ["allocate_secondary"]


def allocate_secondary(context: Context, request: AllocateSecondary) -> Reply:
    """Answer with the best secondaries among the other nodes of the group; the primary stays.

    The secondary must be online; hail does not check it.
    """
    cluster, state = context.cluster, context.state
    instance = request.instance
    group = cluster.group_of(instance)
    primary = instance.nodes[0]
    as_drbd = instance.as_template(DRBD)
    checked = as_drbd
    if context.settings.behaviour.checks_n1_by_old_template:  # N+1 uses the old one
        checked = instance.as_template(DRBD)
        checked.template, checked.kind = instance.template, TEMPLATES[PLAIN]
        checked.needs_secondary = False
    state.remove(instance, instance.nodes)
    evaluator = context.evaluator(group, context.all_nodes())
    every = context.settings.behaviour.offers_offline_secondaries
    nodes = group.nodes if every else evaluator.online_nodes()
    others = [index for index in nodes if index != primary]
    offer = GroupSolution(group.name, group.uuid, group.alloc_policy)
    if not others:
        message = "No valid allocation solutions, failure reasons: no other online node"
        return Reply(False, message, [], [])
    placements = place_new(
        evaluator, as_drbd, [primary], secondaries=others, checked=checked, primary_given=True
    )  # fmt: skip
    alive = any(node.online for node in cluster.nodes)
    if not (alive or context.settings.behaviour.scores_dead_clusters):
        placements.best = [(0.0, nodes) for _, nodes in placements.best]
    fill_offer(offer, context, evaluator, placements)
    solutions = [offer.document(context.settings.top)]
    if not placements.best:
        nearest = nearest_secondary(context, evaluator, as_drbd, placements)
        return Reply(False, offer.clause() + nearest, [], solutions)
    return Reply(True, offer.clause(), offer.placements[0][1][1], solutions)
