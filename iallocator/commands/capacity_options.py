"""Which instances ``capacity`` counts, and how, from its options and the policy of the cluster."""

from __future__ import annotations

from iallocator.model.templates import DISKLESS, DRBD, PLAIN, TEMPLATES
from iallocator.planners.capacity.capacity import (
    CapacityOptions,
    FillingExtent,
    FillingRules,
    FillingScope,
)
from iallocator.planners.capacity.site import first_sizes, known_templates
from iallocator.planners.eligible import group_named, nodes_named
from iallocator.wire.reading import Reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.commands.planner_options import Capacity as Settings
    from iallocator.options.settings import Settings as Common
    from iallocator.planners.capacity.forecast import Past
    from iallocator.sources import Source

__all__ = ["capacity_options"]


def capacity_options(settings: Settings, tagged: Common, source: Source) -> CapacityOptions:
    """Return the sizes of instances to count, and how to count them.

    `tagged`: the settings completed from tags. With ``--group``, the function restricts `settings`
    to the nodes of the group.
    """
    if settings.group:
        group = group_named(source.cluster, settings.group)
        settings.restrict_allocation_to = [
            node
            for node in source.cluster.node_names(group.nodes)
            if node in (tagged.restrict_allocation_to or [node])
        ]
    load = Reading.of(settings).load
    template = settings.disk_template or _usual_template(settings, source)
    standard, largest = first_sizes(
        source.policy, template, settings.spindle_use, load,
        settings.standard_alloc, settings.tiered_alloc,
    )  # fmt: skip
    if not TEMPLATES[template].has_disks and settings.behaviour.plans_for_diskless:
        for one in (standard, *largest):
            one.disk = 0
    past: list[Past] = []
    if settings.replay:
        from iallocator.commands.earlier_requests import past_requests

        past = past_requests(settings.replay, settings, source.cluster)
    return CapacityOptions(
        standard,
        largest,
        scope=FillingScope(
            group=settings.group,
            allowed=settings.restrict_allocation_to,
            offline=settings.offline,
            accept_errors=settings.accept_existing_errors,
            independent=settings.independent_groups,
        ),
        rules=FillingRules(
            n1=tagged.n1 if tagged.says("n1", "no_capacity_checks") else "",
            ignore_soft=tagged.ignore_soft_errors,
            n1_of={i: own.n1 for i, own in tagged.by_group.items() if "n1" in own.origins},
            soft_of={i: own.ignore_soft_errors for i, own in tagged.by_group.items()},
            max_cpu=settings.max_cpu,
            min_disk=settings.min_disk,
            behaviour=settings.behaviour,
        ),
        extent=FillingExtent(
            limit=settings.max_length,
            seconds=settings.planning_seconds,
            searches=settings.searches,
            thoroughness=settings.thoroughness,
        ),
        tag_prefix=settings.tag_prefix,
        past=past,
    )


def _usual_template(settings: Settings, source: Source) -> str:
    """Return the disk template of the instances to count if no option names one.

    With ``--compat hail``, it is the first template of the policy. Otherwise, diskless is the last
    choice, because the default policy of htools begins with it. If the policy begins with diskless,
    drbd is preferred if some group has two usable nodes, then plain, then the order of the policy.
    Unknown templates of the policy are left out.

    Raises
    ------
    UsageError
        If the policy has no template that is known.
    """
    templates = known_templates(source.policy)
    if not settings.behaviour.plans_for_diskless or TEMPLATES[templates[0]].has_disks:
        return templates[0]
    nodes, words = source.cluster.nodes, settings.restrict_allocation_to
    allowed = nodes_named(source.cluster, words, "--restrict-allocation-to") if words else ()
    pairs = any(
        sum(nodes[i].online and (not allowed or nodes[i].name in allowed) for i in group.nodes) > 1
        for group in source.cluster.groups
    )
    wanted = (*([DRBD] if pairs else []), PLAIN, *templates[1:])
    return next((one for one in wanted if one in templates), DISKLESS)
