"""Follow the placements of a response one by one on a simple model of the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.builders import Json

from .plain import Plain

__all__ = ["Placement", "follow", "placements"]


class Placement(NamedTuple):
    """A placement that a response offers.

    ``scope`` are the nodes of its score. If ``taken`` is true, it is the answer, on which later
    placements build.
    """

    name: str
    raw: Json
    nodes: list[str]
    score: float
    scope: list[str]
    taken: bool


def follow(request: Json, response: Json, plain: Plain) -> Iterator[Placement]:
    """Yield every placement in `response`, with `plain` in the state before it.

    `plain` has the instance on its old nodes; the answer is applied afterwards.
    """
    for placement in placements(request, response, plain):
        yield placement
        if placement.taken:
            plain.put(placement.name, placement.raw, placement.nodes)


def placements(request: Json, response: Json, plain: Plain) -> Iterator[Placement]:
    """Yield the placements in `response`; those of one instance end with the answer."""
    kind = request["request"]["type"]
    if kind == "allocate":
        yield from _offers(request["request"], response["solutions"], response["result"], plain)
    elif kind == "allocate-secondary":
        yield from _secondaries(request, response, plain)
    elif kind == "multi-allocate":
        for raw, entry in zip(request["request"]["instances"], response["solutions"], strict=True):
            yield from _offers(raw, entry["groups"], entry["nodes"], plain)
    else:
        yield from _moves(request, response, plain)


def _offers(raw: Json, groups: list[Json], result: list[str], plain: Plain) -> Iterator[Placement]:
    """Yield all placements that the groups offer for one new instance, the answer last."""
    scope = plain.members(raw["group_name"]) if raw.get("group_name") else list(plain.nodes)
    new = {**raw, "admin_state": "up", "forthcoming": False}
    chosen: Json = {}
    for group in groups:
        for entry in group.get("placements", [group] if group["nodes"] else []):
            yield Placement(raw["name"], new, entry["nodes"], entry["score"], scope, False)
            chosen = entry if entry["nodes"] == result else chosen
    if result:
        yield Placement(raw["name"], new, result, chosen["score"], scope, True)


def _secondaries(request: Json, response: Json, plain: Plain) -> Iterator[Placement]:
    """Yield the pairs of the group for an instance that becomes drbd."""
    name = request["request"]["name"]
    raw = {**request["instances"][name], "disk_template": "drbd"}
    for entry in response["solutions"]:
        for found in entry.get("placements", [entry] if entry["nodes"] else []):
            yield Placement(name, raw, found["nodes"], found["score"], list(plain.nodes), False)


def _moves(request: Json, response: Json, plain: Plain) -> Iterator[Placement]:
    """Yield the moves within the group, then those to another group."""
    moved = _moved(request, response)
    for entry in response["solutions"]:
        name = entry.get("instance", "")
        raw = request["instances"][name]
        ways = entry.get("alternatives", [entry] if entry["nodes"] else [])
        if "remote" in entry:
            ways = [*ways, *entry["remote"].get("alternatives", [entry["remote"]])]
        for way in [*ways[1:], *ways[:1]]:
            taken = name in moved and way is ways[0]
            scope = plain.members(way["group"])
            yield Placement(name, raw, way["nodes"], way["score"], scope, taken)


def _moved(request: Json, response: Json) -> set[str]:
    if request["request"]["type"] == "relocate":
        return set()
    return {name for name, *_ in response["result"][0]} if response["success"] else set()
