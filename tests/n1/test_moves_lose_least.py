"""Test moves with ``--n1 no-worse``: instances move to nodes where failures lose the least."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product
from random import Random

from iallocator.model.state import State
from iallocator.n1 import Rules, plan_rules
from iallocator.n1.tolerance import FailureTolerance
from tests.builders import Json, cluster, rbd
from tests.command import respond
from tests.model.make import model_of

from .test_no_worse import lost_if

NOWHERE = "no other placement restarts more"


def answer_to(document: Json, **request: object) -> Json:
    """Return the answer to a request on `document` with ``--n1 no-worse``."""
    changed = {**document, "request": request}
    found: Json = respond(changed, "--n1=no-worse")
    return found


def evacuated(document: Json, *names: str) -> Json:
    """Return the answer to the evacuation of the primaries of the named instances."""
    return answer_to(document, type="node-evacuate", instances=names, evac_mode="primary-only")


def moved(document: Json, found: Json) -> Json:
    """Return the document after the execution of the answer `found`."""
    residents = dict(document["instances"])
    for name, _, nodes in found["result"][0]:
        residents[name] = {**residents[name], "nodes": nodes}
    return {**document, "instances": residents}


def lost(document: Json) -> list[tuple[int, int]]:
    """Return the lost instances and MiB for the failure of each node."""
    return [lost_if(document, node) for node in document["nodes"]]


def grown(before: list[tuple[int, int]], after: list[tuple[int, int]]) -> tuple[int, int]:
    """Return the sum of additional lost instances and MiB over all failures."""
    more = [[max(0, b - a) for a, b in zip(*one)] for one in zip(before, after)]
    return sum(count for count, _ in more), sum(memory for _, memory in more)


def fits(document: Json) -> bool:
    """Return whether each node has free memory with its primary instances."""
    free = {name: node["total_memory"] for name, node in document["nodes"].items()}
    for one in document["instances"].values():
        free[one["nodes"][0]] -= one["memory"]
    return all(left > 0 for left in free.values())


def least_of(document: Json, names: Sequence[str], nodes: Sequence[str]) -> tuple[int, int]:
    """Return the smallest increase of losses with `names` placed on any of `nodes`."""
    before = lost(document)
    ways = (
        moved(document, {"result": [[(name, "", [node]) for name, node in zip(names, chosen)]]})
        for chosen in product(nodes, repeat=len(names))
    )
    return min(grown(before, lost(way)) for way in ways if fits(way))


def narrow(rng: Random) -> Json:
    """Return four nodes with instances on shared storage; the first node has the least memory."""
    residents: dict[str, Json] = {}
    for node in ("node1", "node2", "node3", "node4"):
        left = 2500 if node == "node1" else rng.choice((3000, 4000, 5000, 5900))
        while (size := rng.choice((700, 900, 1300, 1700, 2300))) < left:
            left -= size
            residents[f"i{len(residents)}"] = rbd(node, memory=size)
    document = cluster(4, memory=6000, disk=10**6, cpus=640, instances=residents)
    small = document["nodes"]["node1"]
    small |= {"total_memory": 3000, "free_memory": small["free_memory"] - 3000}
    return document


def test_evacuation_under_no_worse_loses_the_fewest_instances() -> None:
    """With no-worse, an evacuation chooses the nodes with the fewest lost instances.

    Brute force tries all nodes; `info` of the answer names the losses.
    """
    kinds: Counter[str] = Counter()
    for seed in range(30):
        document = narrow(Random(f"evacuated/{seed}"))
        names = [n for n, one in document["instances"].items() if one["nodes"] == ["node1"]]
        found = evacuated(document, *names)
        if len(found["result"][0]) < len(names):
            continue
        least = least_of(document, names, ["node2", "node3", "node4"])
        assert grown(lost(document), lost(moved(document, found))) == least, seed
        assert (NOWHERE in found["info"]) == (least != (0, 0)), seed
        kinds["grows" if any(least) else "not"] += 1
        kinds["together"] += "which minimizes what cannot be restarted" in found["info"]
    assert min(kinds["grows"], kinds["not"], kinds["together"]) > 0, kinds


def single_target() -> Json:
    """Return a cluster where node1 can only be evacuated to node2, which has 1000 MiB to spare."""
    residents = {
        "large": rbd("node1", memory=5000),
        "small": rbd("node2", memory=1900),
        "mover": rbd("node3", memory=2000),
    }
    return cluster({"west": 2, "east": 1}, memory=8000, instances=residents)


def test_change_group_under_no_worse_that_loses_an_instance_is_rejected() -> None:
    """With no-worse, `change-group` is rejected if another instance then could not restart."""
    document = single_target()
    request = {"type": "change-group", "instances": ["mover"], "target_groups": ["uuid-west"]}
    found = answer_to(document, **request)
    assert [name for name, _ in found["result"][1]] == ["mover"]
    assert "could not be restarted" in found["info"]
    small = {**document["instances"]["mover"], "memory": 900}
    document["instances"]["mover"] = small
    assert not answer_to(document, **request)["result"][1]


def test_change_group_under_no_worse_chooses_the_node_that_loses_no_instance() -> None:
    """With no-worse, `change-group` chooses the node that loses no instance in a failure.

    The emptiest node is the only one with capacity for the largest instance.
    """
    residents = {
        name: rbd(node, memory=memory)
        for name, node, memory in (
            ("large", "node1", 5000),
            ("one", "node3", 2000),
            ("two", "node3", 2000),
            ("mover", "node4", 3500),
        )
    }
    document = cluster({"west": 3, "east": 1}, memory=8000, instances=residents)
    request = {"type": "change-group", "instances": ["mover"], "target_groups": ["uuid-west"]}
    (name, _, nodes), *_ = answer_to(document, **request)["result"][0]
    assert (name, nodes) == ("mover", ["node3"])


def test_relocate_under_no_worse_reports_the_additional_losses() -> None:
    """With no-worse, `relocate` reports an instance that cannot be restarted any more.

    The relocated instance uses memory of the only target node that the other one needs.
    """
    residents = {
        "large": rbd("node1", memory=5000),
        "mover": rbd("node2", memory=3500),
    }
    changes = {"node1": {"total_memory": 5500, "free_memory": 500}}
    document = cluster(3, memory=8000, instances=residents, changes=changes)
    document["nodes"]["node2"] |= {"total_memory": 4000, "free_memory": 500}
    request = {"type": "relocate", "name": "mover", "relocate_from": ["node2"]}
    found = answer_to(document, **request, required_nodes=1)
    assert found["result"] == ["node3"]
    assert "more than before cannot be restarted if node1 (" in found["info"]


def test_evacuation_of_a_dead_node_under_no_worse_counts_stopped_instances_as_lost() -> None:
    """With no-worse, instances leave an offline node, though they could not restart again."""
    residents = {
        "down": rbd("node1", memory=1000),
        "up": rbd("node2", memory=1000),
    }
    changes = {"node1": {"offline": True}}
    document = cluster(2, memory=8000, instances=residents, changes=changes)
    found = evacuated(document, "down")
    assert [nodes for _, _, nodes in found["result"][0]] == [["node2"]]
    assert "more than before" not in found["info"]


def test_failover_plan_after_a_move_is_that_of_a_new_check() -> None:
    """After a move, the kept failover plan of a group equals that of a new check."""
    read = model_of(narrow(Random(1)))
    state, group = State(read), read.groups[0]
    kept = FailureTolerance(state, Rules("no-worse"))
    before = kept.failover_plan(group)
    one = next(iter(state.primaries[group.nodes[1]].values()))
    state.remove(one, state.where[one.name])
    state.place(one, (group.nodes[2],))
    after = kept.failover_plan(group)
    new = FailureTolerance(state, Rules("no-worse")).failover_plan(group)
    assert before is not None
    assert after is not None
    assert new is not None
    assert after.kept == new.kept != before.kept


def test_unrestarted_instances_after_a_move_are_those_of_a_new_check() -> None:
    """After a move, the instances that cannot be restarted are those of a new check."""
    read = model_of(single_target())
    state, (east, west) = State(read), read.groups
    kept, (failing, other) = FailureTolerance(state, Rules("no-worse")), west.nodes
    assert kept.unrestarted((failing,)) == []
    mover = next(one for one in read.instances if one.name == "mover")
    state.remove(mover, (east.nodes[0],))
    state.place(mover, (other,))
    assert [one.name for one in kept.unrestarted((failing,))] == ["large"]


def test_first_unrestarted_after_a_change_of_a_nodes_size_is_that_of_a_new_check() -> None:
    """After a node's size has changed, the explained failure is that of a new check."""
    residents = {
        "a-small": rbd("node1", memory=1000),
        "b-large": rbd("node1", memory=5500),
        "c": rbd("node2", memory=5000),
        "d": rbd("node3", memory=2000),
    }
    read = model_of(cluster(3, memory=8000, instances=residents))
    kept = FailureTolerance(State(read), plan_rules("no-new"), group=read.groups[0])
    found = kept.first_unrestarted((0,))
    assert found is not None
    assert found.instance.name == "b-large"  # the small one takes its place
    read.nodes[2].total_memory = 48000
    assert kept.first_unrestarted((0,)) is None
