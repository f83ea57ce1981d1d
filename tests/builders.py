"""Build small request documents, so that a test names only the members that it needs.

    document = cluster(nodes=3, memory=8192, instances={"web": instance("node1", "node2")})
    request = allocate(document, memory=2048)

Documents are plain dictionaries: what no parameter offers can be set afterwards.
Sizes are in MiB.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

Json = dict[str, Any]

__all__ = [
    "Json", "allocate", "allocate_rbd", "as_bytes", "cluster", "group", "instance", "leave", "node",
    "policy", "rbd", "spec",
]  # fmt: skip


def cluster(
    nodes: int | Mapping[str, int] = 3,
    *,
    memory: int = 8192,
    disk: int = 102400,
    cpus: int = 8,
    instances: Mapping[str, Json] | None = None,
    changes: Mapping[str, Json] | None = None,
    tags: tuple[str, ...] = (),
) -> Json:
    """Return a document without request.

    Parameters
    ----------
    nodes
        The number of nodes in the group ``default``, or the number in each group by name.
        They are called node1, node2, ... through all groups.
    memory, disk, cpus
        The amounts of each node.
    instances
        Instances by name, made by `instance`; the free amounts of nodes follow from them.
    changes
        Members to set in nodes (by name) after that, e.g. ``{"node2": {"drained": True}}``.
    tags
        The tags of the cluster.
    """
    sizes = {"default": nodes} if isinstance(nodes, int) else nodes
    homes = [name for name, count in sizes.items() for _ in range(count)]
    document: Json = {
        "version": 2,
        "cluster_name": "cluster.example.com",
        "cluster_tags": list(tags),
        "enabled_hypervisors": ["xen-pvm"],
        "ipolicy": policy(),
        "nodegroups": {f"uuid-{name}": group(name) for name in sizes},
        "nodes": {
            f"node{number}": node(home, memory=memory, disk=disk, cpus=cpus)
            for number, home in enumerate(homes, start=1)
        },
        "instances": dict(instances or {}),
    }
    _settle(document)
    for name, members in (changes or {}).items():
        document["nodes"][name] |= members
    return document


def _settle(document: Json) -> None:
    """Subtract the amounts of the instances from the free amounts of the nodes."""
    for one in document["instances"].values():
        for position, name in enumerate(one["nodes"]):
            home = document["nodes"][name]
            if one["disk_template"] in ("drbd", "plain"):
                home["free_disk"] -= one["disk_space_total"]
            if position == 0 and one["admin_state"] == "up":
                home["free_memory"] -= one["memory"]


def leave(holder: Json, free: int) -> None:
    """Set the free memory (MiB) of a node; the difference counts as memory of the node itself."""
    holder["reserved_memory"] += holder["free_memory"] - free
    holder["free_memory"] = free


def group(name: str = "default", **members: Any) -> Json:
    """Return a node group; its uuid is ``uuid-`` and its name."""
    return {
        "name": name,
        "alloc_policy": "preferred",
        "networks": [],
        "ipolicy": policy(),
        "tags": [],
        **members,
    }


def policy(low: Json | None = None, high: Json | None = None, **members: Any) -> Json:
    """Return an instance policy of one interval, from `low` to `high`."""
    interval = {
        "min": low or spec(1, 1, 1, 0, 1),
        "max": high or spec(1048576, 64, 16777216, 16, 64),
    }
    return {
        "minmax": [interval],
        "std": spec(1024, 1, 10240, 1, 1),
        "disk-templates": ["diskless", "drbd", "ext", "file", "plain", "rbd", "sharedfile"],
        "vcpu-ratio": 4,
        "spindle-ratio": 32,
        **members,
    }


def spec(memory: int, cpus: int, disk: int, disks: int, spindles: int) -> Json:
    """Return one end of an interval of a policy; `disk` is the size of each disk."""
    return {
        "memory-size": memory,
        "cpu-count": cpus,
        "disk-size": disk,
        "disk-count": disks,
        "nic-count": 0,
        "spindle-use": spindles,
    }


def node(
    home: str = "default", *, memory: int = 8192, disk: int = 102400, cpus: int = 8, **members: Any
) -> Json:
    """Return an empty node of the group called `home`."""
    return {
        "group": f"uuid-{home}",
        "offline": False,
        "drained": False,
        "vm_capable": True,
        "master_candidate": True,
        "master_capable": True,
        "total_memory": memory,
        "reserved_memory": 0,
        "free_memory": memory,
        "total_disk": disk,
        "free_disk": disk,
        "total_spindles": 0,
        "free_spindles": 0,
        "total_cpus": cpus,
        "reserved_cpus": 0,
        "tags": [],
        "primary_ip": "192.0.2.1",
        "secondary_ip": "192.0.2.1",
        "ndparams": {"exclusive_storage": False, "spindle_count": 1},
        **members,
    }


def instance(*nodes: str, **members: Any) -> Json:
    """Return an instance on `nodes`, primary first.

    It is drbd on two nodes, else plain; `members` can set any field, `disk` sets the size of its
    only disk.
    """
    template = members.get("disk_template", "drbd" if len(nodes) == 2 else "plain")
    return {**_description(template, members), "nodes": list(nodes), "admin_state": "up"} | members


def rbd(*nodes: str, **members: Any) -> Json:
    """Return an instance on shared storage."""
    return instance(*nodes, disk_template="rbd", **members)


def allocate(document: Json, name: str = "new", **members: Any) -> Json:
    """Return `document` with a request to place a new instance, drbd by default.

    `members` can set any field of the request, `disk` sets the size of its only disk; `restrict`
    stands for ``restrict-to-nodes``.
    """
    template = members.get("disk_template", "drbd")
    restrict = members.pop("restrict", None)
    request = {
        "type": "allocate",
        "name": name,
        **_description(template, members),
        "required_nodes": 2 if template == "drbd" else 1,
        "group_name": None,
    }
    if restrict is not None:
        request["restrict-to-nodes"] = list(restrict)
    return {**document, "request": request | members}


def allocate_rbd(document: Json, name: str = "new", **members: Any) -> Json:
    """Return `document` with a request to place a new instance on shared storage."""
    return allocate(document, name, disk_template="rbd", **members)


def _description(template: str, members: Json) -> Json:
    """Return the description of an instance, and remove `disk` from `members`."""
    size = members.pop("disk", 1024)
    one = [] if template == "diskless" else [{"size": size, "mode": "rw", "spindles": 1}]
    disks = members.get("disks", one)
    return {
        "memory": 1024,
        "vcpus": 1,
        "spindle_use": 1,
        "disks": disks,
        "disk_template": template,
        "disk_space_total": sum(_space(template, disks)),
        "nics": [],
        "tags": [],
        "os": "debootstrap",
        "hypervisor": "xen-pvm",
    }


def _space(template: str, disks: list[Json]) -> Iterator[int]:
    """Yield the MiB of each disk on a node; each drbd disk has 128 MiB more."""
    for disk in disks:
        yield disk["size"] + (128 if template == "drbd" else 0)


def as_bytes(document: Json) -> bytes:
    """Return the bytes of the document as Ganeti writes it."""
    return json.dumps(document).encode()
