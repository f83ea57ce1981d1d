"""A node that is called possible can take the instance if it is the only one allowed."""

from __future__ import annotations

import json

import pytest

from tests.builders import Json, allocate, cluster, instance
from tests.command import json_of, respond

STRATEGIES = ("score", "lost-allocations", "affinity", "pacemaker-balanced", "pacemaker-minimal")


def tight(small: str, template: str) -> Json:
    """Return a request that fits on node2 and node3; beside `small`, it takes the place of i1."""
    instances = {
        "i1": instance("node1", memory=3000, disk_template="rbd"),
        "other": instance(small, memory=2500, disk_template="rbd"),
    }
    document = cluster(3, memory=4096, instances=instances)
    document["nodes"][small]["free_disk"] += 5000
    document["nodes"][small]["total_disk"] += 5000
    return allocate(document, memory=1200, disk_template=template)


@pytest.mark.parametrize("n1", ["no-worse", "no-new", "strict"])
@pytest.mark.parametrize("template", ["rbd", "plain"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_possible_node_takes_the_instance_where_it_is_the_only_one(
    strategy: str, template: str, n1: str
) -> None:
    """Whichever of the nodes comes first; the answer itself is the one without explanation."""
    words = (f"--strategy={strategy}", f"--n1={n1}", "--affinity-overhead=0")
    rejected = 0
    for small in ("node3", "node2"):
        request = tight(small, template)
        found = json_of("explain", *words, document=request)
        assert found["response"] == respond(request, *words)
        (group,) = found["decisions"][0]["groups"]
        for node in group["nodes"]:
            alone = json.loads(json.dumps(request))
            alone["request"]["restrict-to-nodes"] = [node["name"]]
            takes = respond(alone, *words)["success"]
            assert takes == (node["verdict"] in ("answer", "possible")), node
            if any("FailN1" in why for why in node["why"]):
                rejected += 1
    assert rejected > 0
