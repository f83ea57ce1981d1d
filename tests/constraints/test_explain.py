"""Test affinity constraints in explanations."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests import builders
from tests.builders import Json
from tests.command import json_of, printed

Explain = Callable[[Json], Json]

MUST = "must be apart from db1 (tag iallocator:separate:must:db)"


def explained(document: Json) -> Json:
    """Return the only decision that `explain` reports for a document, and its page."""
    (decision,) = json_of("explain", "--n1=off", document=document)["decisions"]
    found: Json = decision | {"page": printed("explain", "--n1=off", document=document)}
    return found


def _document(tag: str, template: str = "rbd", nodes: int = 3) -> Json:
    homes = ("node1", "node2") if template == "drbd" else ("node1",)
    instances = {"db1": builders.instance(*homes, disk_template=template, tags=[tag])}
    return builders.cluster(nodes=nodes, memory=16384, instances=instances)


def _rejections(decision: Json, node: str) -> list[str]:
    report = next(n for n in decision["groups"][0]["candidates"] if n["node"] == node)
    return [rejection["text"] for role in report["roles"] for rejection in role["refusals"]]


@pytest.mark.parametrize("template", ["rbd", "drbd"])
def test_affinity_that_rejects_a_node_for_a_new_instance_is_named(template: str) -> None:
    """`explain` names the constraint and its tag beside a node that affinity rejects."""
    tag = "iallocator:separate:must:db"
    request = builders.allocate(_document(tag, template), memory=1024, disk_template=template)
    request["request"]["tags"] = [tag]
    decision = explained(request)
    assert decision["answer"] is not None
    assert MUST in _rejections(decision, "node1")
    assert MUST in decision["page"]


def test_affinity_that_leaves_no_node_is_named() -> None:
    """`explain` names the affinity constraint of the nearest candidate if no node remains."""
    tag = "iallocator:separate:must:db"
    request = builders.allocate_rbd(_document(tag, nodes=1), memory=1024)
    request["request"]["tags"] = [tag]
    decision = explained(request)
    assert decision["answer"] is None
    assert MUST in decision["groups"][0]["closest"]


@pytest.mark.parametrize("template", ["rbd", "drbd"])
def test_affinity_that_rejects_a_node_for_a_moved_instance_is_named(template: str) -> None:
    """`explain` names the affinity constraint that rejects a node for a moved instance."""
    tag = "iallocator:separate:must:db"
    document = _document(tag, template, nodes=5)
    homes = ("node3", "node4") if template == "drbd" else ("node3",)
    document["instances"]["db2"] = builders.instance(*homes, disk_template=template, tags=[tag])
    request = {"type": "node-evacuate", "evac_mode": "all", "instances": ["db2"]}
    decision = explained(document | {"request": request})
    assert decision["answer"] is not None
    assert MUST in _rejections(decision, "node1")


def test_violated_soft_constraints_of_the_answer_are_listed_with_their_penalties() -> None:
    """`explain` lists soft constraints that the answer violates, with their penalties."""
    tag = "iallocator:separate:should:db:0.5"
    document = _document(tag, nodes=2)
    document["nodes"]["node2"]["free_memory"] = 100
    request = builders.allocate_rbd(document, memory=1024)
    request["request"]["tags"] = [tag]
    reported = f"should be apart from db1 (tag {tag}): costs 0.5"
    decision = explained(request)
    assert any(reported in note for note in decision["notes"])
    assert reported in " ".join(decision["page"].split())
    document["instances"]["db2"] = builders.rbd("node2", tags=[tag])
    move = {"type": "node-evacuate", "evac_mode": "all", "instances": ["db2"]}
    decision = explained(document | {"request": move})
    assert any(reported in note for note in decision["notes"])


def test_colocation_group_without_capacity_is_named() -> None:
    """`explain` names a node that has capacity for only one member of a colocation group."""
    tag = "iallocator:colocate:must:web"
    document = builders.cluster(nodes=2, memory=16384)
    document["nodes"]["node1"]["free_memory"] = 1500
    one = builders.allocate_rbd(document, memory=1024)["request"]
    del one["type"]
    batch = [one | {"name": name, "tags": [tag]} for name in ("a", "b")]
    request = {"type": "multi-allocate", "instances": batch}
    first = json_of("explain", "--n1=off", document=document | {"request": request})["decisions"][0]
    assert _rejections(first, "node1") == ["no room for all that must be together: a, b"]
