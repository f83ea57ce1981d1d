"""Test harep's tags: the permitted repairs, and the state of repairs."""

from __future__ import annotations

import pytest

from iallocator.model.cluster import Cluster, Group, Node
from iallocator.model.instance import Backend, Disks, Instance
from iallocator.model.policy import Policy
from iallocator.tags.autorepair import AUTOREPAIR_PREFIX, permission_of, state_of

NOW = 1000


def _instance(*tags: str) -> Instance:
    own = [AUTOREPAIR_PREFIX + tag for tag in tags]
    return Instance("i", Backend(1), Disks("drbd", 1, [1]), nodes=(0, 1), tags=own)


@pytest.mark.parametrize(
    ("own", "group", "cluster", "upto", "suspended"),
    [
        ((), (), (), "", 0),
        (("failover",), (), ("reinstall", "fix-storage"), "failover", 0),
        ((), (), ("reinstall", "fix-storage"), "fix-storage", 0),
        ((), ("migrate",), ("reinstall",), "migrate", 0),
        (("suspend",), (), ("reinstall",), "", float("inf")),
        (("suspend:",), ("failover",), (), "", float("inf")),
        (("failover", "suspend:2000", "suspend:3000"), (), (), "", 3000),
        (("failover", "suspend:900"), (), (), "failover", 0),
        (("suspend:900",), ("reinstall",), (), "reinstall", 0),
        (("nonsense", "suspend:soon"), ("reinstall",), (), "reinstall", 0),
    ],
)
def test_permission_nearest_tag_counts(
    own: tuple[str, ...], group: tuple[str, ...], cluster: tuple[str, ...], upto: str,
    suspended: float,
) -> None:  # fmt: skip
    """The permission of the nearest object applies: the instance, else its group, else the cluster.

    Of several permissions on one object, the least destructive one applies.
    """
    home = Group(0, "uuid", "g", Policy(), tags=[AUTOREPAIR_PREFIX + tag for tag in group])
    nodes = [Node("a", home), Node("b", home)]
    instance = _instance(*own)
    scenario = Cluster("c", [AUTOREPAIR_PREFIX + tag for tag in cluster], [home], nodes, [instance])
    found = permission_of(scenario, instance, NOW)
    assert (found.upto, found.suspended) == (upto, suspended)
    assert found.allows("fix-storage") == bool(upto)
    assert found.allows("reinstall") == (upto == "reinstall")


@pytest.mark.parametrize(
    ("tags", "name", "outdated"),
    [
        ((), "Healthy", 0),
        (("pending:failover:a:10:7+8",), "Pending repair", 0),
        (("pending:failover:a:10:7", "result:failover:a:20:success:7"), "Healthy", 1),
        (("result:failover:a:20:failure:7", "result:failover:b:30:success:9"), "Failure", 0),
        (("result:failover:a:20:success:7", "result:fix-storage:b:30:failure:9"), "Failure", 1),
        (("result:reinstall:a:20:enoperm:",), "Healthy", 0),
        (("result:failover:a:20:success:7", "pending:failover:b:30:9"), "Pending repair", 1),
        (("pending:failover:a:x:7", "result:failover:a:1:maybe:7", "pending:a:b"), "Healthy", 0),
    ],
)
def test_state_follows_from_the_tags_of_repairs(
    tags: tuple[str, ...], name: str, outdated: int
) -> None:
    """The state of an instance is its earliest failed repair, else its newest repair."""
    found = state_of(_instance(*tags))
    assert (found.name, len(found.outdated)) == (name, outdated)
    assert found.record is None or found.record.tag in [AUTOREPAIR_PREFIX + tag for tag in tags]


def test_state_with_a_repair_after_a_pending_one_is_rejected() -> None:
    """Two pending repairs of one instance are an error, as in harep."""
    with pytest.raises(ValueError, match="pending"):
        state_of(_instance("pending:failover:a:10:7", "result:failover:b:20:success:8"))
