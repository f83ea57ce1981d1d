"""Test requests for members of a colocation group: all of them move, or none."""

from __future__ import annotations

from typing import Any

import pytest

from tests import builders
from tests.builders import Json
from tests.command import respond

PAIR = ["iallocator:colocate:must:web"]
BOND = "must be together with b (tag iallocator:colocate:must:web)"


def shared(node: str, memory: int = 1024, tags: list[str] | None = None) -> Json:
    """Return an instance on shared storage, by default in a colocation group of two."""
    tags = PAIR if tags is None else tags
    return builders.rbd(node, memory=memory, tags=tags)


def drbd(primary: str, secondary: str) -> Json:
    """Return a drbd instance of a colocation group of two."""
    return builders.instance(primary, secondary, memory=1024, disk_template="drbd", tags=PAIR)


def evacuated(document: Json, mode: str, *options: str) -> tuple[dict[str, str], list[Any]]:
    """Return the new primaries of moved instances, and the instances that failed."""
    names = ["a", "b"]
    document["request"] = {"type": "node-evacuate", "instances": names, "evac_mode": mode}
    reply = respond(document, *options)
    moved, failed, _ = reply["result"]
    return {name: nodes[0] for name, _, nodes in moved}, failed


@pytest.mark.parametrize("secondaries", [("node2", "node2"), ("node2", "node3")])
def test_evacuation_through_secondaries_keeps_a_unit_together_in_the_end(
    secondaries: tuple[str, str],
) -> None:
    """Members of a drbd colocation group leave an offline node and end on one node."""
    instances = {name: drbd("node1", secondary) for name, secondary in zip("ab", secondaries)}
    document = builders.cluster(5, instances=instances)
    document["nodes"]["node1"]["offline"] = True
    homes, failed = evacuated(document, "all")
    assert failed == []
    assert homes["a"] == homes["b"] not in ("node1", *secondaries)


def full_group() -> Json:
    """Return two node groups, and a colocation group of two instances in the first one.

    No other node of the first node group has capacity for both instances.
    """
    instances = {"a": shared("node1"), "b": shared("node1"), "full": shared("node2", 7000, [])}
    return builders.cluster({"here": 2, "there": 2}, instances=instances)


def test_evacuation_to_another_group_moves_all_of_a_unit() -> None:
    """With --inter-group, an evacuation moves a colocation group to another node group.

    Without --inter-group, both instances stay.
    """
    homes, failed = evacuated(full_group(), "primary-only", "--inter-group=yes")
    assert failed == []
    assert homes["a"] == homes["b"] in ("node3", "node4")
    homes, failed = evacuated(full_group(), "primary-only")
    assert homes == {}
    assert all("group there could take it on" in why for _, why in failed)


def test_evacuation_to_another_group_moves_nothing_of_a_unit_that_does_not_fit() -> None:
    """No member of a colocation group moves to a group with capacity for only one of two."""
    document = full_group()
    for number in (3, 4):
        document["instances"][f"other{number}"] = shared(f"node{number}", 6500, [])
    for node in ("node3", "node4"):
        document["nodes"][node]["free_memory"] -= 6500
    homes, failed = evacuated(document, "primary-only", "--inter-group=yes")
    assert homes == {}
    assert len(failed) == 2


def test_relocation_of_one_instance_of_a_unit_is_rejected_with_the_constraint() -> None:
    """The relocation of one member of a colocation group is rejected with the constraint."""
    document = builders.cluster(3, instances={"a": shared("node1"), "b": shared("node1")})
    document["request"] = {"type": "relocate", "name": "a", "relocate_from": ["node1"]}
    reply = respond(document)
    assert not reply["success"]
    assert reply["info"].endswith(f"it {BOND}")
    document["instances"]["b"] = shared("node2")
    reply = respond(document)
    assert reply["result"] == ["node2"]


def test_reason_why_a_unit_with_secondaries_on_two_nodes_cannot_fail_over() -> None:
    """If members have different secondaries, primary-only evacuation fails and explains it.

    The mode `all` moves both instances.
    """
    instances = {"a": drbd("node1", "node2"), "b": drbd("node1", "node3")}
    document = builders.cluster(5, instances=instances)
    homes, failed = evacuated(document, "primary-only")
    assert homes == {}
    assert dict(failed)["a"].startswith(
        "it can fail over to its secondary node2 only, and b, which must be on the same node, "
        "to node3 only; mode all moves both"
    )
    homes, failed = evacuated(document, "all")
    assert homes["a"] == homes["b"]
    assert failed == []
