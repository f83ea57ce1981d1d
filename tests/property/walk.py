"""The placements of a response, one by one, on a cluster that is counted the plain way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.builders import Json

from .plain import Plain

__all__ = ["Placement", "follow", "placements"]


class Placement(NamedTuple):
    """One placement that a response offers.

    ``scope`` are the nodes over which its score runs; ``taken`` says that this is the
    answer, on which later ones build.
    """

    name: str
    raw: Json
    nodes: list[str]
    score: float
    scope: list[str]
    taken: bool


def follow(request: Json, response: Json, plain: Plain) -> Iterator[Placement]:
    """Every placement in `response`, each while `plain` is as it was before that one.

    `plain` holds the instance where it was; what is taken is put there afterwards.
    """
    for placement in placements(request, response, plain):
        yield placement
        if placement.taken:
            plain.put(placement.name, placement.raw, placement.nodes)


def placements(request: Json, response: Json, plain: Plain) -> Iterator[Placement]:
    """The placements in `response`; those of one instance end with the one that is taken."""
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
    """Of one new instance: all that its groups offer, the chosen one last."""
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
    """Of an instance that becomes drbd: the pairs of its group."""
    name = request["request"]["name"]
    raw = {**request["instances"][name], "disk_template": "drbd"}
    for entry in response["solutions"]:
        for found in entry.get("placements", [entry] if entry["nodes"] else []):
            yield Placement(name, raw, found["nodes"], found["score"], list(plain.nodes), False)


def _moves(request: Json, response: Json, plain: Plain) -> Iterator[Placement]:
    """Of instances that move: the ways in the local group, then those in another."""
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
