"""Test tags that every placement satisfies: plans are those without the tags."""

from __future__ import annotations

import json

import pytest

from tests import builders
from tests.builders import Json
from tests.command import json_of


def _cluster(template: str, groups: int) -> Json:
    """Return groups of four nodes; the first node of each group has most of the instances."""
    document = builders.cluster({f"g{k}": 4 for k in range(groups)}, memory=16384)
    names = list(document["nodes"])
    for k in range(6 * groups):
        first = 4 * (k // 6)
        nodes = [names[first + (k % 6) // 4], names[first + 2 + k % 2]]
        document["instances"][f"i{k}"] = builders.instance(
            *nodes[: 1 + (template == "drbd")], memory=512 + 128 * (k % 6), disk_template=template
        )
    document["cluster_tags"] = []
    for name in names:
        document["nodes"][name]["tags"] = ["htools:standby:auto", "ssd"]
        held = sum(i["memory"] for i in document["instances"].values() if i["nodes"][0] == name)
        builders.leave(document["nodes"][name], 16384 - held)
    for raw in document["instances"].values():
        raw["tags"] = []
    return document


def _labels(document: Json) -> None:
    for raw in document["instances"].values():
        raw["tags"] = ["iallocator:nodes:should:ssd:2"]


def _spread(document: Json) -> None:
    for k, raw in enumerate(document["instances"].values()):
        raw["tags"] = [f"iallocator:separate:{('must', 'should')[k % 2]}:pair{k % 6}:group"]


@pytest.mark.parametrize("template", ["rbd", "drbd"])
@pytest.mark.parametrize("command", ["balance", "squeeze"])
@pytest.mark.parametrize(("tag", "groups"), [(_labels, 1), (_spread, 2)])
def test_plan_with_satisfied_tags_is_the_plan_without_them(
    template: str, command: str, tag: object, groups: int
) -> None:
    """Tags do not change a plan if every placement within the group satisfies them alike."""
    assert callable(tag)
    words = [command, "--n1=off"] + ["--drbd"] * (command == "squeeze" and template == "drbd")
    words += ["--all-groups"] * (command == "balance")
    document = _cluster(template, groups)
    plain = json_of(*words, document=document)
    tag(document)
    tagged = json_of(*words, document=document)
    assert plain["moves"]
    for key in ("moves", "scores", "groups"):
        assert tagged[key] == plain[key]


@pytest.mark.parametrize("template", ["rbd", "drbd"])
@pytest.mark.parametrize("command", ["balance", "squeeze"])
@pytest.mark.parametrize("word", ["must", "should"])
def test_plan_with_violated_spread_over_groups_is_the_plan_without_it(
    template: str, command: str, word: str
) -> None:
    """No move within a group changes a spread over groups; scores include its penalty."""
    words = [command] + ["--drbd"] * (command == "squeeze" and template == "drbd")
    document = _cluster(template, 1)
    plain = json_of(*words, document=document)
    for name in ("i0", "i1", "i2"):
        document["instances"][name]["tags"] = [f"iallocator:separate:{word}:web:group"]
    tagged = json_of(*words, document=document)
    assert plain["moves"]
    assert [one["to"] for one in tagged["moves"]] == [one["to"] for one in plain["moves"]]
    penalty = 3 if word == "should" else 0
    for key, score in plain["scores"].items():
        if isinstance(score, float):
            assert tagged["scores"][key] == pytest.approx(score + penalty), key
    for one, other in zip(tagged["moves"], plain["moves"], strict=True):
        assert one["score"] == pytest.approx(other["score"] + penalty)
    if command == "balance" and template == "rbd":
        assert tagged["bound"] == pytest.approx(plain["bound"] + penalty)


@pytest.mark.parametrize("command", ["balance", "squeeze"])
def test_score_before_a_plan_has_the_penalties_of_preferred_labels(command: str) -> None:
    """The scores before and after a plan include penalties of soft constraints alike."""
    document = _cluster("rbd", 1)
    words = [command, *["--max-length=0"] * (command == "balance")]
    plain = json_of(*words, document=document)["scores"]["before"]
    _labels(document)
    for name in ("node1", "node2"):
        document["nodes"][name]["tags"].remove("ssd")
    tagged = json_of(*words, document=document)["scores"]["before"]
    assert tagged == pytest.approx(plain + 2 * len(document["instances"]))


def test_label_that_one_node_lacks_counts() -> None:
    """`balance` moves instances that prefer a label off the only node without it."""
    document = _cluster("rbd", 1)
    _labels(document)
    document["nodes"]["node1"]["tags"].remove("ssd")
    plan = json_of("balance", "--n1=off", document=document)
    assert {one["instance"] for one in plan["moves"]} >= {"i0", "i1", "i2", "i3"}


def test_spread_that_is_violated_counts() -> None:
    """The score includes the penalty of a violated spread over groups."""
    document = _cluster("rbd", 1)
    plain = json_of("balance", "--n1=off", document=document)
    for name in ("i0", "i1"):
        document["instances"][name]["tags"] = ["iallocator:separate:should:web:group:0.5"]
    tagged = json_of("balance", "--n1=off", document=document)
    assert tagged["scores"]["after"] == pytest.approx(plain["scores"]["after"] + 0.5)


def test_capacity_with_labels_that_all_nodes_have_simulates_no_more_failures() -> None:
    """Labels that exclude no node leave the fast methods of N+1 on: equal plans and results."""
    document = _cluster("rbd", 1)
    plain = json_of("capacity", "--standard-alloc=1g,1g,1", document=document)
    for raw in document["instances"].values():
        raw["tags"] = ["iallocator:nodes:must:ssd", "iallocator:nodes:never:slow"]
    tagged = json_of("capacity", "--standard-alloc=1g,1g,1", document=document)
    assert tagged["standard"] == plain["standard"]
    listed = json.dumps(json_of("show", "--rules", document=document)["constraints"])
    assert "on nodes that have label ssd" in listed
    assert "on nodes that lack label slow" in listed
