"""Test nodes that list their volume groups, but no other storage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from iallocator.engine import read
from iallocator.errors import RequestError
from iallocator.options.settings import Settings
from iallocator.wire.validation import problems
from tests.builders import Json, allocate, as_bytes, cluster, instance
from tests.command import respond, run

from .scenarios import internal
from .test_pools import places


def groups(lvm: int | None = None, **others: int | None) -> Json:
    """Return the member of a node with its volume groups and their free MiB; lvm only if given."""
    named = {**({} if lvm is None else {"lvm": lvm}), **others}
    listed = [{"name": name, "total": 9000, "free": free} for name, free in named.items()]
    return {"volume_groups": listed}


def two_of_three(**instances: Json) -> Json:
    """Return three nodes; the second also has the volume group fast, the third has no lvm."""
    changes = {"node1": groups(5000), "node2": groups(5000, fast=1000), "node3": groups(fast=2000)}
    return cluster(3, changes=changes, instances=instances)


def disks(*placed: tuple[int, str]) -> list[Json]:
    """Return a disk for each (MiB, volume group) in `placed`; "" stands for no volume group."""
    return [{"size": size, **({"vg": vg} if vg else {})} for size, vg in placed]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"disks": disks((999, "fast"))}, {"node2", "node3"}),
        ({"disks": disks((1000, "fast"))}, {"node3"}),
        ({"disks": disks((2000, "fast"))}, set()),
        ({"disks": disks((4999, ""))}, {"node1", "node2"}),
        ({"disks": disks((4999, "lvm"))}, {"node1", "node2"}),
        ({"disks": disks((5000, ""))}, set()),
        ({"disks": disks((9, "gone"))}, set()),
        ({"disks": disks((9, ""), (9, "fast"))}, {"node2"}),
        ({"disks": disks((999, "")), "tags": ["iallocator:pool:internal:fast"]},
         {"node2", "node3"}),
        ({"disks": disks((1500, "")), "tags": ["iallocator:pool:internal:fast"]}, {"node3"}),
    ],
)  # fmt: skip
def test_disks_require_their_volume_groups(wanted: Json, expected: set[str]) -> None:
    """A node is rejected without the volume group of a disk, or without free space in it."""
    assert places(two_of_three(), disk_template="plain", **wanted) == expected


def test_other_storage_is_open() -> None:
    """A list of volume groups does not restrict file and shared storage."""
    everywhere = {"node1", "node2", "node3"}
    for template in ("rbd", "file", "diskless", "ext"):
        assert places(two_of_three(), disk_template=template) == everywhere, template
    nas = {"disk_template": "rbd", "storage_pool": "nas"}
    assert places(two_of_three(), **nas) == everywhere


def test_free_space_of_lvm_is_that_of_the_node() -> None:
    """The figures of the volume group ``lvm`` replace those of the node."""
    document = cluster(2, changes={"node1": {"free_disk": 1, **groups(700)}})
    assert "node1" in places(document, disk_template="plain", disks=disks((699, "")))
    assert "node1" not in places(document, disk_template="plain", disks=disks((700, "")))


def test_metadata_of_drbd_is_in_the_volume_group_of_the_cluster() -> None:
    """Metadata of drbd disks is in the cluster's volume group unless the disk names another."""
    changes = {f"node{k}": groups(None if k == 3 else 200, fast=1000) for k in (1, 2, 3)}
    document = cluster(3, changes=changes)
    wanted = {"disk_template": "drbd", "disks": disks((999, "fast"))}
    assert places(document, **wanted) == {"node1", "node2"}
    beside = {"disk_template": "drbd", "disks": [{"size": 871, "vg": "fast", "metavg": "fast"}]}
    assert places(document, **beside) == {"node1", "node2", "node3"}
    beside["disks"][0]["size"] = 872  # type: ignore[index]
    assert places(document, **beside) == set()


def test_tags_choose_nodes_and_disks_take_space_in_their_volume_group() -> None:
    """A tag that is no volume group restricts nodes; disks use their own volume group."""
    document = two_of_three()
    document["nodes"]["node2"]["tags"] = ["iallocator:pool:internal:dear"]
    tagged = {"disk_template": "plain", "tags": ["iallocator:pool:internal:dear"]}
    assert places(document, **tagged, disks=disks((999, "fast"))) == {"node2"}
    assert places(document, **tagged, disks=disks((1000, "fast"))) == set()
    assert places(document, **tagged, disks=disks((1000, "lvm"))) == {"node2"}


def test_instance_keeps_to_nodes_with_its_volume_group() -> None:
    """An evacuation moves drbd disks to the only node with space in their volume group."""
    held = instance("node2", "node3", disk_template="drbd",
                    disks=[{"size": 400, "vg": "fast", "metavg": "fast"}])  # fmt: skip
    document = cluster(5, instances={"one": held}, changes={
        "node1": groups(5000), "node2": groups(5000, fast=1000), "node3": groups(5000, fast=1000),
        "node4": groups(5000, fast=528), "node5": groups(5000, fast=529),
    })  # fmt: skip
    document["request"] = {
        "type": "node-evacuate", "instances": ["one"], "evac_mode": "secondary-only",
    }  # fmt: skip
    ((moved,), failed, _) = respond(document, "--n1=off")["result"]
    assert moved[2] == ["node2", "node5"]
    assert not failed


def test_node_without_a_list_has_the_volume_group_of_the_cluster() -> None:
    """A node without a list has the cluster's volume group, and no other that is listed."""
    document = cluster(2, changes={"node1": groups(5000, fast=5000)})
    assert places(document, disk_template="plain", disks=disks((9, ""))) == {"node1", "node2"}
    assert places(document, disk_template="plain", disks=disks((9, "fast"))) == {"node1"}


def test_ganeti_names_the_volume_group_of_every_new_disk() -> None:
    """If only tags name volume groups, a volume group without a tag is on all nodes."""
    document = cluster(2)
    document["nodes"]["node1"]["tags"] = ["iallocator:pool:internal:ssd"]
    wanted: dict[str, Any] = {"disk_template": "plain", "disks": disks((9, "xenvg"))}
    assert places(document, **wanted) == {"node1", "node2"}
    assert places(document, **wanted, tags=["iallocator:pool:internal:ssd"]) == {"node1"}


def test_compat_hail_does_not_look_at_volume_groups() -> None:
    """With --compat hail, only the cluster's volume group of a node is used."""
    request = allocate(two_of_three(), disk_template="plain", disks=disks((9, "gone")))
    assert not respond(request)["success"]
    assert respond(request, "--compat=hail")["success"]


def test_reason_has_the_numbers(tmp_path: Path) -> None:
    """A rejection has the numbers of a full volume group, or the name of a missing one."""
    request = allocate(two_of_three(), disk_template="plain", disks=disks((1500, "fast")))
    file = tmp_path / "request.json"
    file.write_bytes(as_bytes(request))
    text = " ".join(run("explain", str(file), "--n1=off").stdout.decode().split())
    assert "needs 1500 MiB in storage pool internal/fast, 1000 free" in text
    assert "does not have access to storage pool internal/fast" in text


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"volume_groups": 5}, "volume_groups: expected a list of objects, got 5"),
        ({"volume_groups": [{"name": "x"}, {"name": "x"}]},
         'volume_groups/1/name: expected each pool once, got "x" again'),
        ({"volume_groups": [{"name": "x"}], "storage_pools": [internal("x")]},
         'volume_groups/0/name: expected each pool once, got "x" again'),
        ({"volume_groups": [{"name": "x", "free": -1}]},
         f"volume_groups/0/free: expected an integer from 0 to {2**53}, got -1"),
    ],
)  # fmt: skip
def test_wrong_lists_are_reported(members: Json, expected: str) -> None:
    """Wrong lists of volume groups are reported by the parser and by --validate."""
    document = allocate(cluster(2), disk_template="plain")
    document["nodes"]["node1"] |= members
    with pytest.raises(RequestError) as caught:
        read(as_bytes(document), Settings())
    assert str(caught.value) == f"nodes/node1/{expected}"
    assert f"nodes/node1/{expected}" in problems(as_bytes(document))
