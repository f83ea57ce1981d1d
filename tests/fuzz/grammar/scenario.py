"""Generate small clusters with many features, and a request for each."""

from __future__ import annotations

from random import Random

from tests.builders import Json

from .tagging import decorate

__all__ = ["FEATURES", "Json", "scenario"]


FEATURES = (
    "exclusive", "networks", "pools", "tags", "htools", "states", "forthcoming", "tight", "keys",
    "spindles", "old", "loads", "hypervisors", "empty",
)  # fmt: skip
"""Features of clusters; each generated cluster has some of them."""

TEMPLATES = ("drbd", "plain", "rbd", "ext", "sharedfile", "file", "diskless", "gluster", "blockdev")

SHARED = ("rbd", "ext", "sharedfile", "gluster", "blockdev")


def scenario(rng: Random) -> Json:
    """Return a random valid request document."""
    features = set(rng.sample(FEATURES, rng.randint(0, 4)))
    groups = [f"uuid-{letter}" for letter in "abc"[: rng.choice((1, 1, 2, 3))]]
    nodes = {f"n{k}": _node(rng, features, rng.choice(groups)) for k in range(rng.randint(1, 6))}
    document: Json = {
        "version": 2, "cluster_name": "c", "cluster_tags": [], "ipolicy": _policy(rng, features),
        "enabled_hypervisors": [rng.choice(("kvm", "xen-pvm"))],
        "nodegroups": {uuid: _group(rng, features, uuid) for uuid in groups},
        "nodes": nodes,
    }  # fmt: skip
    many = 0 if "empty" in features else rng.choice((0, 1, 2, 3, 4, 6, 9))
    document["instances"] = {
        f"i{k}": _placed(rng, features, nodes, rng.choice(TEMPLATES[:5])) for k in range(many)
    }
    document["request"] = _question(rng, features, document)
    if not features.isdisjoint(("tags", "htools", "keys")):
        decorate(rng, document, features)
    return document


def _node(rng: Random, features: set[str], group: str) -> Json:
    memory = rng.choice((4096, 8192, 16384)) * (1 if "tight" in features else 4)
    node: Json = {
        "group": group, "total_memory": memory + 4096, "reserved_memory": rng.choice((0, 512)),
        "free_memory": memory, "total_disk": 102400, "free_disk": rng.choice((102400, 50000, 9000)),
        "total_cpus": rng.choice((2, 4, 16)), "reserved_cpus": 1, "total_spindles": 0,
        "free_spindles": 0, "offline": False, "drained": False, "vm_capable": True,
        "master_candidate": True, "tags": [], "i_pri_memory": 0, "i_pri_up_memory": 0,
        "ndparams": {"spindle_count": 1, "exclusive_storage": False, "cpu_speed": 1.0},
    }  # fmt: skip
    if "exclusive" in features and rng.random() < 0.7:
        node["ndparams"]["exclusive_storage"] = True
        node |= {"total_spindles": 8, "free_spindles": rng.randint(0, 8)}
    if "states" in features:
        node |= {"offline": rng.random() < 0.2, "drained": rng.random() < 0.2}
        node["vm_capable"] = rng.random() < 0.9
    if "pools" in features and rng.random() < 0.8:
        names = rng.sample(("x", "y", "z"), rng.randint(1, 3))
        node["storage_pools"] = [
            {"type": rng.choice(("internal", "external")), "name": name, "total": 90000,
             "free": rng.choice((0, 5000, 90000))}
            for name in names
        ]  # fmt: skip
    if "old" in features:
        for key in ("vm_capable", "ndparams", "total_spindles", "free_spindles", "tags"):
            if rng.random() < 0.5:
                node.pop(key, None)
    return node


def _size(disk: int, memory: int, cpus: int) -> Json:
    return {"memory-size": memory, "disk-size": disk, "cpu-count": cpus, "disk-count": cpus,
            "nic-count": cpus, "spindle-use": cpus}  # fmt: skip


def _policy(rng: Random, features: set[str]) -> Json:
    low = {**_size(256, 128, 1), "disk-count": 0, "nic-count": 0}
    bounds = [{"min": low, "max": _size(1 << 20, rng.choice((4096, 32768)), 16)}]
    if rng.random() < 0.2:
        bounds.append({"min": _size(1024, 2048, 2), "max": _size(4096, 4096, 4)})
    return {
        "minmax": bounds, "std": _size(1024, 512, 1),
        "disk-templates": list(TEMPLATES) if rng.random() < 0.8 else rng.sample(TEMPLATES, 3),
        "vcpu-ratio": 1.0 if "tight" in features else 4.0,
        "spindle-ratio": rng.choice((0.5, 32)) if "spindles" in features else 32,
    }  # fmt: skip


def _group(rng: Random, features: set[str], uuid: str) -> Json:
    group: Json = {
        "name": uuid[-1] * 2, "tags": [], "ipolicy": _policy(rng, features),
        "alloc_policy": rng.choice(("preferred", "preferred", "last_resort", "unallocable")),
        "networks": rng.sample(("net1", "net2"), rng.randint(0, 2)),
    }  # fmt: skip
    if "pools" in features and rng.random() < 0.5:
        group["diskparams"] = {"rbd": {"pool": rng.choice("xyz")}, "gluster": {"volume": "y"}}
    if "old" in features and rng.random() < 0.5:
        del group["ipolicy"]
    return group


def _described(rng: Random, features: set[str], template: str) -> Json:
    disks: list[Json] = [
        {"size": rng.choice((512, 1024, 4096)), "mode": "rw"} for _ in range(rng.randint(1, 2))
    ]
    if template == "diskless":
        disks = []
    for disk in disks:
        if "exclusive" in features:
            disk["spindles"] = rng.choice((1, 2, None))
    local = template in ("drbd", "plain", "file")
    described: Json = {
        "memory": rng.choice((256, 512, 1024, 4096)), "vcpus": rng.choice((1, 1, 2, 4)),
        "disks": disks, "disk_template": template, "spindle_use": 1, "nics": [], "tags": [],
        "disk_space_total": sum(disk["size"] + 128 for disk in disks) if local else 0,
        "os": "o", "hypervisor": "kvm",
    }  # fmt: skip
    if "networks" in features and rng.random() < 0.5:
        described["nics"] = [{"network": rng.choice(("net1", "net2")), "mac": "m"}]
    if "pools" in features and rng.random() < 0.6:
        kind = "internal" if local else "external"
        described |= {"storage_type": kind, "storage_pool": rng.choice("xyz")}
    return described


def _placed(rng: Random, features: set[str], nodes: Json, template: str) -> Json:
    primary = rng.choice(list(nodes))
    mates = [n for n in nodes if n != primary and nodes[n]["group"] == nodes[primary]["group"]]
    if template == "drbd" and not mates:
        template = rng.choice(SHARED)
    placed = _described(rng, features, template)
    placed["nodes"] = [primary, *rng.sample(mates, 1 if template == "drbd" else 0)]
    placed["admin_state"] = "up"
    if "states" in features:
        placed["admin_state"] = rng.choice(("up", "up", "down", "offline"))
        placed["auto_balance"] = rng.random() < 0.8
    if "forthcoming" in features:
        placed["forthcoming"] = rng.random() < 0.3
    if "old" in features and rng.random() < 0.5:
        placed.pop(rng.choice(("admin_state", "spindle_use", "tags")))
    if "hypervisors" in features:
        placed["hypervisor"] = rng.choice(("xen-pvm", "fake", "kvm"))
    return placed


def _new(rng: Random, features: set[str], document: Json, name: str) -> Json:
    template = rng.choice(TEMPLATES)
    new = {"name": name, **_described(rng, features, template)}
    new["required_nodes"] = 2 if template == "drbd" else 1
    if rng.random() < 0.2:
        new["group_name"] = rng.choice(list(document["nodegroups"].values()))["name"]
    if rng.random() < 0.1:
        new["restrict-to-nodes"] = rng.sample(list(document["nodes"]), 1)
    return new


def _question(rng: Random, features: set[str], document: Json) -> Json:
    names = list(document["instances"])
    kinds = ["allocate", "multi-allocate"]
    if names:
        kinds += ["relocate", "node-evacuate", "change-group", "allocate-secondary"]
        kinds += ["node-evacuate", "multi-evacuate"]
    kind = rng.choice(kinds)
    if kind == "allocate":
        return {"type": kind, **_new(rng, features, document, "new")}
    if kind == "multi-allocate":
        new = [_new(rng, features, document, f"new{k}") for k in range(rng.randint(0, 4))]
        return {"type": kind, "instances": new}
    if kind == "multi-evacuate":
        return {"type": kind, "evac_nodes": rng.sample(list(document["nodes"]), 1)}
    chosen = rng.sample(names, min(len(names), rng.randint(1, 4)))
    if kind == "node-evacuate":
        mode = rng.choice(("primary-only", "secondary-only", "all"))
        return {"type": kind, "instances": chosen, "evac_mode": mode}
    if kind == "change-group":
        targets = rng.sample(list(document["nodegroups"]), rng.randint(0, 1))
        return {"type": kind, "instances": chosen, "target_groups": targets}
    asked: Json = {"type": kind, "name": chosen[0], "required_nodes": 1}
    if kind == "relocate":
        one = document["instances"][chosen[0]]
        asked |= {"relocate_from": one["nodes"][-1:], "disk_space_total": one["disk_space_total"]}
    return asked
