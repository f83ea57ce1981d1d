"""Follow the recipe for a strategy in ARCHITECTURE.md with a toy: the last node by name first."""

from __future__ import annotations

from pathlib import Path

import pytest

from .toys import Place, assert_follows, copy_with, recipe, run_paths

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

TOY: dict[Place, tuple[str, str]] = {
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


def test_toy_strategy_ranks_the_nodes_on_every_path(tmp_path: Path) -> None:
    """Requests of every type, planners with a strategy, explanations, help, tags, validation."""
    done = run_paths(copy_with(tmp_path, TOY), "toy_strategy_paths.py")
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("left_out", TOY, ids=": ".join)
def test_toy_strategy_without_one_entry_of_the_recipe_fails(
    left_out: Place, tmp_path: Path
) -> None:
    """Each entry of the recipe is needed."""
    assert run_paths(copy_with(tmp_path, TOY, left_out), "toy_strategy_paths.py").returncode != 0


def test_toy_strategy_follows_the_recipe() -> None:
    """The recipe names each place that the toy changes, and where the new module lies."""
    assert_follows({place: TOY[place] for place in TOY if place[1]}, "strategy")
    assert "a module in `iallocator/ranking/`" in recipe("strategy")
