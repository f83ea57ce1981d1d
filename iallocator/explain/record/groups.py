"""Which group takes an instance, and why not the others: what was compared, as a decision."""

from __future__ import annotations

from iallocator.explain.explanation import Decision
from iallocator.explain.facts import NodeReport
from iallocator.explain.group_report import GroupReport
from iallocator.explain.record.limits import exclusions
from iallocator.explain.record.notes import TOGETHER, wish_notes
from iallocator.explain.strategy import between_groups
from iallocator.explain.words import subject
from iallocator.placement.results import POLICY_RANK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from iallocator.explain.record.asked import Asked, Choice
    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance
    from iallocator.placement.results import GroupSolution

__all__ = ["choice_of", "nowhere"]


def nowhere(
    cluster: Cluster, instance: Instance, notes: list[str], left_out: Mapping[str, str]
) -> Decision:
    """The decision where no group was asked; `left_out` says why, by their uuids."""
    groups = [_left_out(group, left_out[group.uuid]) for group in cluster.groups]
    return Decision(instance.name, subject(instance), None, groups, notes)


def choice_of(
    cluster: Cluster,
    choice: Choice,
    notes: list[str],
    left_out: Mapping[str, str],
    exactly: Asked | None = None,
) -> Decision:
    """What came of asking the groups; `left_out` says why others were not, by their uuids.

    `exactly`: what the group said that the instance goes to, where its nodes were chosen
    together with those of others.
    """
    instance, offers, allocation = choice.allocation.instance, choice.offers, choice.allocation
    groups = [_report(cluster, choice, k, offer) for k, offer in enumerate(offers.ranked)]
    usable = len(offers.usable)
    if exactly is not None:
        groups = [exactly.report, *(g for g in groups if g.uuid != exactly.group.uuid)]
        for group in groups[1:]:
            group.verdict = TOGETHER
    answer = groups[0].placements[0] if exactly or usable else None
    if answer is not None and exactly is None:
        compared = between_groups(offers.order, cluster, groups[:usable])
        for group in groups[1:usable]:
            by_order = compared.get(group.uuid, "")
            group.verdict, by_score = _verdict(groups[0], group, by_order)
            if not by_score:
                answer.over[group.placements[0].where] = group.verdict
        notes += wish_notes(offers.ranked[0].extra)
    asked = {group.uuid for group in groups}
    why = (
        f"only group {allocation.groups[0].name} is asked for"
        if allocation.named
        else "it has no nodes"
    )
    others = [group for group in cluster.groups if group.uuid not in asked]
    groups += [_left_out(group, left_out.get(group.uuid, why)) for group in others]
    return Decision(instance.name, subject(instance), answer, groups, notes)


def _report(cluster: Cluster, choice: Choice, position: int, offer: GroupSolution) -> GroupReport:
    """What a group said, or why it was not asked about its nodes."""
    said, instance = choice.said[position], choice.allocation.instance
    group = next(group for group in choice.allocation.groups if group.uuid == offer.uuid)
    if said is not None:
        _restrict(cluster, group, said.report, choice.allocation.allowed)
        return said.report
    report = GroupReport(offer.group, offer.uuid, offer.alloc_policy)
    report.obstacle = _obstacle(group, offer, instance)
    nodes = [cluster.nodes[index] for index in group.nodes]
    excluded = [exclusions(node, choice.allocation.allowed) for node in nodes]
    if sum(1 for why in excluded if not why) < instance.required_nodes:
        names = cluster.node_names(group.nodes)
        report.nodes = [NodeReport(name, why) for name, why in zip(names, excluded)]
    return report


def _restrict(
    cluster: Cluster, group: Group, report: GroupReport, allowed: Collection[str] | None
) -> None:
    """Say of nodes that are out for two reasons both of them."""
    if allowed is None:
        return
    for position, (index, node) in enumerate(zip(group.nodes, report.nodes)):
        if node.excluded:
            why = exclusions(cluster.nodes[index], allowed)
            report.nodes[position] = NodeReport(node.name, why)


def _obstacle(group: Group, offer: GroupSolution, instance: Instance) -> str:
    """Why the group is out, in the words of the response and with what they leave out."""
    missing = sorted(set(instance.networks) - group.networks)
    told = offer.obstacle.removeprefix(f"Group {group.name} ({group.alloc_policy}): ")
    told = told.removeprefix(f"Group {group.name}: error ")
    return f"{told}: {', '.join(missing)}" if missing else told


def _left_out(group: Group, why: str) -> GroupReport:
    return GroupReport(group.name, group.uuid, group.alloc_policy, obstacle=why)


def _verdict(first: GroupReport, group: GroupReport, by_order: str = "") -> tuple[str, bool]:
    """Why `group` comes after `first`, which has the answer; whether that is for its score.

    `by_order` is what a strategy says of their best nodes.
    """
    if POLICY_RANK[group.alloc_policy] > POLICY_RANK[first.alloc_policy]:
        return f"{group.alloc_policy} comes after {first.alloc_policy}", False
    if by_order:
        return by_order, False
    mine, other = first.placements[0], group.placements[0]
    if first.by_losses and group.by_losses and mine.rank != other.rank:
        return f"loses more possible allocations: {other.rank} against {mine.rank}", False
    equal = f"{mine.total:.8f}" == f"{other.total:.8f}"
    if equal or (first.by_losses and group.by_losses):
        return "equal, but later in the order of groups", False
    what = "score and penalty" if mine.penalty or other.penalty else "score"
    return f"{what} higher by {other.total - mine.total:.8f}", True
