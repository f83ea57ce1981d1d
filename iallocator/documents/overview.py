"""Collect the document of ``show``: the data of hinfo, and the networks."""

from __future__ import annotations

from iallocator.documents.lists import choose_fields, node_rows
from iallocator.model.state import State
from iallocator.planners.check.overview import group_overviews, score_terms, total_score

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.aliases import Json
    from iallocator.sources import Source

__all__ = ["overview"]


def overview(source: Source, fields: str | None, backwards: bool) -> Json:
    """Return everything about the cluster of `source`.

    `fields` of nodes as for ``--print-nodes``; `backwards`: the cluster was read in the order of
    hail.
    """
    cluster = source.cluster
    state = State(cluster)
    names = choose_fields(fields or "")
    return {
        "name": cluster.name,
        "master": source.master,
        "tags": list(cluster.tags),
        "score": total_score(state),
        "terms": score_terms(state),
        "groups": group_overviews(state),
        "nodes": [dict(zip(names, row)) for row in node_rows(state, names, backwards)],
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
            for one in cluster.instances[:: -1 if backwards else 1]
        ],
    }
