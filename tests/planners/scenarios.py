"""Generate clusters in the form that planners read."""

from __future__ import annotations

from collections.abc import Iterator

from iallocator.model.cluster import Cluster, Group
from iallocator.model.node_view import Capacities
from iallocator.model.state import State
from iallocator.planners.balance.move_kinds import MoveRules
from iallocator.planners.balance.plan_builder import BalanceProblem
from iallocator.planners.eligible import movable
from tests.conformance.documents import document
from tests.model.make import model_of

__all__ = ["problem_of", "scenarios"]


def scenarios(seeds: range) -> Iterator[tuple[str, Cluster, Group]]:
    """Yield name, cluster and group for every group of some generated documents."""
    for seed in seeds:
        raw = document(seed, ("relocate", "node-evacuate")[seed % 2])
        for number in range(len(raw["nodegroups"])):
            cluster = model_of(raw)
            group = cluster.groups[number]
            if group.nodes:
                yield f"seed {seed}, group {group.name}", cluster, group


def problem_of(cluster: Cluster, group: Group, rules: MoveRules | None = None) -> BalanceProblem:
    """Return the balance problem of a group: its state, nodes, instances and rules."""
    fixed = Capacities(cluster.nodes)
    instances = movable(cluster, group)
    return BalanceProblem(State(cluster), group.nodes, fixed, instances, rules or MoveRules())
