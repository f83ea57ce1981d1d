"""Test the pool of an instance, the nodes with access to it, and its free space."""

from __future__ import annotations

from random import Random
from statistics import pstdev
from typing import Any

import pytest

from iallocator.engine import read
from iallocator.errors import RequestError
from iallocator.model.storage import pools_of
from iallocator.options.settings import Settings
from iallocator.wire.validation import problems
from tests.builders import Json, allocate, allocate_rbd, as_bytes, cluster, instance, rbd
from tests.command import respond

from .scenarios import external, internal

NAS = ("external", "nas")


def listed(*pools: Json) -> Json:
    """Return members of a node that make it list the storage pools `pools`."""
    return {"storage_pools": list(pools)}


def places(document: Json, **wanted: Any) -> set[str]:
    """Return the nodes on which an instance can be placed, without N+1."""
    response = respond(allocate(document, **wanted), "--n1=off", "--top=99")
    return {
        node
        for solution in response["solutions"]
        for placement in solution.get("placements", ())
        for node in placement["nodes"]
    }


def pool_of(document: Json, **wanted: Any) -> tuple[str, str] | None:
    """Return the storage pool of a new instance."""
    _, request = read(as_bytes(allocate(document, **wanted)), Settings())
    pools = pools_of(request.instance)  # type: ignore[union-attr]
    return pools[0] if pools else None


def two_nas(**more: Json) -> Json:
    """Return two nodes that list external/nas, and two that list external/san."""
    nas, san = listed(external("nas"), internal("lvm")), listed(external("san"), internal("lvm"))
    changes = {"node1": nas, "node2": nas, "node3": san, "node4": san}
    return cluster({"a": 3, "b": 1}, changes={**changes, **more})


# which pool


@pytest.mark.parametrize(
    ("template", "members", "expected"),
    [
        ("plain", {}, ("internal", "lvm")),
        ("drbd", {}, ("internal", "lvm")),
        ("file", {}, ("internal", "file")),
        ("rbd", {}, ("external", "rbd")),
        ("sharedfile", {}, ("external", "sharedfile")),
        ("diskless", {}, None),
        ("rbd", {"storage_pool": "nas"}, NAS),
        ("rbd", {"storage_type": "external", "storage_pool": "nas"}, NAS),
        ("plain", {"storage_type": "external", "storage_pool": "nas"}, NAS),
        ("rbd", {"tags": ["iallocator:pool:external:nas"]}, NAS),
        ("rbd", {"tags": ["iallocator:pool:external:a"], "storage_pool": "nas"}, NAS),
        ("plain", {"tags": ["iallocator:pool:external:nas"]}, ("internal", "lvm")),
        ("rbd", {"disks": [{"size": 1, "pool": "nas"}]}, NAS),
        ("ext", {"disks": [{"size": 1, "provider": "nas"}]}, NAS),
        ("drbd", {"tags": ["iallocator:pool:internal:fast"]}, ("internal", "fast")),
        ("rbd", {"disks": [{"size": 1, "provider": "nas"}]}, ("external", "rbd")),
        ("plain", {"disks": [{"size": 1, "vg": "fast"}]}, ("internal", "lvm")),
    ],
)
def test_pool_of_an_instance(template: str, members: Json, expected: tuple[str, str]) -> None:
    """The pool of an instance is read from fields, then tags, disks and disk template."""
    assert pool_of(cluster(2), disk_template=template, **members) == expected
    assert pool_of(two_nas(), disk_template=template, **members) == expected


def test_volume_group_is_a_pool_where_nodes_name_volume_groups() -> None:
    """A volume group is a pool if some node lists volume groups."""
    fast = [{"size": 1, "vg": "fast"}]
    document = cluster(2, changes={"node1": listed(internal("fast"), internal("slow"))})
    assert pool_of(document, disk_template="plain", disks=fast) == ("internal", "fast")


def test_disk_parameters_name_the_pool() -> None:
    """Disk parameters name the pool: first those of the group, then those of the cluster."""
    document = cluster({"a": 2, "b": 2}, instances={"old": rbd("node1")})
    document["diskparams"] = {"rbd": {"pool": "common"}}
    assert pool_of(document, disk_template="rbd") == ("external", "common")
    document["nodegroups"]["uuid-b"]["diskparams"] = {"rbd": {"pool": "own"}}
    assert places(document, disk_template="rbd") == {"node1", "node2", "node3", "node4"}
    assert places(document, disk_template="rbd", storage_pool="own") == {"node3", "node4"}
    move = {"type": "change-group", "instances": ["old"], "target_groups": []}
    failed = respond({**document, "request": move})
    assert (
        "group b does not have access to storage pool external/common of instance old"
        in failed["info"]
    )


# access


def test_node_with_listed_pools_has_access_to_no_others() -> None:
    """A node that lists its pools has access to no others, also of internal storage."""
    document = two_nas(node4=listed(external("san")))
    assert places(document, disk_template="rbd", storage_pool="nas") == {"node1", "node2"}
    assert places(document, disk_template="rbd", storage_pool="tape") == set()
    assert places(document, disk_template="plain") == {"node1", "node2", "node3"}
    assert places(document, disk_template="diskless") == {"node1", "node2", "node3", "node4"}


def test_tags_of_nodes_and_groups_restrict_access_to_the_pools_of_instances() -> None:
    """A tag of a node or group that names a storage pool excludes instances of other pools there.

    Instances of which the pool is not named are not restricted.
    """
    document = cluster({"a": 2, "b": 2})
    document["nodegroups"]["uuid-a"]["tags"] = ["iallocator:pool:external:nas"]
    document["nodes"]["node3"]["tags"] = ["iallocator:pool:external:san"]
    everywhere = {"node1", "node2", "node3", "node4"}
    assert places(document, disk_template="rbd", storage_pool="nas") == {"node1", "node2"}
    named = ["iallocator:pool:external:san"]
    assert places(document, disk_template="rbd", tags=named) == {"node3"}
    assert places(document, disk_template="rbd", storage_pool="tape") == {"node4"}
    assert places(document, disk_template="rbd") == everywhere
    assert places(document, disk_template="drbd") == everywhere


def test_tags_of_instances_alone_restrict_nothing() -> None:
    """The storage pool of an instance restricts no node if no node names its pools."""
    document = cluster(3)
    assert places(document, disk_template="rbd", storage_pool="nas") == {"node1", "node2", "node3"}


def test_plain_disks_on_external_storage_use_no_disk_of_nodes() -> None:
    """Instances with plain disks on external storage use no disk of nodes, and can move."""
    full = {"free_disk": 0}
    changes = {"node1": full, "node2": full}
    there = instance("node1", disk_template="plain", storage_type="external", storage_pool="nas")
    document = cluster(2, instances={"one": there}, changes=changes)
    assert places(document, disk_template="plain") == set()
    found = places(document, disk_template="plain", storage_type="external", storage_pool="nas")
    assert found == {"node1", "node2"}
    move = {"type": "relocate", "name": "one", "relocate_from": ["node1"]}
    assert respond({**document, "request": move})["result"] == ["node2"]


def test_compat_hail_ignores_pools() -> None:
    """With --compat hail, pools are ignored."""
    request = allocate_rbd(two_nas(), storage_pool="tape")
    assert not respond(request)["success"]
    assert respond(request, "--compat=hail")["success"]


def test_evacuation_falls_back_to_groups_with_access_to_the_pool() -> None:
    """An evacuation to another group tries only groups with access to the pools."""
    one = rbd("node1", storage_pool="nas")
    nas, san = listed(external("nas")), listed(external("san"))
    changes = {"node1": nas, "node2": san, "node3": san, "node4": nas, "node5": nas}
    document = cluster({"a": 2, "b": 1, "c": 2}, instances={"one": one}, changes=changes)
    document["request"] = {
        "type": "node-evacuate", "instances": ["one"], "evac_mode": "primary-only",
    }  # fmt: skip
    (entry,) = respond(document)["solutions"]
    assert "no other node of group a has access to storage pool external/nas" in entry["reason"]
    assert (entry["remote"]["group"], entry["remote"]["nodes"]) == ("c", ["node4"])
    moved, failed, _ = respond(document, "--inter-group=yes")["result"]
    assert moved == [["one", "c", ["node4"]]]
    assert not failed


# how much of it is left


def volume_groups(*free: int, disk: int = 0) -> Json:
    """Return nodes with `free` MiB in the volume group fast, and `disk` MiB of free disk."""
    return cluster(
        len(free),
        changes={
            f"node{k}": {
                "free_disk": disk,
                **listed(internal("lvm"), internal("fast", 9000, amount)),
            }
            for k, amount in enumerate(free, start=1)
        },
    )


def on_fast(*sizes: int) -> Json:
    """Return disks of `sizes` (MiB) in the volume group fast."""
    return {"disks": [{"size": size, "vg": "fast", "spindles": 1} for size in sizes]}


@pytest.mark.parametrize(
    ("template", "sizes", "expected"),
    [
        ("plain", (999,), {"node1", "node2", "node3"}),
        ("plain", (1000,), {"node2", "node3"}),
        ("plain", (1500, 499), {"node2", "node3"}),
        ("plain", (1500, 500), {"node3"}),
        ("drbd", (871,), {"node1", "node2", "node3"}),
        ("drbd", (872,), {"node2", "node3"}),
        ("drbd", (2000,), set()),
    ],
)
def test_disks_count_in_their_pool(
    template: str, sizes: tuple[int, ...], expected: set[str]
) -> None:
    """Disks use the free space of their pool, not that of the node."""
    document = volume_groups(1000, 2000, 3000)
    found = places(document, disk_template=template, **on_fast(*sizes))
    assert found == expected


def test_disks_in_two_pools_count_in_both() -> None:
    """Disks in two pools use the free space of each."""
    disks = [{"size": 600, "vg": "fast", "spindles": 1}, {"size": 600, "spindles": 1}]
    assert places(volume_groups(601, 600, 9000, disk=601), disk_template="plain", disks=disks) == {
        "node1", "node3",
    }  # fmt: skip
    assert places(volume_groups(601, disk=600), disk_template="plain", disks=disks) == set()


def test_instances_of_a_batch_use_the_pool_one_after_the_other() -> None:
    """Instances of a batch use the free space of a pool one after the other."""
    wanted = [
        allocate({}, name=f"new{k}", disk_template="plain", memory=128, **on_fast(400))["request"]
        for k in range(4)
    ]
    request = {"type": "multi-allocate", "instances": wanted}
    response = respond({**volume_groups(900, 500), "request": request}, "--n1=off")
    placed, failed = response["result"]
    assert sorted(nodes for _, nodes in placed) == [["node1"], ["node1"], ["node2"]]
    assert len(failed) == 1


def test_free_disk_of_a_node_is_that_of_its_only_volume_group() -> None:
    """The free disk of a node is that of its only volume group."""
    change = {"free_disk": 5, "total_disk": 5, **listed(internal("xenvg", 9000, 1000))}
    document = cluster(1, changes={"node1": change})
    for disks in ([{"size": 999, "vg": "xenvg"}], [{"size": 999}]):
        assert places(document, disk_template="plain", disks=disks) == {"node1"}
        more = [{**disks[0], "size": 1000}]
        assert places(document, disk_template="plain", disks=more) == set()


def test_file_pool_is_a_limit() -> None:
    """A file pool with sizes limits file instances, except with --compat hail."""
    document = cluster(1, changes={"node1": listed(internal("file", 900, 500))})
    assert places(document, disk_template="file", disk=499) == {"node1"}
    assert places(document, disk_template="file", disk=500) == set()


# the score


def test_nodes_without_internal_storage_are_balanced() -> None:
    """Statistics about disks use only nodes with internal storage."""
    compared = 0
    for seed in range(30):
        rng = Random(seed)
        bare = {f"node{k}": listed(external("nas")) for k in range(1, 6) if rng.random() < 0.4}
        free = {f"node{k}": {"free_disk": rng.randint(0, 102400)} for k in range(1, 6)}
        changes = {name: free[name] | bare.get(name, {}) for name in free}
        changes |= {name: changes[name] | {"free_disk": 0, "total_disk": 0} for name in bare}
        document = cluster(5, changes=changes)
        wanted = {"disk_template": "rbd", "storage_pool": "nas"}
        response = respond(allocate(document, **wanted), "--n1=off")
        without = {name: node | {"free_disk": 1, "total_disk": 1}
                   for name, node in document["nodes"].items()}  # fmt: skip
        flat = respond(allocate({**document, "nodes": without}, **wanted), "--n1=off")
        shares = [free[name]["free_disk"] / 102400 for name in free if name not in bare]
        gained = response["solutions"][0]["score"] - flat["solutions"][0]["score"]
        assert gained == pytest.approx(pstdev(shares) if shares else 0, abs=2e-8)
        compared += bool(bare)
    assert compared > 20


# bad input


@pytest.mark.parametrize(
    ("where", "members", "expected"),
    [
        ("nodes/node1", {"storage_pools": 5}, "storage_pools: expected a list of objects, got 5"),
        ("nodes/node1", {"storage_pools": [{"type": "lvm", "name": "x"}]},
         'storage_pools/0/type: expected one of "internal", "external", got "lvm"'),
        ("nodes/node1", {"storage_pools": [external("x"), external("x")]},
         'storage_pools/1/name: expected each pool once, got "x" again'),
        ("nodes/node1", {"storage_pools": [internal("x", -1)]},
         f"storage_pools/0/total: expected an integer from 0 to {2**53}, got -1"),
        ("request", {"storage_type": "internal"},
         'storage_type: expected "external" for rbd, got "internal"'),
        ("request", {"storage_pool": ""}, "storage_pool: expected a name, got an empty string"),
        ("nodegroups/uuid-default", {"diskparams": {"rbd": 3}},
         "diskparams/rbd: expected an object, got 3"),
    ],
)  # fmt: skip
def test_invalid_pools_are_reported(where: str, members: Json, expected: str) -> None:
    """Invalid pools are reported by the parser and by --validate."""
    document = allocate_rbd(cluster(2))
    place = document
    for key in where.split("/"):
        place = place[key]
    place |= members
    with pytest.raises(RequestError) as caught:
        read(as_bytes(document), Settings())
    assert str(caught.value) == f"{where}/{expected}"
    assert f"{where}/{expected}" in problems(as_bytes(document))
