"""Generate documents with many tags, and send them along every path."""

from __future__ import annotations

from random import Random

from tests.builders import Json
from tests.conformance.documents import KINDS, document

__all__ = ["tagged"]

NAMES = ("web", "db", "queue")


def tagged(seed: int) -> Json:
    """Return the document generated from `seed`, with tags on nodes and instances."""
    rng = Random(f"tagged/{seed}")
    found = document(seed, rng.choice(KINDS))
    names = list(found["nodes"])
    for number, node in enumerate(found["nodes"].values()):
        node["tags"] = [*node["tags"], f"room:{number // 2}", *_node_tags(rng)]
    wanted = [one for one in found["request"].get("instances", ()) if isinstance(one, dict)]
    if "memory" in found["request"]:
        wanted.append(found["request"])
    known = list(found["instances"])
    for one in [*found["instances"].values(), *wanted]:
        one["tags"] = [*one["tags"], *_instance_tags(rng, names, known)]
    if rng.random() < 0.4:
        found["cluster_tags"] = [*found["cluster_tags"], *_meanings(rng, found)]
    return found


def _meanings(rng: Random, found: Json) -> list[str]:
    """Add tags of htools to nodes and instances; return the cluster tags that define them."""
    for node in found["nodes"].values():
        if rng.random() < 0.6:
            node["tags"] = [*node["tags"], rng.choice(("hv:old", "hv:new"))]
    for one in found["instances"].values():
        if rng.random() < 0.3:
            one["tags"] = [*one["tags"], rng.choice(("role:a", "role:b"))]
    return ["htools:migration:hv", "htools:iextags:role"]


def _node_tags(rng: Random) -> list[str]:
    tags = []
    if rng.random() < 0.08:
        tags.append("iallocator:maintenance")
    if rng.random() < 0.05:
        tags.append("iallocator:score:-INFINITY")
    if rng.random() < 0.2:
        tags.append("htools:standby:auto")
    return tags


def _instance_tags(rng: Random, nodes: list[str], instances: list[str]) -> list[str]:
    tags = []
    if rng.random() < 0.12:
        domain = rng.choice(("", "", ":room"))
        tags.append(f"iallocator:separate:must:{rng.choice(NAMES)}{domain}")
    if rng.random() < 0.08:
        tags.append(f"iallocator:colocate:must:{rng.choice(NAMES)}")
    if rng.random() < 0.1:
        kind = rng.choice(("separate", "colocate"))
        tags.append(f"iallocator:{kind}:should:{rng.choice(NAMES)}:{rng.choice((0.1, 5))}")
    if rng.random() < 0.1:
        tags.append(f"iallocator:score:{rng.choice(nodes)}:-INFINITY")
    if rng.random() < 0.1:
        tags.append(f"iallocator:priority:{rng.randint(-3, 9)}")
    if instances and rng.random() < 0.08:
        kind = rng.choice(("after", "should-after"))
        tags.append(f"iallocator:order:{kind}:{rng.choice(instances)}")
    if rng.random() < 0.05:
        tags.append("iallocator:keep-running")
    return tags
