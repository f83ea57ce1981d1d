"""Ways from some nodes to others by elementary moves."""

from __future__ import annotations

import pytest

from iallocator.transition.paths import NoWayError, shortest


@pytest.mark.parametrize(("present", "wanted"), [((0,), (0, 1)), ((0, 1), (0,)), ((0, 1), (2,))])
def test_way_to_more_or_fewer_nodes_does_not_exist(
    present: tuple[int, ...], wanted: tuple[int, ...]
) -> None:
    """No move gives an instance a mirror, or takes it away."""
    with pytest.raises(NoWayError, match="it would have to change its disk template"):
        shortest(present, wanted)
