"""Generate random documents in which only placement keys limit the nodes.

Nodes have far more memory, disk and cpus than requested, unless the memory overhead is large.
"""

from __future__ import annotations

from random import Random

from tests.builders import Json, allocate, cluster, instance

from .plain_affinity import LEVELS, Options

__all__ = ["KINDS", "keyed_document", "keyed_options", "possible", "tightened"]

KINDS = (
    "allocate", "multi-allocate", "allocate-secondary", "relocate", "node-evacuate", "change-group",
)  # fmt: skip
NAMES = ("vpc", "disk", "licence", "_licence", "_gpu")
VALUES = ("0", "0.25", "0.3", "0.5", "0.9", "1", "1.75", "-1")
WEIGHTS = ("-60", "-20", "-7.5", "0", "0.5", "15", "30", "60", "110")
SHARED = ("rbd", "sharedfile", "ext", "diskless")


def keyed_options(rng: Random) -> Options:
    """Return random overhead and thresholds for placement keys, mostly the defaults."""
    overhead = rng.choice((1024, 1024, 0, 30000, 50000))
    if rng.random() < 0.6:
        return Options(overhead)
    return Options(
        overhead, rng.choice((50, 80, 99)), rng.choice((-40, -10, 0)), rng.randint(2, 12)
    )


def keyed_document(rng: Random, kind: str) -> Json:
    """Return a document with a request of type `kind`."""
    sizes = {f"g{number}": rng.randint(2, 5) for number in range(rng.randint(1, 3))}
    homes = [home for home, count in sizes.items() for _ in range(count)]
    present = {f"old{number}": _placed(rng, homes) for number in range(rng.randint(2, 14))}
    document = cluster(
        sizes, memory=65536, disk=4096000, cpus=64, instances=present,
        tags=tuple(_tags(rng, rng.choice((0, 0, 1, 3)))),
    )  # fmt: skip
    for node in document["nodes"].values():
        _equip(rng, node)
    for group in document["nodegroups"].values():
        group["alloc_policy"] = rng.choice(("preferred", "preferred", "last_resort"))
    if rng.random() < 0.6:
        document["placement_keys"] = _keys(rng, rng.randint(1, 4))
    return _with_request(rng, document, kind)


def _with_request(rng: Random, document: Json, kind: str) -> Json:
    if kind == "allocate":
        return allocate(document, **_new(rng))
    names = list(document["instances"])
    request: Json
    if kind == "multi-allocate":
        wanted = [
            allocate({}, name=f"new{number}", **_new(rng))["request"]
            for number in range(rng.randint(2, 5))
        ]
        request = {"instances": wanted}
    elif kind == "allocate-secondary":
        name = rng.choice(names)
        one = document["instances"][name]
        document["instances"][name] = {**one, "disk_template": "plain", "nodes": one["nodes"][:1]}
        request = {"name": name}
    elif kind == "relocate":
        name = rng.choice(names)
        last = document["instances"][name]["nodes"][-1]
        request = {"name": name, "required_nodes": 1, "relocate_from": [last]}
    else:
        request = {"instances": rng.sample(names, rng.randint(1, min(4, len(names))))}
        if kind == "node-evacuate":
            request["evac_mode"] = rng.choice(("primary-only", "secondary-only", "all"))
        else:
            request["target_groups"] = []
    if rng.random() < 0.4:
        request["placement_keys"] = _keys(rng, rng.randint(1, 2))
    return {**document, "request": {**request, "type": kind}}


def _placed(rng: Random, homes: list[str]) -> Json:
    template = rng.choice((*SHARED, "drbd"))
    first = rng.randrange(len(homes))
    nodes = [first]
    if template == "drbd":
        beside = [n for n, home in enumerate(homes) if home == homes[first] and n != first]
        nodes.append(rng.choice(beside))
    return instance(
        *[f"node{number + 1}" for number in nodes],
        disk_template=template,
        admin_state=rng.choice(("up", "up", "up", "up", "down", "offline")),
        **_size(rng),
        **_own_keys(rng),
    )


def _new(rng: Random) -> Json:
    template = rng.choice((*SHARED, "drbd"))
    return {"disk_template": template, **_size(rng), **_own_keys(rng)}


def _size(rng: Random) -> Json:
    return {"memory": rng.choice((512, 1024, 2048, 4000)), "vcpus": rng.randint(1, 4)}


def _own_keys(rng: Random) -> Json:
    members: Json = {"tags": [*_tags(rng, rng.randint(0, 3)), "service:web"]}
    if rng.random() < 0.3:
        members["placement_keys"] = _keys(rng, rng.randint(1, 3))
    return members


def _tags(rng: Random, count: int) -> list[str]:
    found = []
    for _ in range(count):
        kind = rng.choice(("key", "key", "syskey", "syskey", "specialkey"))
        name = rng.choice(("ram", "cpu", "load") if kind == "specialkey" else NAMES)
        name = name.strip("_") if kind == "syskey" else name
        value = "0" if kind == "specialkey" else rng.choice(VALUES)
        found.append(f"iallocator:{kind}:{name}:{value}:{rng.choice(WEIGHTS)}")
    return found


def _keys(rng: Random, count: int) -> list[Json]:
    found = []
    for _ in range(count):
        kind = rng.choice(("customer", "customer", "system", "special"))
        special = ("#RAM", "#CPU", "#LOAD", "ram", "cpu", "load")
        key = {
            "class": kind,
            "name": rng.choice(special if kind == "special" else NAMES),
            "value": 0 if kind == "special" else float(rng.choice(VALUES)),
            "weight": float(rng.choice(WEIGHTS)),
        }
        if rng.random() < 0.8:
            key["level"] = rng.choice(LEVELS)
        found.append(key)
    return found


def _equip(rng: Random, node: Json) -> None:
    """Add random keys, load and contention ratios to a node; some nodes reject instances."""
    tags = [f"iallocator:key:{name}:{rng.choice(VALUES)}" for name in NAMES if rng.random() < 0.45]
    if rng.random() < 0.3:
        value = rng.choice(VALUES)
        tags.append(f"iallocator:stickykey:{rng.choice(NAMES)}:{value}:{rng.choice(WEIGHTS)}")
    if rng.random() < 0.3:
        tags.append(f"iallocator:ram-contention:{rng.choice(('0.5', '0.8', '1.5'))}")
    if rng.random() < 0.3:
        tags.append(f"iallocator:cpu-contention:{rng.choice(('0.25', '1', '8'))}")
    rng.shuffle(tags)
    node["tags"] = [*tags, "rack:1"]
    if rng.random() < 0.5:
        node["load"] = rng.choice((0, 0.2, 0.75, 1, 3))
    node["free_memory"] -= rng.choice((0, 0, 300, 12000))
    if rng.random() < 0.1:
        node[rng.choice(("drained", "offline"))] = True


def tightened(rng: Random, document: Json) -> Json:
    """Return `document` with little capacity on its nodes, for few more instances or none.

    The request is changed to shared storage, and instances use no local disk.
    """
    for name, node in document["nodes"].items():
        here = [i for i in document["instances"].values() if i["nodes"][0] == name]
        used = sum(i["memory"] for i in here if i["admin_state"] == "up")
        room = rng.choice((500, 1500, 3000, 6000, 9000))
        node["total_memory"] = used + room
        node["free_memory"] = max(0, room - rng.choice((0, 0, 700)))
        node["total_cpus"] = rng.choice((1, 2, 4))
    document["request"] |= {"disk_template": "rbd", "required_nodes": 1}
    return document


def possible(document: Json, node: str) -> bool:
    """Return whether a node of a document from `tightened` can host the requested instance."""
    raw, wanted = document["nodes"][node], document["request"]
    here = [i for i in document["instances"].values() if i["nodes"][0] == node]
    mirrored = [i for i in document["instances"].values() if i["nodes"][1:] == [node]]
    running = [i for i in here if i["admin_state"] == "up"]
    memory = wanted["memory"]
    free = min(raw["total_memory"] - sum(i["memory"] for i in running), raw["free_memory"])
    idle = raw["free_memory"] - sum(i["memory"] for i in here if i["admin_state"] != "up")
    peers: dict[str, int] = {}
    for one in mirrored:
        if one["admin_state"] != "offline":
            peers[one["nodes"][0]] = peers.get(one["nodes"][0], 0) + one["memory"]
    kept = max(peers.values(), default=0)
    breaks_n1 = free > kept and free - memory <= kept
    vcpus = sum(i["vcpus"] for i in here if i["admin_state"] != "offline") + wanted["vcpus"]
    ratio = document["nodegroups"][raw["group"]]["ipolicy"]["vcpu-ratio"]
    return free > memory and idle > memory and not breaks_n1 and vcpus <= ratio * raw["total_cpus"]
