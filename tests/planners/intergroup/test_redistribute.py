"""Test `redistribute`: unhealthy groups, the instances that leave, their order, repaired groups."""

from __future__ import annotations

from tests.builders import Json, cluster, instance
from tests.command import moved

from .scenarios import by_group, on_shared, plan_of

TWO = {"east": 2, "west": 3}
OFFLINE = {"node1": {"offline": True}}


def drbd_short_of_memory() -> Json:
    """Return a cluster in which node2 cannot restart the instances of node1.

    ``s1`` and ``s2`` require 5 GiB on node2 for a failover; ``p`` runs there and leaves 4 GiB.
    """
    instances = {
        "p": instance("node2", "node3", memory=4096),
        "s1": instance("node1", "node2", memory=2048),
        "s2": instance("node1", "node2", memory=3072),
    }
    return cluster({"east": 3, "west": 3}, instances=instances)


def test_redistribute_moves_instances_off_offline_nodes() -> None:
    """`redistribute` moves instances off offline nodes.

    Their group is unhealthy until they have left.
    """
    instances = {"a": on_shared("node1"), "b": on_shared("node2"), "c": on_shared("node1")}
    plan = plan_of("redistribute", cluster(TWO, instances=instances, changes=OFFLINE))
    groups = by_group(plan)
    # b could not be restarted if node2, the only other node, failed, so b moves, too
    assert moved(plan) == ["a", "c", "b"]
    assert (groups["east"]["state"], groups["east"]["repaired"]) == ("unhealthy", True)
    assert (groups["west"]["state"], groups["west"]["repaired"]) == ("healthy", False)
    assert plan["objective"] == {"before": 3, "after": 0}
    assert [move["objective_after"] for move in plan["moves"]] == [2, 1, 0]
    assert all(node in ("node3", "node4", "node5") for m in plan["moves"] for node in m["to"])


def test_redistribute_moves_secondaries_of_failing_nodes_before_their_primaries() -> None:
    """`redistribute` repairs a group that violates N+1 by moving one secondary before primaries."""
    plan = plan_of("redistribute", drbd_short_of_memory())
    assert moved(plan) == ["s1"]
    east = by_group(plan)["east"]
    assert (east["state"], east["repaired"]) == ("weakly unhealthy", True)
    assert "node2 without the memory for failovers" in east["reason"]


def test_redistribute_moves_primaries_if_secondaries_are_not_enough() -> None:
    """`redistribute` moves primaries of the failing node if no secondary can be moved."""
    instances = {"big": on_shared("node1", memory=6000), "other": on_shared("node2", memory=5000)}
    plan = plan_of("redistribute", cluster(TWO, instances=instances))
    assert moved(plan) == ["big"]
    east = by_group(plan)["east"]
    assert east["state"] == "weakly unhealthy"
    assert "nodes node1, node2 with a failure that is not tolerated" in east["reason"]


def test_redistribute_empties_offline_nodes_before_nodes_that_fail_n1() -> None:
    """`redistribute` empties offline nodes before nodes that violate N+1."""
    instances = {
        "z": on_shared("node1"),
        "s": instance("node2", "node3", memory=5000),
        "a": instance("node3", "node2", memory=4000),
    }
    document = cluster({"east": 3, "west": 3}, instances=instances, changes=OFFLINE)
    plan = plan_of("redistribute", document)
    assert moved(plan)[:2] == ["z", "a"]  # a is secondary on node2, which is first
    assert by_group(plan)["east"]["repaired"]


def test_redistribute_leaves_out_groups_that_share_no_storage_pool() -> None:
    """`redistribute` does not repair a group if no other group has access to its storage pools."""
    instances = {"a": on_shared("node1", "nas1"), "b": on_shared("node3", "nas2")}
    document = cluster({"east": 2, "west": 2, "south": 1}, instances=instances, changes=OFFLINE)
    pools = {"node1": "nas1", "node2": "nas1", "node3": "nas2", "node4": "nas2", "node5": "nas2"}
    for name, pool in pools.items():
        document["nodes"][name]["storage_pools"] = [{"type": "external", "name": pool}]
    plan = plan_of("redistribute", document)
    east = by_group(plan)["east"]
    assert (east["state"], east["repaired"], plan["moves"]) == ("unhealthy", False, [])
    assert "shares no storage pool: no other group has access to external/nas1" in east["reason"]
    assert plan["reason"] == "no group is unhealthy"


def test_redistribute_stops_if_no_group_is_unhealthy() -> None:
    """`redistribute` reports that no group is unhealthy, and moves no instance."""
    plan = plan_of("redistribute", cluster(TWO))
    assert (plan["reason"], plan["moves"]) == ("no group is unhealthy", [])


def test_redistribute_stops_if_no_group_is_healthy() -> None:
    """`redistribute` moves no instance if no group is healthy, and reports it."""
    document = cluster(
        TWO,
        instances={"a": on_shared("node1"), "b": on_shared("node3")},
        changes={"node1": {"offline": True}, "node3": {"offline": True}},
    )
    plan = plan_of("redistribute", document)
    assert (plan["reason"], plan["moves"]) == ("no group is healthy", [])
    assert {one["state"] for one in plan["groups"]} == {"unhealthy"}


def test_redistribute_stops_where_there_is_one_group() -> None:
    """`redistribute` makes no moves in a cluster with one group, and reports the reason."""
    plan = plan_of("redistribute", cluster(2))
    assert plan["reason"] == "no super cluster: there is one group only"


def test_redistribute_repairs_a_group_as_a_whole_or_not_at_all() -> None:
    """`redistribute` repairs a group completely or leaves it: no group is emptied in part."""
    instances = {
        "huge": on_shared("node1", memory=7000),
        "small": on_shared("node1", memory=256),
        "tiny": on_shared("node3", memory=256),
    }
    document = cluster(
        {"east": 2, "north": 2, "west": 2},
        instances=instances | {f"w{k}": on_shared(f"node{5 + k}", memory=2000) for k in range(2)},
        changes={"node1": {"offline": True}, "node3": {"offline": True}},
    )
    plan = plan_of("redistribute", document)
    groups = by_group(plan)
    assert moved(plan) == ["tiny"]
    assert (groups["east"]["repaired"], groups["north"]["repaired"]) == (False, True)
    assert "huge has no place" in groups["east"]["reason"]
    assert "the set of leaving instances uses 7256 MiB memory" in groups["east"]["reason"]
    assert plan["reason"] == "1 of 2 unhealthy groups cannot be repaired"


def test_redistribute_cannot_repair_a_group_with_plain_disks_on_offline_nodes() -> None:
    """If an instance cannot move, `redistribute` names it and does not repair its group."""
    instances = {"a": on_shared("node1"), "b": instance("node1")}
    document = cluster(TWO, instances=instances, changes=OFFLINE)
    plan = plan_of("redistribute", document)
    assert plan["moves"] == []
    reason = by_group(plan)["east"]["reason"]
    assert "b has no place: instances of type plain cannot be moved" in reason


def test_redistribute_keeps_to_the_storage_pools_of_each_instance() -> None:
    """`redistribute` moves each instance to a group with access to the instance's storage pool."""
    instances = {
        "a": on_shared("node1", "nas1"),
        "b": on_shared("node1", "nas2"),
    }
    document = cluster({"east": 1, "west": 2, "south": 2}, instances=instances, changes=OFFLINE)
    reached = {"node1": ["nas1", "nas2"]}
    reached |= {name: ["nas1"] for name in ("node2", "node3")}
    reached |= {name: ["nas2"] for name in ("node4", "node5")}
    for name, pools in reached.items():
        document["nodes"][name]["storage_pools"] = [
            {"type": "external", "name": pool} for pool in pools
        ]
    plan = plan_of("redistribute", document)
    targets = {move["instance"]: move["to"][0] for move in plan["moves"]}
    assert targets["a"] in ("node2", "node3")
    assert targets["b"] in ("node4", "node5")


def test_redistribute_ignores_the_free_space_of_external_pools() -> None:
    """`redistribute` ignores the free space of external pools, but not that of internal ones."""
    for kind, repaired in (("external", True), ("internal", False)):
        members = {"storage_type": kind, "storage_pool": "box"}
        one = instance("node1", **({"disk_template": "ext"} if kind == "external" else {}))
        if kind == "internal":
            one = instance("node1", "node2", disk=5000)
        document = cluster({"east": 3, "west": 2}, instances={"a": one | members}, changes=OFFLINE)
        for node in document["nodes"].values():
            node["storage_pools"] = [{"type": kind, "name": "box", "total": 9000, "free": 10}]
        plan = plan_of("redistribute", document)
        assert by_group(plan)["east"]["repaired"] is repaired, kind


def test_redistribute_never_makes_a_healthy_group_unhealthy() -> None:
    """`redistribute` moves no instance to a group that would not tolerate a failure afterwards."""
    instances = {"a": on_shared("node1", memory=5000)}
    instances |= {f"w{k}": on_shared(f"node{k}", memory=2000) for k in (3, 4)}
    document = cluster({"east": 2, "west": 2}, instances=instances, changes=OFFLINE)
    plan = plan_of("redistribute", document)
    assert plan["moves"] == []
    assert "would break N+1" in by_group(plan)["east"]["reason"]
    assert plan_of("redistribute", document, "--n1=off")["moves"]


def test_redistribute_packs_where_one_after_the_other_fails() -> None:
    """`redistribute` places two instances jointly where one placed first would block the other."""
    document = cluster(
        {"east": 1, "west": 1, "south": 1},
        instances={
            "a": on_shared("node1", "nas1", memory=3000),
            "b": on_shared("node1", "nas2", memory=3000),
            "w": on_shared("node2", "nas1", memory=4000),
            "s": on_shared("node3", "nas2", memory=4600),
        },
        changes=OFFLINE,
    )
    for name, pools in (("node1", "12"), ("node2", "12"), ("node3", "1")):
        document["nodes"][name]["storage_pools"] = [
            {"type": "external", "name": f"nas{k}"} for k in pools
        ]
    document["instances"]["s"] |= {"storage_pool": "nas1"}
    plan = plan_of("redistribute", document, "--n1=off", "--exact-search=no")
    assert by_group(plan)["east"]["reason"].endswith("placed by free capacity")
    assert {m["instance"]: m["to"] for m in plan["moves"]} == {"a": ["node3"], "b": ["node2"]}


def test_redistribute_checks_that_moves_between_groups_are_allowed() -> None:
    """An option or a tag can forbid that `redistribute` moves instances between groups."""
    document = cluster(TWO, instances={"a": on_shared("node1")}, changes=OFFLINE)
    plan = plan_of("redistribute", document, "--inter-group=no")
    assert plan["reason"] == "moves between groups are not allowed: --inter-group=no"
    document["cluster_tags"] = ["iallocator:inter-group:no"]
    plan = plan_of("redistribute", document)
    assert (plan["moves"], "iallocator:inter-group:no" in plan["reason"]) == ([], True)
