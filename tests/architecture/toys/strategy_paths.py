"""Check on every path that the toy strategy `last-name` ranks the nodes.

Run by `test_toys.py` with a copy of the package that has the toy strategy: it chooses the last node
by name, but no node with the tag `never`. The script exits with an error if a path ignores the
strategy.
"""

from __future__ import annotations

import json

from tests.builders import Json, allocate, allocate_rbd, as_bytes, cluster, instance, rbd
from tests.command import plan_of, printed, respond, run

OPTION = "--strategy=last-name"


def scenario(template: str = "rbd", tags: tuple[str, ...] = ()) -> Json:
    """Return six equal nodes in one group; the last one has the tag `never`."""
    nodes = ("node1", "node2") if template == "drbd" else ("node1",)
    held = {f"i{k}": instance(*nodes, memory=300, disk_template=template) for k in range(3)}
    return cluster(nodes=6, instances=held, changes={"node6": {"tags": ["never"]}}, tags=tags)


def allocations() -> None:
    """Check allocations of one and several instances, on one and two nodes, and rejections."""
    for template, expected in (("rbd", ["node5"]), ("drbd", ["node5", "node4"])):
        request = allocate(scenario(template), memory=300, disk_template=template)
        (best,) = respond(request, OPTION, "--n1=off")["solutions"][:1]
        assert best["nodes"] == expected, best
        assert "FailStrategy" in best["failures"], best
        one = {**request["request"], "name": "new0"}
        several = {**scenario(template), "request": {"type": "multi-allocate", "instances": [one]}}
        assert respond(several, OPTION, "--n1=off")["result"][0] == [["new0", expected]]


def moves() -> None:
    """Check moves of instances that leave a node or a group."""
    kinds: dict[str, Json] = {
        "relocate": {"name": "i0", "relocate_from": ["node1"], "required_nodes": 1},
        "node-evacuate": {"instances": ["i0"], "evac_mode": "all"},
    }
    for kind, members in kinds.items():
        answer = respond({**scenario(), "request": {"type": kind, **members}}, OPTION, "--n1=off")
        assert "node5" in json.dumps(answer["result"]), (kind, answer)
        assert "node4" not in json.dumps(answer["result"]), (kind, answer)
    document = scenario()
    document["nodegroups"]["uuid-other"] = {**document["nodegroups"]["uuid-default"]}
    document["nodegroups"]["uuid-other"]["name"] = "other"
    for name in ("node3", "node4", "node5"):
        document["nodes"][name]["group"] = "uuid-other"
    document["request"] = {"type": "change-group", "instances": ["i0"], "target_groups": []}
    answer = respond(document, OPTION, "--n1=off")
    assert answer["result"][0][0][2] == ["node5"], answer


def settings() -> None:
    """Check that a tag or a key of the request sets the strategy; schema and help list it."""
    request = allocate_rbd(scenario(tags=("iallocator:strategy:last-name",)))
    assert respond(request, "--n1=off")["solutions"][0]["nodes"] == ["node5"]
    request = allocate_rbd(scenario())
    request["request"]["strategy"] = "last-name"
    assert respond(request, "--n1=off")["solutions"][0]["nodes"] == ["node5"]
    done = run("--validate", stdin=as_bytes(request))
    assert done.returncode == 0, done.stderr
    assert "last-name" in printed("help", "--all")


def planners() -> None:
    """Check that a planner that empties a group uses the strategy, and that explain shows it."""
    held = {f"i{k}": rbd(f"node{k}") for k in (1, 4)}
    moves = plan_of("compress", cluster(nodes={"a": 3, "b": 1}, instances=held), OPTION)["moves"]
    assert [move["to"] for move in moves] == [["node3"]], moves
    request = allocate_rbd(scenario(), memory=300)
    text = printed("explain", OPTION, "--n1=off", document=request)
    assert "it has the tag never" in text, text
    assert "position" in text, text


if __name__ == "__main__":
    for path in (allocations, moves, settings, planners):
        path()
