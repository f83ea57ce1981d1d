"""Generate clusters in the form that planners read."""

from __future__ import annotations

from collections.abc import Iterator

from iallocator.model.cluster import Cluster, Group
from iallocator.model.node_view import Capacities
from iallocator.model.state import State
from iallocator.planners.balance.move_kinds import MoveRules
from iallocator.planners.balance.plan_builder import BalanceProblem
from iallocator.planners.eligible import movable
from iallocator.wire.document import read_cluster
from iallocator.wire.reading import Reading
from tests.conformance.documents import document

__all__ = ["problem_of", "worlds"]


def worlds(seeds: range) -> Iterator[tuple[str, Cluster, Group]]:
    """Yield name, cluster and group for every group of some generated documents."""
    for seed in seeds:
        raw = document(seed, ("relocate", "node-evacuate")[seed % 2])
        for number in range(len(raw["nodegroups"])):
            cluster = read_cluster(raw, Reading())
            group = cluster.groups[number]
            if group.nodes:
                yield f"seed {seed}, group {group.name}", cluster, group


def problem_of(cluster: Cluster, group: Group, rules: MoveRules | None = None) -> BalanceProblem:
    """Return everything that may be balanced in a group."""
    fixed = Capacities(cluster.nodes)
    instances = movable(cluster, group)
    return BalanceProblem(State(cluster), group.nodes, fixed, instances, rules or MoveRules())
