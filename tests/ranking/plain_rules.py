"""Choose the node of an instance by Pacemaker's strategies, with one node compared at a time."""

from __future__ import annotations

from collections import Counter

from tests.builders import Json

PREFIX = "iallocator:"

__all__ = ["best_node"]


def best_node(document: Json, one: Json, nodes: list[str], kind: str) -> str | None:
    """Return the best of `nodes` for the instance described by `one`; None if none is possible.

    `document` is a request document; all of its instances count. `kind`: the strategy of Pacemaker.
    """
    tagged = any(
        tag.startswith(PREFIX + "utilization:")
        for owner in (*document["nodes"].values(), *document["instances"].values(), one)
        for tag in owner["tags"]
    )
    needs = _needs(one, tagged)
    left: list[str] = []
    for name in nodes:
        free = _free(document, name, tagged)
        fits = kind == "default" or all(free[key] >= amount for key, amount in needs.items())
        if fits and _score(document, one, name) >= 0:
            left.append(name)
    if not left:
        return None
    best = max(_score(document, one, name) for name in left)
    left = sorted(name for name in left if _score(document, one, name) == best)
    if kind == "minimal":
        return left[0]
    if kind == "balanced":
        wins = {a: sum(_before(document, tagged, a, b) for b in left if b != a) for a in left}
        return max(left, key=lambda name: (wins[name], -left.index(name)))
    return min(left, key=lambda name: (_count(document, name), name))


def _before(document: Json, tagged: bool, a: str, b: str) -> bool:
    mine, other = _free(document, a, tagged), _free(document, b, tagged)
    attribute_difference = sum((mine[k] > other[k]) - (mine[k] < other[k]) for k in {*mine, *other})
    if attribute_difference:
        return attribute_difference > 0
    return (_count(document, a), a) < (_count(document, b), b)


def _count(document: Json, node: str) -> int:
    return sum(node in one["nodes"] for one in document["instances"].values())


def _tags(owner: Json, what: str) -> list[str]:
    start = PREFIX + what + ":"
    return [tag[len(start) :] for tag in owner["tags"] if tag.startswith(start)]


def _amounts(owner: Json) -> Counter[str]:
    pairs = [text.rpartition(":") for text in _tags(owner, "utilization")]
    return Counter({name: int(amount) for name, _, amount in pairs})


def _needs(one: Json, tagged: bool) -> Counter[str]:
    if tagged:
        return _amounts(one)
    local = one["disk_template"] in ("plain", "drbd")
    disk = one["disk_space_total"] if local else 0
    return Counter({"memory": one["memory"], "cpu": one["vcpus"], "disk": disk})


def _free(document: Json, name: str, tagged: bool) -> Counter[str]:
    node = document["nodes"][name]
    here = [one for one in document["instances"].values() if name in one["nodes"]]
    if tagged:
        free = _amounts(node)
        for one in here:
            free.subtract({k: n for k, n in _amounts(one).items() if k in free})
        return free
    used = sum(one["vcpus"] for one in here if one["nodes"][0] == name)
    return Counter({
        "memory": node["free_memory"], "disk": node["free_disk"],
        "cpu": 4 * node["total_cpus"] - used,
    })  # fmt: skip


def _score(document: Json, one: Json, name: str) -> int:
    own = [int(text) for text in _tags(document["nodes"][name], "score")]
    own += [
        int(text.rpartition(":")[2])
        for text in _tags(one, "score")
        if text.rpartition(":")[0] == name
    ]
    return sum(own)
