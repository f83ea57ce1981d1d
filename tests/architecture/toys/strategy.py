"""Follow the recipe for a strategy in ARCHITECTURE.md with a toy: the last node by name first."""

from __future__ import annotations

from . import Changes, Toy

MODULE = '''"""Rank nodes by name, the last one first; reject nodes with the tag `never`."""

from __future__ import annotations

from iallocator.ranking.base import NodeRanking

__all__ = ["order"]


def order(query, nodes):
    """Return the ranking of `nodes`."""
    cluster = query.context.cluster
    rejected = {k: "it has the tag never" for k in nodes if "never" in cluster.nodes[k].tags}
    return _Last(sorted((k for k in nodes if k not in rejected), reverse=True), rejected)


class _Last(NodeRanking):
    """The ranking, with the position of a node as the only criterion."""

    def criteria(self, index):
        return [("position", str(index))]
'''

PLACES: Changes = {
    ("iallocator/ranking/last_name.py", ""): ("", MODULE),
    ("iallocator/ranking/__init__.py", "STRATEGIES"): (
        '    "affinity": "affinity",\n',
        '<ANCHOR>    "last-name": "last_name",\n',
    ),
    ("iallocator/options/table.py", "COMMON"): (
        "score (default), lost-allocations, affinity, ",
        "<ANCHOR>last-name, ",
    ),
    ("schemas/request.schema.json", "pacemaker-minimal"): (
        '"pacemaker-minimal", "affinity",',
        '<ANCHOR> "last-name",',
    ),
}

TOY = Toy(
    "strategy",
    "strategy_paths.py",
    PLACES,
    most_files=4,
    phrases=[("strategy", "a module in `iallocator/ranking/`")],
)
