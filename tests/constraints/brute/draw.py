"""Draw tiny clusters with little memory and disk, and tags for one constraint or for several."""

from __future__ import annotations

from collections import Counter
from random import Random

from tests.builders import Json, allocate, cluster, instance
from tests.constraints.brute.rules import LOCAL, METADATA, Rules, homes_of

__all__ = ["KINDS", "SEVERAL", "Kinds", "asked_for", "draw", "score_tags", "some_kinds"]

Kinds = frozenset[str]
"""The constraints for which a cluster has tags."""

KINDS: dict[str, tuple[str, ...]] = {
    "labels": ("rbd", "plain", "drbd"),
    "stickiness": ("rbd", "drbd"),
    "spread": ("ext",),
    "volume groups": ("plain", "drbd"),
    "disk reserve": ("plain", "drbd"),
    "memory ratio": ("rbd", "plain", "drbd"),
}
"""Constraint -> the disk templates with which it is drawn."""

SEVERAL = "several"
"""The name of clusters with tags for two to four constraints."""

TOGETHER: dict[str, tuple[str, ...]] = {
    **KINDS,
    "spread": ("ext", "plain", "drbd"),
    "labels": ("rbd", "ext", "plain", "drbd"),
    "stickiness": ("rbd", "ext", "drbd"),
    "memory ratio": ("rbd", "ext", "plain", "drbd"),
    "affinity": ("rbd", "ext", "plain", "drbd"),
    "exclusion": ("rbd", "ext", "plain", "drbd"),
    "migration": ("rbd", "ext", "drbd"),
    "locations": ("rbd", "ext", "plain", "drbd"),
}
"""Constraint -> the disk templates with which it is drawn together with others."""

MEANINGS = {
    "exclusion": ["htools:iextags:svc"],
    "migration": ["htools:migration:os", "htools:allowmigration:os:1::os:2"],
    "locations": ["htools:nlocation:room", "htools:desiredlocation:room"],
}
"""Constraint -> the tags of the cluster that define its other tags."""

SHARED = {"storage_type": "external", "storage_pool": "nas"}
VOLUMES = ("lvm", "fast", "slow")
RESERVES = ("0", "10%", "25%", "33.3%", "700", "1500")
RATIOS = ("1.1", "1.25", "1.5", "2")


def some_kinds(rng: Random, name: str) -> tuple[Kinds, tuple[str, ...]]:
    """Return the constraint `name`, or random ones for `SEVERAL`; and their disk templates."""
    if name != SEVERAL:
        return frozenset((name,)), KINDS[name]
    while True:
        kinds = rng.sample(sorted(TOGETHER), rng.randint(2, 4))
        templates = sorted(set.intersection(*(set(TOGETHER[kind]) for kind in kinds)))
        if len(templates) > 1:
            templates = [one for one in templates if one != "ext" or "spread" in kinds]
        if templates:
            return frozenset(kinds), tuple(templates)


def draw(rng: Random, kinds: Kinds, templates: tuple[str, ...]) -> tuple[Json, str]:
    """Return a cluster with tags for the constraints `kinds`, and the template of its instances.

    Every instance is in a legal place, apart from the constraints between instances.
    """
    template = rng.choice(templates)
    sizes = rng.choice(({"a": 2, "b": 1}, {"a": 2, "b": 2}, {"a": 1, "b": 2}))
    document = cluster(
        sizes if "spread" in kinds else rng.choice((3, 3, 4)),
        memory=rng.choice((2000, 2600, 4000)),
        disk=rng.choice((2500, 4000, 6000)),
        cpus=64,
    )
    for raw in document["nodes"].values():
        raw["total_memory"] += rng.choice((0, 0, 500))
        raw["reserved_memory"] = rng.choice((0, 100))
        raw["total_disk"] += rng.choice((0, 0, 700))
        raw["tags"] = ["htools:standby:auto"]
        if template == "ext":
            raw["storage_pools"] = [{"type": "external", "name": "nas"}]
        if "volume groups" in kinds:
            raw["volume_groups"] = [
                {"name": name, "total": rng.choice((1500, 3000, 5000))}
                for name in VOLUMES
                if rng.random() < 0.75
            ]
            totals = {one["name"]: one["total"] for one in raw["volume_groups"]}
            raw["total_disk"] = totals.get("lvm", 0)
    _tag_nodes(rng, kinds, document)
    for owner in (document, *document["nodegroups"].values()):
        owner["ipolicy"]["std"] |= {"memory-size": 300, "disk-size": 100}
    for number in range(rng.randint(2, 5)):
        _settle(rng, kinds, document, template, f"i{number}")
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


def _tag_nodes(rng: Random, kinds: Kinds, document: Json) -> None:
    """Add tags to nodes, groups and cluster."""
    (group, *_) = document["nodegroups"].values()
    for number, raw in enumerate(document["nodes"].values()):
        if "labels" in kinds:
            raw["tags"] += rng.sample("abc", rng.randint(0, 3))
        if "stickiness" in kinds and rng.random() < 0.3:
            raw["tags"].append(f"iallocator:score:{rng.choice(('0.1', '-0.4'))}")
        if "disk reserve" in kinds and rng.random() < 0.4:
            raw["tags"].append(f"iallocator:disk-reserve:{rng.choice(RESERVES)}")
        if "affinity" in kinds:
            raw["tags"].append(f"rack:{number // 2}")
        if "migration" in kinds and rng.random() < 0.8:
            raw["tags"].append(f"os:{rng.choice('112')}")
        if "locations" in kinds and rng.random() < 0.8:
            raw["tags"].append(f"room:{rng.choice('12')}")
    if "disk reserve" in kinds:
        for tags in (document["cluster_tags"], group["tags"]):
            if rng.random() < 0.6:
                tags.append(f"iallocator:disk-reserve:{rng.choice(RESERVES)}")
    if "memory ratio" in kinds:
        group["tags"].append(f"iallocator:memory-ratio:{rng.choice(RATIOS)}")
    for kind, tags in MEANINGS.items():
        if kind in kinds:
            document["cluster_tags"] += tags


def _tags(rng: Random, kinds: Kinds) -> list[str]:
    """Return random tags of an instance for some of `kinds`, but no scores and no stickiness."""
    tags = []
    if "labels" in kinds:
        known = [f"iallocator:nodes:{word}:{one}" for word in ("must", "never") for one in "abc"]
        tags += rng.sample(known, rng.choice((0, 1, 1, 2)))
        if rng.random() < 0.3:
            tags.append(f"iallocator:nodes:should:{rng.choice('abc')}:{rng.choice(('0.05', '2'))}")
    if "spread" in kinds:
        words = ["must:web:group", "must:db:group", "must:web", "should:web:group:0.5"]
        some = rng.sample(words, rng.choice((0, 1, 1, 2)))
        tags += [f"iallocator:separate:{one}" for one in some]
    if "affinity" in kinds:
        words = ["must:app", "must:app:rack", "should:app:0.3", "should:log:rack:0.2"]
        some = rng.sample(words, rng.choice((0, 1, 1, 2)))
        tags += [f"iallocator:separate:{one}" for one in some]
        if rng.random() < 0.3:
            tags.append("iallocator:colocate:should:near:0.15")
    if "exclusion" in kinds and rng.random() < 0.6:
        tags.append(f"svc:{rng.choice('ab')}")
    if "locations" in kinds and rng.random() < 0.4:
        tags.append(f"room:{rng.choice('12')}")
    return tags


def score_tags(rng: Random, names: list[str], home: str = "") -> list[str]:
    """Return random tags of an instance with scores of up to two of `names`, and its stickiness.

    `home` is the node of the instance, which is not forbidden; "" if the instance is new.
    """
    tags: list[str] = []
    for name in rng.sample(names, rng.choice((0, 1, 1, 2))):
        words = ("0.05", "0.3", "-0.2", "2", "INFINITY", "-INFINITY")
        word = rng.choice(words[:4] if name == home or rng.random() < 0.6 else words)
        tags.append(f"iallocator:score:{name}:{word}")
    if home and rng.random() < 0.5:
        word = rng.choice(("0.01", "0.1", "0.5", "3", "INFINITY"))
        if word != "INFINITY" or not any(tag.endswith("INFINITY") for tag in tags):
            tags.append(f"iallocator:stickiness:{word}")
    return tags


def _scores(rng: Random, kinds: Kinds, names: list[str], home: str = "") -> list[str]:
    """Return random tags with scores and stickiness; [] if `kinds` do not include them."""
    return score_tags(rng, names, home) if "stickiness" in kinds else []


def _described(rng: Random, kinds: Kinds, template: str, big: bool = False) -> Json:
    """Return memory and disks of an instance; `big` ones often do not fit."""
    disks: list[Json] = []
    for _ in range(rng.choice((1, 1, 2)) if "volume groups" in kinds else 1):
        size = rng.choice((900, 1500, 2300)) if big else rng.choice((300, 700, 1200))
        disk: Json = {"size": size, "mode": "rw", "spindles": 1}
        if "volume groups" in kinds:
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
    return found | (SHARED if template == "ext" else {})


def _settle(rng: Random, kinds: Kinds, document: Json, template: str, name: str) -> None:
    """Add an instance in a legal place, if there is one; often where others are already."""
    members = _described(rng, kinds, template)
    names = list(document["nodes"])
    document["instances"][name] = instance(*names[: 1 + (template == "drbd")], **members)
    raw = document["instances"].pop(name)
    tags = _tags(rng, kinds)
    raw["tags"] = tags + _scores(rng, kinds, names)
    rules = Rules(document, {name: raw})
    where = homes_of(document)
    used = Counter(nodes[0] for nodes in where.values())
    ways = list(rules.places(name))
    rng.shuffle(ways)
    if rng.random() < 0.6:
        ways.sort(key=lambda nodes: -used[nodes[0]])
    soft = kinds.isdisjoint(("spread", "affinity", "exclusion")) and rng.random() < 0.8
    for nodes in ways:
        if "stickiness" in kinds:
            raw["tags"] = tags + _scores(rng, kinds, names, nodes[0])
            rules = Rules(document, {name: raw})
        if not rules.obstacle(where, name, nodes, soft=soft):
            document["instances"][name] = {**raw, "nodes": list(nodes)}
            return


def asked_for(
    rng: Random, kinds: Kinds, document: Json, template: str, name: str = "new", big: bool = True
) -> Json:
    """Return a request for a new instance."""
    members = _described(rng, kinds, template, big=big and rng.random() < 0.6)
    names = list(document["nodes"])
    tags = _tags(rng, kinds) + _scores(rng, kinds, names)
    found: Json = allocate(document, name=name, tags=tags, **members)["request"]
    return found
