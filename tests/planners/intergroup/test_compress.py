"""Test `compress`: which groups can be emptied, and which of them it chooses."""

from __future__ import annotations

from pathlib import Path

from tests.builders import cluster, instance
from tests.command import run

from .scenarios import by_group, on_shared, plan_of

THREE = {"east": 2, "north": 2, "west": 2}


def test_compress_empties_the_group_with_the_most_free_resources() -> None:
    """Of three groups that can be emptied, `compress` empties the one with the most free memory."""
    instances = {
        "e1": on_shared("node1", memory=3000),
        "n1": on_shared("node3", memory=1000),
        "n2": on_shared("node4", memory=500),
        "w1": on_shared("node5", memory=2000),
    }
    plan = plan_of("compress", cluster(THREE, instances=instances))
    assert plan["evacuable_groups"] == ["north", "west", "east"]
    assert plan["chosen_group"] == "north"
    assert sorted(move["instance"] for move in plan["moves"]) == ["n1", "n2"]
    assert plan["objective"] == {"before": 2, "after": 0}
    groups = by_group(plan)
    assert groups["north"]["free_resources"]["memory"] == 16384 - 1500
    shares = [groups[name]["share_free"] for name in plan["evacuable_groups"]]
    assert shares == sorted(shares, reverse=True)


def test_compress_prefers_the_larger_group() -> None:
    """Of equally used groups, the one with more nodes is emptied first."""
    instances = {f"i{k}": on_shared(f"node{k}", memory=1000) for k in (1, 3, 5)}
    sizes = {"east": 2, "north": 3, "west": 2}
    plan = plan_of("compress", cluster(sizes, instances=instances))
    assert plan["chosen_group"] == "north"


def test_compress_requires_that_the_others_have_more_free_than_the_group_uses() -> None:
    """`compress` compares each used resource of a group with what the other groups have free."""
    pairs = [("node1", "node2"), ("node2", "node1"), ("node3", "node4"), ("node4", "node3")]
    for sizes, reason in (
        ({"memory": 5000}, "uses 10000 MiB memory, the others have 6384 free"),
        ({"vcpus": 20}, "uses 40 cpu, the others have 24 free"),
        ({"disk": 30000}, "uses 120512 MiB disk, the others have 84288 free"),
    ):
        instances = {f"i{k}": instance(*pair, **sizes) for k, pair in enumerate(pairs)}
        document = cluster({"east": 2, "west": 2}, instances=instances)
        plan = plan_of("compress", document)
        assert by_group(plan)["east"]["reason"] == reason
        assert (plan["evacuable_groups"], plan["chosen_group"], plan["moves"]) == ([], None, [])
        small = {f"i{k}": instance(*pair) for k, pair in enumerate(pairs)}
        document = cluster({"east": 2, "west": 2}, instances=small)
        assert plan_of("compress", document)["chosen_group"] == "east"


def test_compress_does_not_count_disks_on_shared_storage() -> None:
    """`compress` ignores the size of disks on shared storage: the pools' free space is unknown."""
    one = on_shared("node1", disk=10**7)
    document = cluster({"east": 1, "west": 2}, instances={"a": one, "w": instance("node2")})
    plan = plan_of("compress", document, "--n1=off")
    assert by_group(plan)["east"]["used_resources"]["disk"] == 0
    assert plan["evacuable_groups"] == ["east"]


def test_compress_leaves_out_groups_that_share_no_storage_pool() -> None:
    """`compress` cannot empty a group if no other group has access to its storage pool."""
    instances = {"a": on_shared("node1", "nas1"), "b": on_shared("node2", "nas2")}
    document = cluster({"east": 1, "west": 1}, instances=instances)
    for name, pool in (("node1", "nas1"), ("node2", "nas2")):
        document["nodes"][name]["storage_pools"] = [{"type": "external", "name": pool}]
    plan = plan_of("compress", document)
    assert plan["reason"] == "no group is a candidate"
    assert by_group(plan)["east"]["reason"] == (
        "shares no storage pool: no other group has access to external/nas1"
    )


def test_compress_does_not_choose_an_empty_group() -> None:
    """`compress` does not choose a group that has no instances."""
    instances = {"a": on_shared("node2"), "p": instance("node4")}
    document = cluster({"east": 1, "west": 2, "south": 1}, instances=instances)
    plan = plan_of("compress", document, "--n1=off")
    assert plan["evacuable_groups"] == ["west"]
    assert by_group(plan)["east"]["reason"] == "it holds no instances"


def test_compress_fills_no_empty_groups() -> None:
    """`compress` moves no instances to an empty group, unless options name nodes of the group."""
    sizes = {"east": 1, "north": 1, "west": 1}
    instances = {"a": on_shared("node1", memory=2000), "b": on_shared("node3", memory=3000)}
    document = cluster(sizes, instances=instances)
    plan = plan_of("compress", document, "--n1=off")
    assert [(m["instance"], m["to"]) for m in plan["moves"]] == [("a", ["node3"])]
    document["instances"]["b"] |= {"memory": 7000}
    document["nodes"]["node3"]["free_memory"] = 1192
    plan = plan_of("compress", document, "--n1=off")
    assert (plan["evacuable_groups"], plan["chosen_group"], plan["moves"]) == ([], None, [])
    reason = by_group(plan)["east"]["reason"]
    assert reason.startswith("uses 2000 MiB memory, the others have 1192 free; ")
    assert reason.endswith("no group would be freed by filling north, which holds no instances")
    options = ("--n1=off", "--restrict-allocation-to=node2")
    plan = plan_of("compress", document, *options)
    assert [(m["instance"], m["to"]) for m in plan["moves"]] == [("a", ["node2"])]


def test_compress_of_the_only_group_in_use_moves_nothing() -> None:
    """`compress` moves nothing if only one group has instances: another would be filled."""
    document = cluster({"east": 1, "west": 2}, instances={"a": on_shared("node1")})
    plan = plan_of("compress", document, "--n1=off")
    assert (plan["evacuable_groups"], plan["moves"]) == ([], [])
    assert by_group(plan)["east"]["reason"] == (
        "a has no place: no group would be freed by filling west, which holds no instances"
    )


def test_compress_needs_a_place_for_every_instance() -> None:
    """If an instance cannot leave its group, `compress` keeps the group and names the instance."""
    instances = {"p": instance("node1"), "a": on_shared("node3", memory=3000)}
    instances |= {f"b{k}": on_shared(f"node{k}", memory=6000) for k in (1, 2)}
    document = cluster({"east": 2, "west": 1}, instances=instances)
    plan = plan_of("compress", document, "--n1=off")
    groups = by_group(plan)
    assert plan["evacuable_groups"] == []
    assert "uses 13024 MiB memory, the others have 5192 free" in groups["east"]["reason"]
    assert groups["west"]["reason"] == (
        "has a, and no node of the others may take 3000 MiB memory (proved)"
    )
    del document["instances"]["b1"], document["instances"]["b2"]
    plan = plan_of("compress", document, "--n1=off")
    assert (
        "p has to stay: instances of type plain cannot be moved"
        in (by_group(plan)["east"]["reason"])
    )


def test_compress_keeps_n1_in_the_receiving_groups() -> None:
    """`compress` does not empty a group if the receiving group would lack memory for a failover."""
    instances = {"a": on_shared("node1", memory=5000)}
    instances |= {f"w{k}": on_shared(f"node{k}", memory=2000) for k in (2, 3)}
    document = cluster({"east": 1, "west": 2}, instances=instances)
    assert plan_of("compress", document)["evacuable_groups"] == []
    assert "east" in plan_of("compress", document, "--n1=off")["evacuable_groups"]


LOST_FAILURE = """g0|u0|preferred||
g1|u1|preferred||

n0|16384|1024|15360|65536|60416|4|N|u0|1
n1|16384|1024|14848|65536|60416|4|N|u0|1
n2|16384|1024|9216|65536|63488|4|N|u1|1
n3|16384|1024|15360|65536|24576|4|N|u1|1
n4|16384|1024|3072|65536|22528|4|N|u1|1

i0|512|5120|1|running|Y|n1|n0|drbd||1|-
i1|6144|2048|1|running|Y|n2|n4|drbd||1|-
i2|12288|40960|1|running|Y|n4|n3|drbd||1|-


"""
"""Two groups; if node n2 fails, i1 cannot be restarted, because n4 has only 3 GiB memory free."""


def test_compress_with_strict_uses_no_primary_with_a_failure_that_is_not_tolerated(
    tmp_path: Path,
) -> None:
    """With `--n1 strict`, no instance moves to a node with a failure that is not tolerated."""
    path = tmp_path / "cluster.data"
    path.write_text(LOST_FAILURE)
    done = run("compress", f"-t{path}", "--n1=strict", "--ignore-soft-errors", "--verify-plan",
               "--static-kvm-node-memory=0")  # fmt: skip
    assert b"failed its verification" not in done.stderr
    assert b"none of the candidates can be emptied" in done.stdout


def test_compress_packs_where_one_after_the_other_fails() -> None:
    """`compress` places instances jointly where placing one after the other would fail.

    4, 3, 3 and 2 GiB fit on two nodes with 6 GiB each only as 4 + 2 and 3 + 3.
    """
    sizes = {"a": 3900, "b": 2950, "c": 2950, "d": 1900}
    instances = {name: on_shared("node1", memory=size) for name, size in sizes.items()}
    instances |= {f"w{k}": on_shared(f"node{k}", memory=2192) for k in (2, 3)}
    document = cluster({"east": 1, "west": 2}, instances=instances)
    document["nodes"]["node1"] |= {"total_memory": 16000, "free_memory": 4000}
    plan = plan_of("compress", document, "--n1=off")
    assert plan["evacuable_groups"] == ["east"]
    homes = {move["instance"]: move["to"] for move in plan["moves"]}
    assert homes["b"] == homes["c"] != homes["a"] == homes["d"]


def test_compress_reports_a_proof_that_no_group_can_be_emptied() -> None:
    """`compress` proves that three instances of 3 GiB do not fit on two nodes with 5 GiB each."""
    instances = {name: on_shared("node1", memory=3000) for name in "abc"}
    instances |= {f"w{k}": on_shared(f"node{k}", memory=3192) for k in (2, 3)}
    document = cluster({"east": 1, "west": 2}, instances=instances)
    document["nodes"]["node1"] |= {"total_memory": 16000, "free_memory": 7000}
    plan = plan_of("compress", document, "--n1=off")
    reason = by_group(plan)["east"]["reason"]
    assert reason == ("fills 3 places of 3000 MiB memory, the others have 2 (proved)")


def test_compress_by_packing_moves_no_instance_to_an_occupied_node() -> None:
    """`compress` delays a move to a rack until a separated instance has left this rack."""
    apart = "iallocator:separate:must:web:rack"
    instances = {
        "a": on_shared("node1", memory=1024, tags=[apart]),
        "b": on_shared("node2", memory=1024, tags=[apart, "iallocator:score:node3:-INFINITY"]),
        "w": on_shared("node4", memory=6500),
    }
    racks = {f"node{k}": {"tags": [f"rack:{rack}"]} for k, rack in enumerate("1223", start=1)}
    document = cluster({"east": 2, "west": 2}, instances=instances, changes=racks)
    plan = plan_of("compress", document, "--n1=off")
    assert [(move["instance"], move["to"]) for move in plan["moves"]] == [
        ("b", ["node4"]),
        ("a", ["node3"]),
    ]


def test_compress_moves_instances_that_share_a_rack_one_after_the_other() -> None:
    """`compress` moves two instances that must share a rack, the second after the first."""
    together = ["iallocator:colocate:must:web:rack"]
    instances = {name: on_shared("node1", memory=1024, tags=together) for name in "ab"}
    instances |= {f"w{k}": on_shared(f"node{k}", memory=6500) for k in (3, 4)}
    racks = {f"node{k}": {"tags": [f"rack:{rack}"]} for k, rack in enumerate("1122", start=1)}
    document = cluster({"east": 2, "west": 2}, instances=instances, changes=racks)
    plan = plan_of("compress", document, "--n1=off")
    assert sorted(move["to"] for move in plan["moves"]) == [["node3"], ["node4"]]
