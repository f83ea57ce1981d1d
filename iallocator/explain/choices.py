"""Explain the choice of a group for an instance, with notes on the options and limits in effect."""

from __future__ import annotations

from iallocator.constraints.words import quantity
from iallocator.errors import FEW_NAMES
from iallocator.explain.explanation import Decision
from iallocator.explain.facts import GroupReport, NodeReport
from iallocator.explain.group_responses import between_groups
from iallocator.explain.survey import exclusions
from iallocator.model.storage import pool_name, presumed
from iallocator.placement.results import POLICY_RANK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from iallocator.explain.group_responses import Choice, GroupResponse
    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance
    from iallocator.options.settings import Settings
    from iallocator.placement.results import GroupSolution
    from iallocator.requests import Allocate

__all__ = [
    "CHOSEN_AS_NEW",
    "PLACED_TOGETHER",
    "choice_of",
    "chosen_together",
    "entries_of",
    "limit_notes",
    "nowhere",
    "option_notes",
    "order_note",
    "request_notes",
    "scope_note",
    "soft_constraint_notes",
    "subject",
    "unmovable_notes",
]


def nowhere(
    cluster: Cluster, instance: Instance, notes: list[str], left_out: Mapping[str, str]
) -> Decision:
    """Return the decision that `instance` cannot be placed, because no group was queried.

    `left_out`: UUID of a group -> why it was not queried.
    """
    groups = [_left_out(group, left_out[group.uuid]) for group in cluster.groups]
    return Decision(instance.name, subject(instance), None, groups, notes)


def choice_of(
    cluster: Cluster,
    choice: Choice,
    notes: list[str],
    left_out: Mapping[str, str],
    exactly: GroupResponse | None = None,
) -> Decision:
    """Return the decision on an instance for which groups were compared.

    `left_out`: UUID of another group -> why it was not queried. `exactly`: the response of the
    chosen group, if the nodes of several instances were chosen together.
    """
    instance, offers, allocation = choice.allocation.instance, choice.offers, choice.allocation
    groups = [_report(cluster, choice, k, offer) for k, offer in enumerate(offers.ranked)]
    usable = len(offers.usable)
    if exactly is not None:
        groups = [exactly.report, *(g for g in groups if g.uuid != exactly.group.uuid)]
        for group in groups[1:]:
            group.comparison = PLACED_TOGETHER
    answer = groups[0].placements[0] if exactly or usable else None
    if answer is not None and exactly is None:
        compared = between_groups(offers.order, cluster, groups[:usable])
        for group in groups[1:usable]:
            by_order = compared.get(group.uuid, "")
            group.comparison, by_score = _compared(groups[0], group, by_order)
            if not by_score:
                answer.over[group.placements[0].where] = group.comparison
        notes += soft_constraint_notes(offers.ranked[0].extra)
    queried = {group.uuid for group in groups}
    why = (
        f"only group {allocation.groups[0].name} is asked for"
        if allocation.named
        else "it has no nodes"
    )
    others = [group for group in cluster.groups if group.uuid not in queried]
    groups += [_left_out(group, left_out.get(group.uuid, why)) for group in others]
    return Decision(instance.name, subject(instance), answer, groups, notes)


def _report(cluster: Cluster, choice: Choice, position: int, offer: GroupSolution) -> GroupReport:
    """Return the report of the group at `position`; it has the reason if no nodes were queried."""
    group_response, instance = choice.group_responses[position], choice.allocation.instance
    allowed = choice.allocation.allowed
    group = next(group for group in choice.allocation.groups if group.uuid == offer.uuid)
    excluded = [exclusions(cluster.nodes[index], allowed) for index in group.nodes]
    if group_response is not None:
        if allowed is not None:  # a node may be excluded for two reasons
            group_response.report.nodes = [
                NodeReport(node.name, why) if node.excluded else node
                for node, why in zip(group_response.report.nodes, excluded)
            ]
        return group_response.report

    # Why the group is not possible, in the words of the response, and with the missing networks
    missing = sorted(set(instance.networks) - group.networks)
    why = offer.obstacle.removeprefix(f"Group {group.name} ({group.alloc_policy}): ")
    why = why.removeprefix(f"Group {group.name}: error ")
    report = GroupReport(offer.group, offer.uuid, offer.alloc_policy)
    report.obstacle = f"{why}: {', '.join(missing)}" if missing else why
    if sum(1 for why in excluded if not why) < instance.required_nodes:
        names = cluster.node_names(group.nodes)
        report.nodes = [NodeReport(name, why) for name, why in zip(names, excluded)]
    return report


def _left_out(group: Group, why: str) -> GroupReport:
    return GroupReport(group.name, group.uuid, group.alloc_policy, obstacle=why)


def _compared(first: GroupReport, group: GroupReport, by_order: str = "") -> tuple[str, bool]:
    """Return why `group` comes after `first`, and whether its score is the reason.

    `first`: the group of the answer. `by_order`: the criterion by which a strategy prefers the best
    node of `first`; "" without a strategy.
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


N1_MODE_NOTES = {
    "strict": "N+1 is strict: every node failure must be tolerated, whatever its cause is.",
    "no-new": "N+1 ignores failures that are not tolerated already.",
    "off": "Global N+1 is not checked.",
}
"""The modes of N+1 that a note explains."""

MARKS = ("; placed together by exact search", "; optimal: score")
"""The clauses in ``info`` of a response which mean that nodes of instances were chosen together."""

PLACED_TOGETHER = "Its place was chosen together with those of the others, not by its own rank."

CHOSEN_AS_NEW = (
    "Chosen as for a new instance: scores run over all nodes, and what it uses now is still in use."
)


def chosen_together(response: Mapping[str, Any]) -> bool:
    """Return whether the nodes of all instances were chosen together."""
    return any(mark in response["info"] for mark in MARKS)


def entries_of(response: Mapping[str, Any]) -> dict[str, Any]:
    """Return name of an instance -> its entry in the member ``solutions`` of the response."""
    return {one["instance"]: one for one in response["solutions"] if "instance" in one}


def request_notes(settings: Settings, request: Allocate) -> list[str]:
    """Return notes on the nodes to which the request and the options restrict the search."""
    notes = []
    if request.group_name is not None:
        notes.append(f"The request names group {request.group_name}.")
    option = settings.restrict_allocation_to
    allowed = request.restrict_to if option is None else option
    if allowed is not None:
        source = "the request" if option is None else "--restrict-allocation-to"
        notes.append(f"Restricted by {source} to {', '.join(allowed)}.")
    return notes + option_notes(settings)


def option_notes(settings: Settings) -> list[str]:
    """Return notes on options that change the limits for a new instance."""
    notes = []
    if settings.ignore_soft_errors:
        notes.append("Soft limits are not checked.")
    if settings.n1 in N1_MODE_NOTES:
        notes.append(N1_MODE_NOTES[settings.n1])
    return notes


def limit_notes(cluster: Cluster, settings: Settings, instance: Instance) -> list[str]:
    """Return notes on the limits that are enforced when `instance` moves from its nodes.

    `settings`: the settings of the group with the candidate nodes.
    """
    if settings.ignore_soft_errors:
        return ["Soft limits are not checked."]
    lost = [cluster.nodes[i].name for i in instance.nodes if not cluster.nodes[i].online]
    if not lost:
        return []
    return [
        f"Not online: {' and '.join(lost)}. "
        "Moves from an offline node are checked against hard limits only."
    ]


def scope_note(cluster: Cluster, instance: Instance) -> list[str]:
    """Return a note with the groups that are not queried because `instance` stays in its group."""
    local = cluster.group_of(instance)
    others = [g.name for g in cluster.groups if g is not local and g.nodes]
    return [f"It stays in group {local.name}: not tried: {', '.join(others)}."] if others else []


def order_note(names: Sequence[str], done: str = "moved") -> list[str]:
    """Return a note that the instances `names` are `done` before this decision.

    `done`: ``moved`` or ``placed``. Without `names`, the result is [].
    """
    if not names:
        return []
    named = ", ".join(names) if len(names) <= FEW_NAMES else f"{len(names)} instances"
    verb = "is" if len(names) == 1 else "are"
    return [f"As things are once {named} of this request {verb} {done}."]


def unmovable_notes(cluster: Cluster, instance: Instance) -> list[str]:
    """Return a note that an instance cannot move if no other node has access to its disks."""
    if instance.kind.relocatable:
        return []
    return [
        f"Disks of type {instance.template} are on {cluster.nodes[instance.nodes[0]].name} only: "
        "no other node has a copy, and none has access to them."
    ]


def soft_constraint_notes(extra: Mapping[str, Any]) -> list[str]:
    """Return a note on each soft constraint that the placement violates."""
    return [
        f"Its place violates a soft constraint: should be {text}."
        for text in extra.get("broken", ())
    ]


def subject(instance: Instance) -> str:
    """Return what an instance requires, in one line."""
    parts = [
        instance.template,
        quantity(instance.memory, "MiB memory"),
        quantity(instance.vcpus, "virtual cpus"),
    ]
    if instance.disk_sizes:
        sizes = " + ".join(map(str, instance.disk_sizes))
        parts.append(f"{sizes} MiB disk")
    if instance.local and instance.disk != sum(instance.disk_sizes):
        parts[-1] += f" ({instance.disk} on each node)"
    if instance.pools is not None and instance.pools != presumed(instance.template):
        parts.append(f"in storage pool {' and '.join(map(pool_name, instance.pools))}")
    if instance.exclusion:
        parts.append(f"exclusion tags {', '.join(instance.exclusion)}")
    if instance.desired:
        parts.append(f"desired location {', '.join(sorted(instance.desired))}")
    return ", ".join(parts)
