"""What forthcoming instances will take is taken: a limit that is just reached is reached."""

from __future__ import annotations

import pytest

from tests.builders import allocate, cluster, instance
from tests.command import respond


@pytest.mark.parametrize(("free", "found"), [(2048, []), (2049, ["node1"])])
def test_disk_that_forthcoming_instances_leave_must_be_more_than_none(
    free: int, found: list[str]
) -> None:
    """1 GiB is promised already and 1 GiB is asked for: of 2 GiB nothing would be left."""
    coming = instance("node1", disk_template="plain", forthcoming=True)
    document = cluster(
        1, instances={"coming": coming}, changes={"node1": {"free_disk": free, "total_disk": 9000}}
    )
    assert respond(allocate(document, disk_template="plain"), "--n1=off")["result"] == found
