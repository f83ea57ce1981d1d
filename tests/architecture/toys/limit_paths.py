"""Check on every path that a node has no more primaries than a toy limit permits.

Run by `test_toys.py` with a copy of the package that has the toy limit: a node with the tag
``most:N`` may be the primary of N instances at most. The script exits with an error if a path
ignores the limit, or rejects more than the limit demands.
"""

from __future__ import annotations

from itertools import product
from operator import le
from pathlib import Path

from iallocator.model.state import State
from iallocator.transition.assemble import plan_transition
from iallocator.transition.execution import check
from tests.builders import Json, allocate, allocate_rbd, cluster, instance
from tests.command import json_of, plan_of, printed, respond
from tests.model.make import model_of

REASON = "FailCount"


def scenario(most: list[int], have: list[int], template: str = "rbd", **members: object) -> Json:
    """Return nodes with enough memory that permit at most `most` primaries, and have `have` now."""
    residents = {}
    for k, count in enumerate(have):
        for number in range(count):
            nodes = [f"node{k + 1}"]
            if template == "drbd":
                nodes.append(f"node{(k + 1) % len(most) + 1}")
            residents[f"i{k + 1}x{number}"] = instance(
                *nodes, memory=100, disk_template=template, **members
            )
    made = cluster(nodes=len(most), memory=32768, cpus=64, instances=residents)
    for k, limit in enumerate(most):
        made["nodes"][f"node{k + 1}"]["tags"] = [f"most:{limit}"]
    return made


def primaries(document: Json, moves: list[Json]) -> list[int]:
    """Return the number of primaries of each node after `moves`."""
    where = {name: one["nodes"][0] for name, one in document["instances"].items()}
    where |= {move["instance"]: move["to"][0] for move in moves}
    return [list(where.values()).count(name) for name in document["nodes"]]


def allocation() -> None:
    """Check allocations on one node and on two, with and without arrays."""
    for count, template in product((4, 70), ("rbd", "drbd")):
        most = [2 if k % 2 else 1 for k in range(count)]
        request = allocate(scenario(most, [1] * count), memory=100, disk_template=template)
        group = respond(request, "--n1=off")["solutions"][0]
        others = count - 1 if template == "drbd" else 1
        full = count // 2
        assert group["failures"] == {REASON: full * others}, group["failures"]
        assert group["successes"] == (count - full) * others
        assert int(group["nodes"][0][4:]) % 2 == 0, group["nodes"]


def exact_search() -> None:
    """Check the exact search of a batch with more instances than slots on nodes."""
    request = allocate_rbd(scenario([1, 2, 1], [0, 1, 1]), memory=100)
    one = request["request"]
    names = [f"new{k}" for k in range(3)]
    request["request"] = {
        "type": "multi-allocate",
        "instances": [{**one, "type": "allocate", "name": name} for name in names],
    }
    answer = respond(request, "--n1=off")
    assert len(answer["result"][0]) == 2, answer
    assert "exact search proved that no more than 2 of 3 can be placed" in answer["info"], answer


def moves() -> None:
    """Check that instances that leave a node move only to nodes with a slot."""
    document = scenario([3, 3, 1], [2, 1, 1])
    document["request"] = {
        "type": "node-evacuate", "instances": ["i1x0", "i1x1"], "evac_mode": "all",
    }  # fmt: skip
    moved, failed, _ = respond(document, "--n1=off")["result"]
    assert [nodes for _, _, nodes in moved] == [["node2"], ["node2"]], moved
    assert not failed


def planners() -> None:
    """Check that balance moves no instance to a full node, and that squeeze keeps needed nodes."""
    document = scenario([4, 1, 2], [4, 1, 1])
    moves = plan_of("balance", document, "--n1=off")["moves"]
    assert primaries(document, moves) == [3, 1, 2], moves
    document = scenario([4, 4, 1], [1, 3, 1])
    left = primaries(document, plan_of("squeeze", document, "--n1=off")["moves"])
    assert sorted(left)[:1] == [0], left
    assert all(map(le, left, (4, 4, 1))), left


def transition() -> None:
    """Check that a swap of two full nodes moves one instance through a third node."""
    document = scenario([1, 1, 1], [1, 1, 0])
    state = State(model_of(document))
    names = [node.name for node in state.cluster.nodes]
    one, other = names.index("node1"), names.index("node2")
    planned = plan_transition(state, {"i1x0": (other,), "i2x0": (one,)})
    assert not planned.left, planned.left
    assert len(planned.steps) == 3, planned.steps
    assert not check(state, planned)


def capacity() -> None:
    """Check that the capacity equals the number of slots."""
    found = json_of("capacity", "--n1=off", document=scenario([3, 2, 5], [1, 2, 0]))["standard"]
    assert found["count"] == 7, found
    assert REASON in found["reason"], found


def n1() -> None:
    """Check that a failure is not tolerated if an instance of the node has no slot elsewhere."""
    spare = allocate_rbd(scenario([3, 3, 3], [2, 2, 1]), memory=100)
    tight = allocate_rbd(scenario([3, 3, 3], [2, 2, 2]), memory=100)
    for mode in ("strict", "no-new", "no-worse"):
        assert respond(spare, f"--n1={mode}")["success"], mode
        answer = respond(tight, f"--n1={mode}")
        assert answer["solutions"][0]["failures"] == {"FailN1": 3}, (mode, answer)
    for mode, expected in (("strict", 2), ("no-new", 2), ("no-worse", 2)):
        found = json_of("capacity", f"--n1={mode}", document=scenario([3, 3, 3], [2, 1, 1]))
        assert found["standard"]["count"] == expected, (mode, found["standard"])


def words() -> None:
    """Check that a rejection has the reason and the numbers."""
    request = allocate_rbd(scenario([1, 2], [1, 1]), memory=100)
    text = printed("explain", "--n1=off", document=request)
    assert "FailCount: lacks 1 place for instances" in text, text
    assert "1 × FailCount (number of instances)" in text, text
    full = allocate_rbd(scenario([1, 1], [1, 1]), memory=100)
    assert "closest: node1 lacks 1 place for instances" in respond(full, "--n1=off")["info"]


def page() -> None:
    """Check that the page of failure reasons has a row for the new reason."""
    rows = Path("docs/reference/failure-reasons.md").read_text(encoding="utf-8").splitlines()
    assert any(row.startswith(f"| `{REASON}` |") for row in rows)


if __name__ == "__main__":
    for path in (allocation, exact_search, moves, planners, transition, capacity, n1, words, page):
        path()
