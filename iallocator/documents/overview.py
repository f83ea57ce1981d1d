"""Collect the document of ``show``: groups, statistics of the score, the data of hinfo, networks.

As in htools, a node is bad if it lacks the memory for the failovers to it.
"""

from __future__ import annotations

from iallocator.model.state import State
from iallocator.scoring.metrics import STATISTICS
from iallocator.scoring.scalar import score_of, terms_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iallocator.aliases import Json
    from iallocator.model.cluster import Group
    from iallocator.sources import Source

__all__ = [
    "bad_items",
    "group_overviews",
    "overview",
    "score_terms",
    "total_score",
]


def bad_items(state: State, nodes: Iterable[int]) -> tuple[list[int], set[str]]:
    """Return the online nodes of `nodes` that fail N+1, and the names of the instances on them.

    A node fails N+1 if it lacks the memory for the failovers to it.
    """
    bad_nodes = [
        index for index in nodes if state.cluster.nodes[index].online and state.fails_n1(index)
    ]
    held = {name for index in bad_nodes for name in state.primaries[index]}
    return bad_nodes, held.union(*(state.secondaries[index] for index in bad_nodes))


def total_score(state: State) -> float:
    """Return the score of all nodes of all groups together."""
    return score_of(state, range(len(state.cluster.nodes)))


def score_terms(state: State, nodes: Sequence[int] | None = None) -> list[Json]:
    """Return the statistics of `nodes` (None: all nodes); their terms add up to the score."""
    terms = terms_of(state, range(len(state.cluster.nodes)) if nodes is None else nodes)
    return [
        {"name": one.name, "weight": one.weight, "term": term}
        for one, term in zip(STATISTICS, terms, strict=True)
    ]


def group_overviews(state: State, only: Group | None = None) -> list[Json]:
    """Return the overview of each group, or only of the group `only` if it is not None.

    An instance counts in the group of its primary.
    """
    counts = dict.fromkeys(range(len(state.cluster.groups)), 0)
    for nodes in state.where.values():
        counts[state.cluster.nodes[nodes[0]].group.index] += 1
    overviews: list[Json] = []
    for group in state.cluster.groups if only is None else [only]:
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


def overview(
    source: Source, fields: str | None, backwards: bool, only: Group | None = None
) -> Json:
    """Return the document of ``show`` about the cluster of `source`, or about the group `only`.

    `fields`: the fields of nodes, as for ``--print-nodes``; None for no list. `backwards`: whether
    the cluster was read in the order of hail.
    """
    from iallocator.documents.lists import choose_fields, node_rows

    cluster = source.cluster
    state = State(cluster)
    names = choose_fields(fields or "")
    scope = range(len(cluster.nodes)) if only is None else only.nodes
    instances = list(cluster.instances) if only is None else cluster.members(only)
    return {
        "name": cluster.name,
        "master": source.master,
        "tags": list(cluster.tags),
        "score": score_of(state, scope),
        "terms": score_terms(state, scope),
        "groups": group_overviews(state, only),
        "nodes": [dict(zip(names, row)) for row in node_rows(state, names, backwards, only)],
        "instances": [
            {
                "name": one.name,
                "nodes": cluster.node_names(state.where[one.name]),
                "admin_state": one.admin_state,
                "auto_balance": one.auto_balance,
                "disk_template": one.template,
                "memory": one.memory,
                "disk": one.disk,
                "vcpus": one.vcpus,
                "networks": sorted(set(one.networks)),
                "tags": list(one.tags),
                "load": list(one.load),
            }
            for one in instances[:: -1 if backwards else 1]
        ],
    }
