"""Where a filling ends for want of a place: which nodes came closest, and what they lack."""

from __future__ import annotations

from iallocator.names import domain_of
from iallocator.placement.motions import Motion
from iallocator.placement.nearest.roles import RolesTested
from iallocator.placement.nearest.search import closest
from iallocator.placement.verdict.what_if import WhatIf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.model.instance import Instance
    from iallocator.planners.capacity.site import CapacityState

__all__ = ["closest_of"]


def closest_of(site: CapacityState, instance: Instance) -> str:
    """What the nearest nodes of any group lack for `instance`; "" if not a resource is lacking."""
    cluster = site.state.cluster
    domain = domain_of(node.name for node in cluster.nodes)
    pair = instance.required_nodes == 2
    misses = []
    for limits, nodes in site.open_to(instance):
        motion = Motion("new", limits, limits)
        prospect = WhatIf(site.state, site.kernels, instance, motion)
        roles = RolesTested(prospect, nodes, nodes if pair else None, {})
        misses.append(closest(cluster, roles, lambda name: name.removesuffix(domain)))
    told = [miss for miss in misses if miss.text]
    return min(told, key=lambda miss: miss.part).text if told else ""
