"""Test that `squeeze` frees as many nodes of small clusters as possible."""

from __future__ import annotations

import pytest

from benchmarks.gap import as_text
from benchmarks.planners_gap import MOVABLE, freeable, squeeze_case, squeezed
from tests.seeds import seeds

pytest.importorskip("highspy")


@pytest.mark.parametrize("kind", MOVABLE)
@pytest.mark.parametrize("seed", [*seeds(8, 100), 68, 104, 204])
def test_squeeze_frees_as_many_nodes_as_possible(seed: int, kind: str) -> None:
    """`squeeze` frees the largest number of nodes that brute force finds."""
    machines, homes = squeeze_case(seed, kind)
    possible = freeable(machines, homes)
    if possible is None or possible < 0:
        pytest.skip("too many placements, or not N+1 compliant")
    assert squeezed(as_text(machines, homes))[0] == possible
