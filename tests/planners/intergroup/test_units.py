"""Test colocation groups: their members change the node group together."""

from __future__ import annotations

import pytest

from tests.builders import cluster, instance

from .scenarios import on_shared, plan_of

PAIR = ["iallocator:colocate:must:web"]
OFFLINE = {"node1": {"offline": True}}


@pytest.mark.parametrize("template", ["rbd", "drbd"])
def test_redistribute_moves_a_unit_out_of_an_unhealthy_group(template: str) -> None:
    """`redistribute` moves a colocation group as a whole off a group with an offline node."""
    instances = {
        "a": instance(*(["node2", "node1"] if template == "drbd" else ["node1"]), memory=512,
                      disk_template=template, tags=PAIR),
        "m": on_shared("node1"),
        "z": instance(*(["node2", "node3"] if template == "drbd" else ["node1"]), memory=512,
                      disk_template=template, tags=PAIR),
    }  # fmt: skip
    document = cluster({"east": 3, "west": 3}, instances=instances, changes=OFFLINE)
    plan = plan_of("redistribute", document)
    homes = {move["instance"]: move["to"][0] for move in plan["moves"]}
    assert homes["a"] == homes["z"]
    names = [move["instance"] for move in plan["moves"]]
    assert abs(names.index("a") - names.index("z")) == 1
    assert [m["unit"] for m in plan["moves"] if m["instance"] in "az"] == [["a", "z"]] * 2


def test_compress_moves_units_together() -> None:
    """`compress` moves each of two colocation groups to one node."""
    instances = {
        name: on_shared("node1", memory=1024, tags=[f"iallocator:colocate:must:{name[0]}"])
        for name in ("a1", "b1", "a2", "b2")
    } | {"c": on_shared("node3", memory=1024)}
    instances["fixed"] = instance("node3", memory=64, disk_template="plain")
    document = cluster({"east": 2, "west": 3}, instances=instances)
    plan = plan_of("compress", document)
    homes = {move["instance"]: move["to"][0] for move in plan["moves"]}
    assert plan["chosen_group"] == "east"
    assert homes["a1"] == homes["a2"]
    assert homes["b1"] == homes["b2"]
    assert [move["unit"] for move in plan["moves"]] == [["a1", "a2"]] * 2 + [["b1", "b2"]] * 2


def test_balance_groups_moves_a_whole_unit_or_none_of_it() -> None:
    """`balance-groups` moves all members of a colocation group, or none of them."""
    instances = {
        name: on_shared("node1", memory=1024, tags=PAIR if name in "ab" else [])
        for name in ("a", "b", "c", "d")
    }
    document = cluster({"east": 2, "west": 2}, instances=instances)
    plan = plan_of("balance-groups", document)
    homes = dict.fromkeys(instances, "node1") | {
        move["instance"]: move["to"][0] for move in plan["moves"]
    }
    assert homes["a"] == homes["b"]
    assert sum(home in ("node3", "node4") for home in homes.values()) == 2
    alone = cluster(
        {"east": 2, "west": 2},
        instances={n: instances[n] for n in "ab"}
        | {
            "c": on_shared("node2", memory=1024, tags=["iallocator:colocate:must:other"]),
            "d": on_shared("node2", memory=1024, tags=["iallocator:colocate:must:other"]),
        },
    )
    plan = plan_of("balance-groups", alone)
    assert [m["unit"] for m in plan["moves"]] in ([["a", "b"]] * 2, [["c", "d"]] * 2)
    one = plan_of("balance-groups", alone, "--max-length=1")
    assert one["moves"] == []
