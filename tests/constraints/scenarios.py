"""Build small clusters with random affinity constraints, and list those that are violated."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

from tests import builders
from tests.builders import Json
from tests.command import respond

__all__ = [
    "hard_constraints",
    "held_after_units",
    "homes_after",
    "random_document",
    "random_tags",
    "respond_without_n1",
    "violated_hard",
]

NAMES = ("web", "db")


def random_tags(chances: random.Random) -> list[str]:
    """Return the random affinity tags of one instance; often none."""
    tags = []
    if chances.random() < 0.35:
        domain = chances.choice(["", "", ":rack"])
        tags.append(f"iallocator:separate:must:{chances.choice(NAMES)}{domain}")
    if chances.random() < 0.2:
        tags.append(f"iallocator:colocate:must:{chances.choice(NAMES)}")
    if chances.random() < 0.3:
        kind = chances.choice(["separate", "colocate"])
        tags.append(f"iallocator:{kind}:should:{chances.choice(NAMES)}:{chances.choice([0.1, 3])}")
    return tags


def random_document(chances: random.Random, nodes: int = 5, instances: int = 9) -> Json:
    """Return a cluster of one group with nodes in racks and instances with affinity tags."""
    names = [f"node{k}" for k in range(1, nodes + 1)]
    homes = {}
    for k in range(instances):
        where = chances.sample(names[: max(2, nodes - 1)], 2)
        template = chances.choice(["drbd", "rbd"])
        homes[f"inst{k:02}"] = builders.instance(
            *(where if template == "drbd" else where[:1]), memory=1024 * chances.randint(1, 3),
            disk_template=template, tags=random_tags(chances),
        )  # fmt: skip
    document = builders.cluster(nodes=nodes, memory=32768, cpus=16, instances=homes)
    for k, name in enumerate(names):
        document["nodes"][name]["tags"] = [f"rack:{k // 2}", "htools:standby:auto"]
    return document


def hard_constraints(document: Json) -> set[tuple[str, str, str, str]]:
    """Return (kind, one, other, domain) of all hard constraints between instances."""
    known: list[tuple[str, list[str]]] = []
    request = document.get("request", {})
    new = {one["name"]: one for one in request.get("instances", ()) if isinstance(one, dict)}
    for name, one in {**document["instances"], **new}.items():
        parted = (tag.split(":")[1:] for tag in one.get("tags", ()))
        known += [(name, some) for some in parted if some[:1] in (["separate"], ["colocate"])]
    found = set()
    for name, (kind, strength, label, *rest) in known:
        for other, words in known:
            if other != name and words[:3] == [kind, "must", label] and strength == "must":
                domains = {*rest, *words[3:]} or {""}
                found |= {(kind, name, other, domain) for domain in domains}
    return found


def violated_hard(document: Json, homes: Mapping[str, str]) -> set[tuple[str, str, str, str]]:
    """Return the hard constraints that are violated with the primaries on `homes`."""

    def sites(name: str, domain: str) -> set[str]:
        if domain == "group":
            return {document["nodes"][homes[name]]["group"]}
        tags = document["nodes"][homes[name]]["tags"]
        inside = {tag for tag in tags if domain and tag.startswith(domain + ":")}
        return inside or {homes[name]}

    return {
        (kind, one, other, domain)
        for kind, one, other, domain in hard_constraints(document)
        if one in homes
        and other in homes
        and (kind == "separate") != sites(one, domain).isdisjoint(sites(other, domain))
    }


def held_after_units(homes: Mapping[str, str], plan: Json) -> Iterator[dict[str, str]]:
    """Yield the primaries after each move; a colocation group counts after its last move."""
    now = dict(homes)
    waiting: set[str] = set()
    for move in plan["moves"]:
        waiting = (waiting or set(move.get("unit", ()))) - {move["instance"]}
        now[move["instance"]] = move["to"][0]
        if not waiting:
            yield dict(now)


def homes_after(document: Json, plan: Json) -> dict[str, str]:
    """Return the primary of each instance after all moves of `plan`."""
    homes = {name: one["nodes"][0] for name, one in document["instances"].items()}
    return homes | {move["instance"]: move["to"][0] for move in plan["moves"]}


def respond_without_n1(document: Json, *options: str) -> Json:
    """Return the answer to a request without global N+1."""
    return respond(document, "--n1=off", *options)
