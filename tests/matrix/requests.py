"""Define the paths that are requests: their scenarios and answers."""

from __future__ import annotations

import json
from typing import Any

from iallocator.cli import answer
from tests.builders import Json

from .scenarios import (
    BEST,
    DRBD,
    KEEPER,
    NEXT,
    PAIR,
    SOURCE,
    SPARE,
    Scenario,
    cluster_document,
    newcomer,
    resident,
)


def new_scenario(kind: str, split: bool) -> Scenario:
    """Return a scenario for a new tested instance: its nodes, without a request."""
    nodes = [BEST, NEXT, KEEPER, *([SPARE] if kind == PAIR else [])]
    assert not (split and kind == PAIR)
    groups = ["default", "second", "second"] if split else ()
    return Scenario(cluster_document(nodes, groups), kind)


def moving_scenario(kind: str, split: bool) -> Scenario:
    """Return a scenario with the tested instance on `source`, in the group of its target nodes."""
    assert not split
    scenario = Scenario(
        cluster_document([BEST, NEXT, KEEPER, SOURCE, *([SPARE] if kind == PAIR else [])]), kind
    )
    resident(scenario)
    return scenario


def between_scenario(kind: str, split: bool) -> Scenario:
    """Return a scenario with the tested instance in one group, and target nodes in other groups."""
    assert not (split and kind == PAIR)
    there = "second" if split else "default"
    groups = {BEST: "default", NEXT: there, SOURCE: "home", KEEPER: "default", SPARE: there}
    if kind == PAIR:
        groups[KEEPER] = "home"
    elif not split:
        del groups[SPARE]
    scenario = Scenario(cluster_document(list(groups), list(groups.values())), kind)
    if split:
        scenario.group_of(NEXT)["alloc_policy"] = "last_resort"
        scenario.options.append("--n1=off")  # each is alone in its group, but for `keeper`
    resident(scenario)
    return scenario


def allocate(kind: str, split: bool) -> Scenario:
    """Return a scenario with a request for the tested instance as a new instance."""
    scenario = new_scenario(kind, split)
    scenario.document["request"] = newcomer(kind)
    return scenario


def multi_allocate(kind: str, split: bool) -> Scenario:
    """Return a scenario with a request for a small instance, and then for the tested instance."""
    scenario = new_scenario(kind, split)
    first = {"name": "first", "memory": 128, "restrict-to-nodes": [KEEPER]}
    if split:
        first["group_name"] = "second"
    wanted = [newcomer("shared") | first, newcomer(kind)]
    for one in wanted:
        del one["type"]
    scenario.document["request"] = {"type": "multi-allocate", "instances": wanted}
    return scenario


def allocate_secondary(kind: str, split: bool) -> Scenario:
    """Return a scenario with a request that makes the plain tested instance a drbd instance."""
    scenario = moving_scenario(kind, split)
    scenario.subject.update(disk_template="plain", nodes=[KEEPER], disk_space_total=1024)
    scenario.node(SOURCE)["total_disk"] = scenario.instance("at-source")["disk_space_total"] + 100
    scenario.document["request"] = {"type": "allocate-secondary", "name": "subject"}
    return scenario


def relocate(kind: str, split: bool) -> Scenario:
    """Return a scenario with a request to relocate the tested instance from the node `source`."""
    scenario = moving_scenario(kind, split)
    scenario.document["request"] = {
        "type": "relocate", "name": "subject", "required_nodes": 1, "relocate_from": [SOURCE],
        "disk_space_total": scenario.subject["disk_space_total"],
    }  # fmt: skip
    return scenario


def evacuate(mode: str) -> Any:
    """Return a function that builds a scenario of an evacuation with the mode `mode`."""

    def build(kind: str, split: bool) -> Scenario:
        scenario = moving_scenario(kind, split)
        scenario.document["request"] = {
            "type": "node-evacuate", "instances": ["subject"], "evac_mode": mode,
        }  # fmt: skip
        return scenario

    return build


def change_group(kind: str, split: bool) -> Scenario:
    """Return a scenario with a request to move the tested instance out of its group."""
    scenario = between_scenario(kind, split)
    scenario.document["request"] = {
        "type": "change-group", "instances": ["subject"], "target_groups": [],
    }  # fmt: skip
    return scenario


def multi_evacuate(kind: str, split: bool) -> Scenario:
    """Return a scenario with a request for new secondaries of the drbd instances on `source`."""
    assert kind == DRBD
    scenario = moving_scenario(kind, split)
    scenario.document["request"] = {"type": "multi-evacuate", "evac_nodes": [SOURCE]}
    return scenario


def respond(scenario: Scenario) -> Json:
    """Return the response to the request of the test case `scenario`."""
    found: Json = json.loads(answer(json.dumps(scenario.finished()).encode(), scenario.options))
    return found


def read_homes(scenario: Scenario, response: Json, name: str = "subject") -> list[str]:
    """Return the nodes of an instance in a response, primary first; [] if it is not placed."""
    document = scenario.document
    result, kind = response["result"], document["request"]["type"]
    if not response["success"]:
        return []
    if kind == "allocate":
        return list(result)
    if kind == "multi-allocate":
        return next((nodes for one, nodes in result[0] if one == name), [])
    present = document["instances"][name]["nodes"]
    if kind == "allocate-secondary":
        return [present[0], result]
    if kind == "relocate":
        return [*present[:-1], *result]
    if kind == "multi-evacuate":
        return next(([present[0], *nodes] for one, nodes in result if one == name), [])
    moved = [one for one, _, _ in result[0]]
    entries = {one["instance"]: one for one in response["solutions"]}
    return list(entries[name]["nodes"]) if name in moved else []


def read_top(scenario: Scenario, response: Json) -> list[str]:
    """Return the first listed placement on the node `best`; if there is none, the first one."""
    listed = [p["nodes"] for entry in response["solutions"] for p in entry.get("placements", ())]
    ours: list[str] = next((nodes for nodes in listed if BEST in nodes), [])
    return ours or next(iter(listed), [])
