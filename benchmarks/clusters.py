"""Generate consistent clusters of any size, as request documents.

Every node reports exactly what its instances leave free. So no memory and no disk space is missing,
and other programs read the numbers that this program reads.
"""

from __future__ import annotations

import random

from iallocator.aliases import Json

__all__ = [
    "POLICY", "Shape", "allocate", "as_text", "change_group", "document",
    "first_nodes_offline", "group_entry", "half_empty",
    "multi_allocate", "node_entry", "node_evacuate", "not_redundant", "to_be_repaired", "too_large",
]  # fmt: skip

LOCAL = ("drbd", "plain")
POLICY = {
    "minmax": [
        {
            "min": {"memory-size": 128, "cpu-count": 1, "disk-size": 256, "disk-count": 0,
                    "nic-count": 0, "spindle-use": 0},
            "max": {"memory-size": 65536, "cpu-count": 32, "disk-size": 1048576, "disk-count": 16,
                    "nic-count": 8, "spindle-use": 12},
        }
    ],
    "std": {"memory-size": 1024, "cpu-count": 1, "disk-size": 10240, "disk-count": 1,
            "nic-count": 1, "spindle-use": 1},
    "disk-templates": ["drbd", "plain", "rbd", "sharedfile", "ext", "diskless"],
    "vcpu-ratio": 64.0,
    "spindle-ratio": 512.0,
}  # fmt: skip


class Shape:
    """The description of a generated cluster.

    Attributes
    ----------
    groups, nodes:
        Number of groups, and of nodes in each group.
    per_node:
        Primary instances per node, on average.
    template:
        Disk template of all instances.
    fullness:
        Share of all memory that instances use, from 0 to 1.
    crowding:
        Share of the instances that are on the first quarter of the nodes, from 0 to 1. The others
        are distributed evenly. With crowding, balancing has work to do.
    """

    def __init__(
        self,
        nodes: int,
        template: str = "drbd",
        *,
        groups: int = 1,
        per_node: int = 12,
        fullness: float = 0.4,
        seed: int = 1,
        crowding: float = 0.0,
    ) -> None:
        self.crowding = crowding
        self.nodes = nodes
        self.template = template
        self.groups = groups
        self.per_node = per_node
        self.fullness = fullness
        self.seed = seed


MEMORY = 131072
DISK = 4 * 1024 * 1024
SIZES = (0.5, 0.75, 1.0, 1.25, 1.5)


def document(shape: Shape) -> Json:
    """Return the cluster of `shape`, without a request."""
    rng = random.Random(shape.seed)
    groups = {f"uuid-{g:02}": group_entry(g) for g in range(shape.groups)}
    nodes: dict[str, Json] = {}
    instances: dict[str, Json] = {}
    for number, uuid in enumerate(groups):
        names = [f"node{number:02}-{n:04}.example.com" for n in range(shape.nodes)]
        nodes |= {name: node_entry(uuid) for name in names}
        for n in range(shape.nodes * shape.per_node):
            name = f"instance{number:02}-{n:06}.example.com"
            instances[name] = _instance(rng, shape, names, n)
    _report(nodes, instances)
    return {
        "version": 2,
        "cluster_name": "bench.example.com",
        "cluster_tags": [],
        "enabled_hypervisors": ["xen-pvm"],
        "ipolicy": POLICY,
        "nodegroups": groups,
        "nodes": nodes,
        "instances": instances,
    }


def group_entry(number: int) -> Json:
    """Return a group as documents have it."""
    return {
        "name": f"group{number:02}",
        "alloc_policy": "preferred",
        "networks": [],
        "tags": [],
        "ipolicy": POLICY,
    }


def node_entry(uuid: str, memory: int = MEMORY, disk: int = DISK, cpus: int = 32) -> Json:
    """Return an empty node of a group as documents have it; memory and disk space in MiB."""
    return {
        "group": uuid,
        "total_memory": memory,
        "reserved_memory": 1024,
        "free_memory": memory - 1024,
        "total_disk": disk,
        "free_disk": disk,
        "total_spindles": 0,
        "free_spindles": 0,
        "total_cpus": cpus,
        "reserved_cpus": 1,
        "i_pri_memory": 0,
        "i_pri_up_memory": 0,
        "tags": [],
        "primary_ip": "192.0.2.1",
        "secondary_ip": "192.0.2.2",
        "offline": False,
        "drained": False,
        "master_candidate": True,
        "master_capable": True,
        "vm_capable": True,
        "ndparams": {"exclusive_storage": False, "spindle_count": 1, "cpu_speed": 1,
                     "oob_program": "", "ssh_port": 22},
    }  # fmt: skip


def _instance(rng: random.Random, shape: Shape, names: list[str], number: int) -> Json:
    """Return an instance; primaries are distributed evenly, secondaries over other nodes."""
    mean = MEMORY * shape.fullness / shape.per_node
    memory = int(mean * rng.choice(SIZES)) // 64 * 64
    size = rng.choice((5, 10, 20, 40)) * 1024
    primary = number % len(names)
    if shape.crowding and rng.random() < shape.crowding:
        primary = rng.randrange(len(names) // 4)
    places = [names[primary]]
    if shape.template == "drbd":
        places.append(names[(primary + rng.randrange(1, len(names))) % len(names)])
    return _described(memory, size, shape.template) | {
        "nodes": places,
        "admin_state": "up",
    }


def _described(memory: int, size: int, template: str) -> Json:
    total = {"drbd": size + 128, "plain": size}.get(template, 0)
    return {
        "memory": memory,
        "vcpus": 1,
        "spindle_use": 1,
        "disks": [{"size": size, "mode": "rw", "spindles": 1, "dev_type": template}],
        "disk_space_total": total,
        "disk_template": template,
        "nics": [{"mac": "aa:00:00:00:00:01", "ip": None, "mode": "bridged", "link": "br0"}],
        "tags": [],
        "os": "debian",
        "hypervisor": "xen-pvm",
    }


def _report(nodes: dict[str, Json], instances: dict[str, Json]) -> None:
    """Set the free amounts of every node to what its instances leave."""
    for instance in instances.values():
        primary = nodes[instance["nodes"][0]]
        primary["free_memory"] -= instance["memory"]
        primary["i_pri_memory"] += instance["memory"]
        primary["i_pri_up_memory"] += instance["memory"]
        if instance["disk_template"] in LOCAL:
            for name in instance["nodes"]:
                nodes[name]["free_disk"] -= instance["disk_space_total"]
    for node in nodes.values():
        node["free_memory"] = max(0, node["free_memory"])
        node["free_disk"] = max(0, node["free_disk"])


def first_nodes_offline(shape: Shape, groups: int) -> Json:
    """Return the cluster of `shape`; in `groups` of its groups, the first node is offline."""
    whole = document(shape)
    for name in list(whole["nodes"])[: groups * shape.nodes : shape.nodes]:
        whole["nodes"][name]["offline"] = True
    return whole


def to_be_repaired(shape: Shape) -> Json:
    """Return the cluster of `shape` with its first node offline, and tags for all repairs."""
    return first_nodes_offline(shape, 1) | {"cluster_tags": ["ganeti:watcher:autorepair:reinstall"]}


def half_empty(shape: Shape) -> Json:
    """Return the cluster of `shape` without every second instance of every second group."""
    whole = document(shape)
    names = list(whole["instances"])
    each = shape.nodes * shape.per_node
    for number in range(1, shape.groups, 2):
        for name in names[number * each : (number + 1) * each : 2]:
            del whole["instances"][name]
    whole["nodes"] = {name: node_entry(node["group"]) for name, node in whole["nodes"].items()}
    _report(whole["nodes"], whole["instances"])
    return whole


def too_large(shape: Shape) -> Json:
    """Return a request for a new instance slightly larger than the free capacity of any node."""
    whole = document(shape)
    most = max(node["free_memory"] for node in whole["nodes"].values())
    return allocate(shape, memory=most + 512)


def allocate(shape: Shape, memory: int = 2048, template: str | None = None) -> Json:
    """Return a request for one new instance; memory in MiB."""
    kind = template or shape.template
    request = _described(memory, 10240, kind) | {
        "type": "allocate",
        "name": "new.example.com",
        "required_nodes": 2 if kind == "drbd" else 1,
        "group_name": None,
    }
    return document(shape) | {"request": request}


def not_redundant(shape: Shape) -> Json:
    """Return a request in a group with a failure that is not tolerated.

    One instance is larger than the free capacity of any other node.
    """
    whole = allocate(shape)
    instance = list(whole["instances"].values())[-1]
    node = whole["nodes"][instance["nodes"][0]]
    instance["memory"] += node["free_memory"] - 4096
    node["free_memory"] = 4096
    return whole


def multi_allocate(shape: Shape, count: int) -> Json:
    """Return a request for `count` new instances."""
    wanted = [
        _described(2048, 10240, shape.template)
        | {
            "name": f"new{n:03}.example.com",
            "required_nodes": 2 if shape.template == "drbd" else 1,
            "group_name": None,
        }
        for n in range(count)
    ]
    return document(shape) | {"request": {"type": "multi-allocate", "instances": wanted}}


def node_evacuate(shape: Shape, count: int, mode: str = "all") -> Json:
    """Return a request to evacuate `count` instances from the first node."""
    whole = document(shape)
    first = next(iter(whole["nodes"]))
    names = [name for name, one in whole["instances"].items() if first in one["nodes"]]
    others = [name for name in whole["instances"] if name not in names]
    request = {"type": "node-evacuate", "instances": (names + others)[:count], "evac_mode": mode}
    if len(names) >= count:
        request["instances"] = names[:count]
    return whole | {"request": request}


def change_group(shape: Shape, count: int) -> Json:
    """Return a request to move `count` instances of the first group to any other group."""
    whole = document(shape)
    names = list(whole["instances"])[:count]
    request = {"type": "change-group", "instances": names, "target_groups": []}
    return whole | {"request": request}


def as_text(whole: Json) -> str:
    """Return the cluster of a document in htools' text format."""
    from iallocator.model.state import State
    from iallocator.sources.writer import write_text
    from iallocator.wire.document import read_cluster
    from iallocator.wire.reading import Reading

    cluster = read_cluster(whole, Reading())
    return write_text(cluster, State(cluster))
