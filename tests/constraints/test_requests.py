"""Test affinity constraints in answers to requests."""

from __future__ import annotations

from tests import builders
from tests.builders import Json
from tests.command import respond


def _batch(document: Json, *wanted: tuple[str, int, list[str]]) -> Json:
    """Return `document` with a batch of instances on shared storage: name, memory, tags."""
    requests = []
    for name, memory, tags in wanted:
        request: Json = builders.allocate(document, memory=memory)["request"]
        del request["type"]
        requests.append(
            request | {"name": name, "disk_template": "rbd", "required_nodes": 1, "tags": tags}
        )
    return document | {"request": {"type": "multi-allocate", "instances": requests}}


def _evacuate(document: Json, *names: str) -> Json:
    request = {"type": "node-evacuate", "evac_mode": "all", "instances": list(names)}
    return document | {"request": request}


def _places(document: Json, *options: str) -> tuple[dict[str, str], Json]:
    """Return the primary node of each placed instance, and the whole answer."""
    response = respond(document, "--n1=off", *options)
    first = response["result"][0] if response["success"] else []
    moves = len(response["result"]) > 2
    return {entry[0]: entry[2 if moves else 1][0] for entry in first}, response


def test_hard_colocation_places_a_batch_on_one_node_with_capacity_for_all() -> None:
    """A batch of colocated instances is placed on a node with capacity for all of them.

    Another node has a better score for the first one.
    """
    document = builders.cluster(nodes=3, memory=16384)
    document["nodes"]["node1"]["free_memory"] = 4097
    document["nodes"]["node2"]["free_memory"] = 3073
    document["nodes"]["node3"]["free_memory"] = 6145
    tags = ["iallocator:colocate:must:web"]
    batch = _batch(document, ("a", 2048, tags), ("b", 2048, tags), ("c", 2048, tags))
    places, _ = _places(batch, "--exact-search=no")
    assert places == {"a": "node3", "b": "node3", "c": "node3"}


def test_hard_colocation_without_capacity_for_all_fails_all_and_names_the_chain() -> None:
    """If no node has capacity for all, no colocated instance of a batch is placed."""
    document = builders.cluster(nodes=2, memory=8192)
    for node in document["nodes"].values():
        node["free_memory"] = 3073
    tags = ["iallocator:colocate:must:web"]
    batch = _batch(document, ("a", 2048, tags), ("b", 2048, tags), ("free", 512, []))
    places, response = _places(batch)
    assert set(places) == {"free"}
    assert sorted(response["result"][1]) == ["a", "b"]


def test_hard_separation_places_a_batch_on_different_nodes() -> None:
    """Three separated instances are placed on three nodes; a fourth one is rejected."""
    document = builders.cluster(nodes=3, memory=16384)
    tags = ["iallocator:separate:must:db"]
    batch = _batch(document, *((name, 512, tags) for name in "abcd"))
    places, response = _places(batch)
    assert len(places) == len(set(places.values())) == 3
    assert response["result"][1] == ["d"]
    assert "must be apart from" in response["info"]


def test_hard_separation_by_domain_uses_different_racks() -> None:
    """Separated instances of a batch are placed in different racks if the tag names racks."""
    document = builders.cluster(nodes=4, memory=16384)
    for number, name in enumerate(document["nodes"]):
        document["nodes"][name]["tags"] = [f"rack:{number // 2}"]
    tags = ["iallocator:separate:must:db:rack"]
    batch = _batch(document, ("a", 512, tags), ("b", 512, tags))
    places, _ = _places(batch)
    racks = {document["nodes"][node]["tags"][0] for node in places.values()}
    assert racks == {"rack:0", "rack:1"}


def test_should_is_kept_if_its_penalty_outweighs_the_score_and_reported_otherwise() -> None:
    """A soft constraint is kept if its penalty exceeds the gain in score, else it is reported."""
    document = builders.cluster(nodes=2, memory=16384)
    document["nodes"]["node2"]["free_memory"] = 600
    tags = ["iallocator:separate:should:db"]
    batch = _batch(document, ("a", 1024, tags), ("b", 1024, tags))
    places, response = _places(batch)
    assert places == {"a": "node1", "b": "node1"}
    (broken,) = response["solutions"][1]["broken"]
    assert broken.startswith("apart from a ")
    assert broken.endswith("costs 1")
    document["nodes"]["node2"]["free_memory"] = 16384
    places, _ = _places(_batch(document, ("a", 1024, tags), ("b", 1024, tags)))
    assert places["a"] != places["b"]


def test_instance_with_higher_priority_is_placed_first() -> None:
    """If only one of two instances fits, the one with higher priority is placed."""
    document = builders.cluster(nodes=1, memory=8192)
    document["nodes"]["node1"]["free_memory"] = 2049
    batch = _batch(document, ("a", 2048, []), ("b", 2048, ["iallocator:priority:5"]))
    places, response = _places(batch)
    assert places == {"b": "node1"}
    assert response["result"][1] == ["a"]


def test_instance_that_must_start_after_a_failed_one_fails() -> None:
    """A new instance is rejected if it must start after one that could not be placed."""
    document = builders.cluster(nodes=1, memory=8192)
    batch = _batch(
        document,
        ("follower", 512, ["iallocator:order:after:leader"]),
        ("second", 512, ["iallocator:order:after:follower"]),
        ("leader", 50000, []),
    )
    places, response = _places(batch)
    assert places == {}
    assert not response["success"]
    assert "starts after follower" in response["info"]
    assert "starts after leader" in response["info"]


def test_evacuation_moves_a_colocation_group_to_one_node() -> None:
    """An evacuation moves both members of a colocation group to one node."""
    tags = ["iallocator:colocate:must:web"]
    instances = {name: builders.rbd("node1", memory=2048, tags=tags) for name in ("a", "b")}
    document = builders.cluster(nodes=3, memory=16384, instances=instances)
    document["nodes"]["node2"]["free_memory"] = 3073
    places, _ = _places(_evacuate(document, "a", "b"), "--exact-search=no")
    assert places == {"a": "node3", "b": "node3"}


def test_evacuation_moves_the_colocated_instance_too() -> None:
    """An instance cannot be evacuated without the other members of its colocation group."""
    tags = ["iallocator:colocate:must:web"]
    instances = {name: builders.rbd("node1", memory=2048, tags=tags) for name in ("a", "b")}
    document = builders.cluster(nodes=3, memory=16384, instances=instances)
    _, response = _places(_evacuate(document, "a"))
    ((name, reason),) = response["result"][1]
    assert name == "a"
    assert "together with b" in reason


def test_exact_search_keeps_affinity() -> None:
    """Exact search keeps separated instances apart where greedy placement fails."""
    document = builders.cluster(nodes=3, memory=16384)
    for name, free in (("node1", 4097), ("node2", 2049), ("node3", 2049)):
        document["nodes"][name]["free_memory"] = free
    apart = ["iallocator:separate:must:db"]
    batch = _batch(
        document, ("a", 1024, apart), ("b", 1024, apart), ("c", 1024, apart), ("big", 3072, [])
    )
    places, response = _places(batch)
    assert set(places) == {"a", "b", "c", "big"}, response["info"]
    assert places["big"] == "node1"
    assert len({places[name] for name in "abc"}) == 3


def test_compat_hail_ignores_affinity() -> None:
    """With ``--compat hail``, affinity tags are ignored."""
    document = builders.cluster(nodes=1, memory=16384)
    tags = ["iallocator:separate:must:db"]
    batch = _batch(document, ("a", 512, tags), ("b", 512, tags))
    places, _ = _places(batch, "--compat=hail")
    assert places == {"a": "node1", "b": "node1"}


def test_instances_that_cannot_leave_do_not_count_against_those_that_do() -> None:
    """Exact search moves two small instances instead of a big one, which they are separated from.

    The big one stays in their rack, where it was with them before.
    """
    web = "iallocator:separate:must:web"
    instances = {
        "big": builders.rbd("node1", memory=4096, tags=[web]),
        "a": builders.rbd("node1", memory=1024),
        "b": builders.rbd("node1", memory=1024, tags=[f"{web}:rack"]),
    }
    document = builders.cluster(2, memory=8192, instances=instances)
    for node in document["nodes"].values():
        node["tags"] = ["rack:1"]
    builders.leave(document["nodes"]["node2"], 4097)
    places, response = _places(_evacuate(document, *instances))
    assert places == {"a": "node2", "b": "node2"}
    assert "no more than 2 of 3 can be placed" in response["info"]
