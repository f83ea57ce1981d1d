"""Test rare choices: ties by rounding, ranks by losses, number of alternatives."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from iallocator.model.moves import Move
from iallocator.options.settings import Settings
from iallocator.placement.context import Context
from iallocator.placement.results import RankedGroups
from tests.builders import Json, allocate, cluster, rbd
from tests.command import respond
from tests.model.make import model_of


def evacuation(nodes: int, *residents: tuple[str, int]) -> Json:
    """Return a request to move the first of the `residents`: (node, MiB of memory) of each
    instance.
    """
    held = {f"i{k}": rbd(node, memory=memory) for k, (node, memory) in enumerate(residents)}
    document = cluster(nodes, memory=10_000, disk=10**6, instances=held)
    document["request"] = {"type": "node-evacuate", "instances": ["i0"], "evac_mode": "all"}
    return document


def test_move_to_equal_nodes_is_decided_as_hail_rounds() -> None:
    """Of two nodes that are equal except for rounding, hail's choice is made."""
    document = evacuation(
        6, ("node5", 100), ("node5", 700), ("node2", 300), ("node1", 300), ("node4", 700)
    )
    assert respond(document, "--compat=hail")["result"][0] == [["i0", "default", ["node3"]]]


@pytest.mark.parametrize("top", [1, 2, 3])
def test_moves_are_at_most_the_requested_number(top: int) -> None:
    """--top limits the number of listed moves."""
    (found,) = respond(evacuation(5, ("node1", 512)), f"--top={top}")["solutions"]
    assert len(found.get("alternatives", [found])) == top


def dedicated(*sizes: tuple[int, int, int, int]) -> Json:
    """Return a request for a plain instance in a group of nodes with exclusive storage.

    Each node has total and free spindles, and free MiB of disk and of memory. Another group with
    usual nodes accepts no instance.
    """
    changes = {
        f"node{k}": {
            "ndparams": {"exclusive_storage": True, "spindle_count": 1, "cpu_speed": 1.0},
            "total_spindles": total, "free_spindles": free, "free_disk": disk,
            "free_memory": memory,
        }
        for k, (total, free, disk, memory) in enumerate(sizes, start=1)
    }  # fmt: skip
    document = cluster({"a": 4, "b": 2}, memory=10_000, disk=40_000, changes=changes)
    document["nodegroups"]["uuid-b"]["alloc_policy"] = "unallocable"
    disk = {"size": 1024, "mode": "rw", "spindles": 1}
    return allocate(document, memory=512, disk_template="plain", disks=[disk])


SMALL = ((4, 4, 4096, 5000), (4, 3, 9000, 5000), (8, 3, 4096, 3000), (6, 2, 9000, 5000))


def test_losses_decide_where_only_an_unallocable_group_has_usual_nodes() -> None:
    """Lost allocations decide if all allocatable groups have exclusive storage, as in hail."""
    assert respond(dedicated(*SMALL), "--compat=hail")["result"] == ["node3"]


def test_losses_do_not_decide_in_a_group_with_a_usual_node() -> None:
    """Scores, not lost allocations, decide in a group with a node without exclusive storage."""
    sizes = ((6, 3, 4096, 5000), (8, 3, 9000, 5000), (6, 3, 30_000, 3000))
    assert respond(dedicated(*sizes))["result"] == ["node4"]


def test_policy_is_checked_only_for_arrivals_from_another_group() -> None:
    """The policy of a group is checked only for instances from another group."""
    document = cluster({"a": 2, "b": 2}, instances={"web": rbd("node1")})
    for name in ("uuid-a", "uuid-b"):
        (interval,) = document["nodegroups"][name]["ipolicy"]["minmax"]
        interval["min"]["memory-size"] = 4096
    context = Context(model_of(document), Settings())
    (web,) = context.cluster.instances
    context.state.remove(web, web.nodes)
    own, other = (
        context.evaluator(group).rejections(web, web.nodes, group.nodes)
        for group in context.cluster.groups
    )
    assert list(own) == []
    assert len(other) == 2


@pytest.mark.parametrize(("offline", "reason"), [(True, None), (False, "FailN1")])
def test_move_off_a_dead_node_does_not_check_global_n1(offline: bool, reason: str | None) -> None:
    """Global N+1 is checked for optional moves, and not for moves off an offline node."""
    held = {
        "web": rbd("node1", memory=256),
        **{f"i{k}": rbd(f"node{k}", memory=3000) for k in (1, 2, 3)},
    }
    made = cluster(3, memory=4096, instances=held, changes={"node1": {"offline": offline}})
    settings = Settings()
    settings.n1 = "strict"
    context = Context(model_of(made), settings)
    web = context.cluster.instance_named("web")
    assert web is not None
    found = context.evaluator(context.cluster.groups[0]).check(Move(web, (0,), (1,)))
    assert (found and found.reason) == reason


# Groups in the order in which a new instance would like to be there.


def offer(name: str, node: int, ranked_by: str = "affinity") -> Any:
    """Return the offer of a group: one node, ranked by a strategy."""
    return SimpleNamespace(
        name=name, uuid=name, alloc_policy="preferred", placements=[(0.0, (node,))],
        nodes=[(node,)], key=0, exactly=None, score=0.0, ranked_by=ranked_by, line=lambda: name,
    )  # fmt: skip


def test_groups_are_compared_by_a_strategy_only_where_there_are_two_that_it_ranks() -> None:
    """Two groups are compared by a strategy only if it has ranked both."""

    def fail(usable: Any) -> Any:
        pytest.fail("compared")

    alone = RankedGroups([offer("one", 0)], False, False, fail)
    assert (alone.usable[0].uuid, alone.order) == ("one", None)
    mixed = [offer("one", 0), offer("other", 1, "score")]
    assert RankedGroups(mixed, False, False, fail).order is None
    second_first: Any = SimpleNamespace(ranked=[1, 0])
    both = [offer("one", 0), offer("other", 1)]
    found = RankedGroups(both, False, False, lambda _: second_first)
    assert [group.uuid for group in found.usable] == ["other", "one"]
