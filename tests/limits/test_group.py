"""Test the reasons why a whole group cannot accept an instance."""

from __future__ import annotations

import pytest

from iallocator.constraints.table import NETWORKS, entry_rejections, move_rejections
from iallocator.limits.rejection import group_rejections
from iallocator.model.cluster import Cluster, Group, Node, NodeSpindles
from iallocator.model.tags import interpret_tags
from tests.model.make import instance, policy, spec


@pytest.mark.parametrize(
    ("networks", "needed", "lacking"),
    [
        ((), (), False),
        (("blue",), (), False),
        (("blue", "red"), ("red", "red"), False),
        (("blue",), ("red",), True),
        (("blue",), ("blue", "red"), True),
        ((), ("red",), True),
    ],
)
def test_group_without_one_of_the_networks_of_the_instance_lacks_it(
    networks: tuple[str, ...], needed: tuple[str, ...], lacking: bool
) -> None:
    """A group is rejected unless every network of every nic is connected to it."""
    group = Group(0, "uuid-default", "default", policy(), networks=networks)
    assert bool(NETWORKS.missing(group, instance(networks=needed))) is lacking


def test_policy_rejects_by_node_where_storage_differs() -> None:
    """With exclusive storage, a policy limits the spindles of disks, else `spindle_use`."""
    high = spec(memory=9999, cpus=99, disk=99999, disks=16, spindles=5)
    group = Group(0, "uuid-default", "default", policy((spec(), high)))
    nodes = [Node(f"node{k}", group, spindles=NodeSpindles(exclusive=k == 1)) for k in range(3)]
    cluster = Cluster("c", (), [group], nodes, [])
    assert entry_rejections(cluster, group, instance(spindles=9)) == {1: "FailSpindles"}
    assert entry_rejections(cluster, group, instance(spindle_use=9)) == dict.fromkeys(
        (0, 2), "FailSpindles"
    )
    assert entry_rejections(cluster, group, instance()) == {}


def test_target_without_a_migration_tag_of_the_source_is_rejected() -> None:
    """A target needs all migration tags of the source, which may have none."""
    group = Group(0, "uuid-default", "default", policy())
    tags: list[tuple[str, ...]] = [("cpu:a", "os:x"), ("cpu:a",), ("cpu:a", "os:x", "cpu:b"), ()]
    nodes = [Node(f"node{k}", group, tags=own) for k, own in enumerate(tags)]
    cluster = Cluster("c", ("htools:migration:cpu", "htools:migration:os"), [group], nodes, [])
    interpret_tags(cluster)
    assert move_rejections(cluster, 0, (1, 2, 3)) == {1: "FailMig", 3: "FailMig"}
    assert move_rejections(cluster, 1, (0, 2, 3)) == {3: "FailMig"}
    assert move_rejections(cluster, 3, (0, 1, 2)) == {}


def test_group_rejection_names_the_networks_that_are_missing_and_no_others() -> None:
    """The rejection of a group names the requested networks that are missing."""
    group = Group(0, "uuid-default", "default", policy(), networks=("blue", "green"))
    cluster = Cluster("c", (), [group], [Node("node0", group)], [])
    rejections = group_rejections(cluster, group, instance(networks=("red", "blue")), (0,), "")
    assert str(rejections[0]) == "FailGroup: group default is not connected to network red"
