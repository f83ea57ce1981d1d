"""Test `undo`: it returns each instance if possible, and names the reason otherwise."""

from __future__ import annotations

from iallocator.deadline import Deadline
from iallocator.options.settings import Settings
from iallocator.planners.undo import plan_undo
from iallocator.wire.document import read_cluster
from iallocator.wire.reading import Reading
from tests.builders import cluster, instance, rbd


def test_undo_leaves_an_instance_whose_initial_node_is_drained() -> None:
    """`undo` leaves an instance away if its initial node is drained, and moves others back.

    A drained secondary also keeps the primary of its instance away. One instance has capacity on
    its initial node only after another one has returned.
    """
    residents = {
        "a": instance("node1", "node2", memory=500),
        "b": rbd("node3", memory=3000),
        "c": rbd("node5", memory=3000),
    }
    document = cluster(5, memory=4096, instances=residents, changes={"node2": {"drained": True}})
    homes = {"a": ["node2", "node1"], "b": ["node4"], "c": ["node3"]}
    known = read_cluster(document, Reading(static_kvm_memory=0))
    settings = Settings()
    settings.n1 = "off"
    found = plan_undo(known, settings, homes, Deadline(None))
    assert sorted(found.homes) == ["b", "c"], found.staying
    assert found.staying == {"a": "node2 is drained"}
