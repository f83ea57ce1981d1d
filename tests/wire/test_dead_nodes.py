"""What a document tells of nodes that cannot be asked."""

from __future__ import annotations

from typing import Any

import pytest

from iallocator.compat import behaviour_of
from iallocator.wire.document import read_cluster
from iallocator.wire.reading import Reading
from tests.builders import cluster


@pytest.mark.parametrize(
    ("health", "read"),
    [({"offline": True}, 0), ({"vm_capable": False}, 0), ({"drained": True}, 8192), ({}, 8192)],
)
def test_figures_of_a_node_that_cannot_be_asked_count_not_to_hail(
    health: dict[str, Any], read: int
) -> None:
    """Ganeti tells none of such nodes; where a document does, hail looks past them, we do not."""
    document = cluster(1, changes={"node1": health | {"reserved_cpus": 2}})
    like_hail = read_cluster(document, Reading(behaviour_of("hail"))).nodes[0]
    ours = read_cluster(document, Reading()).nodes[0]
    figures = [like_hail.total_memory, like_hail.reported_memory, like_hail.reserved_cpus]
    assert figures == [read, read, 2 if read else 0]
    assert [ours.total_memory, ours.reported_memory, ours.reserved_cpus] == [8192, 8192, 2]
