"""The overview of a cluster as data: its groups, and the statistics of its score.

As in htools, a node is bad if it lacks the memory for the failovers to it.
"""

from __future__ import annotations

from iallocator.scoring.metrics import STATISTICS
from iallocator.scoring.scalar import score_of, terms_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from iallocator.aliases import Json
    from iallocator.model.state import State

__all__ = ["bad_items", "group_overviews", "score_terms", "total_score"]


def bad_items(state: State, nodes: Iterable[int]) -> tuple[list[int], set[str]]:
    """Return the bad online nodes, and the names of the instances on them."""
    found = [
        index for index in nodes if state.cluster.nodes[index].online and state.fails_n1(index)
    ]
    held = {name for index in found for name in state.primaries[index]}
    return found, held.union(*(state.secondaries[index] for index in found))


def total_score(state: State) -> float:
    """Return the score of all nodes of all groups together."""
    return score_of(state, range(len(state.cluster.nodes)))


def score_terms(state: State) -> list[Json]:
    """Return the statistics of all nodes; their terms add up to the score."""
    terms = terms_of(state, range(len(state.cluster.nodes)))
    return [
        {"name": one.name, "weight": one.weight, "term": term}
        for one, term in zip(STATISTICS, terms, strict=True)
    ]


def group_overviews(state: State) -> list[Json]:
    """Return the overview of each group.  An instance counts in the group of its primary."""
    counts = dict.fromkeys(range(len(state.cluster.groups)), 0)
    for nodes in state.where.values():
        counts[state.cluster.nodes[nodes[0]].group.index] += 1
    overviews: list[Json] = []
    for group in state.cluster.groups:
        bad_nodes, bad_instances = bad_items(state, group.nodes)
        overview = {
            "name": group.name,
            "uuid": group.uuid,
            "alloc_policy": group.alloc_policy,
            "tags": list(group.tags),
            "networks": sorted(group.networks),
            "nodes": len(group.nodes),
            "instances": counts[group.index],
            "bad_nodes": state.cluster.node_names(bad_nodes),
            "bad_instances": sorted(bad_instances),
            "n1": not bad_nodes,
            "score": score_of(state, group.nodes) if group.nodes else 0.0,
        }
        overviews.append(overview)
    return overviews
