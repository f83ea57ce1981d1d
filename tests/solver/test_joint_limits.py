"""Test that exact search, ``--optimal`` and ``--top`` obey the limits of a single allocation.

In each case, a feature forbids the third node, which has capacity for all. On the other two nodes
all instances fit, but not one after the other in the order of the request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests import builders
from tests.builders import Json
from tests.command import respond

pytest.importorskip("highspy")


SIZES = {"medium": 2048, "small": 1024, "large": 3072}


def _scenario(third: str = "default", old_tags: tuple[str, ...] = ()) -> Json:
    """Return a batch; the third node is in group `third`, with an instance tagged `old_tags`."""
    old = {"old": builders.rbd("node3", memory=512, tags=list(old_tags))}
    sizes = {"default": 3} if third == "default" else {"default": 2, third: 1}
    document = builders.cluster(nodes=sizes, memory=32768, instances=old)
    document["nodes"]["node1"]["free_memory"] = 2049
    document["nodes"]["node2"]["free_memory"] = 4097
    document["cluster_tags"] = ["iallocator:n1:off"]
    wanted = []
    for name, memory in SIZES.items():
        request: Json = builders.allocate(document, name, memory=memory)["request"]
        del request["type"]
        wanted.append(request | {"disk_template": "rbd", "required_nodes": 1})
    return document | {"request": {"type": "multi-allocate", "instances": wanted}}


def _each(document: Json, change: Callable[[Json], Any]) -> Json:
    for wanted in document["request"]["instances"]:
        change(wanted)
    return document


def _with_node(**members: Any) -> Json:
    document = _scenario()
    document["nodes"]["node3"] |= members
    return document


def _unallocable() -> Json:
    document = _scenario("far")
    document["nodegroups"]["uuid-far"]["alloc_policy"] = "unallocable"
    return document


def _last_resort() -> Json:
    document = _scenario("far")
    document["nodegroups"]["uuid-far"]["alloc_policy"] = "last_resort"
    return document


def _network() -> Json:
    document = _scenario("far")
    document["nodegroups"]["uuid-default"]["networks"] = ["blue"]
    nics = [{"mac": "aa:00:00:11:22:33", "network": "blue"}]
    return _each(document, lambda wanted: wanted.update(nics=nics))


def _policy() -> Json:
    document = _scenario("far")
    small = builders.policy(high=builders.spec(512, 64, 16777216, 16, 64))
    document["nodegroups"]["uuid-far"]["ipolicy"] = small
    return document


def _n1_of_the_group() -> Json:
    document = _scenario("far")
    document["nodegroups"]["uuid-far"]["tags"] = ["iallocator:n1:strict"]
    return document


def _restricted() -> Json:
    nodes = ["node1", "node2"]
    return _each(_scenario(), lambda wanted: wanted.update({"restrict-to-nodes": nodes}))


def _apart() -> Json:
    tags = tuple(f"iallocator:separate:must:{name}" for name in SIZES)
    document = _scenario(old_tags=tags)
    return _each(document, lambda w: w.update(tags=[f"iallocator:separate:must:{w['name']}"]))


def _exclusion() -> Json:
    document = _scenario(old_tags=tuple(f"service:{name}" for name in SIZES))
    document["cluster_tags"].append("htools:iextags:service")
    return _each(document, lambda w: w.update(tags=[f"service:{w['name']}"]))


def _score() -> Json:
    tags = ["iallocator:score:node3:-INFINITY"]
    return _each(_scenario(), lambda wanted: wanted.update(tags=tags))


SCENARIOS: dict[str, Callable[[], Json]] = {
    "offline": lambda: _with_node(offline=True),
    "drained": lambda: _with_node(drained=True),
    "not vm_capable": lambda: _with_node(vm_capable=False),
    "unallocable": _unallocable,
    "last resort": _last_resort,
    "network": _network,
    "policy": _policy,
    "n1 of the group": _n1_of_the_group,
    "restricted": _restricted,
    "apart": _apart,
    "exclusion tags": _exclusion,
    "hard location score": _score,
}

every_scenario = pytest.mark.parametrize("name", SCENARIOS)


@every_scenario
def test_exact_search_leaves_out_the_node_that_the_feature_forbids(name: str) -> None:
    """Exact search places all instances without the node that a feature forbids.

    Greedy placement uses a group of last resort when the preferred group is full; exact search does
    not need it.
    """
    response = respond(SCENARIOS[name]())
    places = dict(response["result"][0])
    if name == "last resort":
        assert set(places) == set(SIZES)
        return
    assert places == {"medium": ["node1"], "small": ["node2"], "large": ["node2"]}
    assert "placed together by exact search" in response["info"]


@every_scenario
def test_optimal_leaves_out_the_node_that_the_feature_forbids(name: str) -> None:
    """--optimal uses no node that a feature forbids, although that is the emptiest one."""
    response = respond(SCENARIOS[name](), "--optimal")
    places = dict(response["result"][0])
    assert places == {"medium": ["node1"], "small": ["node2"], "large": ["node2"]}
    assert "optimal: score" in response["info"]
    assert "proved lowest" in response["info"]


@every_scenario
def test_top_lists_no_place_that_the_feature_forbids(name: str) -> None:
    """--top lists no placement on a node that a feature forbids."""
    document = SCENARIOS[name]()
    document["request"]["instances"] = document["request"]["instances"][:1]
    (entry,) = respond(document, "--top=5")["solutions"]
    assert entry["group"] == "default"
    listed = [one["nodes"] for group in entry["groups"] for one in group.get("placements", ())]
    expected = [["node2"], ["node1"]] + ([["node3"]] if name == "last resort" else [])
    assert sorted(listed) == sorted(expected)


def test_clusters_without_the_feature_use_the_third_node() -> None:
    """If no feature forbids the third node, it is used, and no search is made."""
    response = respond(_scenario())
    assert ["node3"] in dict(response["result"][0]).values()
    assert "exact search" not in response["info"]
