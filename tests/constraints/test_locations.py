"""Test location scores of minus infinity and maintenance tags under every strategy."""

from __future__ import annotations

from typing import Any

import pytest

from tests import builders
from tests.builders import Json
from tests.constraints.scenarios import respond_without_n1

STRATEGIES = (
    "score", "lost-allocations", "affinity", "pacemaker-default", "pacemaker-utilization",
    "pacemaker-balanced", "pacemaker-minimal",
)  # fmt: skip

FORBIDDING = {
    "score of a node": ("node", "iallocator:score:-INFINITY"),
    "maintenance": ("node", "iallocator:maintenance"),
    "score of an instance": ("instance", "iallocator:score:node1:-INFINITY"),
}
"""Name -> the kind of object with a tag that keeps an instance off node1, and the tag."""

TEMPLATES = {"rbd": 1, "drbd": 2}


def _scenario(how: str, homes: tuple[str, ...], nodes: int = 4, **members: Any) -> Json:
    """Return a cluster in which node1 is the best node for `web`, but forbidden by a tag.

    `web` is on the nodes `homes`; without any, it is not in the cluster.
    """
    owner, tag = FORBIDDING[how]
    template = "drbd" if len(homes) > 1 else "rbd"
    own = [tag] if owner == "instance" else []
    web = builders.instance(
        *homes, memory=2048, disk_template=template, tags=own, name="web", **members
    )
    other = {f"i{k}": builders.rbd(f"node{k}", memory=512) for k in range(2, nodes + 1)}
    instances = {"web": web, **other} if homes else other
    document = builders.cluster(nodes=nodes, memory=16384, instances=instances)
    if owner == "node":
        document["nodes"]["node1"]["tags"] = [tag]
    return document


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("how", FORBIDDING)
@pytest.mark.parametrize("template", TEMPLATES)
def test_new_instance_keeps_off_a_forbidden_node_in_both_roles(
    strategy: str, how: str, template: str
) -> None:
    """A new instance has neither primary nor secondary on a forbidden node."""
    owner, tag = FORBIDDING[how]
    document = _scenario(how, ())
    tags = [tag] if owner == "instance" else []
    request = builders.allocate(document, memory=512, disk_template=template, tags=tags)
    response = respond_without_n1(request, f"--strategy={strategy}", "--top=9")
    assert response["success"], response["info"]
    assert "node1" not in response["result"]
    assert not any("node1" in best["nodes"] for best in response["solutions"][0].get("top", ()))


@pytest.mark.parametrize("other", ["-5", "INFINITY"])
@pytest.mark.parametrize("last", [False, True])
def test_node_with_one_score_that_forbids_it_is_forbidden(other: str, last: bool) -> None:
    """If one of several scores of a node is minus infinity, the node is forbidden."""
    document = _scenario("score of a node", ())
    tags = [f"iallocator:score:{other}", *document["nodes"]["node1"]["tags"]]
    document["nodes"]["node1"]["tags"] = tags if last else tags[::-1]
    response = respond_without_n1(builders.allocate_rbd(document, memory=512))
    assert response["success"]
    assert response["result"] != ["node1"]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("how", FORBIDDING)
@pytest.mark.parametrize("homes", [("node2",), ("node2", "node3")])
def test_moved_instance_keeps_off_a_forbidden_node(
    strategy: str, how: str, homes: tuple[str, ...]
) -> None:
    """Relocation and full evacuation do not use a forbidden node."""
    for request in (
        {"type": "relocate", "name": "web", "relocate_from": [homes[-1]]},
        {"type": "node-evacuate", "evac_mode": "all", "instances": ["web"]},
    ):
        document = _scenario(how, homes, nodes=5) | {"request": request}
        response = respond_without_n1(document, f"--strategy={strategy}")
        assert response["success"], response["info"]
        places = (
            response["result"] if request["type"] == "relocate" else response["result"][0][0][2]
        )
        assert places, response["info"]
        assert "node1" not in places


@pytest.mark.parametrize("how", FORBIDDING)
def test_failover_to_a_forbidden_node_is_rejected(how: str) -> None:
    """A failover to a secondary on a forbidden node is rejected."""
    request = {"type": "node-evacuate", "evac_mode": "primary-only", "instances": ["web"]}
    response = respond_without_n1(_scenario(how, ("node2", "node1")) | {"request": request})
    assert response["result"][0] == []
    assert "FailTags" in response["info"] or "must be not on node1" in response["info"]


@pytest.mark.parametrize("mode", ["primary-only", "all"])
def test_instance_on_a_node_in_maintenance_stays(mode: str) -> None:
    """An instance on a node in maintenance stays, with a reason; a stopped one may move."""
    request = {"type": "node-evacuate", "evac_mode": mode, "instances": ["web"]}
    response = respond_without_n1(_scenario("maintenance", ("node1",)) | {"request": request})
    assert response["result"][0] == []
    assert "must be on node1 (tag iallocator:maintenance of node1)" in response["info"]
    document = _scenario("maintenance", ("node1",), admin_state="down")
    assert respond_without_n1(document | {"request": request})["result"][0]


@pytest.mark.parametrize("how", FORBIDDING)
def test_compat_hail_ignores_locations(how: str) -> None:
    """With ``--compat hail``, tags that forbid a node are ignored."""
    owner, tag = FORBIDDING[how]
    tags = [tag] if owner == "instance" else []
    request = builders.allocate_rbd(_scenario(how, ()), memory=512, tags=tags)
    assert respond_without_n1(request, "--compat=hail")["result"] == ["node1"]


@pytest.mark.parametrize("how", FORBIDDING)
def test_exact_search_keeps_off_forbidden_nodes(how: str) -> None:
    """Exact search places no instance on a forbidden node, even if an instance then fails."""
    owner, tag = FORBIDDING[how]
    document = builders.cluster(nodes=2, memory=4096)
    if owner == "node":
        document["nodes"]["node1"]["tags"] = [tag]
    one = builders.allocate_rbd(document, memory=3000)["request"]
    one["tags"] = [tag] if owner == "instance" else []
    del one["type"]
    wanted = [one | {"name": name} for name in ("a", "b")]
    document |= {"request": {"type": "multi-allocate", "instances": wanted}}
    allocated, failed = respond_without_n1(document)["result"]
    assert [nodes for _, nodes in allocated] == [["node2"]]
    assert len(failed) == 1
