"""Test affinity constraints in the answers to requests."""

from __future__ import annotations

from tests import builders
from tests.builders import Json
from tests.command import respond


def _batch(document: Json, *wanted: tuple[str, int, list[str]]) -> Json:
    """Return `document` with a batch of shared-storage instances: name, memory, tags."""
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
    """Return the primary of each instance, and the whole response."""
    response = respond(document, "--n1=off", *options)
    first = response["result"][0] if response["success"] else []
    moves = len(response["result"]) > 2
    return {entry[0]: entry[2 if moves else 1][0] for entry in first}, response


def test_hard_colocation_places_a_batch_on_one_node_with_capacity_for_all() -> None:
    """The first uses a node with capacity for all, although another node has a better score."""
    document = builders.cluster(nodes=3, memory=16384)
    document["nodes"]["node1"]["free_memory"] = 4097
    document["nodes"]["node2"]["free_memory"] = 3073
    document["nodes"]["node3"]["free_memory"] = 6145
    tags = ["iallocator:colocate:must:web"]
    batch = _batch(document, ("a", 2048, tags), ("b", 2048, tags), ("c", 2048, tags))
    places, _ = _places(batch, "--exact-search=no")
    assert places == {"a": "node3", "b": "node3", "c": "node3"}


def test_hard_colocation_without_capacity_for_all_fails_all_and_names_the_chain() -> None:
    """An instance that depends on a rejected one is rejected; `info` names the chain."""
    document = builders.cluster(nodes=2, memory=8192)
    for node in document["nodes"].values():
        node["free_memory"] = 3073
    tags = ["iallocator:colocate:must:web"]
    batch = _batch(document, ("a", 2048, tags), ("b", 2048, tags), ("free", 512, []))
    places, response = _places(batch)
    assert set(places) == {"free"}
    assert sorted(response["result"][1]) == ["a", "b"]


def test_hard_separation_places_a_batch_on_different_nodes() -> None:
    """Three separated instances use three nodes; the fourth is rejected with the reason."""
    document = builders.cluster(nodes=3, memory=16384)
    tags = ["iallocator:separate:must:db"]
    batch = _batch(document, *((name, 512, tags) for name in "abcd"))
    places, response = _places(batch)
    assert len(places) == len(set(places.values())) == 3
    assert response["result"][1] == ["d"]
    assert "must be apart from" in response["info"]


def test_hard_separation_by_domain_uses_different_racks() -> None:
    """Two instances of one name never share a rack."""
    document = builders.cluster(nodes=4, memory=16384)
    for number, name in enumerate(document["nodes"]):
        document["nodes"][name]["tags"] = [f"rack:{number // 2}"]
    tags = ["iallocator:separate:must:db:rack"]
    batch = _batch(document, ("a", 512, tags), ("b", 512, tags))
    places, _ = _places(batch)
    racks = {document["nodes"][node]["tags"][0] for node in places.values()}
    assert racks == {"rack:0", "rack:1"}


def test_should_is_kept_if_its_penalty_outweighs_the_score_and_reported_otherwise() -> None:
    """A soft constraint decides between equal scores; a violated one has its penalty."""
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
    """Only one of two instances fits, and the one with the higher priority is placed."""
    document = builders.cluster(nodes=1, memory=8192)
    document["nodes"]["node1"]["free_memory"] = 2049
    batch = _batch(document, ("a", 2048, []), ("b", 2048, ["iallocator:priority:5"]))
    places, response = _places(batch)
    assert places == {"b": "node1"}
    assert response["result"][1] == ["a"]


def test_instance_that_must_start_after_a_failed_one_fails() -> None:
    """A hard order constraint makes the follower depend on the leader."""
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
    """Two members that are both evacuated do not block each other, and end on one node."""
    tags = ["iallocator:colocate:must:web"]
    instances = {name: builders.rbd("node1", memory=2048, tags=tags) for name in ("a", "b")}
    document = builders.cluster(nodes=3, memory=16384, instances=instances)
    document["nodes"]["node2"]["free_memory"] = 3073
    places, _ = _places(_evacuate(document, "a", "b"), "--exact-search=no")
    assert places == {"a": "node3", "b": "node3"}


def test_evacuation_moves_the_colocated_instance_too() -> None:
    """A member of a colocation group cannot leave another member; the reason says so."""
    tags = ["iallocator:colocate:must:web"]
    instances = {name: builders.rbd("node1", memory=2048, tags=tags) for name in ("a", "b")}
    document = builders.cluster(nodes=3, memory=16384, instances=instances)
    _, response = _places(_evacuate(document, "a"))
    ((name, reason),) = response["result"][1]
    assert name == "a"
    assert "together with b" in reason


def test_exact_search_keeps_affinity() -> None:
    """If greedy placement fails, the solver's answer respects separation."""
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
    """With ``--compat hail``, tags of iallocator are ignored."""
    document = builders.cluster(nodes=1, memory=16384)
    tags = ["iallocator:separate:must:db"]
    batch = _batch(document, ("a", 512, tags), ("b", 512, tags))
    places, _ = _places(batch, "--compat=hail")
    assert places == {"a": "node1", "b": "node1"}
