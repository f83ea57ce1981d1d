"""Test ``show --rules``: it lists every constraint on placements, with its origin."""

from __future__ import annotations

import random

from tests import builders
from tests.builders import Json
from tests.command import json_of
from tests.constraints.scenarios import random_document
from tests.schemas import validator

ODD = [
    "iallocator:score:nowhere:3", "iallocator:utilization:gpu:many", "iallocator:colocate:may:x",
    "iallocator:order:after:", "iallocator:stickiness:x",
]  # fmt: skip


def _listed(document: Json, *options: str) -> list[Json]:
    """Return the constraints that ``show --rules`` lists for `document`."""
    found: list[Json] = json_of("constraints", *options, document=document)["constraints"]
    return found


def test_every_source_is_listed_with_its_origin() -> None:
    """The list of constraints has the origin of sizes, roles, nodes, exclusion and affinity."""
    tags = ["ex:1", "iallocator:separate:should:web:2"]
    document = builders.cluster(
        nodes=3,
        tags=("htools:iextags:ex",),
        instances={"old": builders.instance("node1", "node2", tags=tags)},
    )
    request = builders.allocate(document, memory=2048)
    request["request"] |= {"tags": tags, "restrict-to-nodes": ["node1", "node3"]}
    new = request["request"]["name"]
    found = _listed(request, "--instance", new)
    assert all(c.get("instance") == new or new in c["members"] for c in found)
    origins = {(c["kind"], c["strength"], c["origin"]) for c in found}
    assert ("capacity", "must", "member memory") in origins
    assert ("location", "must", "member restrict-to-nodes") in origins
    assert ("apart", "must", "cluster tag htools:iextags:..., tag ex:1") in origins
    relation = next(c for c in found if c["origin"].endswith("web:2"))
    assert relation["strength"] == "should"
    assert (relation["members"], relation["weight"]) == (["old", new], 2.0)


def test_an_option_replaces_the_whitelist_of_the_request() -> None:
    """The list of constraints has the nodes permitted by an option, not those of the request."""
    request = builders.allocate(builders.cluster(nodes=3), memory=2048)
    request["request"]["restrict-to-nodes"] = ["node1"]
    found = _listed(request, "--restrict-allocation-to", "node2,node3")
    (location,) = (c for c in found if c["kind"] == "location")
    assert location["what"] == "on node2, node3"
    assert location["origin"] == "option --restrict-allocation-to"


def test_ignoring_soft_errors_turns_exclusion_into_a_should() -> None:
    """With --ignore-soft-errors, the list has exclusion tags as soft constraints."""
    document = builders.cluster(
        nodes=3,
        tags=("htools:iextags:ex",),
        instances={name: builders.instance("node1", "node2", tags=["ex:1"]) for name in ("a", "b")},
    )
    found = _listed(document, "--ignore-soft-errors")
    (shared,) = (c for c in found if "iextags" in c["origin"])
    assert (shared["members"], shared["strength"]) == (["a", "b"], "should")


def test_tags_of_nodes_and_instances_are_listed_with_their_meaning() -> None:
    """The list of constraints has the tags of nodes and instances with their meaning.

    Listed are scores, capacities, stickiness, maintenance, pools, marks and fencing.
    """
    tags = [
        "iallocator:score:node2:7", "iallocator:score:node3:-INFINITY", "iallocator:stickiness:4",
        "iallocator:utilization:gpu:2", "iallocator:keep-running", "iallocator:priority:3",
        "iallocator:pool:external:nas", "iallocator:order:should-after:db",
    ]  # fmt: skip
    instances = {
        "web": builders.instance("node1", disk_template="ext", tags=tags),
        "db": builders.rbd("node4"),
    }
    document = builders.cluster(nodes=5, instances=instances)
    nodes = document["nodes"]
    nodes["node1"]["tags"] = ["iallocator:score:5", "iallocator:utilization:gpu:4",
                              "iallocator:pool:external:nas"]  # fmt: skip
    nodes["node2"]["tags"] = ["iallocator:maintenance"]
    nodes["node4"]["offline"] = True
    found = {(c["instance"], c["kind"], c["strength"], c["what"], c["origin"])
             for c in _listed(document, "--strategy=balanced")}  # fmt: skip
    assert found >= {
        ("*", "location", "should", "on node1, score 5", "tag iallocator:score:5 of node1"),
        ("*", "capacity", "must", "at most 4 of gpu on node1",
         "tag iallocator:utilization:gpu:4 of node1"),
        ("*", "location", "must", "nothing new on node2, what is there stays",
         "tag iallocator:maintenance of node2"),
        ("*", "location", "must", "nothing new on node4", "node node4: offline"),
        ("web", "location", "should", "on node2, score 7", "tag iallocator:score:node2:7"),
        ("web", "location", "must", "not on node3", "tag iallocator:score:node3:-INFINITY"),
        ("web", "location", "should", "stays on node1, score 4", "tag iallocator:stickiness:4"),
        ("web", "location", "must", "on nodes with access to external/nas",
         "tag iallocator:pool:external:nas"),
        ("web", "capacity", "must", "needs 2 of gpu", "tag iallocator:utilization:gpu:2"),
        ("web", "order", "must", "is not stopped to make room", "tag iallocator:keep-running"),
        ("web", "order", "should", "starts after db", "tag iallocator:order:should-after:db"),
        ("web", "priority", "should", "priority 3", "tag iallocator:priority:3"),
        ("db", "order", "must", "starts elsewhere after the fencing of node4",
         "node node4: offline"),
    }  # fmt: skip


def test_kind_and_strength_filter_the_list() -> None:
    """The list of constraints can be filtered by kind, by strength, and by instance."""
    tags = ["iallocator:separate:must:x", "iallocator:separate:should:y"]
    document = builders.cluster(
        nodes=3, instances={n: builders.instance("node1", "node2", tags=tags) for n in "ab"}
    )
    found = _listed(document, "--kind=apart", "--strength=should")
    assert [(c["name"], c["members"]) for c in found] == [("y", ["a", "b"])]
    assert all(c["kind"] == "apart" for c in _listed(document, "--kind", "apart"))


def test_list_fits_its_schema() -> None:
    """The list of constraints fits its schema for random valid and invalid tags."""
    chances = random.Random(2)
    for _ in range(10):
        document = random_document(chances)
        for one in document["instances"].values():
            one["tags"] += chances.sample(ODD, 2)
        listed = json_of("constraints", document=document)
        found = validator("constraints.schema.json").iter_errors(listed)
        assert [error.message for error in found] == []
        assert listed["unusable_tags"]
    listed["constraints"][0]["strength"] = "may"
    assert list(validator("constraints.schema.json").iter_errors(listed))
