"""Groups in the order in which a new instance would like to be there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from iallocator.placement.results import RankedGroups


def offer(name: str, node: int, ranked_by: str = "affinity") -> Any:
    """Return what a group offers: one node, ranked by a strategy."""
    return SimpleNamespace(
        name=name, uuid=name, alloc_policy="preferred", placements=[(0.0, (node,))],
        nodes=[(node,)], key=0, exactly=None, score=0.0, ranked_by=ranked_by, line=lambda: name,
    )  # fmt: skip


def test_groups_are_compared_by_a_strategy_only_where_there_are_two_that_it_ranks() -> None:
    """One alone is the best without, and what strategies of two kinds say is not compared."""

    def fail(usable: Any) -> Any:
        pytest.fail("compared")

    alone = RankedGroups([offer("one", 0)], False, False, fail)
    assert (alone.usable[0].uuid, alone.order) == ("one", None)
    mixed = [offer("one", 0), offer("other", 1, "score")]
    assert RankedGroups(mixed, False, False, fail).order is None
    second_first: Any = SimpleNamespace(ranked=[1, 0])
    both = [offer("one", 0), offer("other", 1)]
    found = RankedGroups(both, False, False, lambda _: second_first)
    assert [group.uuid for group in found.usable] == ["other", "one"]
