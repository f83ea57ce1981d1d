"""Test the check of one move: the first reason for its rejection, with the numbers."""

from __future__ import annotations

import pytest

from iallocator.model.moves import Move
from iallocator.options.settings import Settings
from iallocator.placement.context import Context
from tests.builders import Json, cluster, instance, rbd
from tests.model.make import model_of


def rejection(made: Json, after: tuple[int, ...], n1: str = "no-new") -> str:
    """Return why a move of web to the nodes `after` is rejected; "" if it is permitted."""
    settings = Settings()
    settings.n1 = n1
    context = Context(model_of(made), settings)
    moved = context.cluster.instance_named("web")
    assert moved is not None
    group = context.cluster.nodes[after[0]].group
    version = context.state.version
    found = context.evaluator(group).check(Move(moved, context.state.where["web"], after))
    assert context.state.version == version, "the state is left as it is"
    return "" if found is None else f"{found.reason}: {found.text}"


def shared(**tags: list[str]) -> Json:
    """Return three nodes of 8192 MiB; web is on node1 with 1024 MiB, on shared storage."""
    made = cluster(3, instances={"web": rbd("node1")})
    made["cluster_tags"] = ["htools:migration:x"]
    for name, own in tags.items():
        made["nodes"][name]["tags"] = own
    return made


def test_permitted_move_has_no_rejection() -> None:
    """A move to a node with free capacity is permitted."""
    assert rejection(shared(), (1,)) == ""


def test_rejection_by_a_limit_reports_the_numbers_of_the_node() -> None:
    """A rejection by a limit has the numbers of the node."""
    made = shared()
    made["nodes"]["node2"]["free_memory"] = 1000
    assert (
        rejection(made, (1,)) == "FailMem: needs 1024 MiB memory, 1000 free, and 1 MiB must remain"
    )


def test_rejection_by_migration_tags_names_the_required_tags() -> None:
    """A rejection by migration tags names the tags that the target lacks."""
    found = rejection(shared(node1=["x:new"]), (1,))
    assert found == "FailMig: does not receive what node1 requires: x:new"


@pytest.mark.parametrize(
    ("mode", "rejected"),
    [("no-new", True), ("no-worse", True), ("strict", True), ("off", False)],
)
def test_rejection_by_n1_names_the_failure_that_is_not_tolerated(mode: str, rejected: bool) -> None:
    """A rejection by N+1 names the failure, and depends on the mode of the group."""
    made = cluster(
        3,
        instances={
            "web": rbd("node1", memory=3000),
            "big": rbd("node3", memory=6000),
        },
        changes={"node1": {"total_memory": 4096, "free_memory": 1096}},
    )
    found = rejection(made, (1,), mode)
    assert found.startswith("FailN1: if node3 failed, big (6000 MiB") == rejected
    assert bool(found) == rejected


def test_failover_is_rejected_by_the_limits_of_the_secondary() -> None:
    """A failover is rejected by the limits of the new secondary."""
    made = cluster(2, instances={"web": instance("node1", "node2", memory=4000)})
    assert rejection(made, (1, 0)) == ""
    made["nodes"]["node2"]["free_memory"] = 4000
    assert rejection(made, (1, 0)).startswith("FailMem: needs 4000 MiB memory, 4000 free")
