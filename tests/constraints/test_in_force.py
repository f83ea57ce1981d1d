"""Test that ``show --rules`` lists effective constraints, and by default only of some instances.

Constraints that apply to every instance are hidden by default.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests import builders
from tests.builders import Json
from tests.command import json_of
from tests.schemas import conforms


def listed_rules(document: Json, *options: str) -> set[tuple[str, str, str, float]]:
    """Return instance, meaning, strength and weight of each listed constraint."""
    listed = json_of("constraints", *options, document=document)
    conforms(listed, "constraints")
    return {
        (c["instance"], c["what"], c["strength"], c.get("weight", 0)) for c in listed["constraints"]
    }


def _scenario() -> Json:
    """Return a node and an instance with a secondary, with tags of all strategies."""
    tags = [
        "iallocator:score:node2:7", "iallocator:stickiness:4", "iallocator:utilization:gpu:2",
        "iallocator:syskey:room:1:50", "iallocator:key:colour:3:-10",
    ]  # fmt: skip
    document = builders.cluster(
        2,
        instances={"web": builders.instance("node1", "node2", tags=tags)},
        tags=("iallocator:specialkey:load:0:5", "iallocator:syskey:room:9:1"),
    )
    document["nodes"]["node1"]["tags"] = [
        "iallocator:score:5", "iallocator:utilization:gpu:4", "iallocator:ram-contention:2",
    ]  # fmt: skip
    return document


SCORES = {
    ("*", "on node1, score 5", "should", 5.0),
    ("web", "on node2, score 7", "should", 7.0),
    ("web", "stays on node1, score 4", "should", 4.0),
}
CAPACITIES = {("*", "at most 4 of gpu on node1", "must", 0), ("web", "needs 2 of gpu", "must", 0)}
KEYS = {
    ("*", "at most 16384 MiB of memory on node1", "must", 0),
    ("*", "near 0 of system key #LOAD", "should", 5.0),
    ("*", "near 9 of system key room", "should", 1.0),
    ("web", "near 1 of system key room", "should", 50.0),
    ("web", "near 3 of customer key colour", "should", -10.0),
}
ANYWAY = {
    ("web", "needs 1024 MiB of memory", "must", 0),
    ("web", "primary on another node than the secondary", "must", 0),
}


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("score", SCORES),
        ("lost-allocations", SCORES),
        ("pacemaker-default", SCORES),
        ("pacemaker-minimal", SCORES | CAPACITIES),
        ("affinity", KEYS | SCORES),
    ],
)
def test_list_has_only_constraints_that_the_strategy_uses(
    strategy: str, expected: set[Any]
) -> None:
    """`show --rules` lists only constraints of the strategy in effect, from option or tag."""
    assert listed_rules(_scenario(), f"--strategy={strategy}") == expected
    document = _scenario()
    document["cluster_tags"].append(f"iallocator:strategy:{strategy}")
    assert listed_rules(document) == expected
    document = _scenario()
    document["nodegroups"]["uuid-default"]["tags"] = [f"iallocator:strategy:{strategy}"]
    assert listed_rules(document) == expected


def test_list_omits_constraints_of_all_instances_by_default() -> None:
    """`show --rules` omits constraints of every instance, except with ``--all`` or a filter."""
    assert not ANYWAY & listed_rules(_scenario())
    assert listed_rules(_scenario(), "--all") >= ANYWAY
    assert listed_rules(_scenario(), "--instance=web") >= ANYWAY
    assert ("web", "needs 1024 MiB of memory", "must", 0) in listed_rules(
        _scenario(), "--kind=capacity"
    )


@pytest.mark.parametrize("strategy", ["score", "affinity", "pacemaker-balanced"])
def test_list_has_hard_locations_under_every_strategy(strategy: str) -> None:
    """`show --rules` lists nodes that tags forbid under every strategy."""
    document = _scenario()
    document["nodes"]["node2"]["tags"] = ["iallocator:maintenance"]
    document["instances"]["web"]["tags"] = ["iallocator:score:node1:-INFINITY"]
    assert listed_rules(document, f"--strategy={strategy}") >= {
        ("*", "nothing new on node2, what is there stays", "must", 0),
        ("web", "not on node1", "must", 0),
    }


def test_list_has_locations_of_the_score_only_if_they_count() -> None:
    """`show --rules` lists desired locations only under strategies that use the score."""
    document = builders.cluster(
        1, instances={"web": builders.rbd("node1", tags=["rack:1"])},
        tags=("htools:desiredlocation:rack",),
    )  # fmt: skip
    assert ("web", "on a node tagged rack:1", "should", 1.0) in listed_rules(document)
    assert not listed_rules(document, "--strategy=minimal")
