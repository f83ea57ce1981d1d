"""Draw tiny clusters with little memory and disk, and tags for one constraint."""

from __future__ import annotations

from collections import Counter
from random import Random

from tests.builders import Json, allocate, cluster, instance
from tests.constraints.brute.rules import LOCAL, METADATA, Rules, homes_of

__all__ = ["KINDS", "asked_for", "draw"]

KINDS: dict[str, tuple[str, ...]] = {
    "labels": ("rbd", "plain", "drbd"),
    "stickiness": ("rbd", "drbd"),
    "spread": ("ext",),
    "volume groups": ("plain", "drbd"),
    "disk reserve": ("plain", "drbd"),
    "memory ratio": ("rbd", "plain", "drbd"),
}
"""Constraint -> the disk templates with which it is drawn."""

SHARED = {"storage_type": "external", "storage_pool": "nas"}
VOLUMES = ("lvm", "fast", "slow")
RESERVES = ("0", "10%", "25%", "33.3%", "700", "1500")
RATIOS = ("1.1", "1.25", "1.5", "2")


def draw(rng: Random, kind: str) -> tuple[Json, str]:
    """Return a cluster with tags for the constraint `kind`, and the template of its instances.

    Every instance is in a legal place, apart from the constraints between instances.
    """
    template = rng.choice(KINDS[kind])
    sizes = rng.choice(({"a": 2, "b": 1}, {"a": 2, "b": 2}, {"a": 1, "b": 2}))
    document = cluster(
        sizes if kind == "spread" else rng.choice((3, 3, 4)),
        memory=rng.choice((2000, 2600, 4000)),
        disk=rng.choice((2500, 4000, 6000)),
        cpus=64,
    )
    for raw in document["nodes"].values():
        raw["total_memory"] += rng.choice((0, 0, 500))
        raw["reserved_memory"] = rng.choice((0, 100))
        raw["total_disk"] += rng.choice((0, 0, 700))
        raw["tags"] = ["htools:standby:auto"]
        if kind == "spread":
            raw["storage_pools"] = [{"type": "external", "name": "nas"}]
        if kind == "volume groups":
            raw["volume_groups"] = [
                {"name": name, "total": rng.choice((1500, 3000, 5000))}
                for name in VOLUMES
                if rng.random() < 0.75
            ]
            totals = {one["name"]: one["total"] for one in raw["volume_groups"]}
            raw["total_disk"] = totals.get("lvm", 0)
    _tag_nodes(rng, kind, document)
    for owner in (document, *document["nodegroups"].values()):
        owner["ipolicy"]["std"] |= {"memory-size": 300, "disk-size": 100}
    for number in range(rng.randint(2, 5)):
        _settle(rng, kind, document, template, f"i{number}")
    where = homes_of(document)
    rules = Rules(document)
    for name, raw in document["nodes"].items():
        free = rules.free_disk(where, name)
        held = sum(document["instances"][i]["memory"] for i in where if where[i][0] == name)
        raw["free_memory"] = max(0, raw["total_memory"] - raw["reserved_memory"] - held)
        raw["free_disk"] = free["lvm"]
        for one in raw.get("volume_groups", ()):
            one["free"] = free[one["name"]]
    return document, template


def _tag_nodes(rng: Random, kind: str, document: Json) -> None:
    """Add tags to nodes, groups and cluster."""
    (group, *_) = document["nodegroups"].values()
    for raw in document["nodes"].values():
        if kind == "labels":
            raw["tags"] += rng.sample("abc", rng.randint(0, 3))
        if kind == "stickiness" and rng.random() < 0.3:
            raw["tags"].append(f"iallocator:score:{rng.choice(('0.1', '-0.4'))}")
        if kind == "disk reserve" and rng.random() < 0.4:
            raw["tags"].append(f"iallocator:disk-reserve:{rng.choice(RESERVES)}")
    if kind == "disk reserve":
        for tags in (document["cluster_tags"], group["tags"]):
            if rng.random() < 0.6:
                tags.append(f"iallocator:disk-reserve:{rng.choice(RESERVES)}")
    if kind == "memory ratio":
        group["tags"].append(f"iallocator:memory-ratio:{rng.choice(RATIOS)}")


def _tags(rng: Random, kind: str, names: list[str], home: str = "") -> list[str]:
    """Return the tags of an instance."""
    if kind == "labels":
        known = [f"iallocator:nodes:{word}:{one}" for word in ("must", "never") for one in "abc"]
        tags = rng.sample(known, rng.choice((0, 1, 1, 2)))
        if rng.random() < 0.3:
            tags.append(f"iallocator:nodes:should:{rng.choice('abc')}:{rng.choice(('0.05', '2'))}")
        return tags
    if kind == "stickiness":
        tags = []
        for name in rng.sample(names, rng.choice((0, 1, 1, 2))):
            words = ("0.05", "0.3", "-0.2", "2", "INFINITY", "-INFINITY")
            word = rng.choice(words[:4] if name == home or rng.random() < 0.6 else words)
            tags.append(f"iallocator:score:{name}:{word}")
        if home and rng.random() < 0.5:
            word = rng.choice(("0.01", "0.1", "0.5", "3", "INFINITY"))
            if word != "INFINITY" or not any(tag.endswith("INFINITY") for tag in tags):
                tags.append(f"iallocator:stickiness:{word}")
        return tags
    if kind == "spread":
        names = ["must:web:group", "must:db:group", "must:web", "should:web:group:0.5"]
        some = rng.sample(names, rng.choice((0, 1, 1, 2)))
        return [f"iallocator:separate:{words}" for words in some]
    return []


def _described(rng: Random, kind: str, template: str, big: bool = False) -> Json:
    """Return memory and disks of an instance; `big` ones often do not fit."""
    disks: list[Json] = []
    for _ in range(rng.choice((1, 1, 2)) if kind == "volume groups" else 1):
        size = rng.choice((900, 1500, 2300)) if big else rng.choice((300, 700, 1200))
        disk: Json = {"size": size, "mode": "rw", "spindles": 1}
        if kind == "volume groups":
            disk["vg"] = rng.choice(VOLUMES)
            if template == "drbd" and rng.random() < 0.5:
                disk["metavg"] = rng.choice(VOLUMES)
        disks.append(disk)
    extra = METADATA * (template == "drbd")
    memory = rng.choice((900, 1500, 2500)) if big else rng.choice((500, 900, 1500))
    found: Json = {
        "memory": memory,
        "disks": disks,
        "disk_template": template,
        "disk_space_total": sum(disk["size"] + extra for disk in disks) if template in LOCAL else 0,
    }
    return found | (SHARED if kind == "spread" else {})


def _settle(rng: Random, kind: str, document: Json, template: str, name: str) -> None:
    """Add an instance in a legal place, if there is one; often where others are already."""
    members = _described(rng, kind, template)
    names = list(document["nodes"])
    document["instances"][name] = instance(*names[: 1 + (template == "drbd")], **members)
    raw = document["instances"].pop(name)
    raw["tags"] = _tags(rng, kind, names)
    rules = Rules(document, {name: raw})
    where = homes_of(document)
    used = Counter(nodes[0] for nodes in where.values())
    ways = list(rules.places(name))
    rng.shuffle(ways)
    if rng.random() < 0.6:
        ways.sort(key=lambda nodes: -used[nodes[0]])
    soft = kind != "spread" and rng.random() < 0.8
    for nodes in ways:
        if kind == "stickiness":
            raw["tags"] = _tags(rng, kind, names, nodes[0])
            rules = Rules(document, {name: raw})
        if not rules.obstacle(where, name, nodes, soft=soft):
            document["instances"][name] = {**raw, "nodes": list(nodes)}
            return


def asked_for(
    rng: Random, kind: str, document: Json, template: str, name: str = "new", big: bool = True
) -> Json:
    """Return a request for a new instance."""
    members = _described(rng, kind, template, big=big and rng.random() < 0.6)
    tags = _tags(rng, kind, list(document["nodes"]))
    found: Json = allocate(document, name=name, tags=tags, **members)["request"]
    return found
