"""Check on every path that an instance is only placed on nodes with its required label.

Run by `test_toys.py` with a copy of the package that has the toy constraint: an instance with the
tag ``iallocator:only:LABEL`` may be only on nodes with the tag LABEL. The script exits with an
error if a path ignores the constraint, or rejects more than the constraint demands.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from iallocator.model.moves import FAILOVER_TO, Move
from iallocator.model.state import State
from iallocator.options.settings import Settings
from iallocator.planners.plan import PlanEntry
from iallocator.planners.plan_limits import PlanLimits
from iallocator.planners.verify import verify_moves
from iallocator.transition.assemble import plan_transition
from iallocator.transition.execution import check
from iallocator.wire.document import read_cluster
from iallocator.wire.reading import Reading
from tests.builders import Json, allocate, cluster, instance
from tests.command import json_of, plan_of, printed, respond

REASON = "FailLabel"
ONLY = ["iallocator:only:ssd"]


def scenario(labels: str, homes: dict[str, str], template: str = "rbd", **members: Any) -> Json:
    """Return nodes, of which `labels` have the label, and instances that require the label.

    `homes` maps instances to their nodes.
    """
    residents = {
        name: instance(
            *home.split(), **{"memory": 1000, "disk_template": template, "tags": ONLY, **members}
        )
        for name, home in homes.items()
    }
    made = cluster(nodes=len(labels), memory=8192, cpus=64, instances=residents)
    for number, label in enumerate(labels, start=1):
        made["nodes"][f"node{number}"]["tags"] = ["ssd"] if label == "s" else ["hdd"]
    return made


def new(document: Json, **members: Any) -> Json:
    """Return a request for an instance that requires the label."""
    return allocate(document, **{"memory": 1000, "disk_template": "rbd", "tags": ONLY, **members})


def allocations() -> None:
    """Check allocations on one and two nodes, with and without arrays.

    The cluster is also read as text, and --compat hail is tried.
    """
    for count, template in product((4, 70), ("rbd", "drbd")):
        request = new(scenario("hs" * (count // 2), {}), disk_template=template)
        group = respond(request, "--n1=off")["solutions"][0]
        open_nodes = count // 2
        if template == "drbd":
            assert group["successes"] == open_nodes * (open_nodes - 1), group
        else:
            assert group["successes"] == open_nodes, group
            assert group["failures"] == {REASON: open_nodes}, group["failures"]
        assert set(group["failures"]) == {REASON}
        assert all(int(name[4:]) % 2 == 0 for name in group["nodes"]), group["nodes"]
    # Without a tag, with another tag, and for hail, nothing is closed
    for request in (new(scenario("hs", {}), tags=[]), new(scenario("hs", {}), tags=["only:ssd"])):
        assert respond(request, "--n1=off")["solutions"][0]["successes"] == 2
    assert respond(new(scenario("hs", {})), "--compat=hail")["success"]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "cluster.data"
        path.write_text(
            "default|uuid-default|preferred|||\n\n"
            "node1|8192|0|8192|102400|102400|64|N|uuid-default|1|hdd|N|0|1\n"
            "node2|8192|0|8192|102400|102400|64|N|uuid-default|1|ssd|N|0|1\n\n"
            "i1|1000|0|1|running|Y|node2||rbd|iallocator:only:ssd|1\n\n\n"
        )
        listed = json_of("constraints", "--json", "-t", str(path))["constraints"]
        assert [one["instance"] for one in listed if "label ssd" in one["what"]] == ["i1"], listed


def groups() -> None:
    """Check that a group without the label is rejected with the reason."""
    document = cluster(nodes={"east": 2, "west": 2}, memory=8192, cpus=64)
    for name, node in document["nodes"].items():
        node["tags"] = ["ssd"] if name in ("node3", "node4") else []
    answer = respond(new(document), "--n1=off")
    assert "group east does not have label ssd" in answer["info"], answer["info"]
    assert answer["result"] in (["node3"], ["node4"]), answer


def exact_search() -> None:
    """Check that the exact search places two instances of a batch, as two nodes have the label."""
    request = new(scenario("hs", {}), memory=4000)
    one = request["request"]
    request["request"] = {
        "type": "multi-allocate",
        "instances": [{**one, "type": "allocate", "name": f"new{k}"} for k in range(3)],
    }
    answer = respond(request, "--n1=off")
    assert [nodes for _, nodes in answer["result"][0]] == [["node2"], ["node2"]], answer
    assert "exact search proved that no more than 2 of 3 can be placed" in answer["info"], answer


def moves() -> None:
    """Check that relocation and evacuation use nodes with the label, or report their lack."""
    document = scenario("sshh", {"i1": "node1", "i2": "node1"})
    document["request"] = {
        "type": "node-evacuate", "instances": ["i1", "i2"], "evac_mode": "all",
    }  # fmt: skip
    moved, failed, _ = respond(document, "--n1=off")["result"]
    assert [nodes for _, _, nodes in moved] == [["node2"], ["node2"]], moved
    assert not failed
    for labels, expected in (("sshs", ["node4"]), ("ssh", None)):
        document = scenario(labels, {"i1": "node1 node2"}, "drbd")
        document["request"] = {
            "type": "relocate", "name": "i1", "required_nodes": 1, "relocate_from": ["node2"],
            "disk_space_total": 1152,
        }  # fmt: skip
        answer = respond(document, "--n1=off")
        assert answer["success"] is (expected is not None), answer
        assert expected is None or answer["result"] == expected, answer


def planners() -> None:
    """Check that balance and squeeze move instances only to nodes with the label."""
    many = {f"i{k}": "node1" for k in range(6)}
    moved = plan_of("balance", scenario("shs", many), "--n1=off")["moves"]
    assert moved
    assert {move["to"][0] for move in moved} == {"node3"}, moved
    assert not plan_of("balance", scenario("shh", many), "--n1=off")["moves"]
    few = {"i1": "node1", "i2": "node2", "i3": "node2"}
    for labels, emptied in (("ss", 1), ("sh", 0)):
        moved = plan_of("squeeze", scenario(labels, few), "--n1=off")["moves"]
        assert all(move["to"][0] == "node1" or labels == "ss" for move in moved), moved
        left = {"i1": "node1", "i2": "node2", "i3": "node2"}
        left |= {move["instance"]: move["to"][0] for move in moved}
        assert len(set(left.values())) == 1, (labels, emptied, left)


def n1() -> None:
    """Check that instances of a failed node restart only on nodes with the label."""
    for mode in ("strict", "no-new", "no-worse"):
        tolerated = new(scenario("ssh", {"i1": "node1"}), memory=1000)
        assert respond(tolerated, f"--n1={mode}")["success"], mode
        # The other node has the memory, but not the label
        alone = new(scenario("shh", {"i1": "node1"}), memory=100)
        answer = respond(alone, f"--n1={mode}")
        assert answer["success"] is (mode == "no-new"), (
            mode,
            answer,
        )  # the failure is lost already
        tight = new(scenario("sshhh", {"i1": "node1", "i2": "node2"}), memory=6500)
        answer = respond(tight, f"--n1={mode}")
        assert not answer["success"], (mode, answer)
        assert answer["solutions"][0]["failures"] == {"FailN1": 2, REASON: 3}, (mode, answer)


def verifier_and_transition() -> None:
    """Check that the verifier rejects moves to nodes without the label; a swap avoids them."""
    document = scenario("shs", {"i1": "node1"})
    state = State(read_cluster(document, Reading(static_kvm_memory=0)))
    index = {node.name: node.index for node in state.cluster.nodes}
    found = state.cluster.instance_named("i1")
    assert found is not None
    for target, text in (("node2", "does not have label ssd"), ("node3", "")):
        entry = PlanEntry(Move.by_steps(found, (index["node1"],), [(FAILOVER_TO, index[target])]))
        problems = "\n".join(map(str, verify_moves(state, [entry], PlanLimits(Settings(), None))))
        assert (text in problems) if text else not problems, problems
    document = scenario("sshs", {"i1": "node1", "i2": "node2"}, memory=5000)
    state = State(read_cluster(document, Reading(static_kvm_memory=0)))
    names = [node.name for node in state.cluster.nodes]
    home, other, third = (names.index(name) for name in ("node1", "node2", "node4"))
    planned = plan_transition(state, {"i1": (other,), "i2": (home,)})
    assert not planned.left, planned.left
    assert len(planned.steps) == 3, planned.steps
    assert {n for one in planned.steps if one.action.after for n in one.action.after.nodes} == {
        home,
        other,
        third,
    }
    assert not check(state, planned)


def words() -> None:
    """Check the list of constraints, the text of a rejection, and the nearest candidate."""
    document = scenario("hs", {"i1": "node2"})
    listed = json_of("constraints", "--json", document=document)
    assert [(one["what"], one["origin"]) for one in listed["constraints"]] == [
        ("on nodes that have label ssd", "tag iallocator:only:ssd")
    ], listed
    assert not listed["tag_findings"], listed
    text = printed("explain", "--n1=off", document=new(scenario("hs", {})))
    assert "FailLabel: does not have label ssd" in text, text
    assert "1 × FailLabel (labels of nodes)" in text, text
    full = new(scenario("hs", {"i1": "node2"}, memory=8000))
    assert "closest: " in respond(full, "--n1=off")["info"]


if __name__ == "__main__":
    for path in (
        allocations, groups, exact_search, moves, planners, n1, verifier_and_transition, words,
    ):  # fmt: skip
        path()
