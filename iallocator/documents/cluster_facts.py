"""Collect the facts of a cluster in one state: inventory, nodes with resources, and health."""

from __future__ import annotations

from dataclasses import dataclass

from iallocator.constraints import relations_of
from iallocator.constraints.listing import ListingFacts, list_constraints
from iallocator.deadline import Deadline, Running
from iallocator.documents.checkup import counts_of
from iallocator.documents.overview import group_overviews, score_terms
from iallocator.model.columns import (
    CPUS,
    DISK,
    FREE_SPINDLES,
    MEMORY,
    PRIMARIES,
    SECONDARIES,
    SPINDLES,
)
from iallocator.planners.check.health import (
    FINDING_KINDS,
    NOT_ANALYSED,
    examine,
    failures,
    unexamined,
)
from iallocator.planners.power_state import Switched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from iallocator.aliases import Json
    from iallocator.constraints.relations import Relations
    from iallocator.model.cluster import Cluster, Group, Node
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.options.settings import Settings
    from iallocator.planners.check.health import GroupHealth

__all__ = [
    "Examination", "cluster_facts", "constraint_list", "health_at", "inventory", "is_late",
    "nodes_at", "page_seconds",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Examination:
    """The checks of a state: N+1, the share of free disk, affinity, and the deadline.

    `n1`: the mode of N+1. `modes`: index of a group -> mode of N+1, for groups with settings in
    tags.
    """

    n1: str
    modes: Mapping[int, str]
    min_disk: float
    relations: Relations | None
    deadline: Deadline

    @classmethod
    def of(
        cls, settings: Settings, min_disk: float = 0.0, relations: Relations | None = None
    ) -> Examination:
        """Return the checks with the N+1 modes of `settings` and of the groups' tags.

        The deadline is the end of the time limit of the run.
        """
        modes = {index: own.n1 for index, own in settings.by_group.items()}
        deadline = Deadline.of_run(settings.planning_seconds)
        return cls(settings.n1, modes, min_disk, relations, deadline)


PER_INSTANCE = 20e-6
"""Estimated seconds to write the part of a page about one instance."""

PAGE_SECONDS_PER_NODE = 200e-6
"""Estimated seconds to write the part of a page about one node."""

PER_STEP = 200e-6
"""Estimated seconds to write the part of a page about one step of a transition."""


def page_seconds(cluster: Cluster) -> float:
    """Return the estimated seconds to write a page about `cluster`."""
    return len(cluster.instances) * PER_INSTANCE + len(cluster.nodes) * PAGE_SECONDS_PER_NODE


PAGE_GRACE_SECONDS = 0.25
"""Seconds after the time limit within which a page should be written."""


def is_late(cluster: Cluster, steps: int, limit: float) -> bool:
    """Return whether a whole page would end long after the time limit of the run.

    `cluster` and the number of `steps` of its transition are on the page; `limit` is in seconds.
    """
    left = Deadline(limit, since=Running.began).left
    return page_seconds(cluster) + steps * PER_STEP > max(left, 0.0) + PAGE_GRACE_SECONDS


def inventory(cluster: Cluster) -> Json:
    """Return the name of the cluster, and facts of nodes and instances that moves do not change.

    These are the tags and locations of nodes, and the sizes and tags of instances, by name.
    """
    return {
        "name": cluster.name,
        "nodes": {
            node.name: {"tags": sorted(node.tags), "locations": sorted(node.locations)}
            for node in cluster.nodes
        },
        "instances": {one.name: _sizes(one) for one in cluster.instances},
    }


def _sizes(one: Instance) -> Json:
    return {
        "admin_state": one.admin_state,
        "disk_template": one.template,
        "memory": one.memory,
        "disk": one.disk,
        "vcpus": one.vcpus,
        "tags": sorted(one.tags),
    }


def cluster_facts(
    state: State,
    how: Examination,
    health: Sequence[GroupHealth] | None = None,
    only: Group | None = None,
) -> Json:
    """Return the facts on the page of a cluster in `state`, as plain data.

    `health`: the findings, if they are known already. `only`: the only group on the page; None for
    all.
    """
    cluster = state.cluster
    instances = cluster.instances if only is None else cluster.members(only)
    now = nodes_at(state, "Now")
    now["nodes"] = [one for one in now["nodes"] if only is None or one["group"] == only.name]
    return {
        "cluster": inventory(cluster),
        "kinds": FINDING_KINDS,
        "not_analysed": NOT_ANALYSED,
        "before": health_at(state, how, health, only=only),
        "states": [now],
        "running": sum(one.running for one in instances),
        "instances": [
            {
                "name": one.name,
                "nodes": cluster.node_names(state.where[one.name]),
                "group": next((cluster.nodes[k].group.name for k in state.where[one.name]), ""),
                **_sizes(one),
            }
            for one in instances
        ],
    }


def nodes_at(state: State, title: str) -> Json:
    """Return the nodes in `state` as plain data, with the `title` of the state.

    A node has its instances by role, and (used, reserved, total, unit) for memory, disk, virtual
    cpus and spindles. The member ``created`` has the sizes of the instances that the cluster does
    not have yet.
    """
    known = {one.name for one in state.cluster.instances}
    created = {
        one.name: _sizes(one)
        for some in state.primaries
        for one in some.values()
        if one.name not in known
    }
    nodes = [_node_in(state, node) for node in state.cluster.nodes]
    return {"title": title, "nodes": nodes, "created": created}


def _node_in(state: State, node: Node) -> Json:
    column = [values[node.index] for values in state.columns]
    memory = node.allocatable_memory
    spindles: tuple[float, float] = column[SPINDLES], node.high_spindles
    if node.exclusive_storage:
        spindles = node.total_spindles - column[FREE_SPINDLES], node.total_spindles
    return {
        "name": node.name,
        "group": node.group.name,
        "offline": node.offline,
        "drained": node.drained,
        "vm_capable": node.vm_capable,
        "online": node.online,
        "counts": [column[PRIMARIES], column[SECONDARIES]],
        "held": [sorted(state.primaries[node.index]), sorted(state.secondaries[node.index])],
        "resources": [
            (memory - column[MEMORY], state.reserved[node.index], memory, "MiB"),
            (node.total_disk - column[DISK], 0, node.total_disk, "MiB"),
            (column[CPUS], 0, node.total_cpus * node.vcpu_ratio, ""),
            (spindles[0], 0, spindles[1], ""),
        ],
    }


def health_at(
    state: State,
    how: Examination,
    health: Sequence[GroupHealth] | None = None,
    *,
    off: Collection[int] = (),
    on: Collection[int] = (),
    only: Group | None = None,
) -> Json:
    """Return the health of `state` after the nodes `off` are set offline, and `on` online.

    `health`: the findings, if they are known already. The result also has the failures of nodes,
    the groups and the statistics. `only`: the only group to examine; None for all.
    """
    with Switched(state.cluster, off=off, on=on):
        if health is None and how.deadline.over():
            health = unexamined(state)
        elif health is None:
            health = examine(
                state, how.n1, how.min_disk, how.relations, how.deadline, how.modes, begun_only=True
            )
        if only is not None:
            health = [one for one in health if one.group is only]
        node_failures = failures(state, health, how.n1, how.modes)
        modes = {how.modes.get(one.group.index, how.n1) for one in health}
        return {
            "n1": modes.pop() if len(modes) == 1 else how.n1,
            "kinds": FINDING_KINDS,
            "health": [
                {
                    "findings": [finding.document() for finding in one.findings],
                    "not_analysed": one.not_analysed,
                    "examined": one.examined,
                }
                for one in health
            ],
            "counts": counts_of(health),
            "failures": [
                {
                    "node": one.node,
                    "together": one.together,
                    "analysed": one.analysed,
                    "late": one.late,
                    "survived": one.tolerated,
                    "lost": one.lost,
                    "unrestarted": one.unrestarted,
                    "failovers": one.failovers,
                    "moved": one.moved,
                    "recreated": one.recreated,
                }
                for one in node_failures
            ],
            "survived": sum(one.tolerated for one in node_failures),
            "analysed": sum(one.analysed for one in node_failures),
            "late": sum(one.late for one in node_failures),
            "groups": group_overviews(state, only),
            "terms": score_terms(state, None if only is None else only.nodes),
        }


def constraint_list(cluster: Cluster, settings: Settings) -> Json:
    """Return the constraints of `cluster` as plain data, without those that every instance has.

    The member ``unusable`` has messages about invalid tags.
    """
    relations = relations_of(cluster, (), settings.tag_prefix, settings)
    unusable: list[str] = []
    listed = ListingFacts(cluster, (), relations, settings, unusable, False)
    constraints = [one.document() for one in list_constraints(listed)]
    return {"constraints": constraints, "unusable": unusable}
